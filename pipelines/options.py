"""Options of the jobs: frozen, checked once, from YAML with flags on top.

Every field of a class is a key of the YAML file and, with dashes, a flag of the command line.
"""

import dataclasses
import difflib
import re
import typing
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import yaml

from bertscore_core.errors import ConfigError
from pipelines.checks import (
    check_at_least,
    check_share,
    check_value,
    fit_value,
    plain_value,
    unknown_key,
)
from pipelines.io.files import mask_credentials, read_bytes
from pipelines.io.reach import reaching

IDF_WORDS = ("none", "corpus")
# 20,000 rows of sentences take a GPU seconds and a core minutes: small enough that a lost split
# costs little and 2 to 50 workers are evenly busy, large enough that a part is worth a file.
DEFAULT_SPLIT_ROWS = 20_000
# As the Parquet file counts them, encoded and not compressed: a column of repeated long texts can
# be many times larger in memory. A worker holds a split as Arrow, as Python texts and as tokens.
DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024
# A few blank lines in a dump are ordinary and must not fail a night's run; one row in a hundred
# without a score means that something upstream is broken.
DEFAULT_MAX_REJECT_FRACTION = 0.01
# Nobody scores nothing on purpose: an empty dump means that something upstream is broken.
DEFAULT_MIN_ROWS = 1

