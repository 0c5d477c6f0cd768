"""Walk through nested Arrow columns: their fields, and their arrays."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Path: TypeAlias = tuple[str | None, ...]
"""The names that lead to a value of a row; None stands for an item of a list."""

_MARGIN = 16
"""How many times larger than the values seen the other values of a column are assumed to be."""


def fields_in(field: pa.Field, path: Path = ()) -> Iterator[tuple[Path, pa.Field]]:
    """Yield a field and all within it, each with its path; of an extension type as it is stored."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from fields_in(field.with_type(kind.storage_type), path)
        return
    yield path, field
    if pa.types.is_nested(kind):
        kind = kind.field(0).type if pa.types.is_map(kind) else kind  # of its entries
        for child in map(kind.field, range(kind.num_fields)):
            yield from fields_in(child, (*path, child.name if pa.types.is_struct(kind) else None))


def mapped(
    field: pa.Field, change: Callable[[pa.Field, Path], pa.Field], path: Path = ()
) -> pa.Field:
    """Return what `change` makes of a field and its path, and then of all within it."""
    field = change(field, path)
    kind = field.type

    def inner(child: pa.Field, name: str | None = None) -> pa.Field:
        return mapped(child, change, (*path, name))

    if pa.types.is_map(kind):
        key, item = (inner(child, child.name) for child in (kind.key_field, kind.item_field))
        kind = pa.map_(key, item, keys_sorted=kind.keys_sorted)
    elif pa.types.is_struct(kind):
        kind = pa.struct([inner(child, child.name) for child in kind])
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(inner(kind.value_field), kind.list_size)
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(inner(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(inner(kind.value_field))
    return field.with_type(kind)


def leaves(schema: pa.Schema) -> list[tuple[pa.Field, pa.DataType]]:
    """Return the columns as Parquet stores them: the top-level field and type of each leaf."""
    every = ((top, field.type) for top in schema for _, field in fields_in(top))
    return [(top, kind) for top, kind in every if not pa.types.is_nested(kind)]


def check_indices(array: pa.Array) -> None:
    """Check that indices are within their dictionaries: Arrow does not check that when it reads.

    Raises:
        ArrowInvalid: If an index is outside its dictionary.
    """
    for leaf in leaf_arrays(array, pa.types.is_dictionary):
        ends = pc.min_max(leaf.indices)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is not None and not 0 <= least <= most < len(leaf.dictionary):
            raise pa.ArrowInvalid(
                f"dictionary indices from {least} to {most} for {len(leaf.dictionary)} values"
            )


def leaf_arrays(array: pa.Array, is_wanted: Callable[[pa.DataType], bool]) -> list[pa.Array]:
    """Return the leaf arrays of the wanted types below an array (or the array itself), in order."""
    if is_wanted(array.type):
        return [array]
    return [leaf for values in _children(array) for leaf in leaf_arrays(values, is_wanted)]


def largest_in(array: pa.Array) -> int:
    """Estimate from some rows of a column how many bytes of text a row may hold."""
    if isinstance(array, pa.DictionaryArray):
        size = int(pc.max(pc.binary_length(array.dictionary)).as_py() or 0)
        # With no more entries than rows, the column may be stored without a dictionary, and the
        # rows not seen may hold other values.
        return size if len(array.dictionary) > len(array) else _MARGIN * size
    if children := _children(array):
        return sum(
            largest_in(values) * -(-len(values) // max(1, len(array))) for values in children
        )
    return _MARGIN * int(array.nbytes)


def _children(array: pa.Array) -> list[pa.Array]:
    """Return the arrays that an array is made of; none of one that is not nested."""
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    if pa.types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.flatten()] if pa.types.is_nested(array.type) else []
