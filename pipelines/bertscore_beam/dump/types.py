"""Types of Parquet that need special care: INT96, logical types, nested and null lists."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bertscore_beam.files.read import RemoteFile

# Take runs of rows from a stream of batches.


class Batches:
    """A stream of batches whose rows are taken once, from its start to its end."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._position = 0
        self._rest: pa.RecordBatch | None = None  # what follows in the batch read last

    def take(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield rows, and read no further than needed.

        Args:
            start: Position of the first row in the stream; rows before it are passed over.
            rows: Number of rows; fewer are yielded only at the end of the stream.

        Raises:
            ValueError: The rows were passed already.
        """
        if start < self._position:
            raise ValueError(f"row {start} was passed: the stream is at row {self._position}")
        while rows > 0:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                return
            skip = min(max(start - self._position, 0), batch.num_rows)
            piece = batch.slice(skip, rows)
            used = skip + piece.num_rows
            self._rest = batch.slice(used) if used < batch.num_rows else None
            self._position += used
            rows -= piece.num_rows
            if piece.num_rows:
                yield piece


# Walk through nested Arrow columns.

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
    for leaf in _leaf_arrays(array, pa.types.is_dictionary):
        ends = pc.min_max(leaf.indices)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is not None and not 0 <= least <= most < len(leaf.dictionary):
            raise pa.ArrowInvalid(
                f"dictionary indices from {least} to {most} for {len(leaf.dictionary)} values"
            )


def _leaf_arrays(array: pa.Array, is_wanted: Callable[[pa.DataType], bool]) -> list[pa.Array]:
    """Return the leaf arrays of the wanted types below an array (or the array itself), in order."""
    if isinstance(array, pa.ExtensionArray):
        return _leaf_arrays(array.storage, is_wanted)
    if not pa.types.is_nested(array.type):
        return [array] if is_wanted(array.type) else []
    return [leaf for values in _children(array) for leaf in _leaf_arrays(values, is_wanted)]


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


# Timestamps stored as INT96, as Spark, Hive and Impala do, read so that no value changes.
#
# INT96 holds a day and its nanoseconds. Arrow reads all such columns of a file in one unit, and
# does not report values that do not fit: nanoseconds wrap outside the years 1677 to 2262, and
# microseconds lose finer digits. So the unit is chosen for each file, by comparing what is read in
# several units.

COARSE = "us"
"""The unit if it is exact: every reader knows it, and Spark reads nothing finer."""
FINE = "ns"
"""The unit of files with finer values."""

SPARK_VERSION = b"org.apache.spark.version"
"""In the metadata of what Spark wrote: all its timestamps are microseconds."""
_READ_ROWS = 4096
_READ_BYTES = 4 * 1024 * 1024


def int96_paths(schema: pq.ParquetSchema, left_out: Collection[str] = ()) -> tuple[str, ...]:
    """Return the paths of the INT96 leaves of a file; columns with the same name count once."""
    paths = dict.fromkeys(c.path for c in schema if c.physical_type == "INT96")
    return tuple(
        path for path in paths if not any(f"{path}.".startswith(f"{name}.") for name in left_out)
    )


def exact_units(
    file: pq.ParquetFile,
    source: pa.NativeFile | RemoteFile,
    paths: Sequence[str],
    groups: Sequence[int],
    skip: int = 0,
    rows: int | None = None,
) -> Set[str]:
    """Return those of `COARSE` and `FINE` in which no INT96 value of some row groups changes.

    `skip` rows at the start of these are passed over; all others are read if `rows` is None.
    """
    readings = []
    for unit in ("s", COARSE, FINE):  # in seconds no value can overflow
        again = pq.ParquetFile(
            source,
            metadata=file.metadata,
            buffer_size=_READ_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit=unit,
        )
        batches = again.iter_batches(_READ_ROWS, row_groups=list(groups), columns=list(paths))
        count = file.metadata.num_rows if rows is None else rows
        readings.append(Batches(batches).take(skip, count))
    exact: Set[str] = {COARSE, FINE}
    for reading in zip(*readings, strict=True):
        for columns in zip(*(batch.columns for batch in reading), strict=True):
            leaves = [_leaf_arrays(column, pa.types.is_timestamp) for column in columns]
            for seconds, coarse, fine in zip(*leaves, strict=True):
                if seconds.type.unit == "s":  # Parquet has no such unit: only INT96 is read in it
                    exact &= _exact_in(seconds, coarse, fine)
    return exact


def _exact_in(seconds: pa.Array, coarse: pa.Array, fine: pa.Array) -> Set[str]:
    whole, micros, nanos = (
        array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        for array in (seconds, coarse, fine)
    )
    # A value that does not fit is read modulo 2**64, and so as another second. The difference of
    # two such values is right, as it is below 1000.
    rest = nanos.view(np.uint64) - micros.view(np.uint64) * np.uint64(1000)
    exact = {FINE} if np.array_equal(nanos // 10**9, whole) else set()
    if not rest.any() and np.array_equal(micros // 10**6, whole):
        exact.add(COARSE)
    return exact


def not_exact_message(paths: Iterable[str]) -> str:
    """Return the message for INT96 columns that cannot be passed through unchanged."""
    return (
        f"timestamps of the columns {', '.join(map(repr, paths))}, stored as INT96, would change: "
        "got some finer than a microsecond and some before 1677 or after 2262; expected values "
        "that fit 64 bits as microseconds or as nanoseconds. Write the columns as TIMESTAMP, or "
        "leave them out."
    )


# Logical types of Parquet that Arrow reads but does not write: kept in another way, or refused.
#
# The schema of a file is compared with the one its part would have, so that types nobody has
# thought of are found too.

# pyarrow shows the logical type of a group nowhere but in the printed schema.
_VARIANT = re.compile(r"^\s*\w+ group field_id=\S+ (.*) \(Variant\(\d+\)\) \{$", re.M)
_TOP_LEVEL = re.compile(r"^  \w+ group field_id=\S+ (.*?)(?: \(.*\))? \{$", re.M)
_ENUM = "Enum"
_INT128_BYTES = 16
HIDDEN_SCHEMA = b"arrow:schema"
"""Key of Arrow's own schema where Arrow was kept from reading it."""


def lost_types(
    schema: pq.ParquetSchema, arrow: pa.Schema, *, utc_times: bool, is_hidden: bool = False
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

    def with_text(kind: pa.DataType) -> pa.DataType:
        return pa.string() if next(leaves, "") == _ENUM and pa.types.is_binary(kind) else kind

    return pa.schema([_mapped(field, with_text) for field in arrow], metadata=arrow.metadata)


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
    fields = (_without_views(one) if _holds_struct(one.type) else one for one in table.schema)
    return _cast(table, fields)


def _cast(table: pa.Table, fields: Iterable[pa.Field]) -> pa.Table:
    target = pa.schema(fields, metadata=table.schema.metadata)
    return table if target == table.schema else table.cast(target)


def _without_views(field: pa.Field) -> pa.Field:
    return _mapped(field, lambda kind: _OF_VIEWS.get(kind, kind))


def _holds_struct(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _holds_struct(kind.key_type) or _holds_struct(kind.item_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return bool(pa.types.is_struct(kind)) or any(map(_holds_struct, inner))


_OF_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _mapped(field: pa.Field, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    """Return a field in which each type that is not nested has become another."""
    kind = field.type
    if pa.types.is_map(kind):
        key, item = (_mapped(child, leaf) for child in (kind.key_field, kind.item_field))
        kind = pa.map_(key, item, keys_sorted=kind.keys_sorted)
    elif pa.types.is_struct(kind):
        kind = pa.struct([_mapped(child, leaf) for child in kind])
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_mapped(kind.value_field, leaf), kind.list_size)
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_mapped(kind.value_field, leaf))
    elif pa.types.is_list(kind):
        kind = pa.list_(_mapped(kind.value_field, leaf))
    else:
        kind = leaf(kind)
    return field.with_type(kind)


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


def null_lists(file: pq.ParquetFile, encrypted: Collection[str] = ()) -> tuple[str, ...]:
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
