import json
import os
import typing
from pathlib import Path
from typing import Any

import pytest

from bertscore_beam.dump.formats import AUTO, Format
from bertscore_beam.options.declare import declared
from bertscore_beam.options.run_options import InputFormat
from bertscore_beam.options.score_options import IdfOptions, ScoreOptions, SelectOptions
from bertscore_beam.options.values import load_yaml
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_core.errors import ConfigError

NEEDED: dict[str, Any] = {"input": ["in/*.parquet"], "output": "out"}

# Options that go together, or whose texts must have a form, as YAML gives them.
SPECIAL: dict[str, Any] = {
    "accelerator": "type:nvidia-l4;count:2;install-nvidia-driver:5xx",
    "device": "cuda:1",
    "idf": "corpus",
    "language": None,
    "metrics": ["bleu", "chrf++", "package.module:name"],
    "language_column": "lang",
    "languages": {
        "zh": {"model": "bert-base-chinese", "num_layers": 8, "baseline": "tables/zh.csv"},
        "*": {"model": "roberta-large", "revision": "main", "max_length": "unlimited"},
    },
}


IN_PLACE_OF_INPUT = ("candidates", "references")


def other_value(option) -> Any:
    """Return a value other than the default, as YAML gives it."""
    if option.field in SPECIAL:
        return SPECIAL[option.field]
    if option.is_list:
        return [option.name, f"{option.name}-2"]
    words = [word for kind in option.kinds for word in typing.get_args(kind)]
    values = {bool: option.default is False, int: 7, float: 0.25, str: f"a/{option.name}"}
    others = [*words, *(values[kind] for kind in option.kinds if kind in values)]
    return next(value for value in others if value != option.default)


def score(**values: Any) -> ScoreOptions:
    return ScoreOptions.from_mapping(NEEDED | values, "the test")


def test_defaults_are_those_of_the_readme():
    options = score()
    assert options == ScoreOptions(input=("in/*.parquet",), output="out")
    assert (options.candidate_column, options.reference_column) == (("candidate",), "reference")
    assert (options.idf, options.rescale, options.empty) == ("none", False, "zero")
    assert (options.dtype, options.device, options.workers) == ("float32", "auto", "auto")
    assert (options.split_rows, options.max_reject_fraction) == ("auto", 0.01)
    assert (options.min_rows, options.max_truncated_fraction) == (1, None)


@pytest.mark.parametrize("kind", [ScoreOptions, IdfOptions])
def test_every_option_can_be_set_and_is_described(kind):
    options = [option for option in declared(kind) if option.field not in IN_PLACE_OF_INPUT]
    given = {option.field: other_value(option) for option in options}
    described = kind.from_mapping(given, "the test").describe()
    assert described == given | {name: [] for name in IN_PLACE_OF_INPUT if name in described}
    assert json.loads(json.dumps(described)) == described
    for option in options:
        assert described[option.field] != option.default or option.field == "language"


@pytest.mark.parametrize("missing", ["input", "output"])
def test_missing_option_is_an_error_that_names_the_flag(missing):
    values = {key: value for key, value in NEEDED.items() if key != missing}
    with pytest.raises(
        ConfigError, match=rf"--{missing} is missing: .* night.yaml; expected --{missing} PATH"
    ):
        ScoreOptions.from_mapping(values, "night.yaml")


