"""Find the types of JSON columns, and put parsed rows into Arrow arrays.

Each value is put in by itself: none depends on another row.
"""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.text.parsers import BadLine, Places
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files import is_utf8

# Types of JSON columns, found in the first rows.

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_LARGEST_UNSIGNED = (1 << 64) - 1
# Larger integers overflow.
_MOST_FLOAT = 2**1024 - 2**970 - 1
# Arrow cannot read a schema back that nests deeper than about 60 levels.
_MAX_DEPTH = 24
_TOO_DEEP = "too deep"


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


def _in_words(value: Any) -> str:
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
    typed = [(name, _type(inner)) for name, inner in seen.fields.items() if is_utf8(name)]
    return [pa.field(name, kind) for name, kind in typed if kind is not None]


def _type(seen: _Seen) -> pa.DataType | None:
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


# Rows as arrays.

_NULL = type(None)
# Values of exactly this type are stored as they are, if Arrow takes them.
_OWN_TYPE = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int64(): int,
    pa.uint64(): int,
    pa.float64(): float,
}


@dataclass(slots=True)
class Found:
    """What is found beside the values of some rows: bad ones, and fields that are no columns."""

    bad: dict[int, BadLine] = field(default_factory=dict)
    dropped: dict[int, set[str]] = field(default_factory=dict)

    def members(
        self, objects: Sequence[dict[str, Any]], fields: pa.Schema, path: str, places: Places
    ) -> list[pa.Array]:
        """Return the members of objects as arrays, and note those that are no columns."""
        names = frozenset(member.name for member in fields)
        if not all(map(names.issuperset, objects)):
            for place, content in zip(places.tolist(), objects, strict=True):
                for name in content.keys() - names:
                    if content[name] is not None:
                        self.dropped.setdefault(place, set()).add(_below(path, name))
        return [
            self._array(
                [content.get(member.name) for content in objects],
                member.type,
                _below(path, member.name),
                places,
            )
            for member in fields
        ]

    def _array(
        self, values: Sequence[Any], kind: pa.DataType, path: str, places: Places
    ) -> pa.Array:
        own = dict if pa.types.is_struct(kind) else _OWN_TYPE.get(kind, list)
        if not set(map(type, values)) <= {own, _NULL}:
            values = self._fitting(values, kind, path, places)
        if own is dict:
            objects = [value or {} for value in values]
            arrays = self.members(objects, pa.schema(list(kind)), path, places)
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_nulls(values))
        if own is list:
            lengths = [len(value or ()) for value in values]
            items = list(itertools.chain.from_iterable(filter(None, values)))
            inner = self._array(items, kind.value_type, path, np.repeat(places, lengths))
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=_nulls(values))
        with contextlib.suppress(OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            return pa.array(values, kind)
        return pa.array(self._fitting(values, kind, path, places), kind)

    def _fitting(
        self, values: Sequence[Any], kind: pa.DataType, path: str, places: Places
    ) -> list[Any]:
        """Return the values that are of a type, null for the others, which are noted."""
        fitting: list[Any] = []
        for place, value in zip(places.tolist(), values, strict=True):
            if value is not None and not _is_of(value, kind):
                bad = BadLine(
                    reason=Reason.TYPE_DRIFT,
                    message=f"column {path!r}: got {_in_words(value)}; expected {kind}",
                )
                if isinstance(value, str) and pa.types.is_string(kind):
                    message = f"column {path!r} holds half of a surrogate pair"
                    bad = BadLine(reason=Reason.INVALID_UTF8, message=message)
                self.bad.setdefault(place, bad)
                fitting.append(None)
            elif value is not None and pa.types.is_floating(kind):
                fitting.append(float(value))  # Arrow refuses integers beyond 2^53
            else:
                fitting.append(value)
        return fitting


def object_arrays(rows: Sequence[Any], schema: pa.Schema) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed lines of JSON, in which a row that does not fit is null."""
    objects = [{} if isinstance(row, BadLine) else row for row in rows]
    places = np.arange(len(rows))
    found = Found(bad={row: bad for row, bad in enumerate(rows) if isinstance(bad, BadLine)})
    known = len(found.bad)
    arrays = found.members(objects, schema, "", places)
    if len(found.bad) == known:
        return arrays, found
    for row in found.bad:
        objects[row] = {}
    rest = Found(bad=found.bad)
    return rest.members(objects, schema, "", places), rest


def text_arrays(rows: Sequence[Any], schema: pa.Schema) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed records of CSV, in which a row that does not fit is null."""
    found, wanted, whole = Found(), len(schema), list(rows)
    for row, fields in enumerate(rows):
        if isinstance(fields, BadLine) or len(fields) != wanted:
            whole[row] = [None] * wanted
            found.bad[row] = fields
            if not isinstance(fields, BadLine):
                message = f"got {len(fields)} fields; expected {wanted}"
                found.bad[row] = BadLine(reason=Reason.BAD_LINE, message=message)
    return [pa.array(column, pa.string()) for column in zip(*whole, strict=True)], found


def _below(path: str, name: str) -> str:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return f"{path}.{shown}" if path else shown


def _nulls(values: Iterable[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _is_of(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_string(kind):
        return isinstance(value, str) and is_utf8(value)
    if pa.types.is_nested(kind):
        return isinstance(value, dict if pa.types.is_struct(kind) else list)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_floating(kind):
        return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _MOST_FLOAT)
    low, high = (_SMALLEST, _LARGEST) if pa.types.is_int64(kind) else (0, _LARGEST_UNSIGNED)
    return isinstance(value, int) and low <= value <= high
