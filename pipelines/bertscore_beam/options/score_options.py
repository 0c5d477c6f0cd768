"""Options of `score`, `select`, `idf` and `rescale`."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.declare import COLUMNS, NAMES, RUN
from bertscore_beam.options.metric_names import MetricOptions
from bertscore_beam.options.run_options import DumpOptions, RunOptions
from bertscore_beam.options.values import check_group_columns, check_value, to_json_value
from bertscore_core.errors import ConfigError

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
ACCELERATOR = re.compile(r"type:[\w-]+;count:[1-9]\d*(;[\w.-]+(:[\w.-]+)?)*")


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(RunOptions):
    """Options of every command that runs an encoder on a device.

    Attributes:
        dtype: Number format of the encoder. `auto` takes float32 on a CPU, and on a GPU what is
            fast and holds the model's numbers: float16 for BERT, RoBERTa and similar models,
            bfloat16 for others (float32 where the GPU lacks it). In 16 bits a baseline can be wrong
            by up to 2e-4, which is more than its standard error says: make a baseline in the number
            format in which you will score.
        device: Where the encoder runs: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        accelerator: GPU to ask a remote runner for, only for the step that scores, in the form of
            Beam's resource hint: `type:nvidia-l4;count:1;install-nvidia-driver:5xx`.
        backend: What runs the encoder: `torch`; `openvino` (CPU only, needs the extra of that
            name); or `auto`, which takes OpenVINO on CPUs and architectures where it is known to
            work well, and torch elsewhere. Where the devices of the workers are not known in
            advance, `auto` takes torch, unless the device is `cpu`.
        attention: How torch computes attention. `auto` lays texts end to end on a GPU, without
            padding, for models that allow it; `sdpa` pads them.
        max_batch_tokens: Most padded tokens in one forward pass; by default it depends on the
            device.
        allow_pickle_weights: Load weights that are not in the safetensors format. Such files can
            run code when they are loaded.
    """

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    accelerator: str | None = None
    backend: Literal["auto", "torch", "openvino"] = "auto"
    attention: Literal["auto", "sdpa"] = "auto"
    max_batch_tokens: int | None = None
    allow_pickle_weights: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_least(max_batch_tokens=1)
        self._check(
            "device",
            DEVICE.fullmatch(self.device) is not None,
            "auto, cpu, mps, cuda or cuda:N",
            "Leave it out to use a GPU when there is one.",
        )
        # A runner ignores a resource hint that it does not understand, and then gives no GPU.
        self._check(
            "accelerator",
            self.accelerator is None or ACCELERATOR.fullmatch(self.accelerator) is not None,
            "type:NAME;count:NUMBER, and further words of the runner after semicolons",
            "For one L4 on Dataflow write 'type:nvidia-l4;count:1;install-nvidia-driver:5xx'.",
        )


IDF_WORDS = ("none", "corpus")
# As other programs write it; no folder of a run needs this name.
_STANDARD_OUTPUT = "-"


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(MetricOptions, DeviceOptions, DumpOptions):
    """Score candidates against references, and write the same rows with scores.

    Attributes:
        candidates: Files of candidates with one text per line, also .gz, in place of the input.
            Several files are several systems: the column `system` has their names, and the summary
            is grouped by it. Without an output the result is only printed.
        references: Files of references with one text per line, for all candidates; several files
            give each row several references.
        candidate_column: Column of the candidates, by name or by a path into nested columns, such
            as choices[0].message.content. With a list of texts in each row, or with the names of
            several columns, each candidate becomes a row.
        reference_file: File of any format that has the references, for an input without them.
        join: Column by which the rows of the input and of the reference file belong together, such
            as custom_id. Other columns that the run names may be in that file, too.
        num_layers: Layer whose embeddings are compared; by default the registry's for the model.
        registry: File of layers that `bertscore-beam tune` wrote: the layer of a model is taken
            from it, unless `num_layers` says another.
        idf: `none`; `corpus` to count over all references first; or the path of a saved table.
        rescale: Rescale the scores with the baseline for the language, model and layer.
        baseline: Table to rescale with instead of a published one; or a folder of tables, as
            `bertscore-beam baseline` makes it, where language, model and layer choose the table.
        reuse: Earlier run whose scores are taken for rows with the same texts and settings. Give
            the folder of the run, or `latest:` and a pattern of folders, such as `latest:scores/*`,
            for the newest run among them that has succeeded; if there is none, all rows are scored.
        keep_input: Keep the Parquet files that were made of files of text (in _input) when the run
            is a success.
        group_by: Columns whose values make groups, such as system and language; the summary has
            the number of rows, the mean scores and their errors of each group. The scores do not
            depend on it.
        drop_columns: Columns of the input that the output does not have. Encrypted columns,
            and those whose type would be lost (INTERVAL, VARIANT, Int128), are left out with a
            warning; a file in which the run names such a column is rejected.
        metrics: Other metrics, each in a column of its own: bleu, chrf, chrf++, ter and rougel,
            with the extra `tune`; and functions, as package.module:name.
        source_column: Column of the sources, texts, for functions that take them.
        allow_shared_baseline: Allow that several languages of one run are rescaled with the same
            table. Their rescaled scores then cannot be compared with each other.
        model_memory: Most bytes of model weights that a worker keeps loaded, in a run with several
            models; the one that was used longest ago goes first. By default half the memory of the
            device, divided by the workers of this machine.
        empty: Score of a pair with an empty candidate or reference: `zero` for 0 before rescaling,
            whatever the model; `null` for none; `reference` for the score of the reference
            implementation, which is 0 for BERT and similar models. The reason is always written.
        strip_reasoning: Take the reasoning of a model, such as <think>...</think>, off the
            candidates before they are scored. The output has the texts as they were.
        max_reject_fraction: Share of the rows, from 0 to 1, that may have no score. If more have
            none, the job still finishes but its exit status reports failure; 1 never fails.
        max_truncated_fraction: Share of the scored rows, from 0 to 1, that may hold a text cut at
            the maximum length. If more do, the job still finishes but its exit status reports
            failure; by default it never fails.
        max_unknown_fraction: Share of the tokens of the scored rows, from 0 to 1, that the model
            may not know, such as `[UNK]`; also of each language with at least 20 scored rows. If
            more are unknown, the job still finishes but its exit status reports failure.
    """

    compares_samples: ClassVar[bool] = False
    may_detach: ClassVar[bool] = True
    example = "bertscore-beam score --input 'dump/*.parquet' --output scores --language en"
    needed = "needed without --candidates"
    daily: ClassVar = {
        "input and output": "input candidates references output candidate_column reference_column "
        "by reuse overwrite",
        "model": "model language language_column languages num_layers max_length",
        "scores": "rescale baseline idf metrics max_reject_fraction",
        "where it runs": "device workers dry_run",
    }

    candidates: tuple[str, ...] = field(default=(), metadata={"short": "-c", "also": ("cand",)})
    references: tuple[str, ...] = field(default=(), metadata={"short": "-r", "also": ("ref",)})
    candidate_column: tuple[str, ...] = field(
        default=("candidate",), metadata={"metavar": "COLUMN"}
    )
    reference_file: str | None = None
    join: str | None = None
    num_layers: int | None = None
    registry: str | None = None
    idf: str = "none"
    rescale: bool = False
    baseline: str | None = None
    reuse: str | None = None
    keep_input: bool = False
    group_by: tuple[str, ...] = field(default=(), metadata={**COLUMNS, "name": "by"})
    drop_columns: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    metrics: tuple[str, ...] = field(default=(), metadata=NAMES)
    source_column: str | None = None
    allow_shared_baseline: bool = False
    model_memory: int | None = None
    empty: Literal["zero", "null", "reference"] = "zero"
    strip_reasoning: bool = False
    # A few blank lines in a dump are normal and must not fail a nightly run. When one row in a
    # hundred has no score, something upstream is broken.
    max_reject_fraction: float = 0.01
    max_truncated_fraction: float | None = None
    # Of texts that a model can read, hardly any token is unknown. Where half of them are, as in
    # Chinese with an English model, unrelated texts are alike.
    max_unknown_fraction: float = 0.5

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        self._check_least(num_layers=0, model_memory=1)
        self._check_texts("candidates", "references")
        self._check_both_sides()
        self._check(
            "reference_file",
            (self.reference_file is None) == (self.join is None)
            and (self.reference_file is None or not self.candidates),
            "one together with --join, for rows",
            "Give --join COLUMN, or leave both out.",
        )
        others: set[str] = set() if self.compares_samples else {self.reference_column}
        if len(self.candidate_column) > 1:  # they are not columns of the output
            others |= {*self.idf_key, *self.idf_group, str(self.language_column)}
        check_value(
            "candidate_column",
            self.candidate_column if len(self.candidate_column) != 1 else self.candidate_column[0],
            fine=0 < len(set(self.candidate_column)) == len(self.candidate_column)
            and others.isdisjoint(self.candidate_column),
            expected="a column that is not also the reference column or a key; of several columns "
            "each once",
            cure="Texts compared with themselves all score 1.",
        )
        self._check_texts("candidate_column", "reuse", "registry", "group_by", "drop_columns")
        self._check_texts("reference_file", "join")
        named = (*self.candidate_column, self.reference_column, *self.idf_key, *self.idf_group)
        used = [
            f"{name}.".replace("[", ".[")
            for name in (*named, self.language_column, self.source_column, *self.group_by)
            if name
        ]
        self._check(
            "drop_columns",
            not any(name.startswith(f"{drop}.") for name in used for drop in self.drop_columns),
            "columns that the run does not need",
            "Leave out those that other options name.",
        )
        check_group_columns(self.group_by)
        check_value(
            "by",
            list(self.group_by),
            fine=not {*self.candidate_column} & {*self.group_by},
            expected="columns that many rows share, not that of the candidates",
            cure=f"Leave {' and '.join(self.candidate_column)} out.",
        )
        self._check_texts("source_column")
        self._check_metric_names()
        self._check_share("max_reject_fraction", "max_truncated_fraction", "max_unknown_fraction")
        self._check_idf()
        self._check_rescale()

    def _check_both_sides(self) -> None:
        given, lacking = "--candidates (-c)", "--references (-r)"
        if bool(self.candidates) == bool(self.references):
            return
        if not self.candidates:
            given, lacking = lacking, given
        paths = [mask_credentials(path) for path in (*self.candidates, *self.references)]
        raise ConfigError(
            f"{lacking} is missing: got {given} alone, {paths}; expected files of both. Give both, "
            "or a dump of rows as --input."
        )

    def _check_idf(self) -> None:
        near = difflib.get_close_matches(self.idf, IDF_WORDS, n=1)
        self._check(  # a word that is not known and does not look like a path is likely a typo
            "idf",
            self.idf in IDF_WORDS or "/" in self.idf or "." in self.idf,
            "'none', 'corpus' or the path of a table saved by `bertscore-beam idf`",
            f"Did you mean {near[0]!r}?" if near else "Write a file of this folder as ./name.",
        )
        self._check(
            "idf_key",
            self.idf == "corpus" or not self.idf_key,
            "a key only together with --idf corpus",
            "A saved table was counted before: give the key to `bertscore-beam idf`.",
        )
        self._check(
            "idf_group",
            self.idf != "none" or not self.idf_group,
            "groups only together with idf",
            "Add --idf corpus, or leave --idf-group out.",
        )

    def _check_rescale(self) -> None:
        by_language = self.language is not None or self.language_column is not None
        if self.rescale and not by_language and self.baseline is None:
            raise ConfigError(
                "--rescale needs a baseline: got neither a language, which chooses a published "
                "one, nor a table of your own; expected one of them. Add --language CODE or "
                "--baseline PATH."
            )
        entries = (self.languages or {}).items()
        given = {f"baseline of {language}": entry.baseline for language, entry in entries}
        for name, baseline in {"baseline": self.baseline, **given}.items():
            check_value(
                name,
                mask_credentials(baseline or ""),
                fine=self.rescale or baseline is None,
                expected="a baseline only together with rescale",
                cure="Add --rescale, or leave it out.",
            )

    @classmethod
    def _implied(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        given, references = values.get("input", ()), values.get("references", ())
        candidates = values.get("candidates") or (references and given)  # sacreBLEU: -i
        if not candidates and not references:
            if not given and "output" not in values:  # what to read comes to mind first
                raise ConfigError(
                    "what to read is missing: got neither --input nor --candidates; expected one "
                    "of them. Give --input PATH, or files of texts: -c HYP.txt -r REF.txt."
                )
            _check_rows(values, given)
            return {}
        check_value(
            "input",
            given,
            fine=given in ((), candidates),
            expected="none beside --candidates and --references",
            cure="Score them one after the other.",
        )
        by = {"group_by": ("system",)} if len(candidates) > 1 else {}
        texts = {"input": candidates or references, "candidates": candidates}
        return {**texts, **by, "output": _STANDARD_OUTPUT}

    def describe(self) -> dict[str, Any]:
        """Return the options as plain values, without the files that text files become."""
        input = {"input": to_json_value(self.candidates)} if self.candidates else {}
        return super().describe() | input

    @property
    def is_kept(self) -> bool:
        """Whether the run stays; if not, its result is only printed."""
        return not self.candidates or self.output != _STANDARD_OUTPUT


def _check_rows(values: Mapping[str, Any], paths: Sequence[str]) -> None:
    """Name the options for text files; without this only the output would be called missing."""
    if {"output", "input_format"} & values.keys():
        return
    from bertscore_beam.dump.formats import TWO_FILES  # here, since it takes time to import

    texts = [mask_credentials(path) for path in paths if path.endswith((".txt", ".txt.gz"))]
    check_value("input", texts, fine=not texts, expected="files of rows", cure=TWO_FILES)


@dataclass(frozen=True, kw_only=True)
class SelectOptions(ScoreOptions):
    """Compare the samples of each row with each other, and mark the one nearest to the others.

    Attributes:
        candidate_column: Column of the samples, by name: a list of texts in each row; or the names
            of several columns with a text each.
    """

    compares_samples = True
    example = "bertscore-beam select samples.parquet --candidate-column samples --output selected"
    needed = "needed"
    daily: ClassVar = {
        "input and output": "input output candidate_column by overwrite",
        "model": "model language language_column languages num_layers max_length",
        "scores": "rescale baseline max_reject_fraction",
        "where it runs": "device workers dry_run",
    }
    # They need references of their own, or earlier rows that only `score` looks for.
    hidden = (
        "candidates references reference_column reference_file join idf idf_key idf_group metrics "
        "source_column reuse"
    )

    input: tuple[str, ...] = field(metadata={"metavar": "INPUT", "position": True, "short": "-i"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference_column", next(iter(self.candidate_column), "?"))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class IdfOptions(DumpOptions):
    """Count document frequencies over references, and write the table to the file `output`."""

    example = "bertscore-beam idf --input 'dump/*.parquet' --output idf.npz --language en"
    daily: ClassVar = {
        "input and output": "input output reference_column",
        "model": "model language language_column languages",
        "what counts": "idf_key idf_group",
        "where it runs": "workers dry_run",
    }


@dataclass(frozen=True, kw_only=True)
class RescaleOptions(RunOptions):
    """Rescale a finished run with a baseline; no model is loaded.

    Attributes:
        run: Output folder of the run to rescale. It is only read.
        baseline: Table to rescale with; or a folder of tables, as `bertscore-beam baseline` makes
            it, where language, model and layer choose the table.
        language: Language that chooses a table of a folder; by default that of the run.
    """

    example = "bertscore-beam rescale scores --baseline tables/en.tsv --output rescaled"
    daily: ClassVar = {"what to do": "run baseline language output overwrite dry_run"}

    run: str = field(metadata=RUN)
    baseline: str
    language: str | None = field(default=None, metadata={"also": ("lang",)})

    def __post_init__(self) -> None:
        """Refuse options of other commands: there is no pipeline here."""
        super().__post_init__()
        self._check_texts("run", "baseline", "language")
        unused = {"workers": ("auto", 1), "restarts": (None,), "beam": ((),)}
        unused |= {"keep_job": (False,), "threads": (None,)}
        for name, defaults in unused.items():
            self._check(
                name,
                getattr(self, name) in defaults,
                "nothing, since a run is rescaled in this process, a million rows in seconds",
                "Leave it out.",
            )
