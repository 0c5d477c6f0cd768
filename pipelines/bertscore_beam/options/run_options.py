"""Options of all jobs: frozen, checked when they are made, read from YAML and flags."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import FILES_IN_FLIGHT, MOST_IN_FLIGHT, is_missing, is_web
from bertscore_beam.options.declare import COLUMNS, Options
from bertscore_beam.options.language_map import (
    LanguageMap,
    LanguageOptions,
    find_language,
    language_map,
)
from bertscore_beam.options.values import check_value


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """Options of every command that runs a job.

    Attributes:
        output: Where the result is written.
        workers: Number of worker processes; `auto` takes one for each GPU of this machine that
            scores here, and 1 where there is none.
        restarts: How many deaths of worker processes of this machine a run survives. After each one
            a new process tries again what the dead one was working on. By default 1. Most other
            runners replace their workers themselves.
        threads: Threads of each worker process. By default the workers of this machine share its
            cores. Those of Dataflow have one, as there is a process for each core; with the
            experiment no_use_multiple_sdk_containers they have all, like those of other runners.
        overwrite: Replace results that were made with other settings.
        dry_run: Check everything, print the plan and stop.
        keep_job: Never cancel a job: neither when this command is interrupted, nor that of an
            earlier command that is still at work on the output. This command then ends with status
            1.
        beam: Options for Beam, as Beam spells them.
    """

    may_detach: ClassVar[bool] = False
    output: str = dataclasses.field(metadata={"metavar": "PATH", "short": "-o"})
    workers: int | Literal["auto"] = "auto"
    restarts: int | None = None
    threads: int | None = None
    overwrite: bool = False
    dry_run: bool = False
    keep_job: bool = False
    beam: tuple[str, ...] = dataclasses.field(default=(), metadata={"metavar": "OPTION"})

    def __post_init__(self) -> None:
        self._check_texts("output")
        check_value(
            "output",
            mask_credentials(self.output),
            fine=not is_web(self.output),
            expected="a place that can be written to",
            cure="Use a local folder, s3:// or gs://; http is for reading only.",
        )
        self._check_least(workers=1, restarts=0, threads=1)

    def check_input(self) -> None:
        """Refuse a local path that is not there now: before Beam and the model take their seconds.

        Raises:
            InputError: Nothing is there.
        """
        from bertscore_beam.dump.inputs import expand_inputs  # here, since it takes time to import

        for name in ("input", "references", "judgements"):
            for path in filter(is_missing, getattr(self, name, ())):
                expand_inputs([path], input_format=getattr(self, "input_format", "auto"))

    def check_packages(self) -> None:
        """Raise `ConfigError` if a package that only this job needs is missing."""

    @property
    def first_note(self) -> str:
        """What is said before the run is planned; "" for nothing."""
        return ""


@dataclass(frozen=True, kw_only=True)
class DumpOptions(RunOptions):
    """Options of every command that reads a dump.

    Attributes:
        input: Files, folders or globs to read.
        model: Hub id, local folder or registry name; by default the model for the language, or the
            embedded model if no language is given.
        language: Language of the texts; it chooses the model and the baseline.
        language_column: Column of language codes, such as en or zh. Each row is scored with the
            model, layer, baseline and idf table of its language.
        languages: What each language is scored with, as a mapping of language codes to model,
            num_layers, revision, max_length and baseline, or the path of a YAML file with one; `*`
            is for every language that is not named. By default the registry's choice for each
            language.
        reference_column: Column of the references: a text or a list of texts in each row. A dotted
            path (`response.text`) leads into nested columns.
        idf_key: Columns that identify a reference. Rows that are equal in them count once for idf,
            such as those of several systems on one test set.
        idf_group: Columns that name the test set of a row. Each test set has its own idf table, and
            keys are compared within it.
        max_length: Number of tokens after which a text is cut, or `unlimited`; by default the
            model's own limit.
        long_text: What is done with a longer text: `truncate` cuts it; `error` rejects its row for
            the reason `too_long`; `windows` scores all of it, in overlapping windows of
            `max_length` tokens.
        revision: Revision of a model on the hub: a branch, tag or commit.
        input_format: Format of the input: `auto` goes by the names of the files (.parquet, .jsonl,
            .ndjson, .json, .csv, .tsv; of text also with .gz or .zst); `tsv-raw` is a TSV in which
            quotes are ordinary characters.
        split_rows: Most rows in a split; about as many where a file is cut without being read.
            `auto` takes 500 to 20,000, so that every worker gets several splits; a folder with an
            earlier run keeps the number of that run.
        files_in_flight: Most files that are looked at in parallel while the job is planned.
        min_rows: Fewest rows of input with which the job can succeed; 0 accepts an empty input.
    """

    input: tuple[str, ...] = dataclasses.field(metadata={"short": "-i"})
    model: str | None = dataclasses.field(default=None, metadata={"short": "-m"})
    language: str | None = dataclasses.field(default=None, metadata={"also": ("lang",)})
    language_column: str | None = None
    languages: LanguageMap | None = dataclasses.field(default=None, metadata={"metavar": "FILE"})
    reference_column: str = "reference"
    idf_key: tuple[str, ...] = dataclasses.field(default=(), metadata=COLUMNS)
    idf_group: tuple[str, ...] = dataclasses.field(default=(), metadata=COLUMNS)
    max_length: int | Literal["unlimited"] | None = None
    long_text: Literal["truncate", "error", "windows"] = "truncate"
    revision: str | None = None
    input_format: Literal["auto", "parquet", "jsonl", "csv", "tsv", "tsv-raw"] = "auto"
    split_rows: int | Literal["auto"] = "auto"
    files_in_flight: int = FILES_IN_FLIGHT
    # Nobody scores an empty dump on purpose: it means that something upstream is broken.
    min_rows: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("input", bool(self.input), "at least one path", "Name what to score.")
        self._check_texts("input", "model", "language", "language_column", "reference_column")
        self._check_texts("revision", "idf_key", "idf_group")
        columns = (*self.idf_key, *self.idf_group)
        check_value(
            "idf_key and idf_group",
            columns,
            fine=len(set(columns)) == len(columns),
            expected="each column once",
            cure="Keys are compared within their group: leave its columns out of the key.",
        )
        self._check(
            "files_in_flight",
            1 <= self.files_in_flight <= MOST_IN_FLIGHT,
            f"a number from 1 to {MOST_IN_FLIGHT}",
            "More threads would only get in each other's way.",
        )
        self._check_least(split_rows=1, min_rows=0, max_length=1)
        self._check_languages()

    def _check_languages(self) -> None:
        if self.language_column is None:
            self._check(
                "languages",
                self.languages is None,
                "it only together with --language-column",
                "Add --language-column NAME, or leave it out.",
            )
            return
        self._check(
            "language",
            self.language is None,
            "none together with --language-column, which gives each row its own",
            "Leave one of the two out.",
        )
        for name in ("num_layers", "revision"):
            if self.model is None and getattr(self, name, None) is not None:
                self._check(
                    name,
                    False,
                    "it only together with --model, since each model has its own",
                    "Give it for each language in --languages, or leave it out.",
                )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str) -> Self:
        """Make options from keys and values; see `RunOptions.from_mapping`."""
        values = dict(mapping)
        if values.get("languages") is not None:
            values["languages"] = language_map(values["languages"], source)
        return super().from_mapping(values, source)

    def for_language(self, language: str) -> Self | None:
        """Return the options for the rows of one language; None if the mapping has no entry for it.

        An entry that names a model does not inherit the layer and the revision of another one.
        """
        languages = self.languages
        entry = LanguageOptions() if languages is None else find_language(languages, language)
        if entry is None:
            return None
        of_model = {"num_layers": None, "revision": None} if entry.model is not None else {}
        alone = {"language": language, "language_column": None, "languages": None}
        names = {f.name for f in dataclasses.fields(self)}  # counting idf needs no layer
        given = {**alone, **of_model, **entry.given()}
        return dataclasses.replace(
            self, **{name: value for name, value in given.items() if name in names}
        )
