"""How the values of a column become keys: groups, ids, clusters, systems, languages.

A key is a text. Equal numbers are equal keys, whatever their type: 7, 7.0, "7" and DECIMAL 7.00.
The table of all types is in `docs/inputs.md`. Which types can be keys and how they are written is
one table here, so that no type is accepted that has no key.
"""

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.paths import is_text
from bertscore_core.tokens import IntArray, is_encodable

Words: TypeAlias = "list[str | None]"
"""Keys as texts; None for no value. Bytes that are not UTF-8 are lone surrogates (PEP 383)."""


_SHOWN_CHARACTERS = 60
"""Most characters of a key in a message."""
NO_VALUE = 0
"""Code of a row without a key: it has a null or a NaN."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Keys:
    """The keys of N rows.

    Attributes:
        words: The distinct keys, of which some may have no row; the first is None, for `NO_VALUE`.
        codes: Position of each row's key in `words`. Shape (N,).
    """

    words: Words
    codes: IntArray

    @property
    def readable(self) -> "Keys":
        """The same keys, with None for those that are not UTF-8."""
        return _numbered([([_readable(word) for word in self.words], self.codes)])

    @property
    def of_rows(self) -> Words:
        """The key of each row; None for one that is not UTF-8. Shape (N,)."""
        words = [_readable(word) for word in self.words]
        return [words[code] for code in self.codes.tolist()]


def shown_key(word: str) -> str:
    """Return a key as messages show it: of a long one, which may be a prompt, only the start."""
    return repr(word if len(word) <= _SHOWN_CHARACTERS else f"{word[:_SHOWN_CHARACTERS]}...")


def is_key(kind: pa.DataType) -> bool:
    """Tell whether values of a column of this type can be keys: the type that `column_of` gives."""
    return _form_of(_value_type(kind)) is not None


def keys_of(column: pa.ChunkedArray) -> Keys:
    """Return the keys of a column.

    Args:
        column: As `column_of` gives it, of a type that `is_key` accepts.
    """
    form = _form_of(_value_type(column.type))
    if form is None:
        raise TypeError(f"no keys: {column.type}")
    return _numbered((form(values), codes) for values, codes in map(_coded, column.chunks))


def combined(columns: Sequence[Keys], rows: int) -> tuple[list[tuple[str | None, ...]], IntArray]:
    """Return the distinct combinations of the keys of some rows that have a row.

    Returns:
        The combinations; and the position of each row's among them. Shape (rows,).
    """
    found: list[tuple[str | None, ...]] = [()] if rows else []
    codes = np.zeros(rows, dtype=np.int64)
    for own in columns:
        # Pairs of a combination so far and a key, numbered anew: never more than there are rows.
        many = max(1, len(own.words))
        pairs, codes = np.unique(codes * many + own.codes, return_inverse=True)
        found = [(*found[pair // many], own.words[pair % many]) for pair in pairs.tolist()]
    return found, codes.astype(np.int64)


def _numbered(pieces: Iterable[tuple[Words, IntArray]]) -> Keys:
    """Put pieces of rows together: the words of each piece, and the position of each row's."""
    numbers: dict[str | None, int] = {None: NO_VALUE}
    codes = [np.zeros(0, dtype=np.int64)]
    for words, own in pieces:
        of_word = [numbers.setdefault(word, len(numbers)) for word in words]
        codes.append(np.array([*of_word, NO_VALUE], dtype=np.int64)[own])
    return Keys(words=list(numbers), codes=np.concatenate(codes))


def _coded(array: pa.Array) -> tuple[pa.Array, IntArray]:
    """Return values of an array, and the position of each row's, -1 for a null."""
    if not isinstance(array, pa.DictionaryArray):
        try:
            array = array.dictionary_encode()
        except pa.ArrowNotImplementedError:  # of float16, UUIDs and short decimals
            return array, np.arange(len(array))
    places = array.indices.cast(pa.int64()).fill_null(-1)
    return array.dictionary, places.to_numpy(zero_copy_only=False)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _readable(word: str | None) -> str | None:
    return word if word is None or word.isascii() or is_encodable(word) else None


# How values are written, by type.


def _texts(values: pa.Array) -> Words:
    try:
        texts: Words = values.cast(pa.large_string()).to_pylist()
    except UnicodeDecodeError:
        raw = values.cast(pa.large_binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "surrogateescape") for text in raw]
    return texts


def _floats(values: pa.Array) -> Words:
    return [_float(number) for number in values.cast(pa.float64()).to_pylist()]


def _float(number: float | None) -> str | None:
    """Write a number as the integer that it is, if it is one: pandas makes floats of such ids."""
    if number is None or math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _decimals(values: pa.Array) -> Words:
    return [
        None if number is None else _without_zeros(f"{number:f}") for number in values.to_pylist()
    ]


def _times(values: pa.Array) -> Words:
    return [None if time is None else _without_zeros(time) for time in _texts(values)]


def _timestamps(values: pa.Array) -> Words:
    """Write moments as ISO 8601; those of a time zone in UTC, whatever it is."""
    end = "" if values.type.tz is None else "Z"
    moments = values.to_numpy(zero_copy_only=False)  # a null is NaT, as a NaT of numpy is
    return [
        None if is_none else f"{_without_zeros(moment)}{end}"
        for moment, is_none in zip(np.datetime_as_string(moments), np.isnat(moments), strict=True)
    ]


def _uuids(values: pa.Array) -> Words:
    stored = values.storage.to_pylist()
    return [None if value is None else str(uuid.UUID(bytes=value)) for value in stored]


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


_Form: TypeAlias = Callable[[pa.Array], Words]
_FORMS: Sequence[tuple[Callable[[pa.DataType], bool], _Form]] = (
    (is_text, _texts),
    (pa.types.is_integer, _texts),
    (pa.types.is_boolean, _texts),
    (pa.types.is_date, _texts),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_time, _times),
    (pa.types.is_timestamp, _timestamps),
    (_is_uuid, _uuids),
)


def _form_of(kind: pa.DataType) -> _Form | None:
    return next((form for accepts, form in _FORMS if accepts(kind)), None)
