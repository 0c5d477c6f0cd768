"""Put parsed rows into Arrow arrays. Each value is looked at alone: none depends on another row."""

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.text import parsers
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files import is_utf8

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

    bad: dict[int, parsers.BadLine] = field(default_factory=dict)
    dropped: dict[int, set[str]] = field(default_factory=dict)

    def members(
        self,
        objects: Sequence[dict[str, Any]],
        fields: pa.Schema,
        path: str,
        places: parsers.Places,
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
        self, values: Sequence[Any], kind: pa.DataType, path: str, places: parsers.Places
    ) -> pa.Array:
        if pa.types.is_struct(kind):
            values = self._only(dict, values, kind, path, places)
            objects = [value or {} for value in values]
            arrays = self.members(objects, pa.schema(list(kind)), path, places)
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_nulls(values))
        if pa.types.is_list(kind):
            values = self._only(list, values, kind, path, places)
            lengths = [len(value or ()) for value in values]
            items = list(itertools.chain.from_iterable(filter(None, values)))
            inner = self._array(items, kind.value_type, path, np.repeat(places, lengths))
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=_nulls(values))
        if set(map(type, values)) <= {_OWN_TYPE[kind], _NULL}:
            with contextlib.suppress(OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
                return pa.array(values, kind)  # the loop below finds which does not fit
        stored = [
            value if self._fits(value, kind, path, place) else None
            for place, value in zip(places.tolist(), values, strict=True)
        ]
        if pa.types.is_floating(kind):  # Arrow refuses integers beyond 2^53
            stored = [None if value is None else float(value) for value in stored]
        return pa.array(stored, kind)

    def _fits(self, value: Any, kind: pa.DataType, path: str, place: int) -> bool:
        if value is None:
            return False
        if not _is_of(value, kind):
            self._drift(value, kind, path, place)
            return False
        if isinstance(value, str) and not is_utf8(value):
            message = f"column {path!r} holds half of a surrogate pair"
            self.bad.setdefault(place, parsers.BadLine(reason=Reason.INVALID_UTF8, message=message))
            return False
        return True

    def _only(
        self,
        wanted: type,
        values: Sequence[Any],
        kind: pa.DataType,
        path: str,
        places: parsers.Places,
    ) -> Sequence[Any]:
        if set(map(type, values)) <= {wanted, _NULL}:
            return values
        for place, value in zip(places.tolist(), values, strict=True):
            if value is not None and not isinstance(value, wanted):
                self._drift(value, kind, path, place)
        return [value if isinstance(value, wanted) else None for value in values]

    def _drift(self, value: Any, kind: pa.DataType, path: str, place: int) -> None:
        message = f"column {path!r}: got {parsers.in_words(value)}; expected {kind}"
        self.bad.setdefault(place, parsers.BadLine(reason=Reason.TYPE_DRIFT, message=message))


def object_arrays(
    rows: Sequence[dict[str, Any] | None], schema: pa.Schema
) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed lines of JSON, in which a row that does not fit is null."""
    objects = [row or {} for row in rows]
    places = np.arange(len(rows))
    found = Found()
    arrays = found.members(objects, schema, "", places)
    if not found.bad:
        return arrays, found
    for row in found.bad:
        objects[row] = {}
    rest = Found(bad=found.bad)
    return rest.members(objects, schema, "", places), rest


def text_arrays(
    widths: Sequence[int | None], cells: Sequence[str], schema: pa.Schema
) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed records of CSV: the width of each, and all their fields."""
    found = Found()
    wanted = len(schema)
    squared: list[str | None] = []
    start = 0
    for row, width in enumerate(widths if set(widths) - {wanted} else ()):
        stop = start + (width or 0)
        squared += cells[start:stop] if width == wanted else [None] * wanted
        if width not in (wanted, None):
            message = f"got {width} fields; expected {wanted}"
            found.bad[row] = parsers.BadLine(reason=Reason.BAD_LINE, message=message)
        start = stop
    whole = squared or cells
    return [pa.array(whole[column::wanted], pa.string()) for column in range(wanted)], found


def _below(path: str, name: str) -> str:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return f"{path}.{shown}" if path else shown


def _nulls(values: Iterable[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _is_of(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_integer(kind):
        low, high = (
            (parsers.SMALLEST, parsers.LARGEST)
            if pa.types.is_int64(kind)
            else (0, parsers.LARGEST_UNSIGNED)
        )
        return isinstance(value, int) and low <= value <= high
    return isinstance(value, float) or (isinstance(value, int) and _is_double(value))


def _is_double(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True
