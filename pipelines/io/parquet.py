"""Read the layout and the splits of Parquet files, and turn tables into parts.

Whatever is wrong with the bytes of a file comes out as `InputError`. Errors of the way there (no
permission, no network) stay `OSError`, so that the caller can tell a bad file from a bad day.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.spec import AbstractBufferedFile

from bertscore_core.errors import InputError
from pipelines.io.files import mask_credentials, open_source, source_size
from pipelines.splits import RowGroup, Split

UNREADABLE = (InputError, FileNotFoundError, PermissionError)
"""What reading a split raises when its file is bad or gone. Any other error lies in the way there,
and the runner may retry."""

SIGNATURE_KEY = "bertscore.signature"
"""Key of a part's metadata under which its signature stands."""

# Rows decoded at a time inside an oversized row group, and bytes fetched at a time for each of its
# columns. An object store answers a request in about the time that it takes to send 4 MiB.
_BATCH_ROWS = 4096
_BUFFER_BYTES = 4 * 1024 * 1024

MAX_DECODED_BYTES = 1 << 30
"""Bytes that the rows of a split may take in memory, sixteen times what a split is given by default
on disk. Splits are cut by their size on disk, and a dictionary can make little of a lot there."""

# Bytes of decoded rows that may come in one batch where rows can be very large.
_BATCH_BYTES = 64 * 1024 * 1024
# Rows looked at to learn how large the values of a column are, and how many times larger others may
# be where the rows looked at do not come with all values that there are.
_PEEK_ROWS = 16
_PEEK_MARGIN = 16
_PEEK_BYTES = 64 * 1024
# What a value takes in memory at least, its text not counted.
_VALUE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What the footer of a Parquet file says.

    Attributes:
        schema: Arrow schema, with the metadata of the file.
        row_groups: Size of each row group, in order.
        num_rows: Rows of the file.
        file_size: Size of the file in bytes.
        null_lists: Columns of lists of fixed size in which a list is null: Arrow writes these and
            cannot read them again.
    """

    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    num_rows: int
    file_size: int
    null_lists: tuple[str, ...] = ()


def read_layout(path: str) -> FileLayout:
    """Read the footer of a file, not its rows.

    Raises:
        InputError: If it is not a whole Parquet file.
        OSError: If it cannot be reached.
    """
    with _open(path) as (file, source):
        footer = file.metadata
        groups = tuple(
            RowGroup(num_rows=group.num_rows, num_bytes=group.total_byte_size)
            for group in map(footer.row_group, range(footer.num_row_groups))
        )
        return FileLayout(
            schema=file.schema_arrow,
            row_groups=groups,
            num_rows=footer.num_rows,
            file_size=source_size(source),
            null_lists=_null_lists(file.schema_arrow, footer),
        )


def read_split(split: Split, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a split, in order, with their types and the file's metadata.

    Memory is bounded by the split, also where it is a small piece of a very large row group: that
    is decoded in batches, and reading stops after the last row wanted. Rows that take far more
    memory than disk are refused before they fill it.

    Args:
        split: What to read.
        columns: Names of the columns to read, in the order wanted; by default all.

    Returns:
        Exactly `split.num_rows` rows.

    Raises:
        InputError: If the file has changed since it was planned, its bytes are damaged, or its rows
            take more than `MAX_DECODED_BYTES` in memory and more than twice what they take on disk.
        OSError: If it cannot be reached.
    """
    names = None if columns is None else list(columns)
    with _open(split.path) as (file, source):
        _check_unchanged(split, file.metadata, source_size(source))
        table = _read_rows(file, source, split, names)
    if names is not None:
        table = table.select(names)
    if table.num_rows != split.num_rows:
        raise InputError(
            f"rows are missing from {mask_credentials(split.path)!r}: got {table.num_rows} from "
            f"row {split.row_offset} on; expected {split.num_rows}. Write the file again."
        )
    return table


