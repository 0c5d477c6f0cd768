"""Types of JSON columns, found in the first rows."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bertscore_core.tokens import is_encodable

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
LARGEST_UNSIGNED = (1 << 64) - 1
# Arrow cannot read a schema back that nests deeper than about 60 levels.
_MAX_DEPTH = 24
_TOO_DEEP = "too deep"
INTEGERS_KEY = b"bertscore.integers"
"""Key in the metadata of a field whose texts are integers, since some are beyond 64 bits."""


@dataclass(slots=True)
class _Seen:
    """What the values of one place have been so far: the first kind that is not null."""

    kind: str = ""
    item: "_Seen | None" = None
    fields: dict[str, "_Seen"] = field(default_factory=dict)


def infer_schema(rows: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Return the columns of some rows, in the order in which they first appear.

    Where values disagree the first one decides, except that numbers with and without a fraction
    are float64. Integers of which one is beyond 64 bits are texts, as is a column of nulls alone.
    An object that is always empty has no column, nor has what is nested deeper than 24 levels.
    """
    whole = _Seen(kind="object")
    for row in rows:
        _look(whole, row)
    return pa.schema(_fields(whole))


def describe_kind(value: Any) -> str:
    """Name the kind of a value without showing it."""
    kind = kind_of(value)
    return {"object": "an object", "list": "a list", "bool": "a boolean", "str": "a string"}.get(
        kind, "a number"
    )


def kind_of(value: Any) -> str:
    """Return the kind of a value: one of four for numbers, else the name of its Python type."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, int) and not isinstance(value, bool):
        if SMALLEST <= value <= LARGEST:
            return "int"
        return "uint" if 0 <= value <= LARGEST_UNSIGNED else "wide"
    return type(value).__name__


_NUMBERS = {"int": pa.int64(), "uint": pa.uint64(), "wide": pa.string(), "float": pa.float64()}
"""The type of each kind of number: each takes those of the kinds before it, if it can hold them."""
_TYPES = {**_NUMBERS, "bool": pa.bool_()}


def of_kind(name: str, kind: str) -> pa.Field:
    """Return a column for values of a kind, neither objects nor lists; of integers as texts."""
    metadata = {INTEGERS_KEY: b"1"} if kind == "wide" else None
    return pa.field(name, _TYPES.get(kind, pa.string()), metadata=metadata)


def widest(kinds: Collection[str], above: str = "") -> str:
    """Return the last of some kinds of numbers; "" if others are among them, or one not `above`."""
    order = [*_NUMBERS]
    later = order[order.index(above) + 1 :] if above else order
    return max(kinds, key=order.index) if {*kinds} <= {*later} else ""


def _look(seen: _Seen, value: Any, depth: int = 0) -> None:
    if value is None:
        return
    kind = kind_of(value) if depth <= _MAX_DEPTH else _TOO_DEEP
    seen.kind = widest((seen.kind, kind)) or seen.kind or kind
    if seen.kind == kind == "object":
        for name, inner in value.items():
            _look(seen.fields.setdefault(name, _Seen()), inner, depth + 1)
    elif seen.kind == kind == "list":
        seen.item = seen.item or _Seen()
        for item in value:
            _look(seen.item, item, depth + 1)


def _fields(seen: _Seen) -> list[pa.Field]:
    typed = [_field(name, inner) for name, inner in seen.fields.items() if is_encodable(name)]
    return [field for field in typed if field is not None]


def _field(name: str, seen: _Seen) -> pa.Field | None:
    if seen.kind == _TOO_DEEP:
        return None
    if seen.kind == "object":
        fields = _fields(seen)
        return pa.field(name, pa.struct(fields)) if fields else None
    if seen.kind == "list":
        item = _field("item", seen.item or _Seen())
        return None if item is None else pa.field(name, pa.list_(item))
    return of_kind(name, seen.kind)