# Values as YAML gives them, and what the message must say.
WRONG: list[tuple[dict[str, Any], str]] = [
    *(
        ({key: 1}, rf"unknown option in the test: got '{key}'; .*{words}")
        for key, words in {
            "num_layer": "num_layers",
            "candidates-column": "candidate_column",
            "worker": "workers",
            "Model": "model",
            "rescale_with_baseline": "baseline",
            "zzzz": "expected one of .*workers.* Remove it",
        }.items()
    ),
    ({"split-rows": 1, "split_rows": 2}, "'split_rows' is given twice in the test: got 'split_r"),
    *(
        ({key: value}, rf"'{key}' in the test does not fit: {message}")
        for key, value, message in [
            ("workers", "4", r"got '4' \(str\); expected a whole number"),
            ("workers", True, r"got True \(bool\); expected a whole number"),
            ("workers", None, r"got None \(NoneType\); expected a whole number"),
            ("rescale", "yes", r"got 'yes' \(str\); expected true or false"),
            ("language", False, r"got False \(bool\); expected text or n.* Put the word in quotes"),
            ("output", ["a"], r"got \['a'\] \(list\); expected text"),
            ("input", [1], r"got \[1\] \(list\); expected a list of texts"),
            ("max_length", "long", r"got 'long' .*; expected a whole number or 'unlimited' or n"),
            ("max_reject_fraction", "1%", r"got '1%' \(str\); expected a number"),
            ("empty", "skip", r"got 'skip' \(str\); expected 'zero' or 'null' or 'reference'"),
            ("workers", 10**4000, "got a number of"),
            ("max_reject_fraction", 10**400, "got a number of"),
            ("model", [["x" * 9000]], "got"),
        ]
    ),
    ({"input": []}, r"'input' cannot be used: got \(\); expected at least one\. Give --input PATH"),
    ({"candidate_column": []}, r"got \(\); expected at least one\. Leave it out for the default"),
    ({"input": ["a", " "]}, r"'input' cannot be used: got ' '; expected some text"),
    (
        {"input": [], "candidates": ["hyp"], "references": ["ref"]},
        r"'input' cannot be used: got \(\); expected none beside --candidates and --references",
    ),
    ({"output": ""}, r"'output' cannot be used"),
    ({"output": "https://host/out"}, r"http is for reading only"),
    ({"workers": 0}, r"'workers' cannot be used: got 0; expected at least 1"),
    ({"split_rows": 0}, r"'split_rows' .*at least 1"),
    ({"max_length": 0}, r"'max_length' .*at least 1"),
    ({"num_layers": -1}, r"'num_layers' .*at least 0"),
    ({"max_batch_tokens": 0}, r"'max_batch_tokens' .*at least 1"),
    ({"max_reject_fraction": 5}, r"got 5.0; expected a share from 0 to 1. .*0.05"),
    ({"max_reject_fraction": float("nan")}, r"expected a share from 0 to 1"),
    ({"max_truncated_fraction": 1.5}, r"'max_truncated_fraction' .*a share from 0 to 1"),
    ({"min_rows": -1}, r"'min_rows' .*at least 0"),
    ({"device": "gpu"}, r"got 'gpu'; expected auto, cpu, mps, cuda or cuda:N"),
    ({"idf": "corpu"}, r"got 'corpu'; expected 'none', 'corpus' or .*Did you mean 'corpus'\?"),
    ({"idf": "table"}, r"got 'table'; .*Write a file of this folder as ./name"),
    ({"candidate_column": "reference"}, r"a column that is not also the reference column"),
    ({"candidate_column": ""}, r"'candidate_column' cannot be used"),
    ({"rescale": True}, r"Add --language CODE or --baseline PATH"),
    ({"baseline": "b.csv"}, r"a baseline only together with rescale. Add --rescale"),
    (
        {"languages": {"en": {"model": " "}}},
        r"language 'en' in .*'model' cannot be used: got ' '; expected some text",
    ),
    ({"languages": {"en": {"num_layers": -1}}}, r"'num_layers' .*at least 0"),
    ({"languages": {"en": {"max_length": 0}}}, r"'max_length' .*at least 1"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_cannot_be_meant_is_an_error_of_a_few_lines(values, message):
    with pytest.raises(ConfigError, match=message) as caught:
        score(**values)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ScoreOptions, "input"),
        (SelectOptions, "input"),
        (IdfOptions, "input"),
        (TuneOptions, "judgements"),
    ],
)
def test_python_may_not_leave_a_list_empty_that_is_needed(kind, name):
    with pytest.raises(ConfigError, match=rf"'{name}' cannot be used: got \(\); .* one\. Give"):
        kind(**{name: ()}, output="out")


@pytest.mark.parametrize(
    "values",
    [{"rescale": True, "baseline": "b"}, {"idf": "./table"}, {"device": "cuda"}, {"num_layers": 0}],
)
def test_value_that_makes_sense_is_accepted(values):
    described = score(**values).describe()
    assert {key: described[key] for key in values} == values


def test_credentials_are_not_described():
    options = score(
        input=["https://me:pw1@host/a.parquet?X-Amz-Signature=pw2&x=1"],
        beam=["--runner=PortableRunner", "--some_password=pw3"],
    )
    described = options.describe()
    assert "pw" not in json.dumps(described)
    assert described["input"] == ["https://***@host/a.parquet?X-Amz-Signature=***&x=1"]
    assert described["beam"] == ["--runner=PortableRunner", "--some_password=***"]
    assert "pw3" in options.beam[1]


def test_credentials_do_not_stand_in_errors():
    for given in ({"output": "https://me:hunter2@host/out"}, {"workers": "s3://me:hunter2@host"}):
        with pytest.raises(ConfigError) as caught:
            score(**given)
        assert "hunter2" not in str(caught.value)


def load(folder: Path, text: str) -> dict[str, Any]:
    (folder / "night.yaml").write_text(text, encoding="utf-8")
    return load_yaml(str(folder / "night.yaml"))


def test_empty_yaml_has_no_options(tmp_path):
    assert [load(tmp_path, text) for text in ("", "# only a comment\n", "---\n")] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "is not valid: got .*line 2"),
        ("a: 1\na: 2\n", r"is not valid: got the key 'a' is given twice"),
        ("- a\n- b\n", "has the wrong shape: got a list; expected `key: value` lines"),
        ("a: !!python/object/apply:os.system ['true']", "is not valid"),
        ("workers: " + "9" * 5000, "is not valid: got a value beyond what can be read"),
        ("input: " + "[" * 3000, "is not valid: got brackets within brackets beyond what can"),
        ("a: 2026-13-45", "is not valid: got a value beyond what can be read"),
        ("[a, b]: 1", "is not valid: got a value beyond what can be read"),
    ],
)
def test_yaml_that_cannot_be_read_is_an_error_of_a_few_lines(tmp_path, text, message):
    with pytest.raises(ConfigError, match=rf"(?s)night.yaml' {message}") as caught:
        load(tmp_path, text)
    assert len(str(caught.value)) < 1000


def test_what_is_no_file_is_no_config_and_a_device_or_fifo_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    opened = {"fifo": "fifo' is a FIFO", "/dev/zero": "'/dev/zero' is a device"}
    for path, why in (opened | {"no": "does not exist: got FileNotFoundError"}).items():
        with pytest.raises(ConfigError, match=f"{why}; .* --config"):
            load_yaml(str(tmp_path / path))


def test_every_format_of_rows_can_be_named():
    (words, _) = typing.get_args(InputFormat)
    assert {*typing.get_args(words)} == {AUTO, *Format} - {Format.LINES}  # which is no option