_MOST_SHOWN = 500
"""Characters shown of what is wrong with a file."""

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
ACCELERATOR = re.compile(r"type:[\w-]+;count:[1-9]\d*(;[\w.-]+(:[\w.-]+)?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What every job needs to know.

    Attributes:
        output: Where the result goes.
        workers: Worker processes.
        overwrite: Replace what was made with other settings.
        dry_run: Check everything, print the plan and stop.
        print_job: Print the job as it would be submitted, as JSON, and stop; neither input, output
            nor model is looked at.
        beam: Options for Beam, as it spells them.
    """

    output: str
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False
    print_job: bool = False
    beam: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files or models."""
        self._check_texts("output")
        check_value(
            not self.output.startswith(("http://", "https://")),
            "output",
            mask_credentials(self.output),
            "a place that can be written to",
            "Use a local folder, s3:// or gs://; http is for reading only.",
        )
        check_at_least("workers", self.workers, 1)

    def _check_texts(self, *names: str) -> None:
        """Check that fields hold no blank text."""
        for name in names:
            value = getattr(self, name)
            for text in value if isinstance(value, tuple) else (value,):
                blank = text is not None and not text.strip()
                check_value(not blank, name, text, "some text", "Leave it out for the default.")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str) -> Self:
        """Make options from keys and values, strictly.

        Args:
            mapping: Values by key; dashes in a key are as good as underscores.
            source: Where they come from, for the error messages.

        Raises:
            ConfigError: If a key is unknown, missing or there twice, or a value does not fit.
        """
        hints = typing.get_type_hints(cls)
        values: dict[str, Any] = {}
        for key, value in mapping.items():
            name = str(key).replace("-", "_")
            if name not in hints:
                raise unknown_key(str(key), list(hints), source)
            check_value(name not in values, name, "the key twice", "one of it", f"See {source}.")
            values[name] = fit_value(name, value, hints[name], source)
        for field in dataclasses.fields(cls):
            if field.default is dataclasses.MISSING and field.name not in values:
                what = field.metadata.get("metavar", "PATH")
                raise ConfigError(
                    f"--{field.name} is missing: got {sorted(values) or 'nothing'} in {source}; "
                    f"expected {field.name} among them. Give --{field.name} {what}, or a line "
                    f"'{field.name}: {what}' in a --config file."
                )
        return cls(**values)

    def describe(self) -> dict[str, Any]:
        """Return the options as plain values for `_run.json`, without credentials."""
        return {f.name: plain_value(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(RunOptions):
    """What every job over a dump needs to know, beside what every job does.

    Attributes:
        input: Globs, folders or files.
        model: Hub id, local folder or registry name; None for the language's model, or else the
            embedded one.
        lang: Language of the texts, which chooses the model and the baseline.
        reference_column: Column of the references: a text, or a list of texts.
        max_length: Tokens at which a text is cut; None for the model's own length.
        revision: Revision of a model on the hub.
        split_rows: Most rows in a split.
        split_bytes: Most bytes in a split, as its Parquet file counts them.
        min_rows: Fewest rows of input with which the job can succeed; 0 lets an empty input pass.
    """

    input: tuple[str, ...]
    model: str | None = None
    lang: str | None = None
    reference_column: str = "reference"
    max_length: int | Literal["unlimited"] | None = None
    revision: str | None = None
    split_rows: int = DEFAULT_SPLIT_ROWS
    split_bytes: int = DEFAULT_SPLIT_BYTES
    min_rows: int = DEFAULT_MIN_ROWS

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files or models."""
        RunOptions.__post_init__(self)
        check_value(
            bool(self.input), "input", self.input, "at least one path", "Name what to score."
        )
        self._check_texts("input", "model", "lang", "reference_column", "revision")
        for name in ("split_rows", "split_bytes"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("min_rows", self.min_rows, 0)
        if isinstance(self.max_length, int):
            check_at_least("max_length", self.max_length, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(JobOptions):
    """Score candidates against references, Parquet to Parquet.

    Attributes:
        candidate_column: Column of the candidates.
        num_layers: Layer whose embeddings are compared; None for the registry's.
        idf: `none`, `corpus` to count over all references first, or the path of a saved table.
        rescale: Rescale with the baseline of the language, model and layer.
        baseline: Table to rescale with instead of a published one; or a folder of tables, as
            `bertscore-beam baseline` makes it, from which language, model and layer choose.
        empty: Score of a pair with an empty side: `zero`, before rescaling and whatever the model;
            `null` for none; `reference` for what the reference implementation gives, which is 0 for
            BERT and its like. The reason is given either way.
        dtype: Number format of the encoder's matrix products; everything else is in float32.
        device: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        accelerator: GPU that a remote runner is asked for where pairs are scored, and nowhere else,
            as Beam's resource hint spells it: `type:nvidia-l4;count:1;install-nvidia-driver`.
        backend: What runs the encoder: `torch`, `openvino` (CPU only, an extra), or `auto` for
            OpenVINO on CPUs and architectures where it is known to fit, and torch elsewhere. A
            launcher that cannot see its workers' devices takes torch, unless the device is `cpu`.
        max_batch_tokens: Padded tokens in one forward pass; None for a default by device.
        max_reject_fraction: Share of the rows that may go without a score before the job, done as
            far as possible, reports failure. From 0 to 1; 1 never fails.
        max_truncated_fraction: Share of the scored rows that may hold a text cut at the maximum
            length before the job reports failure. From 0 to 1; None never fails.
        allow_pickle_weights: Load weights that are not safetensors, which can run code.
    """

    candidate_column: str = "candidate"
    num_layers: int | None = None
    idf: str = "none"
    rescale: bool = False
    baseline: str | None = None
    empty: Literal["zero", "null", "reference"] = "zero"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    accelerator: str | None = None
    backend: Literal["auto", "torch", "openvino"] = "auto"
    max_batch_tokens: int | None = None
    max_reject_fraction: float = DEFAULT_MAX_REJECT_FRACTION
    max_truncated_fraction: float | None = None
    allow_pickle_weights: bool = False

    def __post_init__(self) -> None:
        """Check the combinations as well."""
        JobOptions.__post_init__(self)
        for name, least in (("num_layers", 0), ("max_batch_tokens", 1)):
            value = getattr(self, name)
            if value is not None:
                check_at_least(name, value, least)
        check_value(
            self.candidate_column.strip() not in ("", self.reference_column),
            "candidate_column",
            self.candidate_column,
            "a name other than the reference column's",
            "Texts compared with themselves all score 1.",
        )
        check_share("max_reject_fraction", self.max_reject_fraction)
        if self.max_truncated_fraction is not None:
            check_share("max_truncated_fraction", self.max_truncated_fraction)
        check_value(
            DEVICE.fullmatch(self.device) is not None,
            "device",
            self.device,
            "auto, cpu, mps, cuda or cuda:N",
            "Leave it out to use a GPU when there is one.",
        )
        check_accelerator(self.accelerator)
        _check_idf(self.idf)
        _check_rescale(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdfOptions(JobOptions):
    """Count document frequencies over references into a table: `output` is its file."""


def check_accelerator(accelerator: str | None) -> None:
    """Raise for a resource hint that no runner would understand."""
    check_value(
        accelerator is None or ACCELERATOR.fullmatch(accelerator) is not None,
        "accelerator",
        accelerator,
        "type:NAME;count:NUMBER, and what the runner knows behind further semicolons",
        "For one L4 on Dataflow write 'type:nvidia-l4;count:1;install-nvidia-driver'.",
    )


def load_yaml(path: str) -> dict[str, Any]:
    """Read a file of options. An empty file has none.

    Raises:
        ConfigError: If it is not there, is not YAML, holds a key twice or is no mapping.
    """
    shown = mask_credentials(path)
    try:
        with reaching("config", path):
            data = read_bytes(path)
        content = yaml.load(data, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(
            f"the config file {shown!r} cannot be read: got {type(error).__name__}; expected a "
            "YAML file. Check --config."
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"the config file {shown!r} is not valid: got {str(error)[:_MOST_SHOWN]}; expected "
            "YAML with `key: value` lines. Mend the line named."
        ) from error
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        found = "brackets within brackets" if isinstance(error, RecursionError) else "a value"
        raise ConfigError(
            f"the config file {shown!r} is not valid: got {found} beyond what can be read "
            f"({str(error)[:_MOST_SHOWN]}); expected YAML with short `key: value` lines. Mend it."
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"the config file {shown!r} has the wrong shape: got a {type(content).__name__}; "
            "expected `key: value` lines."
        )
    return content


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML in which a key may stand once only."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping, refusing a second value for a key."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _check_idf(idf: str) -> None:
    """Raise for a word that is neither known nor looks like a path."""
    near = difflib.get_close_matches(idf, IDF_WORDS, n=1)
    check_value(
        idf in IDF_WORDS or "/" in idf or "." in idf,
        "idf",
        idf,
        "'none', 'corpus' or the path of a table saved by `bertscore-beam idf`",
        f"Did you mean {near[0]!r}?" if near else "Write a file of this folder as ./name.",
    )


def _check_rescale(options: ScoreOptions) -> None:
    """Raise for a rescaling without baseline, or a baseline without rescaling."""
    if options.rescale and options.lang is None and options.baseline is None:
        raise ConfigError(
            "--rescale needs a baseline: got neither a language, whose published one would be "
            "used, nor a table of your own; expected one of them. Add --lang CODE or --baseline "
            "PATH."
        )
    check_value(
        options.rescale or options.baseline is None,
        "baseline",
        mask_credentials(options.baseline or ""),
        "a baseline only together with rescale",
        "Add --rescale, or leave --baseline out.",
    )
