"""Types of JSON columns: found in the first rows, then fixed, and checked for every value."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_LARGEST_UNSIGNED = (1 << 64) - 1
# Arrow cannot read a schema back that nests deeper than about 60 levels.
_MAX_DEPTH = 24
_TOO_DEEP = "too deep"


class DriftError(ValueError):
    """A value is of another type than its column. The message names the column and no value."""


class LoneSurrogateError(ValueError):
    """A text holds half of a surrogate pair, which UTF-8 cannot express."""


@dataclass(slots=True)
class _Seen:
    """What the values of one place have been so far: the first kind that is not null."""

    kind: str = ""
    item: "_Seen | None" = None
    fields: dict[str, "_Seen"] = field(default_factory=dict)


def infer_schema(rows: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Return the columns of some rows, in the order in which they first appear.

    Where values disagree the first one decides, except that numbers with and without a fraction
    are float64. A column of nulls alone is string. An object that is always empty has no column,
    nor has what is nested deeper than 24 levels.
    """
    whole = _Seen(kind="object")
    for row in rows:
        _look(whole, row)
    return pa.schema(_fields(whole))


def fitted(value: Any, kind: pa.DataType, path: str) -> Any:
    """Return a value as a column stores it: exactly, except for large integers among fractions.

    A float64 column stores the float64 nearest to an integer beyond 2^53, as Arrow's reader does.

    Args:
        value: As `json.loads` returns it.
        kind: Type of the column, of those that `infer_schema` returns.
        path: Its dotted path, for the message.

    Raises:
        DriftError: It is of another type.
        LoneSurrogateError: It holds a text that is not valid.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {
            part.name: fitted(
                value.get(part.name), part.type, f"{path}.{part.name}" if path else part.name
            )
            for part in kind
        }
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(item, kind.value_type, path) for item in value]
    if not _fits(value, kind):
        raise DriftError(f"column {path!r}: got {_word(value)}; expected {kind}")
    if isinstance(value, str):
        _check_text(value, path)
    return float(value) if pa.types.is_floating(kind) else value


def unknown_fields(value: Any, kind: pa.DataType, path: str = "") -> Iterator[str]:
    """Yield the dotted paths of the fields of a value that have no column and are not null."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        for name, inner in value.items():
            shown = name.encode("utf-8", "backslashreplace").decode()
            below = f"{path}.{shown}" if path else shown
            number = kind.get_field_index(name) if _is_utf8(name) else -1
            if number >= 0:
                yield from unknown_fields(inner, kind.field(number).type, below)
            elif inner is not None:
                yield below
    elif isinstance(value, list) and pa.types.is_list(kind):
        for item in value:
            yield from unknown_fields(item, kind.value_type, path)


def _check_text(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LoneSurrogateError(f"column {path!r} holds half of a surrogate pair") from error


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Tell whether a value that is neither an object nor a list fits a column."""
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_integer(kind):
        low, high = (_SMALLEST, _LARGEST) if pa.types.is_int64(kind) else (0, _LARGEST_UNSIGNED)
        return isinstance(value, int) and low <= value <= high
    return pa.types.is_floating(kind) and _is_double(value)


def _is_double(value: Any) -> bool:
    try:
        return isinstance(value, float) or (isinstance(value, int) and math.isfinite(float(value)))
    except OverflowError:
        return False


def _word(value: Any) -> str:
    """Name the kind of a value without showing it."""
    kind = _kind(value)
    return {"object": "an object", "list": "a list", "bool": "a boolean", "str": "a string"}.get(
        kind, "a number"
    )


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, int) and not isinstance(value, bool):
        if _SMALLEST <= value <= _LARGEST:
            return "int"
        return "uint" if 0 <= value <= _LARGEST_UNSIGNED else "float"
    return type(value).__name__


_NUMBERS = {
    frozenset(("int", "float")): "float",
    frozenset(("int", "uint")): "uint",
    frozenset(("uint", "float")): "float",
}


def _look(seen: _Seen, value: Any, depth: int = 0) -> None:
    """Take note of a value."""
    if value is None:
        return
    kind = _kind(value) if depth <= _MAX_DEPTH else _TOO_DEEP
    seen.kind = _NUMBERS.get(frozenset((seen.kind, kind)), seen.kind or kind)
    if seen.kind == kind == "object":
        for name, inner in value.items():
            _look(seen.fields.setdefault(name, _Seen()), inner, depth + 1)
    elif seen.kind == kind == "list":
        seen.item = seen.item or _Seen()
        for item in value:
            _look(seen.item, item, depth + 1)


def _fields(seen: _Seen) -> list[pa.Field]:
    typed = [(name, _type(inner)) for name, inner in seen.fields.items() if _is_utf8(name)]
    return [pa.field(name, kind) for name, kind in typed if kind is not None]


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _type(seen: _Seen) -> pa.DataType | None:
    """Return the type of a place, None for objects that are always empty, or nested too deep."""
    if seen.kind == _TOO_DEEP:
        return None
    if seen.kind == "object":
        fields = _fields(seen)
        return pa.struct(fields) if fields else None
    if seen.kind == "list":
        item = _type(seen.item or _Seen())
        return None if item is None else pa.list_(item)
    simple = {"bool": pa.bool_(), "int": pa.int64(), "uint": pa.uint64(), "float": pa.float64()}
    return simple.get(seen.kind, pa.string())
