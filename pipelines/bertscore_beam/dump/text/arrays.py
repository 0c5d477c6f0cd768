"""Put parsed rows into Arrow arrays. Each value is looked at alone: none depends on another row.

A column that the run does not name takes whatever its values are: where their types differ, all of
them become texts. So the columns of a file are known only at its end (`to_parquet.write_rows`).
"""

import contextlib
import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.lines import BadLine, Places
from bertscore_beam.dump.nested import Path, fields_in, mapped
from bertscore_beam.dump.paths import JSON_KEY, WITHOUT_TYPE, Column, is_parts
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.text.schema import (
    INTEGERS_KEY,
    LARGEST,
    LARGEST_UNSIGNED,
    SMALLEST,
    describe_kind,
    kind_of,
    of_kind,
    widest,
)
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_core.tokens import is_encodable

_NULL = type(None)
# Values of exactly this type are stored as they are, if Arrow takes them.
_OWN_TYPE = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int64(): int,
    pa.uint64(): int,
    pa.float64(): float,
}


Drifts: TypeAlias = dict[Path, set[str]]
"""Of each place with values that its type does not take: the kinds of these."""
_NO_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)')
"""Strings, and what Python writes of numbers that JSON does not have."""
_INTEGERS = {pa.int64(): "int", pa.uint64(): "uint"}
_TEXTS, _PARTS = "texts", "parts"
"""Kinds of a list of texts, and of a message in parts, where a single text is expected."""
_PART = pa.struct([("type", pa.string()), ("text", pa.string()), ("thought", pa.bool_())])
_WITHIN: tuple[Path, ...] = ((None,), *((None, member.name) for member in _PART))
"""What belongs to a text: the items of a list of texts, and the parts of a message."""


def marked_columns(schema: pa.Schema, key: bytes) -> list[str]:
    """Return the columns that have a key, such as `JSON_KEY`, by name or dotted path."""
    every = (found for top in schema for found in fields_in(top, (top.name,)))
    return [shown(path) for path, field in every if _has(field, key)]


def _has(field: pa.Field, key: bytes) -> bool:
    return key in (field.metadata or {})


def widened(schema: pa.Schema, drifts: Drifts) -> pa.Schema:
    """Return the columns in types that take the values that did not fit, too.

    Numbers become uint64, float64 if that holds them all, or integers as texts; a text becomes a
    list of texts or a message in parts where others are, and all else a text: each value's JSON.
    Applied until nothing drifts, it ends: each type is wider.
    """
    wider = partial(_wider, drifts)
    return pa.schema([mapped(field, wider, (field.name,)) for field in schema])


def _wider(drifts: Drifts, field: pa.Field, path: Path) -> pa.Field:
    """Return a column that takes values of the kinds that drift at its path as well."""
    kind, got = field.type, drifts.get(path)
    if got is None:
        return field
    if pa.types.is_string(kind) and _PARTS in got:
        return field.with_type(pa.list_(_PART))
    if pa.types.is_string(kind) and got == {_TEXTS}:
        return field.with_type(pa.list_(pa.string()))
    if kind in _INTEGERS and (number := widest(got, above=_INTEGERS[kind])):
        return of_kind(field.name, number)
    return pa.field(field.name, pa.string(), metadata={JSON_KEY: b"1"})


