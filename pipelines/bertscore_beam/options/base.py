"""Options of all jobs: frozen, checked when they are made, read from YAML and flags.

Every field of a class is a key of the YAML file and, with dashes, a flag of the command line.
"""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import FILES_IN_FLIGHT, MOST_IN_FLIGHT
from bertscore_beam.options.checks import check_at_least, check_value
from bertscore_beam.options.languages import LanguageMap, LanguageOptions, language_map
from bertscore_beam.options.near_names import unknown_key
from bertscore_beam.options.values import fit_value, plain_value
from bertscore_core.errors import ConfigError

# As the Parquet file counts them, encoded and not compressed: a column of repeated long texts can
# be many times larger in memory. A worker holds a split as Arrow, as Python texts and as tokens.
DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024
# Nobody scores an empty dump on purpose: it means that something upstream is broken.
DEFAULT_MIN_ROWS = 1


_OTHER_NAMES = {"lang": "language"}
"""Names that are accepted as well: `lang` is what bert-score calls it."""


def option_name(key: str) -> str:
    """Return the option that a key of a file or a flag stands for."""
    name = key.replace("-", "_")
    return _OTHER_NAMES.get(name, name)


def other_names(name: str) -> list[str]:
    """Return the other names of an option."""
    return [other for other, option in _OTHER_NAMES.items() if option == name]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of every command that runs a job.

    Attributes:
        output: Where the result is written.
        workers: Number of worker processes; `auto` takes one for each GPU of this machine that
            scores here, and 1 where there is none.
        restarts: How many deaths of worker processes of this machine a run survives. After each one
            a new process tries again what the dead one was working on. By default 1. Most other
            runners replace their workers themselves.
        overwrite: Replace results that were made with other settings.
        dry_run: Check everything, print the plan and stop.
        print_job: Print the job as it would be submitted, as JSON, and stop; input, output and
            model are not looked at.
        beam: Options for Beam, as Beam spells them.
    """

    output: str
    workers: int | Literal["auto"] = "auto"
    restarts: int | None = None
    overwrite: bool = False
    dry_run: bool = False
    print_job: bool = False
    beam: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files or models."""
        self._check_texts("output")
        check_value(
            "output",
            mask_credentials(self.output),
            fine=not self.output.startswith(("http://", "https://")),
            expected="a place that can be written to",
            cure="Use a local folder, s3:// or gs://; http is for reading only.",
        )
        if self.workers != "auto":
            check_at_least("workers", self.workers, 1)
        if self.restarts is not None:
            check_at_least("restarts", self.restarts, 0)

    def _check_texts(self, *names: str) -> None:
        """Raise if a field holds a blank text."""
        for name in names:
            value = getattr(self, name)
            for text in value if isinstance(value, tuple) else (value,):
                check_value(
                    name,
                    text,
                    fine=text is None or bool(text.strip()),
                    expected="some text",
                    cure="Leave it out for the default.",
                )

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
            name = option_name(str(key))
            if name not in hints:
                raise unknown_key(str(key), list(hints), source)
            if name in values:
                raise ConfigError(
                    f"{name!r} is given twice in {source}: got {key!r} as well; expected it once. "
                    "Remove one of them."
                )
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
        split_bytes: Most bytes in a split, uncompressed; encoded, as Parquet counts them.
        files_in_flight: Most files that are looked at in parallel while the job is planned.
        min_rows: Fewest rows of input with which the job can succeed; 0 accepts an empty input.
    """

    input: tuple[str, ...]
    model: str | None = None
    language: str | None = None
    language_column: str | None = None
    languages: LanguageMap | None = dataclasses.field(default=None, metadata={"metavar": "FILE"})
    reference_column: str = "reference"
    idf_key: tuple[str, ...] = dataclasses.field(default=(), metadata={"metavar": "COLUMN"})
    idf_group: tuple[str, ...] = dataclasses.field(default=(), metadata={"metavar": "COLUMN"})
    max_length: int | Literal["unlimited"] | None = None
    long_text: Literal["truncate", "error", "windows"] = "truncate"
    revision: str | None = None
    input_format: Literal["auto", "parquet", "jsonl", "csv", "tsv", "tsv-raw"] = "auto"
    split_rows: int | Literal["auto"] = "auto"
    split_bytes: int = DEFAULT_SPLIT_BYTES
    files_in_flight: int = FILES_IN_FLIGHT
    min_rows: int = DEFAULT_MIN_ROWS

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files or models."""
        super().__post_init__()
        check_value(
            "input",
            self.input,
            fine=bool(self.input),
            expected="at least one path",
            cure="Name what to score.",
        )
        self._check_texts(
            *("input", "model", "language", "language_column", "reference_column", "revision")
        )
        self._check_texts("idf_key", "idf_group")
        columns = (*self.idf_key, *self.idf_group)
        check_value(
            "idf_key and idf_group",
            columns,
            fine=len(set(columns)) == len(columns),
            expected="each column once",
            cure="Keys are compared within their group: leave its columns out of the key.",
        )
        check_at_least("split_bytes", self.split_bytes, 1)
        check_value(
            "files_in_flight",
            self.files_in_flight,
            fine=1 <= self.files_in_flight <= MOST_IN_FLIGHT,
            expected=f"a number from 1 to {MOST_IN_FLIGHT}",
            cure="More threads would only get in each other's way.",
        )
        if self.split_rows != "auto":
            check_at_least("split_rows", self.split_rows, 1)
        check_at_least("min_rows", self.min_rows, 0)
        if self.max_length != "unlimited":
            check_at_least("max_length", self.max_length, 1)
        _check_languages(self)

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
        entry = LanguageOptions() if self.languages is None else self.languages.find(language)
        if entry is None:
            return None
        of_model = {"num_layers": None, "revision": None} if entry.model is not None else {}
        alone = {"language": language, "language_column": None, "languages": None}
        names = {f.name for f in dataclasses.fields(self)}  # counting idf needs no layer
        given = {**alone, **of_model, **entry.given()}
        return dataclasses.replace(
            self, **{name: value for name, value in given.items() if name in names}
        )


def _check_languages(options: DumpOptions) -> None:
    """Raise for options about languages that contradict each other."""
    if options.language_column is None:
        check_value(
            "languages",
            options.languages,
            fine=options.languages is None,
            expected="a mapping only together with a column of languages",
            cure="Add --language-column NAME, or leave it out.",
        )
        return
    check_value(
        "language",
        options.language,
        fine=options.language is None,
        expected="none beside --language-column, which gives each row its own",
        cure="Leave one of the two out.",
    )
    for name in ("num_layers", "revision"):
        check_value(
            name,
            value := getattr(options, name, None),
            fine=value is None or options.model is not None,
            expected="it only beside --model: models have layers and revisions of their own",
            cure="Give it for each language with --languages, or leave it out.",
        )
