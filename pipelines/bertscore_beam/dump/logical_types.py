"""Logical types of Parquet that Arrow reads but does not write: kept in another way, or refused.

The schema of a file is compared with the one its part would have, so that types nobody has thought
of are found too.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# pyarrow shows the logical type of a group nowhere but in the printed schema.
_VARIANT = re.compile(r"^\s*\w+ group field_id=\S+ (.*) \(Variant\(\d+\)\) \{$", re.M)
_ENUM = "Enum"


def lost_types(schema: pq.ParquetSchema, arrow: pa.Schema, *, utc_times: bool) -> list[str]:
    """Return the columns whose logical type the output would not have, each with that type.

    Args:
        schema: Schema of the file.
        arrow: Schema of the rows as they are read, after `text_enums`.
        utc_times: Whether times of day are written as UTC.
    """
    lost = [f"{name!r} (VARIANT)" for name in _VARIANT.findall(str(schema))]
    again = _written(arrow.remove_metadata(), utc_times=utc_times)
    if len(again) == len(schema):
        for number in range(len(schema)):
            before, after = (_logical_type(one, number) for one in (schema, again))
            if not _is_kept(schema.column(number).physical_type, before, after):
                lost.append(f"{schema.column(number).path!r} ({_words(before)})")
    return lost


def has_utc_times(schema: pq.ParquetSchema) -> bool:
    """Tell whether all times of day in a file are marked as UTC: Arrow can only write all so."""
    kinds = (_logical_type(schema, number) for number in range(len(schema)))
    marks = [kind["isAdjustedToUTC"] for kind in kinds if kind["Type"] == "Time"]
    return bool(marks) and all(marks)


def text_enums(schema: pq.ParquetSchema, arrow: pa.Schema) -> pa.Schema:
    """Return the schema with ENUM columns as strings: Arrow reads them as plain bytes."""
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
        arrow: The schema as Arrow reads it.
    """
    wanted = text_enums(schema, arrow)
    if wanted is arrow:
        return table
    if table.column_names == wanted.names:
        return table.cast(wanted)
    fields = [wanted.field(name) for name in table.column_names]
    return table.cast(pa.schema(fields, metadata=wanted.metadata))


def _with_text(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """Return a type with its ENUM leaves as strings. `leaves` gives the logical types in order."""
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


@lru_cache(maxsize=64)
def _written(arrow: pa.Schema, *, utc_times: bool) -> pq.ParquetSchema:
    """Return the Parquet schema of a part with these columns.

    The files of a dump mostly share it. Metadata does not change it, and differs between files.
    """
    sink = pa.BufferOutputStream()
    options = {"version": "2.6", "write_time_adjusted_to_utc": utc_times}
    pq.ParquetWriter(sink, arrow, **options).close()
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema


def _logical_type(schema: pq.ParquetSchema, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema.column(number).logical_type.to_json())
    return found


def _is_kept(physical: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Tell whether readers see the same type in the input and in the part."""
    if before["Type"] == "None" or (before["Type"], after["Type"]) == (_ENUM, "String"):
        return True  # a column without a type may get one: INT96, or what Arrow's own schema says
    if before["Type"] == "Int" and before["isSigned"] and before["bitWidth"] >= 32:
        return bool(after["Type"] in ("None", "Int"))  # the physical type says the same
    compared: Sequence[str] = ("Type", "bitWidth", "isSigned", "precision", "scale", "timeUnit")
    if before["Type"] == "Time" or not before.get("is_from_converted_type", True):
        compared = (*compared, "isAdjustedToUTC")
    return all(before.get(name) == after.get(name) for name in compared)


def _words(kind: dict[str, Any]) -> str:
    """Return the name of a type as Parquet's specification writes it."""
    utc = " in UTC, with other times in no zone" if kind["Type"] == "Time" else ""
    return f"{str(kind['Type']).upper()}{utc}"


def lost_types_message(lost: Sequence[str]) -> str:
    """Return the message for columns that cannot be passed through with their types."""
    return (
        f"columns have types that would be lost: got {', '.join(lost)}; expected types that Arrow "
        "writes as it reads them. Cast these columns, to text for example, or leave them out."
    )
