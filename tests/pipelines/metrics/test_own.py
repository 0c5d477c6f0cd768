"""A metric of one's own is imported, called and checked; what is wrong with it is named."""

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from bertscore_beam.metrics.own import MetricError, OwnMetric, find_metrics, look_at, score_with
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.metrics.table import described, identity_of
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_core import ConfigError
from tests.support import own_metrics

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests.support.own_metrics"
CANDIDATES = ["a b c", "", "x y", "d"]
REFERENCES = [["a", "a b"], ["q"], ["y z"], ["d e"]]
SOURCES = ["a b", "q", None, "e"]


def found(name, *, has_sources=False):
    return look_at(f"{HERE}:{name}", has_sources)


def scored(name, sources=()):
    ((scores, counts),) = score_with(
        [found(name, has_sources=bool(sources))], CANDIDATES, REFERENCES, sources
    )
    assert counts.shape == (len(CANDIDATES), 0)
    return scores.tolist()


def test_a_function_is_given_all_references_and_sources_and_may_have_no_number_for_a_row():
    np.testing.assert_equal(scored("overlap"), [2 / 3, np.nan, 0.5, 1])
    np.testing.assert_equal(scored("copied", SOURCES), [2, 0, np.nan, 0])
    np.testing.assert_equal(scored("boundless"), [1, np.nan, -1e300, 0.5])
    assert scored("turned") == [5, 0, 3, 1]
    nothing = [found("copied", has_sources=True)]
    assert score_with(nothing, ["a"], [["b"]], [None])[0][0].tolist() == pytest.approx(
        [np.nan], nan_ok=True
    )


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("failing", r"got ValueError at .*own_metrics\.py:\d+; expected"),
        ("deep", r"got JSONDecodeError at .*own_metrics\.py:\d+; expected"),
        ("interrupted", r"got KeyboardInterrupt at .*own_metrics\.py:\d+; expected"),
        ("short", "got 3 values; expected a number for each of 4 rows"),
    ],
)
def test_what_is_no_number_for_each_row_ends_the_run_without_a_text(name, got):
    with pytest.raises(MetricError, match=got) as caught:
        scored(name)
    assert CANDIDATES[0] not in str(caught.value)
    assert f"the metric {HERE}:{name} has failed" in str(caught.value)
    assert caught.value.__context__ is None  # whose words would be shown by `--debug`


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ("1234", "str, not a list"),
        (b"1234", "bytes, not a list"),
        (dict.fromkeys(range(4)), "dict, not a list"),
        ({1, 2, 3, 4}, "set, not a list"),
        (np.float64(1), "float, not a list"),
        (["1", 2, 3, 4], "str, not a number, for a row"),
        (np.array(["1", "2", "3", "4"]), "str, not a number, for a row"),
        (np.zeros((4, 2)), "list, not a number, for a row"),
        ([1j] * 4, "complex, not a number, for a row"),
        ([0, 1, 2, float("-inf")], "infinity for a row"),
        ([0, 1, 2, np.float32("inf")], "infinity for a row"),
        ([0, 1, 2, 10**400], "infinity for a row"),
    ],
)
def test_only_finite_numbers_in_the_order_of_rows_are_scores(values, got, monkeypatch):
    monkeypatch.setattr(own_metrics, "returned", values)
    with pytest.raises(MetricError, match=f"got {got}; expected a number for each of 4 rows"):
        scored("whatever")


@pytest.mark.parametrize(
    "values",
    [(1, 2, 3, None), iter([1, 2, 3, None]), np.array([1, 2, 3, np.nan]), [np.int8(1), 2, 3, None]],
)
def test_lists_arrays_and_iterators_of_numbers_are_scores(values, monkeypatch):
    monkeypatch.setattr(own_metrics, "returned", values)
    np.testing.assert_equal(scored("whatever"), [1, 2, 3, np.nan])


def test_a_metric_cannot_change_what_the_next_is_given():
    own = [found(name) for name in ("greedy", "greedy", "overlap")]
    first, second, third = (scores for scores, _ in score_with(own, CANDIDATES, REFERENCES, []))
    assert first.tolist() == second.tolist() == [1] * 4
    np.testing.assert_equal(third, [2 / 3, np.nan, 0.5, 1])


def test_a_metric_that_is_another_one_than_was_planned_gives_no_number(monkeypatch):
    monkeypatch.setattr(own_metrics.versioned, "version", 1, raising=False)
    planned = found("versioned")
    monkeypatch.setattr(own_metrics.versioned, "version", 2)
    words = r"another one on '.+': got .*\|version:2; expected .*\|version:1, as at the start"
    with pytest.raises(MetricError, match=words):
        score_with([planned], ["a"], [["b"]], [])


@pytest.mark.parametrize(
    ("name", "value"),
    [("version", ""), ("version", True), ("version", len), ("lower_is_better", "False")],
)
def test_attributes_of_other_types_are_refused(name, value, monkeypatch):
    monkeypatch.setattr(own_metrics.versioned, name, value, raising=False)
    with pytest.raises(ConfigError, match=f"got {name} of type {type(value).__name__}; expected"):
        found("versioned")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module:name", "cannot be imported: got ModuleNotFoundError.*PYTHONPATH"),
        (f"{HERE}:nothing", "cannot be imported: got AttributeError"),
        (f"{HERE}:NUMBER", "cannot be called: got int; expected a function"),
        (f"{HERE}:Scorer", "cannot be called: got type; expected a function"),
        (f"{HERE}:later", "cannot be called: got async function; expected a function"),
        (f"{HERE}:alone", "cannot be called: got too many positional arguments"),
        (f"{HERE}:copied", "missing a required argument: 'sources'.*--source-column"),
        ("math:gcd_", "cannot be imported"),
        ("math:dist", "has no version: got neither an attribute 'version' nor the source"),
    ],
)
def test_what_cannot_be_a_metric_is_refused(path, words):
    with pytest.raises(ConfigError, match=words):
        look_at(path, has_sources=False)


