"""The fields of pairs: dicts, Rows, NamedTuples, or objects with attributes."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from bertscore_beam.dump.texts import Text, UnreadableText
from bertscore_core.tokenization import is_encodable

PairLike: TypeAlias = Any
"""A mapping, beam.Row or NamedTuple with the fields, or an object with them as attributes."""


def read_text(value: object) -> Text:
    """Return the text of a field, None for a null, or why it cannot be read."""
    if value is None:
        return None
    if not isinstance(value, str):
        return UnreadableText.NOT_TEXT
    return value if is_encodable(value) else UnreadableText.INVALID_UTF8


def read_references(value: object) -> list[Text] | None:
    """Return the references of a field, one or several, None for a null. Shape (references,)."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1:  # pandas reads lists in Parquet as arrays
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [read_text(item) for item in value]
    return [read_text(value)]


def shape_of(pair: PairLike) -> str:
    """Describe the type and the fields of an element, never its values."""
    kind = type(pair).__name__
    return f"a {kind} of {sorted(map(str, pair))}" if isinstance(pair, Mapping) else f"a {kind}"


def has_field(pair: PairLike, name: str) -> bool:
    """Tell whether a pair has a field."""
    return name in pair if isinstance(pair, Mapping) else hasattr(pair, name)


def field_of(pair: PairLike, name: str) -> Any:
    """Return a field of a pair; a missing field counts as null."""
    return pair.get(name) if isinstance(pair, Mapping) else getattr(pair, name, None)
