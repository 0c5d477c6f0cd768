"""Logical types of Parquet that Arrow reads but does not write: kept in another way, or refused.

The schema of a file is compared with the one its part would have, so that types nobody has thought
of are found too. A list of null that only Arrow can tell from an empty one is refused.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.nested import Path, fields_in, leaves, mapped

# pyarrow shows the logical type of a group nowhere but in the printed schema.
_VARIANT = re.compile(r"^\s*\w+ group field_id=\S+ (.*) \(Variant\(\d+\)\) \{$", re.M)
_TOP_LEVEL = re.compile(r"^  \w+ group field_id=\S+ (.*?)(?: \(.*\))? \{$", re.M)
_ENUM = "Enum"
_INT128_BYTES = 16
HIDDEN_SCHEMA = b"arrow:schema"
"""Key of Arrow's own schema where Arrow was kept from reading it."""


def lost_types(
    schema: pq.ParquetSchema, arrow: pa.Schema, *, utc_times: bool, is_hidden: bool
) -> list[tuple[str, str]]:
    """Return the columns whose logical type the output would not have, each with that in words.

    Args:
        schema: Schema of the file.
        arrow: Schema of the rows as they are read, after `text_enums`.
        utc_times: Whether times of day are written as UTC.
        is_hidden: Whether Arrow was kept from reading its own schema.
    """
    shown = str(schema)
    lost = []
    for found in _VARIANT.finditer(shown):
        *_, root = (group[1] for group in _TOP_LEVEL.finditer(shown, 0, found.end()))
        lost.append((root, f"{found[1]!r} (VARIANT)"))
    again = _written(arrow.remove_metadata(), utc_times=utc_times)
    if len(again) == len(schema):
        kinds = (_logical_types(either) for either in (schema, again))
        roots = (field.name for field, _ in leaves(arrow))
        for root, column, before, after in zip(roots, schema, *kinds, strict=True):
            if is_hidden and before["Type"] == "None" and column.length == _INT128_BYTES:
                lost.append((root, f"{column.path!r} (Int128)"))
            elif not _is_kept(column.physical_type, before, after):
                lost.append((root, f"{column.path!r} ({_describe_type(before)})"))
    return lost


def has_utc_times(schema: pq.ParquetSchema) -> bool:
    """Tell whether all times of day in a file are marked as UTC: Arrow can only write all so."""
    times = [kind for kind in _logical_types(schema) if kind["Type"] == "Time"]
    return bool(times) and all(kind["isAdjustedToUTC"] for kind in times)


def text_enums(schema: pq.ParquetSchema, arrow: pa.Schema) -> pa.Schema:
    """Return the schema with ENUM columns as strings: Arrow reads them as plain bytes."""
    if HIDDEN_SCHEMA in (arrow.metadata or {}):
        rest = {key: value for key, value in arrow.metadata.items() if key != HIDDEN_SCHEMA}
        arrow = arrow.with_metadata(rest or None)
    kinds = [kind["Type"] for kind in _logical_types(schema)]
    if _ENUM not in kinds:
        return arrow
    leaves = iter(kinds)

    def with_text(field: pa.Field, _: Path) -> pa.Field:
        is_enum = not pa.types.is_nested(field.type) and next(leaves, "") == _ENUM
        return field.with_type(pa.string()) if is_enum and pa.types.is_binary(field.type) else field

    return pa.schema([mapped(field, with_text) for field in arrow], metadata=arrow.metadata)


def with_text_enums(table: pa.Table, schema: pq.ParquetSchema, arrow: pa.Schema) -> pa.Table:
    """Return rows with ENUM columns as strings."""
    target = text_enums(schema, arrow)
    if target is arrow:
        return table
    if table.column_names != target.names:
        fields = [target.field(name) for name in table.column_names]
        target = pa.schema(fields, metadata=target.metadata)
    return table.cast(target)


def without_views(table: pa.Table) -> pa.Table:
    """Return rows with large strings and bytes for views of these, which Arrow cannot take from."""
    return _cast(table, (_without_views(field) for field in table.schema))


def writable(table: pa.Table) -> pa.Table:
    """Return rows whose structs hold no views: Arrow writes no list or slice of such structs."""
    return _cast(table, map(_writable, table.schema))


def _cast(table: pa.Table, fields: Iterable[pa.Field]) -> pa.Table:
    target = pa.schema(fields, metadata=table.schema.metadata)
    return table if target == table.schema else table.cast(target)


def _writable(field: pa.Field) -> pa.Field:
    holds_struct = any(pa.types.is_struct(inner.type) for _, inner in fields_in(field))
    return _without_views(field) if holds_struct else field


def _without_views(field: pa.Field) -> pa.Field:
    return mapped(field, lambda one, _: one.with_type(_OF_VIEWS.get(one.type, one.type)))


_OF_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


@lru_cache(maxsize=64)
def _written(arrow: pa.Schema, *, utc_times: bool) -> pq.ParquetSchema:
    """Return the Parquet schema of a part with these columns.

    The files of a dump mostly share it. Metadata does not change it, and differs between files.
    """
    sink = pa.BufferOutputStream()
    options = {"version": "2.6", "write_time_adjusted_to_utc": utc_times}
    pq.ParquetWriter(sink, arrow, **options).close()
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema


def _logical_types(schema: pq.ParquetSchema) -> list[dict[str, Any]]:
    return [json.loads(column.logical_type.to_json()) for column in schema]


def _is_kept(physical: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    if before["Type"] == "None" or (before["Type"], after["Type"]) == (_ENUM, "String"):
        return True  # a column without a type may get one: INT96, or what Arrow's own schema says
    if before["Type"] == "Int" and before["isSigned"] and before["bitWidth"] >= 32:
        return bool(after["Type"] in ("None", "Int"))  # the physical type says the same
    compared: Sequence[str] = ("Type", "bitWidth", "isSigned", "precision", "scale", "timeUnit")
    if before["Type"] == "Time" or not before.get("is_from_converted_type", True):
        compared = (*compared, "isAdjustedToUTC")
    return all(before.get(name) == after.get(name) for name in compared)


def _describe_type(kind: dict[str, Any]) -> str:
    utc = " in UTC, with other times in no zone" if kind["Type"] == "Time" else ""
    return f"{str(kind['Type']).upper()}{utc}"


def null_lists(file: pq.ParquetFile, encrypted: Collection[str]) -> tuple[str, ...]:
    """Return the columns of fixed-size lists that hold a null list, as far as footers show it."""
    columns = leaves(file.schema_arrow)
    if len(columns) != len(file.schema):
        return ()
    return tuple(
        field.name
        for number, (field, leaf) in enumerate(columns)
        if field.name not in encrypted
        and pa.types.is_fixed_size_list(field.type)
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
