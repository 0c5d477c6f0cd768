"""Paths: how a name leads to a column, or to values within one, and how these are read as texts.

    messages[-1].content     `content` of the last element of the list `messages`
    answers.text             `text` of each element of the list `answers`: a list of texts

A column has one type for all that read it: text, a list of texts, or what is neither.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.nested import Path
from bertscore_beam.dump.types import without_views
from bertscore_core.tokens import IntArray, offsets_of

Step: TypeAlias = str | int | None
"""The name of a field; the place of one element of a list, from its end if negative; or None for
each element."""

JSON_KEY = b"bertscore.json"
"""Key in the metadata of a field whose texts are JSON, since its values are of several types."""

_TEXTS = {pa.string(), pa.large_string(), pa.string_view(), pa.null()}
_BYTES = {pa.binary(): pa.string(), pa.large_binary(): pa.large_string()}
_BYTES[pa.binary_view()] = pa.large_string()
_LISTS = (
    pa.ListType,
    pa.LargeListType,
    pa.FixedSizeListType,
    pa.ListViewType,
    pa.LargeListViewType,
)
_TEXT_PARTS = ("text", "input_text", "output_text")
"""Types of the parts of a message that are its text, as OpenAI and Anthropic name them."""
WITHOUT_TYPE = {
    *("text", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult", "reasoningContent", "toolUse", "toolResult"),
    *("image", "document", "video", "audio", "cachePoint", "guardContent", "citationsContent"),
}
"""What parts without a type hold, as Gemini and Bedrock name it. One of Gemini with `thought` that
is true is no answer."""
_ENDS = re.compile(r"\.(?!$)|(?=\[)|$")
"""Where a name on a path may end."""
_PLACE = re.compile(r"(?:\[(-?\d+)\]|(-?\d+))(?:\.(?!$)|(?=\[)|$)")


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds one text per row."""
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in _TEXTS


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds a list of texts per row."""
    return isinstance(kind, _LISTS) and is_text(kind.value_type)


def is_parts(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds a message in parts: their texts, and what they are.

    Lists of other objects with a text, such as the answers of SQuAD, are no parts.
    """
    if not isinstance(kind, _LISTS) or not pa.types.is_struct(kind.value_type):
        return False
    inner = kind.value_type
    fields = [field.name for field in inner]
    named = [name for name in ("text", "type") if fields.count(name) == 1]
    if named == ["text"] and "type" not in fields:
        thoughts = [field.type for field in inner if field.name == "thought"]
        is_known = thoughts in ([pa.bool_()], [pa.null()]) or {*fields} <= WITHOUT_TYPE
    else:
        is_known = len(named) == 2
    return is_known and all(is_text(inner.field(name).type) for name in named)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a user names, or values within one: the way to these from a row.

    Attributes:
        top: The top-level column.
        steps: From there to the values; none for all that it holds.
    """

    top: pa.Field
    steps: tuple[Step, ...]

    @classmethod
    def find(cls, schema: Iterable[pa.Field], name: str) -> Self | None:
        """Return the column of a name or path; None if there is none.

        A column or field of exactly that name comes first. `response.text` is otherwise the field
        `text` of the struct column `response`, or of each element if `response` is a list.
        """
        fields = pa.schema(list(schema))
        try:
            first, *steps = _field_steps(pa.struct(list(fields)), name)
        except KeyError:
            return None
        return cls(fields.field(str(first)), tuple(steps))

    @property
    def type(self) -> pa.DataType:
        """The type that its values have as `of` gives them."""
        return _type(self.top.type, self.steps)

    @property
    def place(self) -> Path:
        """The names on the way, with None for an element of a list."""
        own = (step if isinstance(step, str) else None for step in self.steps)
        return (self.top.name, *own)

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the way up to the first list."""
        return tuple(map(str, takewhile(lambda name: name is not None, self.place)))

    def of(self, table: pa.Table) -> pa.ChunkedArray:
        """Return its values in a table, as texts if they can be read so.

        A null has null fields and no elements; a place that a list does not have is null. Bytes
        are texts, which need not be UTF-8; a message in parts is the texts of these, joined.
        """
        chunks = [_values(chunk, self.steps) for chunk in table[self.top.name].chunks]
        return pa.chunked_array(chunks, self.type)