@dataclass(slots=True)
class Found:
    """What is found beside the values of some rows.

    Attributes:
        names: Where the columns are that the run names: rows that do not fit these are bad.
        lists: Those of these whose values may be texts or lists of texts: a text is a list of one.
        bad: Bad rows.
        dropped: Fields that are not columns.
        drifts: Where values of other columns do not fit; they are null.
    """

    names: Collection[Path] = ()
    lists: Collection[Path] = ()
    bad: dict[int, BadLine] = field(default_factory=dict)
    dropped: dict[int, set[str]] = field(default_factory=dict)
    drifts: Drifts = field(default_factory=dict)

    def is_named(self, path: Path) -> bool:
        """Tell whether the run names a place, or one below it, or the text of one in parts."""
        return any(
            name[: len(path)] == path or path in (name + inner for inner in _WITHIN)
            for name in self.names
        )

    def members(
        self,
        objects: Sequence[dict[str, Any]],
        fields: Iterable[pa.Field],
        path: Path,
        places: Places,
    ) -> list[pa.Array]:
        """Return the members of objects as arrays, and note those that are not columns."""
        fields = list(fields)
        names = frozenset(member.name for member in fields)
        if not all(map(names.issuperset, objects)):
            for place, content in zip(places.tolist(), objects, strict=True):
                for name in content.keys() - names:
                    if content[name] is not None:
                        self.dropped.setdefault(place, set()).add(shown((*path, name)))
        return [
            self._array(
                [content.get(member.name) for content in objects],
                member,
                (*path, member.name),
                places,
            )
            for member in fields
        ]

    def _array(
        self, values: Sequence[Any], field: pa.Field, path: Path, places: Places
    ) -> pa.Array:
        kind = field.type
        if _has(field, JSON_KEY):
            return pa.array([None if value is None else _as_json(value) for value in values], kind)
        if _has(field, INTEGERS_KEY):
            values = self._only(int, values, "an integer", path, places)
            return pa.array([None if value is None else str(value) for value in values], kind)
        if pa.types.is_struct(kind):
            values = self._only(dict, values, kind, path, places)
            objects = [value or {} for value in values]
            arrays = self.members(objects, kind, path, places)
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_nulls(values))
        if pa.types.is_list(kind):
            if pa.types.is_string(kind.value_type) and path in self.lists:
                values = [[value] if isinstance(value, str) else value for value in values]
            elif is_parts(kind) and self.is_named(path):
                values = [
                    [{"type": "text", "text": value}] if isinstance(value, str) else value
                    for value in values
                ]
            values = self._only(list, values, kind, path, places)
            lengths = [len(value or ()) for value in values]
            items = list(itertools.chain.from_iterable(filter(None, values)))
            within = (*path, None), np.repeat(places, lengths)
            inner = self._array(items, kind.value_field, *within)
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

    def _fits(self, value: Any, kind: pa.DataType, path: Path, place: int) -> bool:
        if value is None:
            return False
        if not _is_of(value, kind):
            self._drift(value, kind, path, place)
            return False
        if isinstance(value, str) and not is_encodable(value):
            message = f"column {shown(path)!r} holds half of a surrogate pair"
            self._refuse(value, path, place, Reason.INVALID_UTF8, message)
            return False
        return True

    def _only(
        self,
        wanted: type,
        values: Sequence[Any],
        kind: pa.DataType | str,
        path: Path,
        places: Places,
    ) -> Sequence[Any]:
        if set(map(type, values)) <= {wanted, _NULL}:
            return values
        for place, value in zip(places.tolist(), values, strict=True):
            if value is not None and type(value) is not wanted:
                self._drift(value, kind, path, place)
        return [value if type(value) is wanted else None for value in values]

    def _drift(self, value: Any, kind: pa.DataType | str, path: Path, place: int) -> None:
        is_text = isinstance(kind, pa.DataType) and pa.types.is_string(kind)
        if is_text and isinstance(value, list) and self.is_named(path):
            if path in self.lists and _are_texts(value):
                self.drifts.setdefault(path, set()).add(_TEXTS)
                return
            if _are_parts(value):
                self.drifts.setdefault(path, set()).add(_PARTS)
                return
        message = f"column {shown(path)!r}: got {describe_kind(value)}; expected {kind}"
        self._refuse(value, path, place, Reason.TYPE_DRIFT, message)

    def _refuse(self, value: Any, path: Path, place: int, reason: Reason, message: str) -> None:
        """Refuse the row of a value that cannot be stored, or else only note it."""
        if self.is_named(path):
            self.bad.setdefault(place, BadLine(reason=reason, message=message))
        else:
            self.drifts.setdefault(path, set()).add(kind_of(value))


def object_arrays(
    rows: Sequence[dict[str, Any] | None], schema: pa.Schema, text: TextFile
) -> tuple[list[pa.Array], Found]:
    """Return the columns of parsed lines of JSON.

    A row that does not fit the columns that the run names is null in these.
    """
    objects = [row or {} for row in rows]
    places = np.arange(len(rows))
    found = Found(_places(text.columns, schema), _places(text.lists, schema))
    arrays = found.members(objects, schema, (), places)
    if not found.bad:
        return arrays, found
    for row in found.bad:
        kept = (name for name in objects[row] if not found.is_named((name,)))
        objects[row] = {name: objects[row][name] for name in kept}
    rest = replace(found, dropped={})
    return rest.members(objects, schema, (), places), rest


def _places(names: Iterable[str], schema: pa.Schema) -> frozenset[Path]:
    columns = (Column.find(schema, name) for name in names)
    return frozenset(column.place for column in columns if column is not None)


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
            found.bad[row] = BadLine(reason=Reason.BAD_LINE, message=message)
        start = stop
    whole = squared or cells
    return [pa.array(whole[column::wanted], pa.string()) for column in range(wanted)], found


def shown(path: Path) -> str:
    """Return a path as it is named in messages: an element of a list has no name."""
    names = (name for name in path if name is not None)
    return ".".join(name.encode("utf-8", "backslashreplace").decode() for name in names)


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not is_encodable(text):
        text = json.dumps(value, separators=(",", ":"))
    return _NO_JSON.sub(lambda found: found[0] if found[1] is None else f'"{found[1]}"', text)


def _are_texts(items: Sequence[Any]) -> bool:
    return all(item is None or isinstance(item, str) for item in items)


def _are_parts(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and _is_part(item) for item in items)


def _is_part(item: Mapping[str, Any]) -> bool:
    if "type" in item:
        return isinstance(item["type"], str)
    return isinstance(item.get("thought"), bool) or item.keys() <= WITHOUT_TYPE


def _nulls(values: Iterable[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _is_of(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_integer(kind):
        low, high = (SMALLEST, LARGEST) if pa.types.is_int64(kind) else (0, LARGEST_UNSIGNED)
        return isinstance(value, int) and low <= value <= high
    return isinstance(value, float) or (isinstance(value, int) and _is_double(value))


def _is_double(value: int) -> bool:
    """Tell whether a float64 is exactly this integer: ids beyond 2^53 would become equal."""
    try:
        return float(value) == value
    except OverflowError:
        return False
