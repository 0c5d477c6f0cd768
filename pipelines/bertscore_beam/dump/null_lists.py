"""Null lists in columns of fixed-size lists, which Arrow writes but cannot read."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.nested import leaves


def null_lists(file: pq.ParquetFile) -> tuple[str, ...]:
    """Return the columns of fixed-size lists that hold a null list, as far as footers show it."""
    columns = leaves(file.schema_arrow)
    if len(columns) != len(file.schema):
        return ()
    return tuple(
        field.name
        for number, (field, leaf) in enumerate(columns)
        if pa.types.is_fixed_size_list(field.type)
        and field.type.value_type == leaf
        and field.type.list_size
        and _has_null_list(file, number, field)
    )


def _has_null_list(file: pq.ParquetFile, number: int, field: pa.Field) -> bool:
    """Tell whether one of a column's fixed-size lists is null: it is stored as a single value."""
    for index in range(file.metadata.num_row_groups):
        # With damaged metadata this read raises; `group.column` would crash the process.
        next(file.iter_batches(1, row_groups=[index], columns=[field.name]), None)
        group = file.metadata.row_group(index)
        if group.column(number).num_values != group.num_rows * field.type.list_size:
            return True
    return False


def null_lists_message(columns: Sequence[str]) -> str:
    """Return the message for fixed-size lists of which one is null."""
    named = ", ".join(repr(name) for name in columns)
    return (
        f"lists of fixed size cannot be read where one of them is null: got such a list in "
        f"{named or 'a column'}; expected a list in every row, or lists of any size. Cast the "
        "column to pyarrow.list_(pyarrow.string()) and write the file again."
    )
