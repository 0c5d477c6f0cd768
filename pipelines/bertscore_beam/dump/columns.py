"""Columns by name: those that hold the texts, those we add, and the checks on both."""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_core.errors import ConfigError, InputError, load_json
from bertscore_core.stats import NOT_COUNTED

# Spark's own description of a file's columns: it hides whatever it does not name.

SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"

_TYPES: Mapping[pa.DataType, object] = {
    pa.list_(pa.int64()): {"type": "array", "elementType": "long", "containsNull": True},
    pa.float64(): "double",
    pa.float32(): "float",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.string(): "string",
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

UNKNOWN_COLUMNS = (TEXT_TOKENS, UNKNOWN)
"""The columns that parts of earlier versions do not have."""


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

METRIC_COLUMNS = (*METRICS.values(), *METRIC_COUNTS.values())

UTILITY = "bertscore_utility"  # F1, under another name
BEST = "bertscore_best"
DIVERSITY = "bertscore_diversity"

SELECT_COLUMNS = (UTILITY, BEST, DIVERSITY)
"""The columns that only `select` adds."""

_ADDED = (*OUTPUT_COLUMNS, *SELECT_COLUMNS, *METRIC_COLUMNS)


CANDIDATE = "bertscore_candidate"
"""The column of candidates in rows that several columns of candidates were made into."""
CANDIDATE_FROM = "bertscore_candidate_from"
"""Where the candidate of a row is from, if its input row has several: the number in the list, from
0, or the name of the column. Null for a row without a candidate."""

_BETWEEN = re.compile(r"[;,|\t]")
"""What separates the columns of a text file."""

LANGUAGE_OPTION = "--language-column"
"""The option that names the column of language codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFields:
    """Which columns hold the texts of rows, and which say how they are scored and counted.

    A name may be a dotted path; see `column_of`.

    Attributes:
        candidate_column: Candidates, strings or lists of them; None if only references are wanted.
        reference_column: References: strings, or lists of strings.
        key: Rows that are equal in these columns count once for idf; empty if every row counts.
        group: Each value of these columns has its own idf table; empty for one table.
        language: Language codes: each language has its own setting and its own tables. None if all
            rows are scored alike.
        several: The columns of candidates if there is more than one; the candidates of a row are
            then multiplied out into `candidate_column`.
    """

    candidate_column: str | None = None
    reference_column: str
    key: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    language: str | None = None
    several: tuple[str, ...] = ()

    @property
    def among_samples(self) -> bool:
        """Whether the references of a candidate are the others of its row."""
        return self.reference_column in (self.candidate_column, *self.several)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The columns of candidates in the input."""
        alone = () if self.candidate_column is None else (self.candidate_column,)
        return self.several or alone

    @property
    def lists(self) -> tuple[str, ...]:
        """The columns that may hold texts in some rows of JSON and lists in others.

        Several candidates of a row cannot be nested, nor lists in several columns.
        """
        is_free = len(self.candidates) == 1 and "." not in self.candidates[0]
        return (*(self.candidates if is_free else ()), self.reference_column)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The columns beside the texts on which scores depend, each once."""
        languages = () if self.language is None else (self.language,)
        return tuple(dict.fromkeys((*self.group, *self.key, *languages)))

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        return (*self.candidates, self.reference_column, *self.choosing)

    def named(self, group_by: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all columns that a run names, each once, those of groups among them."""
        groups = (name for name in group_by if name != CANDIDATE_FROM)  # of no input
        return tuple(dict.fromkeys((*self.needed, *groups)))

    @property
    def counted(self) -> list[str]:
        """The columns that are read to count references, each once."""
        return list(dict.fromkeys((self.reference_column, *self.deciding)))

    @property
    def choosing(self) -> dict[str, str]:
        """The option that names each of the deciding columns."""
        languages = {} if self.language is None else {self.language: LANGUAGE_OPTION}
        return {
            **dict.fromkeys(self.key, "--idf-key"),
            **dict.fromkeys(self.group, "--idf-group"),
            **languages,
        }


def check_columns(schema: pa.Schema, candidate_column: str | None, reference_column: str) -> None:
    """Check that a file has the columns to score, in types that can be scored.

    A text may be string, large_string, string_view or a dictionary of these; a reference may also
    be a list of them, of any kind of list. A column that holds only nulls, and so has no type, is
    accepted: its rows are rejected one by one.

    Args:
        schema: Schema of the file.
        candidate_column: Name of the candidates, None if only references are wanted.
        reference_column: Name of the references.

    Raises:
        InputError: If a column is missing, there twice, or of another type.
    """
    if candidate_column is not None:
        kind = column_type(schema, candidate_column, "candidate", "--candidate-column")
        if not is_text(kind):
            raise wrong_type(candidate_column, kind, "candidate", "a string type")
    kind = column_type(schema, reference_column, "reference", "--reference-column")
    if not is_text(kind) and not is_list(kind):
        raise wrong_type(reference_column, kind, "reference", "a string type or a list of it")


def check_choosing_columns(schema: pa.Schema, options: Mapping[str, str]) -> None:
    """Check that a file has the columns whose values choose something, in types that can be equal.

    A value may be a text, a number, a boolean, a date, or a dictionary of these.

    Args:
        schema: Schema of the file.
        options: The option that names each column.

    Raises:
        InputError: If a column is missing, there twice, or of another type.
    """
    for name, option in options.items():
        kind = column_type(schema, name, option.strip("-").removesuffix("-column"), option)
        if option == LANGUAGE_OPTION and not is_text(kind):
            raise wrong_type(name, kind, "language", "a string type")
        check_can_choose(name, kind, option)


def check_can_choose(name: str, kind: pa.DataType, use: str) -> None:
    """Check that values of a column's type can choose something; see `check_choosing_columns`."""
    types, value = pa.types, kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (is_text, types.is_integer, types.is_floating, types.is_boolean, types.is_date)
    if not any(test(value) for test in tests):
        raise InputError(
            f"the column {name!r} cannot be used for {use}: got type {kind}; expected "
            "texts, numbers, booleans or dates. Convert the column, or name another one."
        )


def check_collisions(schema: pa.Schema) -> None:
    """Raise if an input column has the name of a score column.

    Raises:
        ConfigError: If one does.
    """
    taken = [name for name in _ADDED if name in schema.names]
    if taken:
        raise ConfigError(
            f"the input already has score columns: got {', '.join(taken)}; expected none of the "
            "names that bertscore-beam writes. Is it the output of an earlier run? Score the "
            "original dump, or drop or rename these columns."
        )


_TEXTS = {pa.string(), pa.large_string(), pa.string_view(), pa.null()}


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds one text per row."""
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in _TEXTS


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds a list of texts per row."""
    kinds = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    return isinstance(kind, kinds) and is_text(kind.value_type)


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
    check_collisions(table.schema)
    inputs = table.num_columns
    for name in sorted(columns, key=_ADDED.index):
        table = table.append_column(name, columns[name])
    notes = {key.encode(): value.encode() for key, value in metadata.items()}
    added = [table.schema.field(number) for number in range(inputs, table.num_columns)]
    described = describe_columns(table.schema.metadata or {}, added)
    # Sorted, since the order of the input's is lost when a part is read again.
    return table.replace_schema_metadata(dict(sorted({**described, **notes}.items())))


def split_scores(table: pa.Table) -> tuple[pa.Table, dict[str, pa.Array]]:
    """Undo `append_scores`: return the input's columns, and the score columns by name.

    Metadata that `append_scores` replaced keep their notes.
    """
    names = [name for name in table.column_names if name in _ADDED]
    scores = {name: table[name].combine_chunks() for name in names}
    described = describe_columns(table.schema.metadata or {}, (), without=names)
    return table.drop_columns(names).replace_schema_metadata(described), scores


def root_of(schema: pa.Schema, name: str) -> str:
    """Return the top-level column that a name or dotted path belongs to; the name if there is none.

    A column of exactly that name comes first. `response.text` is otherwise the field `text` of the
    struct column `response`.
    """
    try:
        return _steps(pa.struct(list(schema)), name)[0]
    except KeyError:
        return name


def has_column(schema: pa.Schema, name: str) -> bool:
    """Tell whether a file has a column of that name or dotted path."""
    return name in schema.names or _type_at(schema, name) is not None


def roots_of(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return the top-level columns that names or dotted paths belong to, each once, if there."""
    roots = dict.fromkeys(root_of(schema, name) for name in names)
    return [root for root in roots if root in schema.names]


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column by its name, or by its dotted path through struct columns.

    A null struct has null fields. A column of exactly that name comes first.

    Raises:
        KeyError: There is no such column.
    """
    root, *fields = _steps(pa.struct(list(table.schema)), name)
    column = table[root]
    for field in fields:
        column = pc.struct_field(column, [field])
    return column


def text_field(name: str) -> pa.Field:
    """Return the field of a text in a file without rows: of a dotted path, nested structs."""
    first, _, rest = name.partition(".")
    return pa.field(first, pa.struct([text_field(rest)]) if rest else pa.string())


def _steps(kind: pa.DataType, path: str) -> list[str]:
    """Return the names on a path through nested structs; a KeyError if there is no such path."""
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        first, rest = ".".join(parts[:length]), ".".join(parts[length:])
        if names.count(first) == 1:
            return [first, *(_steps(kind.field(first).type, rest) if rest else ())]
    raise KeyError(path)


def _type_at(schema: pa.Schema, name: str) -> pa.DataType | None:
    kind = pa.struct(list(schema))
    try:
        for step in _steps(kind, name):
            kind = kind.field(step).type
    except KeyError:
        return None
    return kind


def column_type(schema: pa.Schema, name: str, role: str, option: str) -> pa.DataType:
    """Return the type of a column, named or by its dotted path; see `check_columns` for errors."""
    kind = _type_at(schema, name)
    number = schema.names.count(name) or (*_paths(schema),).count(name)
    if number > 1 and (kind is None or name in schema.names):
        raise InputError(
            f"the {role} column {name!r} is not unique: got {number} columns of that name; "
            "expected one. Rename the others."
        )
    if kind is None:
        raise no_column(schema, name, role, option)
    return kind


def no_column(schema: pa.Schema, name: str, role: str, option: str) -> InputError:
    """Return the error for a column that a file does not have, with the one probably meant."""
    near = difflib.get_close_matches(name, [*schema.names, *_paths(schema)], n=1)
    cure = f"Name the right one with {option}."
    if len(schema) == 1 and (between := _BETWEEN.search(schema.names[0])):
        cure = (
            f"The columns are separated by {between[0]!r}: separate them by commas in a .csv file, "
            "or by tabs in a .tsv file."
        )
    elif near:
        cure = f"Did you mean {near[0]!r}? {cure}"
    return InputError(
        f"no {role} column {name!r}: got the columns {schema.names}; expected {name!r} among them. "
        f"{cure}"
    )


def _paths(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            below = f"{above}{field.name}."
            yield from (f"{below}{inner.name}" for inner in field.type)
            yield from _paths(field.type, below)


def wrong_type(name: str, kind: pa.DataType, role: str, expected: str) -> InputError:
    """Return the error for a column that holds no texts."""
    return InputError(
        f"the {role} column {name!r} holds no texts: got type {kind}; expected {expected}. "
        f"Convert the column, or name another one with --{role}-column."
    )