def test_a_module_that_cannot_be_imported_is_told_from_one_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lacking.py").write_text("import math\nimport no_such_package\n")
    with pytest.raises(ConfigError) as error:
        look_at("lacking:one", has_sources=False)
    assert f"named 'no_such_package' at {tmp_path}/lacking.py:2; expected" in str(error.value)
    assert str(error.value).endswith("Correct the module, or install what it needs.")
    with pytest.raises(ConfigError, match=r"Install it, or name its folder in PYTHONPATH\.$"):
        look_at("no_such_package.sub:one", has_sources=False)


def test_the_version_is_that_of_the_function_or_of_the_source_of_its_module(tmp_path, monkeypatch):
    copied = found("copied", has_sources=True)
    assert copied.signature == f"function:{HERE}:copied|version:copied-1|sources|lower:better"
    one = [OwnMetric(path="a:b", version="1", takes_sources=takes) for takes in (False, True)]
    assert one[0].signature != one[1].signature
    assert found("bound").version == found("overlap").version  # not that of functools
    assert (copied.name, copied.takes_sources) == ("copied", True)
    monkeypatch.syspath_prepend(tmp_path)
    versions = []
    for at, body in enumerate(("0", "1", "0")):
        path = tmp_path / f"own_{at}.py"
        path.write_text(
            f"def one(candidates, references):\n    return [{body}] * len(candidates)\n"
        )
        versions.append(look_at(f"own_{at}:one", has_sources=False).version)
    with ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.write(path, "own_in_zip.py")
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    assert look_at("own_in_zip:one", has_sources=False).version == versions[0]
    assert versions[0] == versions[2] != versions[1]
    own = [OwnMetric(path="a:b", version=version) for version in versions]
    assert identity_of([], "", own[:1]) == identity_of([], "", own[2:])
    assert identity_of([], "", own[:1]) != identity_of([], "", own[1:2])
    assert identity_of([], "", own[:1], "src") != identity_of([], "", own[:1])
    made = described(["chrf"], ["en"], listed=False, own=[copied])
    assert made["copied"]["lower_is_better"] is True
    assert made["copied"]["sentence_signature"] == copied.signature


@pytest.mark.process
def test_functions_are_imported_in_a_process_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}:{ROOT}/pipelines")
    paths = (f"{HERE}:overlap", f"{HERE}:copied")
    assert [one.takes_sources for one in find_metrics(paths, has_sources=True)] == [False, True]
    with pytest.raises(ConfigError, match="--source-column is for metrics that take sources"):
        find_metrics(paths[:1], has_sources=True)
    (tmp_path / "ender.py").write_text("import os\nos._exit(3)\n")
    words = r"--metrics ender:one cannot be imported: got a worker process died \(return code 3\);"
    with pytest.raises(ConfigError, match=words):
        find_metrics(("ender:one",), has_sources=False)
    assert find_metrics((), has_sources=False) == ()
    processes = MetricProcesses((), own=[found("ending")])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert processes.own_pool.environment(0)["OMP_NUM_THREADS"] == "1"  # one worker a core
    try:
        with pytest.raises(MetricError, match=f"metrics {HERE}:ending has ended: got a worker"):
            processes.begin(["a"], [["b"]], np.array([0]), str)()
    finally:
        processes.own_pool.kill()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"metrics": ["meteor"]}, "names of bleu, chrf.* or functions as package.module:name"),
        ({"metrics": ["a:b", "c:b", "d:e"]}, r"got \['a:b', 'c:b'\]; expected names that no other"),
        ({"metrics": ["a:chrf", "chrf"]}, r"got \['a:chrf', 'chrf'\]; expected names that no"),
        ({"metrics": ["a:chrf"]}, r"got \['a:chrf'\]; expected names that no other"),
        ({"metrics": ["a:f1"]}, r"got \['a:f1'\]; expected names that no other"),
        ({"metrics": ["a:BLEU", "bleu"]}, "expected names that no other.*in whatever case"),
        ({"metrics": ["a:bleu_counts"]}, "expected names that no other"),
        ({"group_by": ["metric_x_rows"]}, "make no groups"),
        (
            {"metrics": ["a:b"], "source_column": "src", "drop_columns": ["src"]},
            "columns that the run does not need",
        ),
        ({"metrics": ["a.b"]}, "package.module:name"),
        ({"metrics": ["a/b:c"]}, "package.module:name"),
        ({"metrics": ["a:b.c"]}, "package.module:name"),
        ({"metrics": ["chrf"], "source_column": "src"}, "a function in --metrics"),
        ({"source_column": "src"}, "a function in --metrics"),
    ],
)
def test_names_are_checked_before_anything_is_imported(values, words):
    with pytest.raises(ConfigError, match=words):
        ScoreOptions.from_mapping({"input": ["a"], "output": "b", **values}, "the arguments")
    assert own_metrics.NUMBER == 7
