"""Read texts from Arrow columns, and say why texts cannot be scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import CANDIDATE, CANDIDATE_FROM, TableFields
from bertscore_beam.dump.keys import keys_of
from bertscore_beam.dump.languages import language_of
from bertscore_beam.dump.lines import Lines
from bertscore_beam.dump.paths import column_of, is_list
from bertscore_beam.dump.reasons import Reason
from bertscore_core.reasoning import may_hold_reasoning, without_reasoning
from bertscore_core.tokens import IntArray

_T = TypeVar("_T")


class UnreadableText(Enum):
    """Takes the place of a value that is not a readable text. The value is the reason."""

    INVALID_UTF8 = "invalid_utf8"
    NOT_TEXT = "not_text"
    ONLY_REASONING = "only_reasoning"


Text: TypeAlias = str | UnreadableText | None
"""A text, None for a null, or why it cannot be read."""


def texts_from_column(column: pa.ChunkedArray) -> list[Text]:
    """Return the texts of a column. Shape (rows,).

    Never fails on the content: a null is None, bytes that are not UTF-8 are
    `UnreadableText.INVALID_UTF8`, and neither affects other rows.
    """
    return [text for chunk in column.chunks for text in _texts(chunk)]


def answers(texts: Sequence[Text], *, strip: bool) -> tuple[list[Text], dict[int, str]]:
    """Return candidates as they are scored, and what marks those that hold a model's reasoning.

    Args:
        texts: Candidates. Shape (N,).
        strip: Whether reasoning is taken off.

    Returns:
        The candidates, and the reason of those that are scored, by position.
    """
    scored, marks = list(texts), dict[int, str]()
    try:
        may_hold = may_hold_reasoning(texts)  # type: ignore[arg-type] # not all need be texts
    except TypeError:
        may_hold = may_hold_reasoning(only_strings(texts))
    if not may_hold:
        return scored, marks
    for place, text in enumerate(texts):
        if isinstance(text, str) and (answer := without_reasoning(text)) is not text:
            marks[place] = Reason.STRIPPED_REASONING if strip else Reason.REASONING
            scored[place] = (answer or UnreadableText.ONLY_REASONING) if strip else text
    return scored, marks


def reference_texts(column: pa.ChunkedArray) -> list[list[Text] | None]:
    """Return the references of each row, one or several. Shape (rows,) of (references,).

    None is a null, [] an empty list; the items are as in `texts_from_column`. A column of single
    texts gives lists of one.
    """
    return groups_of_texts(column, _texts)


def groups_of_texts(
    column: pa.ChunkedArray, read: Callable[[pa.Array], list[_T]]
) -> list[list[_T] | None]:
    """Return what `read` makes of the texts of each row, one or several; None for a null."""
    if not is_list(column.type):
        single = (text for chunk in column.chunks for text in read(chunk))
        return [None if text is None else [text] for text in single]
    groups: list[list[_T] | None] = []
    for chunk in column.chunks:
        # flatten() skips the values under null lists and respects slices.
        flat = read(chunk.flatten())
        start = 0
        for length in pc.list_value_length(chunk).to_pylist():
            groups.append(None if length is None else flat[start : start + length])
            start += length or 0
    return groups


def raw_texts(array: pa.Array) -> list[bytes | None]:
    """Return texts as they are stored, valid UTF-8 or not."""
    if isinstance(array, pa.DictionaryArray):
        return _spelled(array, raw_texts)
    texts: list[bytes | None] = pc.cast(array, pa.large_binary()).to_pylist()
    return texts


def candidate_reason(candidate: Text) -> str | None:
    """Return why a candidate cannot be scored; None if it can."""
    if candidate is None:
        return Reason.NULL_CANDIDATE
    return candidate.value if isinstance(candidate, UnreadableText) else None


def reference_reason(group: Sequence[Text] | None) -> str | None:
    """Return why the references of a row cannot be scored; None if they can."""
    if group is None or any(text is None for text in group):
        return Reason.NULL_REFERENCE
    unreadable = [text.value for text in group if isinstance(text, UnreadableText)]
    if unreadable:
        return unreadable[0]
    return None if len(group) else Reason.NO_REFERENCES


def only_strings(group: Sequence[Text] | None) -> list[str]:
    """Return the texts of a row that can be read."""
    return [text for text in group or () if isinstance(text, str)]


def _texts(array: pa.Array) -> list[Text]:
    if isinstance(array, pa.DictionaryArray):
        return _spelled(array, _texts)
    try:
        texts: list[Text] = array.to_pylist()
    except UnicodeDecodeError:
        return [_decode(raw) for raw in raw_texts(array)]
    return texts


def _spelled(array: pa.DictionaryArray, read: Callable[[pa.Array], Sequence[Any]]) -> list[Any]:
    values = read(array.dictionary)
    return [None if index is None else values[index] for index in array.indices.to_pylist()]


def _decode(raw: bytes | None) -> Text:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return UnreadableText.INVALID_UTF8


def languages_of(column: pa.ChunkedArray) -> list[str]:
    """Return the language of each row of a column of language codes. Shape (rows,)."""
    keys = keys_of(column)
    names = [language_of(word) for word in keys.words]
    return [names[code] for code in keys.codes.tolist()]


def _others(texts: Sequence[Text], rows: IntArray) -> list[list[Text] | None]:
    """Return the other readable texts of the input row of each text, whose positions ascend."""
    bounds = np.flatnonzero(np.diff(rows, prepend=-1, append=-1)).tolist()
    groups = [texts[start:stop] for start, stop in pairwise(bounds)]
    return [
        [*only_strings(group[:place]), *only_strings(group[place + 1 :])]
        for group in groups
        for place in range(len(group))
    ]


@dataclass(frozen=True, eq=False)  # no slots, in which no cached value has a place
class Rows:
    """Some rows, and their columns by what they are for; each is looked up and read once.

    Attributes:
        table: The rows with all their columns.
        fields: Which columns are for what.
        lines: The lines that they were read from; None if they never were text.
        numbers: Position of the input row of each row, if rows with several candidates were
            multiplied out; None otherwise. Shape (N,).
    """

    table: pa.Table
    fields: TableFields
    lines: Lines | None = None
    numbers: IntArray | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def candidates(self) -> pa.ChunkedArray:
        """The column of candidates; those of each row once they are multiplied out."""
        column = column_of(self.table, str(self.fields.candidate_column))
        is_apart = is_list(column.type) and CANDIDATE in self.table.column_names
        return self.table[CANDIDATE] if is_apart else column

    @cached_property
    def answers(self) -> tuple[list[Text], dict[int, str]]:
        """The candidates as they are scored, and marks; see the function of this name."""
        return answers(texts_from_column(self.candidates), strip=self.fields.strip_reasoning)

    @cached_property
    def input_rows(self) -> IntArray:
        """Position of the input row of each row. Shape (N,)."""
        return np.arange(len(self)) if self.numbers is None else self.numbers

    @cached_property
    def origins(self) -> list[str | None]:
        """Where the candidate of each row is from, None if it is alone. Shape (N,)."""
        if self.numbers is None:
            return [None] * len(self)
        origins: list[str | None] = self.table[CANDIDATE_FROM].to_pylist()
        return origins

    @property
    def unreadable(self) -> dict[int, str]:
        """The reason of each row whose texts need not be looked at, by position."""
        bad = {} if self.lines is None else self.lines.reasons
        if self.numbers is None:
            return bad
        rows = enumerate(zip(self.numbers.tolist(), self.origins, strict=True))
        return {
            row: bad.get(number, Reason.NO_CANDIDATES)
            for row, (number, origin) in rows
            if origin is None or number in bad
        }

    @cached_property
    def references(self) -> pa.ChunkedArray:
        """The column of references."""
        return column_of(self.table, self.fields.reference_column)

    @cached_property
    def reference_texts(self) -> list[list[Text] | None]:
        """The references of each row; see the function of this name. Shape (N,)."""
        if self.fields.compares_samples:
            return _others(self.answers[0], self.input_rows)
        return reference_texts(self.references)

    @cached_property
    def countable(self) -> list[list[str] | None]:
        """The references of each row that a pair could be scored against: the idf corpus.

        None for a row whose references are rejected: it is left out entirely, as in scoring.
        """
        return [
            only_strings(group) if reference_reason(group) is None else None
            for group in self.reference_texts
        ]

    @cached_property
    def languages(self) -> list[str]:
        """The language of each row; empty if all rows are scored alike."""
        name = self.fields.language
        return [] if name is None else languages_of(column_of(self.table, name))

    @property
    def source_columns(self) -> list[pa.ChunkedArray]:
        """The column of sources, if there is one."""
        return [column_of(self.table, name) for name in self.fields.sources]

    @property
    def sources(self) -> list[str | None]:
        """The source of each row, None where it is no text; empty without a column. Shape (N,)."""
        texts = (text for column in self.source_columns for text in texts_from_column(column))
        return [text if isinstance(text, str) else None for text in texts]

    @property
    def deciding(self) -> list[pa.ChunkedArray]:
        """The columns beside the texts on which scores depend."""
        return [column_of(self.table, name) for name in self.fields.deciding]

    def words_of(self, names: Sequence[str]) -> list[list[str | None]]:
        """Return the keys of some columns; see `Keys.of_rows`."""
        return [keys_of(column_of(self.table, name)).of_rows for name in names]