def _steps(kind: pa.DataType, path: str) -> tuple[Step, ...]:
    if not path:
        return ()
    if pa.types.is_struct(kind):
        return _field_steps(kind, path)
    if isinstance(kind, _LISTS):
        inner, found = kind.value_type, _PLACE.match(path)
        if found is None or _has_field(inner, path):
            return (None, *_steps(inner, path))
        return (int(found[1] or found[2]), *_steps(inner, path[found.end() :]))
    raise KeyError(path)


def _field_steps(kind: pa.StructType, path: str) -> tuple[Step, ...]:
    names = [field.name for field in kind]
    for end in reversed([*_ENDS.finditer(path)]):
        first = path[: end.start()]
        if names.count(first) == 1:
            return (first, *_steps(kind.field(first).type, path[end.end() :]))
    raise KeyError(path)


def _has_field(kind: pa.DataType, path: str) -> bool:
    try:
        return pa.types.is_struct(kind) and bool(_field_steps(kind, path))
    except KeyError:
        return False


def has_column(schema: pa.Schema, name: str) -> bool:
    """Tell whether a file has a column of that name or path; it may have several of one name."""
    return name in schema.names or Column.find(schema, name) is not None


def roots_of(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return the top-level columns that names or paths belong to, each once, if there."""
    found = {name: Column.find(schema, name) for name in names}
    roots = (name if column is None else column.top.name for name, column in found.items())
    return [root for root in dict.fromkeys(roots) if root in schema.names]


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the values of a column by its name or path; see `Column.of`.

    Raises:
        KeyError: There is no such column.
    """
    if (column := Column.find(table.schema, name)) is None:
        raise KeyError(name)
    return column.of(table)


def example_of(names: Iterable[str]) -> dict[str, Any]:
    """Return a row of JSON that has some columns and paths, all null."""
    row: Any = {}
    for name in names:
        row = _with_place(row, re.split(r"\.|(?=\[)", name))
    return dict(row)


def _with_place(value: Any, path: Sequence[str]) -> Any:
    if not path:
        return value
    first, *others = path
    if _PLACE.fullmatch(first):
        return [_with_place(value[0] if isinstance(value, list) else None, others)]
    fields = value if isinstance(value, dict) else {}
    return {**fields, first: _with_place(fields.get(first), others)}


def paths_of(fields: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield all columns and what is within them by path, with the types that `column_of` gives.

    For hints, so each is read as people mean it. Of the elements of a list these are the fields of
    each, or, where an element has a role, as in a chat, those of the last. Which of several texts
    or lists is meant nobody knows, nor which row of a frame of pandas, whose columns are objects
    with the fields 0, 1 and so on: nothing within these is a path, nor within parts of one text, or
    within what became JSON, since its values are of several types.
    """
    for field in fields:
        if JSON_KEY not in (field.metadata or {}):
            yield field.name, _type(field.type, ())
            yield from _paths_below(field.type, field.name)


def _paths_below(kind: pa.DataType, above: str) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        if not all(field.name.isdecimal() for field in kind):
            for path, inner in paths_of(kind):
                yield f"{above}.{path}", inner
    elif isinstance(kind, _LISTS) and pa.types.is_struct(kind.value_type):
        names = {field.name for field in kind.value_type}
        if is_parts(kind):
            return  # together they are one text
        has_role = "role" in names
        for path, inner in paths_of(kind.value_type):
            place = f"{above}[-1].{path}" if has_role else f"{above}.{path}"
            yield place, inner if has_role else pa.large_list(inner)


def paths_within(column: Column, name: str) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the paths of `paths_of` that lead further than a column of that name or path."""
    kind = column.top.type
    for step in column.steps:
        kind = kind.field(step).type if isinstance(step, str) else kind.value_type
    for path, inner in _paths_below(kind, name):
        yield path, pa.large_list(inner) if None in column.steps else inner


def _type(kind: pa.DataType, steps: Sequence[Step]) -> pa.DataType:
    # No rule of its own: the type is what values have, also if there are none.
    return _values(_empty(kind), steps).type


def _empty(kind: pa.DataType) -> pa.Array:
    """Return an array without values: Arrow itself makes none of some types within others."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _empty(kind.storage_type))
    if isinstance(kind, pa.DictionaryType):
        nowhere, values = pa.nulls(0, kind.index_type), _empty(kind.value_type)
        return pa.DictionaryArray.from_arrays(nowhere, values, ordered=kind.ordered)
    if isinstance(kind, pa.RunEndEncodedType):
        nowhere = pa.nulls(0, kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(nowhere, _empty(kind.value_type))
    return pa.nulls(0, kind)


def _values(array: pa.Array, steps: Sequence[Step]) -> pa.Array:
    if not steps:
        return _as_texts(array)
    step, *others = steps
    if isinstance(step, str):
        return _values(pc.struct_field(array, [step]), others)
    # flatten() skips the values under null lists and respects slices.
    inner = _values(array.flatten(), others)
    return _lists_of(array, inner) if step is None else _elements(array, inner, step)


def list_lengths(lists: pa.Array) -> IntArray:
    """Return how many elements each list has; a null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _lists_of(lists: pa.Array, inner: pa.Array) -> pa.Array:
    """Return lists with other elements, as many."""
    return pa.LargeListArray.from_arrays(
        offsets_of(list_lengths(lists)), inner, mask=lists.is_null()
    )


def _elements(lists: pa.Array, inner: pa.Array, place: int) -> pa.Array:
    """Return one element of each list, null where there is none; `inner` has all of them."""
    lengths = list_lengths(lists)
    within = lengths + place if place < 0 else np.full_like(lengths, place)
    is_there = (within >= 0) & (within < lengths)
    places = pa.array(np.cumsum(lengths) - lengths + within, mask=~is_there)
    # Arrow cannot take from views.
    return without_views(pa.table([inner], [""])).column(0).chunk(0).take(places)


def _as_texts(array: pa.Array) -> pa.Array:
    """Return values as texts or lists of texts if they are such in another form.

    Runs of equal values become a dictionary, whatever they are.
    """
    if isinstance(array, pa.RunEndEncodedArray):
        array = _of_runs(array)
    kind = array.type
    if kind in _BYTES:
        return array.cast(_BYTES[kind], safe=False)  # readers of texts find what is not UTF-8
    if isinstance(array, pa.ExtensionArray) and is_text(kind.storage_type):
        return array.storage
    if isinstance(array, pa.DictionaryArray):
        values = _as_texts(array.dictionary)
        return array if values.type == kind.value_type else _dictionary(array.indices, values)
    if is_parts(kind):
        return _joined(array)
    if isinstance(kind, _LISTS):
        inner = _type(kind.value_type, ())
        if is_text(inner) and not _is_plain(kind, inner):
            return _lists_of(array, _as_texts(array.flatten()))
    return array


def _of_runs(array: pa.RunEndEncodedArray) -> pa.DictionaryArray:
    rows = array.offset + np.arange(len(array))
    return _dictionary(pa.array(np.searchsorted(array.run_ends, rows, side="right")), array.values)


def _dictionary(places: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """Return values by their places, also those of a dictionary."""
    if isinstance(values, pa.DictionaryArray):
        places, values = values.indices.take(places), values.dictionary
    return pa.DictionaryArray.from_arrays(places, values)


def _is_plain(kind: pa.DataType, inner: pa.DataType) -> bool:
    is_view = isinstance(kind, pa.ListViewType | pa.LargeListViewType)
    return inner == kind.value_type and not is_view


def _joined(messages: pa.Array) -> pa.Array:
    """Return the text of messages in parts; null where no part is text."""
    parts = messages.flatten()
    names = {field.name for field in parts.type}
    texts = pc.struct_field(parts, ["text"]).cast(pa.large_string())
    is_there = texts.is_valid()
    if "type" in names:
        kinds = pc.struct_field(parts, ["type"]).cast(pa.large_string())
        is_text_part = pc.is_in(kinds, pa.array(_TEXT_PARTS, pa.large_string()))
        is_there = pc.and_(is_there, pc.or_(kinds.is_null(), is_text_part))
    if "thought" in names:
        thoughts = pc.struct_field(parts, ["thought"])
        is_there = pc.and_(is_there, pc.invert(pc.fill_null(thoughts.cast(pa.bool_()), False)))
    before = offsets_of(is_there.to_numpy(zero_copy_only=False))
    offsets = before[offsets_of(list_lengths(messages))]
    has_none = pa.array(np.diff(offsets) == 0)
    lists = pa.LargeListArray.from_arrays(offsets, texts.filter(is_there), mask=has_none)
    return pc.binary_join(lists, pa.scalar("", pa.large_string()))
