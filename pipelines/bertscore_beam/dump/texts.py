"""Read texts from Arrow columns, or other values as texts; say why texts cannot be scored."""

import math
from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import is_list


class Reason(StrEnum):
    """Why a row has no scores, or scores to be careful with; the values of bertscore_error."""

    NULL_CANDIDATE = "null_candidate"
    NULL_REFERENCE = "null_reference"
    NO_REFERENCES = "no_references"
    INVALID_UTF8 = "invalid_utf8"
    NOT_TEXT = "not_text"
    NULL_LANGUAGE = "null_language"
    UNKNOWN_LANGUAGE = "unknown_language"
    LANGUAGE_WITHOUT_SETTING = "language_without_setting"
    LANGUAGE_WITHOUT_BASELINE = "language_without_baseline"
    TOO_LONG = "too_long"
    NO_IDF_GROUP = "no_idf_group"
    NO_IDF_TABLE = "no_idf_table"
    NO_WEIGHTED_TOKEN = "no_weighted_token"
    ONLY_SPECIAL_TOKENS = "only_special_tokens"
    COUNTED_AS_EMPTY = "counted_as_empty"
    EMPTY_CANDIDATE = "empty_candidate"
    EMPTY_REFERENCE = "empty_reference"
    BAD_LINE = "bad_line"
    TYPE_DRIFT = "type_drift"
    LINE_TOO_LONG = "line_too_long"


class UnreadableText(Enum):
    """Takes the place of a value that is not a readable text. The value is the reason."""

    INVALID_UTF8 = "invalid_utf8"
    NOT_TEXT = "not_text"


Text: TypeAlias = str | UnreadableText | None
"""A text, None for a null, or why it cannot be read."""


def texts_from_column(column: pa.ChunkedArray) -> list[Text]:
    """Return the texts of a column. Shape (rows,).

    Never fails on the content: a null is None, bytes that are not UTF-8 are
    `UnreadableText.INVALID_UTF8`, and neither affects other rows.
    """
    return [text for chunk in column.chunks for text in _texts(chunk)]


def reference_texts(column: pa.ChunkedArray) -> list[list[Text] | None]:
    """Return the references of each row, one or several. Shape (rows,) of (references,).

    None is a null, [] an empty list; the items are as in `texts_from_column`. A column of single
    texts gives lists of one.
    """
    if is_list(column.type):
        return [texts for chunk in column.chunks for texts in _text_lists(chunk)]
    return [None if text is None else [text] for text in texts_from_column(column)]


def countable_references(column: pa.ChunkedArray) -> list[list[str] | None]:
    """Return the references of each row that a pair could be scored against: the idf corpus.

    None for a row whose references are rejected: it is left out entirely, as in scoring.
    """
    return [
        only_strings(group) if reference_reason(group) is None else None
        for group in reference_texts(column)
    ]


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
    """Return the texts of one chunk."""
    if isinstance(array, pa.DictionaryArray):
        values = _texts(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    try:
        texts: list[Text] = array.to_pylist()
    except UnicodeDecodeError:
        is_view = pa.types.is_string_view(array.type)
        raw = pc.cast(array, pa.binary_view() if is_view else pa.large_binary())
        return [_decode(item) for item in raw.to_pylist()]
    return texts


def _decode(raw: bytes | None) -> Text:
    """Return the text of UTF-8 bytes, or why there is none."""
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return UnreadableText.INVALID_UTF8


def _text_lists(array: pa.Array) -> list[list[Text] | None]:
    """Return the lists of texts of one chunk."""
    # flatten() skips the values under null lists and respects slices.
    flat = _texts(array.flatten())
    lists: list[list[Text] | None] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        lists.append(None if length is None else flat[start : start + length])
        start += length or 0
    return lists


def values_as_text(column: pa.ChunkedArray) -> list[str | None]:
    """Return the values of a key or group column as texts. Shape (rows,).

    Equal numbers are equal texts, whatever their type. None is a null, NaN or not valid UTF-8.
    """
    return [text for chunk in column.chunks for text in _chunk_as_text(chunk)]


def _chunk_as_text(array: pa.Array) -> list[str | None]:
    if isinstance(array, pa.DictionaryArray):
        values = _chunk_as_text(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if pa.types.is_floating(array.type):
        return [_number_as_text(value) for value in array.to_pylist()]
    if pa.types.is_null(array.type):
        return [None] * len(array)
    texts = _texts(pc.cast(array, pa.large_string()))
    return [text if isinstance(text, str) else None for text in texts]


def _number_as_text(value: float | None) -> str | None:
    """Return a number as the integer that it is, if it is one: pandas makes floats of such ids."""
    if value is None or math.isnan(value):
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def dictionary_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as one array with each distinct value once."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    return pa.chunked_array(column.chunks, type=column.type).unify_dictionaries().combine_chunks()
