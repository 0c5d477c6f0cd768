"""Logical types of Parquet that Arrow reads but does not write: kept in another way, or named.

A file is compared with the output it would give, so that unforeseen types are found, too.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# The schema as printed is the only place that shows what a group is.
_VARIANT = re.compile(r"^\s*\w+ group field_id=\S+ (.*) \(Variant\(\d+\)\) \{$", re.M)
_ENUM = "Enum"


def lost_types(schema: pq.ParquetSchema, arrow: pa.Schema, *, utc_times: bool) -> list[str]:
    """Name the columns whose logical type would not be in the output, each with that type.

    Args:
        schema: Schema of the file.
        arrow: What the rows are read as, `text_enums` included.
        utc_times: Whether times of day are written as of UTC.
    """
    lost = [f"{name!r} (VARIANT)" for name in _VARIANT.findall(str(schema))]
    again = _written(arrow, utc_times=utc_times)
    if len(again) == len(schema):
        for number in range(len(schema)):
            before, after = (_logical_type(one, number) for one in (schema, again))
            if not _is_kept(schema.column(number).physical_type, before, after):
                lost.append(f"{schema.column(number).path!r} ({_words(before)})")
    return lost


def has_utc_times(schema: pq.ParquetSchema) -> bool:
    """Tell whether all times of day in a file are marked as of UTC; that goes by file."""
    kinds = (_logical_type(schema, number) for number in range(len(schema)))
    marks = [kind["isAdjustedToUTC"] for kind in kinds if kind["Type"] == "Time"]
    return bool(marks) and all(marks)


def text_enums(schema: pq.ParquetSchema, arrow: pa.Schema) -> pa.Schema:
    """Return the schema with ENUM columns as strings, which Arrow reads as plain bytes."""
    kinds = [_logical_type(schema, number)["Type"] for number in range(len(schema))]
    if _ENUM not in kinds:
        return arrow
    leaves = iter(kinds)
    fields = [field.with_type(_with_text(field.type, leaves)) for field in arrow]
    return pa.schema(fields, metadata=arrow.metadata)


def with_text_enums(table: pa.Table, schema: pq.ParquetSchema, arrow: pa.Schema) -> pa.Table:
    """Return rows with ENUM columns as strings.

    Args:
        table: All columns of a file, or some of them.
        schema: Schema of the file.
        arrow: What Arrow reads it as.
    """
    wanted = text_enums(schema, arrow)
    if wanted is arrow:
        return table
    if table.column_names == wanted.names:
        return table.cast(wanted)
    fields = [wanted.field(name) for name in table.column_names]
    return table.cast(pa.schema(fields, metadata=wanted.metadata))


def _with_text(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """Return a type with strings where the leaves, taken in order, are ENUM."""
    if pa.types.is_map(kind):
        key, item = (_field_with_text(one, leaves) for one in (kind.key_field, kind.item_field))
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([_field_with_text(kind.field(n), leaves) for n in range(kind.num_fields)])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_field_with_text(kind.value_field, leaves), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_field_with_text(kind.value_field, leaves))
    if pa.types.is_list(kind):
        return pa.list_(_field_with_text(kind.value_field, leaves))
    return pa.string() if next(leaves, "") == _ENUM and pa.types.is_binary(kind) else kind


def _field_with_text(field: pa.Field, leaves: Iterator[str]) -> pa.Field:
    return field.with_type(_with_text(field.type, leaves))


def _written(arrow: pa.Schema, *, utc_times: bool) -> pq.ParquetSchema:
    """Return the schema that a part with these columns has."""
    sink = pa.BufferOutputStream()
    options = {"version": "2.6", "write_time_adjusted_to_utc": utc_times}
    pq.ParquetWriter(sink, arrow, **options).close()
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema


def _logical_type(schema: pq.ParquetSchema, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema.column(number).logical_type.to_json())
    return found


def _is_kept(physical: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Tell whether readers see the same type before and after."""
    if before["Type"] == "None" or (before["Type"], after["Type"]) == (_ENUM, "String"):
        return True  # what had no type may get one: INT96, or what Arrow's own schema says
    if before["Type"] == "Int" and before["isSigned"] and before["bitWidth"] >= 32:
        return bool(after["Type"] in ("None", "Int"))  # what the physical type says anyway
    compared: Sequence[str] = ("Type", "bitWidth", "isSigned", "precision", "scale", "timeUnit")
    if before["Type"] == "Time" or not before.get("is_from_converted_type", True):
        compared = (*compared, "isAdjustedToUTC")
    return all(before.get(name) == after.get(name) for name in compared)


def _words(kind: dict[str, Any]) -> str:
    """Return the name of a type, as Parquet's documents write it."""
    utc = " of UTC beside times of no zone" if kind["Type"] == "Time" else ""
    return f"{str(kind['Type']).upper()}{utc}"


def lost_types_message(lost: Sequence[str]) -> str:
    """Say that columns cannot be passed through with their types."""
    return (
        f"columns have types that would be lost: got {', '.join(lost)}; expected types that Arrow "
        "writes as it reads them. Cast these columns, to text for example, or leave them out."
    )
