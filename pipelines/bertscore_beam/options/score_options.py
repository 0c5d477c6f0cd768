"""Options of `score`, `select`, `idf` and `rescale`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from bertscore_beam.dump.columns import METRICS, TableFields, metric_column
from bertscore_beam.dump.formats import AUTO, TWO_FILES, suffixes
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import without_query
from bertscore_beam.options.declare import Columns, Flag, Names, Run, Share, by_name
from bertscore_beam.options.metric_names import MetricOptions
from bertscore_beam.options.row_options import RowOptions
from bertscore_beam.options.run_options import STANDARD, DumpOptions, Output, RunOptions
from bertscore_beam.options.values import check_group_columns, check_value, is_text_name
from bertscore_core.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(MetricOptions, RowOptions, DumpOptions):
    """Score candidates against references, and write the same rows with scores."""

    may_detach: ClassVar[bool] = True
    may_write: ClassVar = ("csv", "tsv", "jsonl")
    may_print: ClassVar = True
    example = "bertscore-beam score --input 'dump/*.parquet' --output scores --language en"
    needed: ClassVar = {
        "input": "needed without --candidates",
        "output": "needed without --candidates",
    }
    daily: ClassVar = {
        "input and output": "input candidates references output candidate_column reference_column "
        "by reuse overwrite",
        "model": "model language language_column languages num_layers max_length",
        "scores": "rescale baseline idf metrics max_reject_fraction",
        "where it runs": "device workers dry_run",
    }

    output: Annotated[
        str | None,
        Flag(metavar="PATH", short="-o", dash="-s"),
        "Folder of the result, or a file: .csv, .tsv or .jsonl; `-` (or -s) prints the scores of "
        "each row. These are precision, recall, F1 and the reason: tabs separate them, the rows "
        "have the order of the input, a row without scores has `nan`, and the summary goes to "
        "standard error. A file has the rows with scores. With `-` or a file no run is kept that "
        "could be continued, compared or reused.",
    ]
    candidates: Annotated[
        tuple[str, ...],
        Flag(short="-c", also=("cand",)),
        "Files of candidates with one text per line, also .gz or .zst, in place of the input. `-` "
        "is standard input. Several files are several systems: the column `system` has their "
        "names, and the summary is grouped by it. Without an output the result is only printed.",
    ] = ()
    references: Annotated[
        tuple[str, ...],
        Flag(short="-r", also=("ref",)),
        "Files of references with one text per line, for all candidates; several files give each "
        "row several references. `-` is standard input.",
    ] = ()
    reference_file: Annotated[
        str | None, "File of any format that has the references, for an input without them."
    ] = None
    join: Annotated[
        str | None,
        "Column by which the rows of the input and of the reference file belong together, such as "
        "custom_id. Other columns that the run names may be in that file, too.",
    ] = None
    reuse: Annotated[
        str | None,
        "Earlier run whose scores are taken for rows with the same texts and settings. Give the "
        "folder of the run, or `latest:` and a pattern of folders, such as `latest:scores/*`, for "
        "the newest run among them that has succeeded; if there is none, all rows are scored.",
    ] = None
    keep_input: Annotated[
        bool,
        "Keep the Parquet files that were made of files of text (in _input) when the run is a "
        "success.",
    ] = False
    group_by: Annotated[
        tuple[str, ...],
        Flag(metavar="COLUMN", split=True, name="by"),
        "Columns whose values make groups, such as system and language. The summary has the number "
        "of rows, the mean scores and their errors of each group. The scores do not depend on it.",
    ] = ()
    drop_columns: Annotated[
        Columns,
        "Columns of the input that the output does not have. Encrypted columns, and those whose "
        "type would be lost (INTERVAL, VARIANT, Int128), are left out with a warning; a file in "
        "which the run names such a column is rejected.",
    ] = ()
    metrics: Annotated[
        Names,
        "Other metrics, each in a column of its own: bleu, chrf, chrf++, ter and rougel, with the "
        "extra `tune`; and functions, as package.module:name.",
    ] = ()
    source_column: Annotated[
        str | None, "Column of the sources, texts, for functions that take them."
    ] = None
    # A few blank lines in a dump are normal and must not fail a nightly run. When one row in a
    # hundred has no score, something upstream is broken.
    max_reject_fraction: Annotated[
        Share,
        "Share of the rows, from 0 to 1, that may have no score. If more have none, the job still "
        "finishes but its exit status reports failure; 1 never fails.",
    ] = 0.01
    max_truncated_fraction: Annotated[
        float | None,
        Flag(share=True),
        "Share of the scored rows, from 0 to 1, that may hold a text cut at the maximum length. If "
        "more do, the job still finishes but its exit status reports failure; by default it never "
        "fails.",
    ] = None
    # Of texts that a model can read, hardly any token is unknown. Where half of them are, as in
    # Chinese with an English model, unrelated texts are alike.
    max_unknown_fraction: Annotated[
        Share,
        "Share of the tokens of the scored rows, from 0 to 1, that the model may not know, such as "
        "`[UNK]`; also of each language with at least 20 scored rows. If more are unknown, the job "
        "still finishes but its exit status reports failure.",
    ] = 0.5

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        self._check_both_sides()
        if not self.candidates:  # which stand for it
            by_name(type(self))["input"].check(self.input)
        self._check_output()
        self._check(
            "reference_file",
            (self.reference_file is None) == (self.join is None)
            and (self.reference_file is None or not self.candidates),
            "one together with --join, for rows",
            "Give --join COLUMN, or leave both out.",
        )
        named = self.table_fields.named(self.group_by)
        used = [f"{name}.".replace("[", ".[") for name in named]
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
        self._check_metric_names()
        check_value(
            "model",
            self.model,
            fine=self.model not in METRICS,
            expected="an encoder",
            cure="Write --metrics for other metrics than BERTScore.",
        )

    def _check_both_sides(self) -> None:
        given, lacking = "--candidates (-c)", "--references (-r)"
        if bool(self.candidates) == bool(self.references):
            return
        if not self.candidates:
            given, lacking = lacking, given
        paths = [mask_credentials(path) for path in (*self.candidates, *self.references)]
        raise ConfigError(
            f"{lacking} is missing: got {given} alone, {paths}; expected files of both. Give both"
            f"{f': -c {paths[0]} -r {paths[1]};' if len(paths) == 2 else ','} or a dump of rows as "
            "--input."
        )

    def _check_output(self) -> None:
        refused = (None, STANDARD) if self.compares_samples else (None,)
        self._check(
            "output",
            bool(self.candidates) or self.output not in refused,
            "a folder or a file",
            "Choose one of them.",
        )
        self._check(
            "reuse",
            self.reuse is None or self.is_kept,
            "an earlier run only together with a folder as --output",
            "Leave it out, or give --output FOLDER.",
        )
        self._check(
            "input",
            STANDARD not in self.input,
            "files; standard input is read for --candidates or --references alone",
            "Write the rows to a file, and give that.",
        )
        standard = [path for path in (*self.candidates, *self.references) if path == STANDARD]
        check_value(
            "standard input",
            " ".join(standard),
            fine=len(standard) < 2,
            expected="it once, for the candidates or for the references",
            cure="Write the other texts to a file.",
        )
        check_value(
            "output",
            mask_credentials(self.output or ""),
            fine=not standard or not self.is_kept,
            expected="no folder together with standard input, since the same command could not "
            "continue",
            cure="Write the texts to a file; or leave --output out, or give a file such as x.csv.",
        )

    @classmethod
    def _meant(cls, values: dict[str, Any]) -> dict[str, Any]:
        given, references = values.get("input", ()), values.get("references", ())
        candidates = values.get("candidates") or (references and given)  # sacreBLEU: -i
        if not candidates and not references:
            if (
                "candidates" in by_name(cls)
                and not given
                and values.get("output", STANDARD) == STANDARD
            ):
                raise ConfigError(
                    "what to read is missing: got neither --input nor --candidates; expected one "
                    "of them. Give --input PATH --output FOLDER, or files of texts: -c HYP.txt -r "
                    "REF.txt."
                )
            _check_rows(values, given)
            return values
        check_value(
            "input",
            given,
            fine="input" not in values or given == candidates,
            expected="none beside --candidates and --references",
            cure="Score them one after the other; the candidates of rows are a column of theirs: "
            "--candidate-column NAME.",
        )
        by = {"group_by": ("system",)} if len(candidates) > 1 else {}
        return {"output": None, **by, **values, "input": (), "candidates": candidates}

    @property
    def table_fields(self) -> TableFields:
        """The columns of texts, and those that say how rows are scored and counted."""
        added = tuple(metric_column(name.rpartition(":")[2]) for name in self.own_metrics)
        return replace(super().table_fields, source=self.source_column, added=added)

    def describe(self) -> dict[str, Any]:
        """Return the options as plain values, without the files that text files become."""
        return super().describe() | ({"input": []} if self.candidates else {})

    def check_input(self) -> None:
        """Refuse a local path that is not there; files with one text per line are no patterns."""
        for path in (*self.candidates, *self.references):
            place = os.path.expanduser(path)
            is_local = path != STANDARD and "://" not in path
            if is_local and not os.path.lexists(place):
                got, cure = (
                    "does not exist",
                    "Check the path. Texts go to `explain -c TEXT -r TEXT`.",
                )
            elif is_local and os.path.isdir(place):
                got, cure = "is a folder", "Name a file in it."
            elif without_query(path).lower().endswith((*suffixes(AUTO), *suffixes("jsonl"))):
                got = "has the name of a file of rows"
                cure = (
                    "Rows have both texts in columns: give --input "
                    f"{mask_credentials(path)} --reference-column NAME --output FOLDER. If its "
                    "lines are texts, rename it."
                )
            else:
                continue
            raise InputError(
                f"{mask_credentials(path)!r} {got}; expected a file with one text per line. {cure}"
            )
        super().check_input()

    @property
    def is_kept(self) -> bool:
        """Whether the run stays; if not, its result is printed, or written to one file."""
        return self.output not in (None, STANDARD) and not self.output_ending


def _check_rows(values: Mapping[str, Any], paths: Sequence[str]) -> None:
    """Name the options for text files; without this only the output would be called missing."""
    if {"output", "input_format"} & values.keys():
        return
    texts = [mask_credentials(path) for path in paths if is_text_name(path)]
    check_value("input", texts, fine=not texts, expected="files of rows", cure=TWO_FILES)


@dataclass(frozen=True, kw_only=True)
class SelectOptions(ScoreOptions):
    """Compare the samples of each row with each other, and mark the one nearest to the others."""

    compares_samples = True
    example = "bertscore-beam select samples.parquet --candidate-column samples --output selected"
    needed: ClassVar = {}
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

    input: Annotated[
        tuple[str, ...],
        Flag(metavar="INPUT", position=True, short="-i"),
        "Files, folders or globs to read.",
    ]
    output: Annotated[
        str,
        Flag(metavar="PATH", short="-o"),
        "Folder of the result, or a file: .csv, .tsv or .jsonl. A file has the rows with what is "
        "chosen, and no run is kept that could be continued.",
    ]
    candidate_column: Annotated[
        tuple[str, ...],
        Flag(metavar="COLUMN"),
        "Column of the samples, a list of texts in each row; or the names of several columns with "
        "a text each. A path may lead into nested columns.",
    ] = ("candidate",)


@dataclass(frozen=True, kw_only=True)
class IdfOptions(DumpOptions):
    """Count document frequencies over references, and write the table to the file `output`."""

    may_write: ClassVar = None
    example = "bertscore-beam idf --input 'dump/*.parquet' --output idf.npz --language en"
    daily: ClassVar = {
        "input and output": "input output reference_column",
        "model": "model language language_column languages",
        "what counts": "idf_key idf_group",
        "where it runs": "workers dry_run",
    }

    output: Output[str]


@dataclass(frozen=True, kw_only=True)
class RescaleOptions(RunOptions):
    """Rescale a finished run with a baseline; no model is loaded."""

    example = "bertscore-beam rescale scores --baseline tables/en.tsv --output rescaled"
    daily: ClassVar = {"what to do": "run baseline language output overwrite dry_run"}
    hidden = "workers restarts threads keep_job beam"  # a million rows take this process seconds

    output: Output[str]
    run: Annotated[Run, "Output folder of the run to rescale. It is only read."]
    baseline: Annotated[
        str,
        "Table to rescale with; or a folder of tables, as `bertscore-beam baseline` makes it, "
        "where language, model and layer choose the table.",
    ]
    language: Annotated[
        str | None,
        Flag(also=("lang",)),
        "Language that chooses a table of a folder; by default that of the run.",
    ] = None