def write_part(table: pa.Table) -> bytes:
    """Turn a table into the bytes of a Parquet file; equal tables give equal bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", version="2.6", write_statistics=True)
    return bytes(sink.getvalue())


def is_signed(path: str) -> bool:
    """Tell whether a file is a part, scored by this project: its metadata say how."""
    try:
        with _open(path) as (file, _):
            return SIGNATURE_KEY.encode() in (file.schema_arrow.metadata or {})
    except UNREADABLE:
        return False


def _read_rows(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    split: Split,
    columns: list[str] | None,
) -> pa.Table:
    """Read the rows of a split by whole row groups where that is all of them, else in batches."""
    groups = list(range(split.first_row_group, split.row_group_stop))
    available = sum(file.metadata.row_group(group).num_rows for group in groups)
    if split.num_rows == 0:
        return file.schema_arrow.empty_table()
    share = split.num_rows / available
    stored = [file.metadata.row_group(group) for group in groups]
    encoded = int(share * sum(group.total_byte_size for group in stored))
    limit = max(MAX_DECODED_BYTES, 2 * encoded)
    values = int(share * sum(_num_values(group) for group in stored))
    if _VALUE_BYTES * values > limit:
        raise _too_large(split, split.num_rows, _VALUE_BYTES * values, limit)
    largest = _largest_row(file, source, groups, columns, limit)
    if split.skip_rows == 0 and split.num_rows == available and largest * available <= limit:
        # All bytes are wanted, so that they may be fetched ahead, in few large requests.
        ahead = pq.ParquetFile(source, metadata=file.metadata, pre_buffer=True)
        return ahead.read_row_groups(groups, columns=columns)
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, largest)))
    batches = file.iter_batches(batch_rows, row_groups=groups, columns=columns)
    wanted: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _take(batches, split.skip_rows, split.num_rows):
        wanted.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size > limit:
            raise _too_large(split, rows, size, limit)
    if not wanted:
        return file.schema_arrow.empty_table()
    return pa.Table.from_batches(wanted)


def _num_values(group: pq.RowGroupMetaData) -> int:
    """Return the values of the column that has most, nulls and empty lists included."""
    return max((group.column(n).num_values for n in range(group.num_columns)), default=0)


def _largest_row(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    groups: Sequence[int],
    columns: list[str] | None,
    limit: int,
) -> int:
    """Return how many bytes the largest row of some row groups may take in memory.

    A column stored as it is cannot grow. One with a dictionary can: its values are no larger than
    the largest entry, which is looked up where the footer alone does not exclude that the row group
    fills its share of the limit.
    """
    leaves = _leaves(file.schema_arrow)
    known = len(leaves) == len(file.schema)  # else it is not clear which leaf is which
    largest = 0
    for index in groups:
        group = file.metadata.row_group(index)
        rows = max(1, group.num_rows)
        row_bytes = group.total_byte_size // rows
        for number in range(group.num_columns):
            field, kind = leaves[number] if known else (None, pa.string())
            if field is not None and columns is not None and field.name not in columns:
                continue
            chunk = group.column(number)
            width = max(_VALUE_BYTES, file.schema.column(number).length or 0)
            if _can_grow(chunk, kind):
                width = chunk.total_uncompressed_size
                if width * chunk.num_values * len(groups) > limit:
                    width = _largest_value(file, source, index, chunk)
            row_bytes += -(-chunk.num_values // rows) * width
        largest = max(largest, row_bytes)
    return largest


def _leaves(schema: pa.Schema) -> list[tuple[pa.Field, pa.DataType]]:
    """Return the columns as Parquet stores them, one for each leaf: its top field and its type."""

    def below(kind: pa.DataType) -> list[pa.DataType]:
        if isinstance(kind, pa.BaseExtensionType):
            return below(kind.storage_type)
        if pa.types.is_map(kind):
            return below(kind.key_type) + below(kind.item_type)
        if pa.types.is_dictionary(kind) or not pa.types.is_nested(kind):
            return [kind]
        return [leaf for child in range(kind.num_fields) for leaf in below(kind.field(child).type)]

    return [(field, leaf) for field in schema for leaf in below(field.type)]


def _can_grow(chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> bool:
    """Tell whether values are stored by reference to others, and not kept so in memory."""
    return (
        chunk.physical_type == "BYTE_ARRAY"
        and not pa.types.is_dictionary(kind)
        and any("DICTIONARY" in name or name == "DELTA_BYTE_ARRAY" for name in chunk.encodings)
    )


def _largest_value(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    group: int,
    chunk: pq.ColumnChunkMetaData,
) -> int:
    """Return the bytes of the largest entry of a column's dictionary, read with its first rows."""
    name = chunk.path_in_schema
    peek = pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=[name], buffer_size=_PEEK_BYTES
    )
    batches = peek.iter_batches(_PEEK_ROWS, row_groups=[group], columns=[name])
    first = next(batches, None)
    if first is None:
        return 0
    complete = "DELTA_BYTE_ARRAY" not in chunk.encodings
    return max((_largest_in(column, complete) for column in first.columns), default=0)


