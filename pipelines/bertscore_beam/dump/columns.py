"""Columns by name: those that hold the texts, those we add, and the checks on both."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.keys import is_key
from bertscore_beam.dump.paths import Column, is_list, is_text, paths_of, paths_within
from bertscore_core.errors import ConfigError, InputError, load_json
from bertscore_core.stats.score_statistics import NOT_COUNTED

# Spark's own description of a file's columns: it hides whatever it does not name.

SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"

_TYPES: Mapping[pa.DataType, object] = {
    pa.list_(pa.int64()): {"type": "array", "elementType": "long", "containsNull": True},
    pa.float64(): "double",
    pa.float32(): "float",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
}


def describe_columns(
    metadata: Mapping[bytes, bytes], more: Iterable[pa.Field], without: Collection[str] = ()
) -> Mapping[bytes, bytes]:
    """Return the metadata of a file with more columns, so that Spark sees these as well.

    `without` names columns that the file has no longer. A description that cannot be read is left
    out: Spark then goes by the columns themselves.
    """
    if SCHEMA_KEY not in metadata:
        return metadata
    rest = {key: value for key, value in metadata.items() if key != SCHEMA_KEY}
    try:
        schema = load_json(metadata[SCHEMA_KEY])
        if without:
            schema["fields"] = [one for one in schema["fields"] if one["name"] not in without]
        for field in more:
            kind = _TYPES.get(field.type, "string")
            added = {"name": field.name, "type": kind, "nullable": True, "metadata": {}}
            schema["fields"].append(added)
    except (ValueError, TypeError, KeyError, AttributeError):
        return rest
    return {**rest, SCHEMA_KEY: json.dumps(schema, ensure_ascii=False).encode()}


BEST_REFERENCE = "bertscore_best_reference"
CANDIDATE_TOKENS = "bertscore_candidate_tokens"
REFERENCE_TOKENS = "bertscore_reference_tokens"
TEXT_TOKENS = "bertscore_text_tokens"
UNKNOWN = "bertscore_unknown"
TRUNCATED = "bertscore_truncated"
WINDOWS = "bertscore_windows"
ERROR = "bertscore_error"
SIGNATURE = "bertscore_signature"

SCORES = {name: f"bertscore_{name}" for name in ("precision", "recall", "f1")}
"""The column of each measure."""

RAW_SCORES = {name: f"bertscore_raw_{name}" for name in SCORES}
"""The column of each measure before rescaling, which only runs that rescale have."""

F1, RAW_F1 = SCORES["f1"], RAW_SCORES["f1"]

# In the order in which they follow the input's columns.
OUTPUT_COLUMNS = (
    *SCORES.values(),
    *RAW_SCORES.values(),
    BEST_REFERENCE,
    CANDIDATE_TOKENS,
    REFERENCE_TOKENS,
    TEXT_TOKENS,
    UNKNOWN,
    TRUNCATED,
    WINDOWS,
    ERROR,
    SIGNATURE,
)

KEY = "bertscore_key"
"""The digest of the texts of a row, by which later runs find its scores. Only parts have it."""

UNKNOWN_COLUMNS = (TEXT_TOKENS, UNKNOWN)
"""The columns from which `counted_tokens` are known."""


def counted_tokens(
    text_tokens: pa.ChunkedArray, share: pa.ChunkedArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the tokens of rows that hold text, and the unknown ones, from `UNKNOWN_COLUMNS`.

    `NOT_COUNTED` for rows without. The share is a float32: exact up to 2**23 tokens of a row.
    Shapes: (N,).
    """
    tokens = pc.fill_null(text_tokens, NOT_COUNTED).to_numpy(zero_copy_only=False).astype(np.int64)
    shares = pc.fill_null(share, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    unknown = np.rint(np.maximum(tokens, 0) * shares).astype(np.int64)
    return tokens, np.where(tokens == NOT_COUNTED, NOT_COUNTED, unknown)


METRICS = {
    "bleu": "metric_bleu",
    "chrf": "metric_chrf",
    "chrf++": "metric_chrfpp",
    "ter": "metric_ter",
    "rougel": "metric_rougel",
}
"""The column of each metric of another library."""

METRIC_COUNTS = {name: f"{column}_counts" for name, column in METRICS.items() if name != "rougel"}
"""The column of the counts that make the score of a corpus, of each metric that has such."""

_OF_KNOWN_SIZE = {*METRICS, *METRICS.values(), *(f"{one}_mean" for one in METRICS.values())}


def is_of_bertscore(name: str) -> bool:
    """Tell whether a measure, by its name or column, is of BERTScore."""
    return name in SCORES or name.startswith("bertscore_")


def shown_number(
    name: str, value: float | None, decimals: int, sign: str = "", missing: str = ""
) -> str:
    """Return a number of a measure, by its name or column, as people read it.

    BERTScore and the metrics of libraries have these decimals. Any other measure may be of any
    size: it has four significant digits. `sign` is "+" for a difference; `missing` stands for None.
    """
    if value is None:
        return missing
    if name in _OF_KNOWN_SIZE or is_of_bertscore(name):
        return f"{value:{sign}.{decimals}f}"
    return f"{value + 0.0:{sign}#.4g}".rstrip(".")  # no -0, and no point after whole numbers


def shown_interval(
    name: str, ends: Sequence[float | None] | None, decimals: int, sign: str = "", missing: str = ""
) -> str:
    """Return an interval in brackets, its ends as `shown_number` has them."""
    if ends is None or None in ends:
        return missing
    return f"[{', '.join(shown_number(name, end, decimals, sign) for end in ends)}]"


ERROR_METRICS = frozenset({"ter"})
"""The metrics of these that count errors: lower is better."""

METRIC_COLUMNS = (*METRICS.values(), *METRIC_COUNTS.values())

UTILITY = "bertscore_utility"  # F1, under another name
BEST = "bertscore_best"
DIVERSITY = "bertscore_diversity"

SELECT_COLUMNS = (UTILITY, BEST, DIVERSITY)
"""The columns that only `select` adds."""

_ADDED = (*OUTPUT_COLUMNS, KEY, *SELECT_COLUMNS, *METRIC_COLUMNS)
_PLACES = {name: place for place, name in enumerate(_ADDED)}


def metric_column(name: str) -> str:
    """Return the column of a metric: of another library, or of one's own."""
    return METRICS.get(name, f"metric_{name}")


def metric_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return all columns of metrics: of the libraries, and of one's own among the names."""
    return tuple(dict.fromkeys((*METRIC_COLUMNS, *map(metric_column, names))))


CANDIDATE = "bertscore_candidate"
"""The column of candidates in rows that several columns of candidates were made into."""
CANDIDATE_FROM = "bertscore_candidate_from"
"""Where the candidate of a row is from, if its input row has several: the number in the list, from
0, or the name of the column. Null for a row without a candidate."""

Accepts: TypeAlias = Callable[[pa.DataType], bool]
"""Tells whether a type is fine for what a column is for."""
_USUAL = (".content", ".text")
"""How paths to the text of a message end."""
_SHOWN_PATHS = 3
"""Most paths that a message shows."""
_BETWEEN = re.compile(r"[;,|\t]|  +")
"""What separates the columns of a text file."""

_LANGUAGE_OPTION = "--language-column"
"""The option that names the column of language codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFile:
    """A second file with references; see `reference_file`.

    Attributes:
        path: Its path.
        digest: Of its bytes.
        key: Column that it shares with the input.
        names: Its columns that the run names, by name or path: they are added to the rows.
        lists: Those of these that may hold texts in some lines of JSON and lists in others.
    """

    path: str
    digest: str
    key: str
    names: tuple[str, ...]
    lists: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFields:
    """Which columns hold the texts of rows, and which say how they are scored and counted.

    A name may be a path; see `paths`.

    Attributes:
        candidate_column: Candidates, strings or lists of them; None if only references are wanted.
        reference_column: References: strings, or lists of strings.
        compares_samples: Whether the references of a candidate are the others of its row; then the
            column of references is one of the candidates.
        key: Rows that are equal in these columns count once for idf; empty if every row counts.
        group: Each value of these columns has its own idf table; empty for one table.
        language: Language codes: each language has its own setting and its own tables. None if all
            rows are scored alike.
        several: The columns of candidates if there is more than one; the candidates of a row are
            then multiplied out into `candidate_column`.
        references: The file that has the references; None if the input has them.
        source: Column of the texts that candidates are made from, for metrics that take them.
        added: Columns that metrics of one's own add: the input must not have them.
        strip_reasoning: Whether the reasoning of a model is taken off the candidates.
        others: Other columns whose values choose something, each with the option that names it.
    """

    candidate_column: str | None = None
    reference_column: str
    compares_samples: bool = False
    key: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    language: str | None = None
    several: tuple[str, ...] = ()
    references: ReferenceFile | None = None
    source: str | None = None
    added: tuple[str, ...] = ()
    strip_reasoning: bool = False
    others: tuple[tuple[str, str], ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The columns of candidates in the input."""
        alone = () if self.candidate_column is None else (self.candidate_column,)
        return self.several or alone

    @property
    def lists(self) -> tuple[str, ...]:
        """The columns that may hold texts in some rows of JSON and lists in others.

        With several columns of candidates each has a text.
        """
        return (*(self.candidates if len(self.candidates) == 1 else ()), self.reference_column)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The columns beside the texts on which scores depend, each once."""
        languages = () if self.language is None else (self.language,)
        return tuple(dict.fromkeys((*self.group, *self.key, *languages)))

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        return (*self.candidates, self.reference_column, *self.sources, *self.choosing)

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of sources, if there is one."""
        return () if self.source is None else (self.source,)

    def named(self, group_by: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all columns of the input that a run names, each once, those of groups as well."""
        names = dict.fromkeys((*self.needed, *group_by))
        names.pop(CANDIDATE_FROM, None)  # of no input
        if self.references is None:
            return tuple(names)
        return (*(name for name in names if name not in self.references.names), self.references.key)

    @property
    def shown(self) -> list[str]:
        """The columns of the output with the texts and what decides on their scores, each once.

        Of these `CANDIDATE` is there only if rows with several candidates were multiplied out.
        """
        return list(dict.fromkeys((str(self.candidate_column), CANDIDATE, *self.counted)))

    @property
    def counted(self) -> list[str]:
        """The columns that are read to count references, each once."""
        return list(dict.fromkeys((self.reference_column, *self.deciding)))

    @property
    def choosing(self) -> dict[str, str]:
        """The option that names each of the deciding columns, and of others."""
        languages = {} if self.language is None else {self.language: _LANGUAGE_OPTION}
        return {
            **dict.fromkeys(self.key, "--idf-key"),
            **dict.fromkeys(self.group, "--idf-group"),
            **languages,
            **dict(self.others),
        }


def check_columns(schema: pa.Schema, candidate_column: str | None, reference_column: str) -> None:
    """Check that a file has the columns to score, in types that can be scored.

    A text may be string, large_string, string_view, binary, arrow.json, a dictionary of these, or a
    message in parts; a reference may also be a list of them, of any kind of list. A column that
    holds only nulls, and so has no type, is accepted: its rows are rejected one by one.

    Args:
        schema: Schema of the file.
        candidate_column: Name of the candidates, None if only references are wanted.
        reference_column: Name of the references.

    Raises:
        InputError: If a column is missing, there twice, or of another type.
    """
    if candidate_column is not None:
        check_text(schema, candidate_column, "candidate", is_text)
    check_text(schema, reference_column, "reference", is_text_or_list)


def check_text(schema: pa.Schema, name: str, role: str, accepts: Accepts) -> pa.DataType:
    """Return the type of a column of texts; see `check_columns` for errors."""
    column = _column(schema, name, role, f"--{role}-column", accepts)
    if not accepts(column.type):
        raise _wrong_type(column, name, role, accepts)
    return column.type


def is_text_or_list(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds one text or several per row."""
    return is_text(kind) or is_list(kind)


def check_choosing_columns(schema: pa.Schema, options: Mapping[str, str]) -> None:
    """Check that a file has the columns whose values choose something, in types that can be equal.

    Which these are: `keys`. Languages are texts.

    Args:
        schema: Schema of the file.
        options: The option that names each column.

    Raises:
        InputError: If a column is missing, there twice, or of another type.
    """
    for name, option in options.items():
        if option == _LANGUAGE_OPTION:
            check_text(schema, name, "language", is_text)
            continue
        role = option.strip("-").removesuffix("-column")
        kind = _column(schema, name, role, option, is_key).type
        if not is_key(kind):
            raise InputError(
                f"the column {name!r} cannot be used for {option}: got type {kind}; expected "
                "texts, numbers, booleans, dates, times or UUIDs. Convert it to texts, or name "
                "another column."
            )


def check_collisions(schema: pa.Schema, more: Iterable[str] = ()) -> None:
    """Raise if an input column has the name of a score column, or one of `more`.

    Raises:
        ConfigError: If one does.
    """
    taken = [name for name in dict.fromkeys((*_ADDED, *more)) if name in schema.names]
    if taken:
        raise ConfigError(
            f"the input already has score columns: got {', '.join(taken)}; expected none of the "
            "names that bertscore-beam writes. Is it the output of an earlier run? Score the "
            "original dump, or drop or rename these columns."
        )


def append_scores(
    table: pa.Table, columns: Mapping[str, pa.Array], metadata: Mapping[str, str]
) -> pa.Table:
    """Add score columns after the input's columns, and notes to the schema metadata.

    The input's columns, fields and metadata do not change, but for one thing: if Spark has listed
    the columns in the metadata, the score columns are added there, since Spark hides columns that
    are not listed. Score columns are in a fixed order, those of other metrics last.

    Args:
        table: Rows of the input.
        columns: Score columns by name, each as long as the table.
        metadata: Notes to add; on equal keys they replace the input's.

    Raises:
        ConfigError: If the input has a score column already.
    """
    check_collisions(table.schema, columns)
    inputs = table.num_columns
    for name in sorted(columns, key=lambda name: (_PLACES.get(name, len(_PLACES)), name)):
        table = table.append_column(name, columns[name])
    notes = {key.encode(): value.encode() for key, value in metadata.items()}
    added = [table.schema.field(number) for number in range(inputs, table.num_columns)]
    described = describe_columns(table.schema.metadata or {}, added)
    # Sorted, since the order of the input's is lost when a part is read again.
    return table.replace_schema_metadata(dict(sorted({**described, **notes}.items())))


def split_scores(table: pa.Table, metrics: Iterable[str]) -> tuple[pa.Table, dict[str, pa.Array]]:
    """Undo `append_scores`: return the input's columns, and the score columns by name.

    `metrics` are the names of the run's metrics. Metadata that `append_scores` replaced keep
    their notes.
    """
    added = {*_ADDED, *metric_columns(metrics)}
    names = [name for name in table.column_names if name in added]
    scores = {name: table[name].combine_chunks() for name in names}
    described = describe_columns(table.schema.metadata or {}, (), without=names)
    return table.drop_columns(names).replace_schema_metadata(described), scores


def _column(schema: pa.Schema, name: str, role: str, option: str, accepts: Accepts) -> Column:
    """Return a column, named or by its path; see `check_columns` for errors."""
    column = Column.find(schema, name)
    number = schema.names.count(name)
    if column is None:
        number = number or [path for path, _ in paths_of(schema)].count(name)
    if number > 1:
        raise InputError(
            f"the {role} column {name!r} is not unique: got {number} columns of that name; "
            "expected one. Rename the others."
        )
    if column is None:
        raise missing_column_error(schema, name, role, option, accepts)
    return column


def missing_column_error(
    schema: pa.Schema, name: str, role: str, option: str, accepts: Accepts = is_key
) -> InputError:
    """Return the error for a column that a file does not have, with the one probably meant.

    That is one of a type that is accepted, so that naming it works.
    """
    fine = [path for path, kind in paths_of(schema) if accepts(kind)]
    near = difflib.get_close_matches(name, fine, n=1)
    cure = f"Name the right one ({option})."
    if len(schema) == 1 and (between := _BETWEEN.search(schema.names[0])):
        cure = (
            f"The columns are separated by {between[0]!r}: separate them by commas in a .csv file, "
            "or by tabs in a .tsv file."
        )
    elif near and fine.count(near[0]) == 1:
        cure = f"Did you mean {near[0]!r}? {cure}"
    return InputError(
        f"no {role} column {name!r}: got the columns {schema.names}; expected {name!r} among them. "
        f"{cure}"
    )


def _wrong_type(column: Column, name: str, role: str, accepts: Accepts) -> InputError:
    """Return the error for a column that holds no texts, with paths to texts within it."""
    expected = "a string type" if accepts is is_text else "a string type or a list of it"
    found = [path for path, inner in paths_within(column, name) if accepts(inner)]
    within = [path for path in found if found.count(path) == 1]
    usual = [path for path in within if path.endswith(_USUAL)]
    meant = " or ".join(map(repr, (usual or within)[:_SHOWN_PATHS]))
    cure = f"Did you mean {meant}? Name it" if within else "Convert the column, or name another"
    return InputError(
        f"the {role} column {name!r} holds no texts: got type {column.type}; "
        f"expected {expected}. {cure} "
        f"as the {role} column (--{role}-column)."
    )
