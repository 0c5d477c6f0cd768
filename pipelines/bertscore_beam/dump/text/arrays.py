"""Put parsed rows into Arrow arrays. Each value is looked at alone: none depends on another row."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.text.json_types import LARGEST, LARGEST_UNSIGNED, SMALLEST, in_words
from bertscore_beam.dump.text.lines import BadLine
from bertscore_beam.dump.texts import Reason

_NULL = type(None)
# Values of exactly this type are stored as they are, if Arrow takes them.
_OWN_TYPE = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int64(): int,
    pa.uint64(): int,
    pa.float64(): float,
}
_REFUSES = (OverflowError, UnicodeEncodeError, pa.ArrowInvalid)

Places = npt.NDArray[np.int64]


@dataclass(slots=True)
class Found:
    """What has been found beside the values of some rows.

    Attributes:
        bad: Rows that do not fit their columns, by position.
        dropped: The names of the fields that are no columns, by position of the row.
    """

    bad: dict[int, BadLine] = field(default_factory=dict)
    dropped: dict[int, set[str]] = field(default_factory=dict)


def object_arrays(
    rows: Sequence[dict[str, Any] | None], schema: pa.Schema
) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed lines of JSON.

    Args:
        rows: Their objects; None for a line that is no row.
        schema: The columns, of `json_types.infer_schema`.

    Returns:
        The columns, in which a row that does not fit is null, and what else was found.
    """
    objects = [row or {} for row in rows]
    places = np.arange(len(rows))
    found = Found()
    arrays = _members(objects, list(schema), "", places, found)
    if found.bad:
        for row in found.bad:
            objects[row] = {}
        rest = Found(bad=found.bad)
        return _members(objects, list(schema), "", places, rest), rest
    return arrays, found


def text_arrays(
    widths: Sequence[int | None], cells: Sequence[str], schema: pa.Schema
) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed records of CSV; see `object_arrays`.

    Args:
        widths: How many fields each record has; None for one that is no row.
        cells: The fields of all of them.
        schema: The columns, all of them strings.
    """
    found = Found()
    wanted = len(schema)
    if set(widths) - {wanted}:
        cells = list(_squared(widths, cells, wanted, found))
    return [pa.array(cells[column::wanted], pa.string()) for column in range(wanted)], found


def _squared(
    widths: Sequence[int | None], cells: Sequence[str], wanted: int, found: Found
) -> Iterator[Any]:
    """Yield the fields of records with nulls for those of a record with fewer or more."""
    start = 0
    for row, width in enumerate(widths):
        stop = start + (width or 0)
        if width == wanted:
            yield from cells[start:stop]
        else:
            yield from [None] * wanted
            if width is not None:
                found.bad[row] = BadLine(
                    reason=Reason.BAD_LINE, message=f"got {width} fields; expected {wanted}"
                )
        start = stop


def _members(
    objects: Sequence[dict[str, Any]],
    fields: Sequence[pa.Field],
    path: str,
    places: Places,
    found: Found,
) -> list[pa.Array]:
    """Return the members of objects as arrays, and note members that are no columns."""
    names = frozenset(one.name for one in fields)
    if not all(map(names.issuperset, objects)):
        for place, one in zip(places.tolist(), objects, strict=True):
            for name in one.keys() - names:
                if one[name] is not None:
                    found.dropped.setdefault(place, set()).add(_below(path, name))
    return [
        _array(
            [one.get(part.name) for one in objects],
            part.type,
            _below(path, part.name),
            places,
            found,
        )
        for part in fields
    ]


def _below(path: str, name: str) -> str:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return f"{path}.{shown}" if path else shown


def _array(
    values: Sequence[Any], kind: pa.DataType, path: str, places: Places, found: Found
) -> pa.Array:
    """Return values as an array, with a null for each that does not fit.

    Args:
        values: As they were parsed.
        kind: Type of the array.
        path: Dotted path of the column.
        places: Position of the row of each value.
        found: Where to note what does not fit.
    """
    if pa.types.is_struct(kind):
        values = _only(dict, values, kind, path, places, found)
        objects = [value or {} for value in values]
        arrays = _members(objects, list(kind), path, places, found)
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_nulls(values))
    if pa.types.is_list(kind):
        values = _only(list, values, kind, path, places, found)
        lengths = [len(value or ()) for value in values]
        items = list(itertools.chain.from_iterable(filter(None, values)))
        inner = _array(items, kind.value_type, path, np.repeat(places, lengths), found)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=_nulls(values))
    if set(map(type, values)) <= {_OWN_TYPE[kind], _NULL}:
        try:
            return pa.array(values, kind)
        except _REFUSES:
            pass  # the loop finds which
    stored: list[Any] = []
    for place, value in zip(places.tolist(), values, strict=True):
        fits = value is None or _fits(value, kind)
        if not fits:
            _drift(value, kind, path, place, found)
        elif isinstance(value, str) and not _is_utf8(value):
            found.bad.setdefault(
                place,
                BadLine(
                    reason=Reason.INVALID_UTF8,
                    message=f"column {path!r} holds half of a surrogate pair",
                ),
            )
            fits = False
        if not fits or value is None:
            stored.append(None)
        else:
            stored.append(float(value) if pa.types.is_floating(kind) else value)
    return pa.array(stored, kind)


def _only(
    wanted: type,
    values: Sequence[Any],
    kind: pa.DataType,
    path: str,
    places: Places,
    found: Found,
) -> Sequence[Any]:
    """Return values with a null for each that is of another Python type."""
    if set(map(type, values)) <= {wanted, _NULL}:
        return values
    for place, value in zip(places.tolist(), values, strict=True):
        if value is not None and not isinstance(value, wanted):
            _drift(value, kind, path, place, found)
    return [value if isinstance(value, wanted) else None for value in values]


def _drift(value: Any, kind: pa.DataType, path: str, place: int, found: Found) -> None:
    message = f"column {path!r}: got {in_words(value)}; expected {kind}"
    found.bad.setdefault(place, BadLine(reason=Reason.TYPE_DRIFT, message=message))


def _nulls(values: Iterable[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Tell whether a value fits a column that is neither of objects nor of lists."""
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_integer(kind):
        low, high = (SMALLEST, LARGEST) if pa.types.is_int64(kind) else (0, LARGEST_UNSIGNED)
        return isinstance(value, int) and low <= value <= high
    return isinstance(value, float) or (isinstance(value, int) and _is_double(value))


def _is_double(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