def _largest_in(array: pa.Array, complete: bool) -> int:
    """Return the bytes of the largest value below an array, of a dictionary's where it has one."""
    if isinstance(array, pa.ExtensionArray):
        return _largest_in(array.storage, complete)
    if isinstance(array, pa.DictionaryArray):
        size = pc.max(pc.binary_length(array.dictionary)).as_py() or 0
        return int(size) * (1 if complete else _PEEK_MARGIN)
    if pa.types.is_struct(array.type):
        return max((_largest_in(child, complete) for child in array.flatten()), default=0)
    if pa.types.is_nested(array.type):
        return _largest_in(array.flatten(), complete)
    return int(array.nbytes) * _PEEK_MARGIN


def _too_large(split: Split, rows: int, size: int, limit: int) -> InputError:
    """Say that the rows of a split would fill the memory."""
    first, last = split.row_offset, split.row_offset + rows - 1
    return InputError(
        f"rows {first} to {last} of {mask_credentials(split.path)!r} are too large: got {size} "
        f"bytes in memory, though the file is small; expected at most {limit} for the "
        f"{split.num_rows} rows of a split. Score with --split-rows {max(1, rows // 2)} or less."
    )


def _null_lists(schema: pa.Schema, footer: pq.FileMetaData) -> tuple[str, ...]:
    """Name the columns of lists of fixed size that hold a null list, as far as the footer tells."""
    leaves = _leaves(schema)
    if len(leaves) != footer.num_columns:
        return ()
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    found = []
    for number, (field, leaf) in enumerate(leaves):
        kind = field.type
        if not pa.types.is_fixed_size_list(kind) or kind.value_type != leaf or not kind.list_size:
            continue
        # A null list is stored as one value, whatever the size of the others.
        if any(g.column(number).num_values != g.num_rows * kind.list_size for g in groups):
            found.append(field.name)
    return tuple(found)


def null_lists_message(columns: Sequence[str]) -> str:
    """Say that lists of fixed size with a null list among them cannot be read."""
    named = ", ".join(repr(name) for name in columns)
    return (
        f"lists of fixed size cannot be read where one of them is null: got such a list in "
        f"{named or 'a column'}; expected a list in every row, or lists of any size. Cast the "
        "column to pyarrow.list_(pyarrow.string()) and write the file again."
    )


def _take(batches: Iterator[pa.RecordBatch], skip: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows after the first `skip`, and read no further than needed."""
    for batch in batches:
        piece = batch.slice(skip, rows)
        skip = max(0, skip - batch.num_rows)
        if piece.num_rows:
            rows -= piece.num_rows
            yield piece
        if rows <= 0:
            return


def _check_unchanged(split: Split, footer: pq.FileMetaData, size: int) -> None:
    """Check that a file is still the one that was planned."""
    got = (footer.num_rows, size)
    expected = (split.file_rows, split.file_size)
    if got != expected or split.row_group_stop > footer.num_row_groups:
        raise InputError(
            f"{mask_credentials(split.path)!r} has changed since it was planned: got {got[0]} rows "
            f"in {got[1]} bytes; expected {expected[0]} rows in {expected[1]} bytes. Run the job "
            "again: it scores anew what has changed."
        )


@contextlib.contextmanager
def _open(path: str) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | AbstractBufferedFile]]:
    """Open a Parquet file, and turn what its bytes can do wrong into `InputError`."""
    with open_source(path) as source:
        try:
            yield pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False), source
        except InputError:
            raise
        except (pa.ArrowException, EOFError, ValueError, KeyError, MemoryError) as error:
            raise _damaged(path, error) from error
        except OSError as error:
            # Arrow reports damage as OSError without an errno; the operating system sets one.
            if error.errno is not None or type(error) is not OSError:
                raise
            raise _damaged(path, error) from error


def _damaged(path: str, error: BaseException) -> InputError:
    """Say that a file cannot be read as Parquet."""
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Expected all lists to be of size" in first_line:
        return InputError(f"{mask_credentials(path)!r}: {null_lists_message(())}")
    return InputError(
        f"{mask_credentials(path)!r} cannot be read as Parquet: got {first_line!r}; expected a "
        "whole, undamaged Parquet file. Write it again, or leave it out of the input."
    )
