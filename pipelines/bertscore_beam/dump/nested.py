"""Walk through nested Arrow columns."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_MARGIN = 16
"""How many times larger than the values seen the other values of a column are assumed to be."""


def leaves(schema: pa.Schema) -> list[tuple[pa.Field, pa.DataType]]:
    """Return the columns as Parquet stores them: the top-level field and type of each leaf."""

    def below(kind: pa.DataType) -> list[pa.DataType]:
        if isinstance(kind, pa.BaseExtensionType):
            return below(kind.storage_type)
        if pa.types.is_map(kind):
            return below(kind.key_type) + below(kind.item_type)
        if pa.types.is_dictionary(kind) or not pa.types.is_nested(kind):
            return [kind]
        return [leaf for child in range(kind.num_fields) for leaf in below(kind.field(child).type)]

    return [(field, leaf) for field in schema for leaf in below(field.type)]


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
    if isinstance(array, pa.ExtensionArray):
        return leaf_arrays(array.storage, is_wanted)
    if not pa.types.is_nested(array.type):
        return [array] if is_wanted(array.type) else []
    return [leaf for values in _children(array) for leaf in leaf_arrays(values, is_wanted)]


def largest_in(array: pa.Array) -> int:
    """Estimate from some rows of a column how many bytes of text a row may hold."""
    if isinstance(array, pa.ExtensionArray):
        return largest_in(array.storage)
    if isinstance(array, pa.DictionaryArray):
        size = int(pc.max(pc.binary_length(array.dictionary)).as_py() or 0)
        # With no more entries than rows, the column may be stored without a dictionary, and the
        # rows not seen may hold other values.
        return size if len(array.dictionary) > len(array) else _MARGIN * size
    if pa.types.is_nested(array.type):
        return sum(
            largest_in(values) * -(-len(values) // max(1, len(array)))
            for values in _children(array)
        )
    return _MARGIN * int(array.nbytes)


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.flatten()]
