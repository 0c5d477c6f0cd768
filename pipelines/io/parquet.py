"""Read the layout and the splits of Parquet files, and turn tables into parts.

Whatever is wrong with the bytes of a file comes out as `InputError`. Errors of the way there (no
permission, no network) stay `OSError`, so that the caller can tell a bad file from a bad day.
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractBufferedFile

from bertscore_core.errors import InputError
from pipelines.io.batches import take
from pipelines.io.files import mask_credentials, open_source, source_size
from pipelines.io.inputs import file_version
from pipelines.io.int96 import (
    COARSE,
    choose_unit,
    int96_paths,
    int96_ranges,
    not_exact_message,
    written_by_spark,
)
from pipelines.io.logical_types import has_utc_times, lost_types, text_enums, with_text_enums
from pipelines.io.nested import check_indices, largest_in, leaves
from pipelines.io.null_lists import null_lists, null_lists_message
from pipelines.splits import RowGroup, Split

UNREADABLE = (InputError, OSError)
"""What reading a split raises when its file is bad, missing, or out of reach. The split is then
left for the next run, and the others continue: one lost sector must not stop them all."""

SIGNATURE_KEY = "bertscore.signature"
"""Key of a part's metadata that holds its signature."""

# Rows decoded at a time inside an oversized row group, and bytes fetched at a time for each of its
# columns. An object store answers a request in about the time that it takes to send 4 MiB.
_BATCH_ROWS = 4096
_BUFFER_BYTES = 4 * 1024 * 1024

MAX_DECODED_BYTES = 1 << 30
"""Bytes that the rows of a split may take in memory, sixteen times what a split is given by default
on disk. Splits are cut by their size on disk, and a dictionary can make little of a lot there."""

# Bytes of decoded rows that may come in one batch where rows can be very large.
_BATCH_BYTES = 64 * 1024 * 1024
# Rows looked at, and bytes fetched for them, to learn how large the values of a column are.
_PEEK_ROWS = 16
_PEEK_BYTES = 4096


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
        lost_types: Columns whose logical type would not be in the output, each with that type.
        utc_times: Whether times of day are marked as of UTC.
        int96: Paths of the columns of timestamps in INT96.
    """

    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    num_rows: int
    file_size: int
    null_lists: tuple[str, ...] = ()
    lost_types: tuple[str, ...] = ()
    utc_times: bool = False
    int96: tuple[str, ...] = ()


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
        schema = text_enums(file.schema, file.schema_arrow)
        utc_times = has_utc_times(file.schema)
        return FileLayout(
            schema=schema,
            row_groups=groups,
            num_rows=footer.num_rows,
            file_size=source_size(source),
            null_lists=null_lists(file),
            lost_types=tuple(lost_types(file.schema, schema, utc_times=utc_times)),
            utc_times=utc_times,
            int96=int96_paths(file.schema),
        )


def exact_unit(path: str) -> str:
    """Return the unit in which no INT96 timestamp of a file changes.

    That means reading these columns, unless Spark wrote them: its timestamps are microseconds.

    Raises:
        InputError: If there is none, or the file is damaged.
        OSError: If it cannot be reached.
    """
    with _open(path) as (file, source):
        if written_by_spark(file.metadata.metadata):
            return COARSE
        paths = int96_paths(file.schema)
        every_group = range(file.metadata.num_row_groups)
        return choose_unit(int96_ranges(file, source, paths, every_group), paths)


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
    with _open(split.path, split.timestamp_unit) as (file, source):
        _check_unchanged(split, file.metadata, source_size(source))
        table = _read_rows(file, source, split, names)
        _check_timestamps(file, source, split, names)
        for column in table.columns:
            for chunk in column.chunks:
                check_indices(chunk)
        table = with_text_enums(table, file.schema, file.schema_arrow)
    version = file_version(split.path) if split.file_version else ""
    if version != split.file_version:
        raise _changed(split, f"version {version}", f"version {split.file_version}")
    if names is not None:
        table = table.select(names)
    if table.num_rows != split.num_rows:
        raise InputError(
            f"rows are missing from {mask_credentials(split.path)!r}: got {table.num_rows} from "
            f"row {split.row_offset} on; expected {split.num_rows}. Write the file again."
        )
    return table


def write_part(table: pa.Table, *, utc_times: bool = False) -> bytes:
    """Turn a table into the bytes of a Parquet file; equal tables give equal bytes.

    Args:
        table: Its rows.
        utc_times: Whether to mark times of day as of UTC; Arrow's own types do not tell.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        version="2.6",
        write_statistics=True,
        write_time_adjusted_to_utc=utc_times,
    )
    return bytes(sink.getvalue())


def read_part(path: str, columns: Collection[str]) -> pa.Table:
    """Read a part, and of its columns those that are among the given ones.

    Raises:
        InputError: If it is damaged.
        OSError: If it cannot be reached.
    """
    with _open(path) as (file, _):
        return file.read([name for name in file.schema_arrow.names if name in columns])


def is_signed(path: str) -> bool:
    """Tell whether a file is a part, scored by this project: its metadata say how."""
    try:
        with _open(path) as (file, _):
            return SIGNATURE_KEY.encode() in (file.schema_arrow.metadata or {})
    except (InputError, FileNotFoundError):
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
        return pa.Table.from_batches([], file.schema_arrow)
    stored = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    limit = max(MAX_DECODED_BYTES, 2 * stored * split.num_rows // available)
    largest = _largest_row(file, source, groups, columns, limit)
    if split.skip_rows == 0 and split.num_rows == available and largest * available <= limit:
        # All bytes are wanted, so that they may be fetched ahead, in few large requests.
        ahead = pq.ParquetFile(
            source,
            metadata=file.metadata,
            pre_buffer=True,
            coerce_int96_timestamp_unit=split.timestamp_unit,
        )
        return ahead.read_row_groups(groups, columns=columns)
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, largest)))
    batches = file.iter_batches(batch_rows, row_groups=groups, columns=columns)
    wanted: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in take(batches, split.skip_rows, split.num_rows):
        wanted.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size > limit:
            raise _too_large(split, rows, size, limit)
    if not wanted:
        return pa.Table.from_batches([], file.schema_arrow)
    return pa.Table.from_batches(wanted)


def _check_timestamps(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    split: Split,
    columns: list[str] | None,
) -> None:
    """Check that the INT96 timestamps of a split are what the file says in the unit planned."""
    paths = [
        path
        for path in int96_paths(file.schema)
        if columns is None or any(f"{path}.".startswith(f"{name}.") for name in columns)
    ]
    if not paths:
        return
    groups = range(split.first_row_group, split.row_group_stop)
    for needed in int96_ranges(file, source, paths, groups, split.skip_rows, split.num_rows):
        if not needed.is_exact(split.timestamp_unit):
            raise InputError(f"{mask_credentials(split.path)!r}: {not_exact_message(paths)}")


def _largest_row(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    groups: Sequence[int],
    columns: list[str] | None,
    limit: int,
) -> int:
    """Return how many bytes the largest row of some row groups may take in memory.

    A column with a dictionary may take far more there than on disk. Its values are no larger than
    the largest entry, which is looked up where the size on disk does not exclude that the row group
    fills its share of the limit.

    Column metadata (`row_group(n).column(m)`) would tell more, but pyarrow 25 ends the process when
    those of a damaged file do not fit together.
    """
    largest = 0
    for index in groups:
        group = file.metadata.row_group(index)
        mean = group.total_byte_size // max(1, group.num_rows)
        if group.total_byte_size * group.num_rows * len(groups) <= limit:
            largest = max(largest, group.total_byte_size)
        else:
            largest = max(largest, mean + _peek(file, source, index, columns))
    return largest


def _peek(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    group: int,
    columns: list[str] | None,
) -> int:
    """Return how many bytes of text a row may hold, from the first rows and their dictionaries."""
    schema = file.schema
    named = [
        schema.column(number).path
        for number, (field, kind) in enumerate(leaves(file.schema_arrow))
        if number < len(schema)
        and (columns is None or field.name in columns)
        and schema.column(number).physical_type == "BYTE_ARRAY"
        and not pa.types.is_dictionary(kind)  # stays as small in memory
    ]
    if not named:
        return 0
    # Read as dictionaries, whatever their type: each comes with all entries, and no text is copied.
    peek = pq.ParquetFile(
        source,
        metadata=file.metadata,
        read_dictionary=named,
        buffer_size=_PEEK_BYTES,
        pre_buffer=False,
    )
    first = next(peek.iter_batches(_PEEK_ROWS, row_groups=[group], columns=named), None)
    return 0 if first is None else sum(largest_in(column) for column in first.columns)


def _too_large(split: Split, rows: int, size: int, limit: int) -> InputError:
    """Say that the rows of a split would fill the memory."""
    first, last = split.row_offset, split.row_offset + rows - 1
    return InputError(
        f"rows {first} to {last} of {mask_credentials(split.path)!r} are too large: got {size} "
        f"bytes in memory, though the file is small; expected at most {limit} for the "
        f"{split.num_rows} rows of a split. Score with --split-rows {max(1, rows // 2)} or less."
    )


def _check_unchanged(split: Split, footer: pq.FileMetaData, size: int) -> None:
    """Check that a file is still the one that was planned."""
    got = (footer.num_rows, size)
    expected = (split.file_rows, split.file_size)
    if got != expected or split.row_group_stop > footer.num_row_groups:
        raise _changed(
            split, f"{got[0]} rows in {got[1]} bytes", f"{expected[0]} rows in {expected[1]} bytes"
        )


def _changed(split: Split, got: str, expected: str) -> InputError:
    """Say that a file is not the one that was planned."""
    return InputError(
        f"{mask_credentials(split.path)!r} has changed since it was planned: got {got}; expected "
        f"{expected}. Run the job again: it scores anew what has changed."
    )


@contextlib.contextmanager
def _open(
    path: str, timestamp_unit: str = COARSE
) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | AbstractBufferedFile]]:
    """Open a Parquet file, and turn what its bytes can do wrong into `InputError`."""
    with open_source(path) as source:
        try:
            file = pq.ParquetFile(
                source,
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                coerce_int96_timestamp_unit=timestamp_unit,
            )
            yield file, source
        except InputError:
            raise
        except (pa.ArrowException, EOFError, ValueError, LookupError, MemoryError) as error:
            raise _damaged(path, error) from error
        except RuntimeError as error:
            if not _raised_by_arrow(error):
                raise
            raise _damaged(path, error) from error
        except OSError as error:
            # Arrow reports damage as OSError without an errno; the operating system sets one.
            if error.errno is not None or type(error) is not OSError:
                raise
            raise _damaged(path, error) from error


def _raised_by_arrow(error: BaseException) -> bool:
    """Tell whether an error comes from Arrow itself, and not from what fetches bytes for it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = "" if frame is None else frame.tb_frame.f_code.co_filename
    return "pyarrow" in name


def _damaged(path: str, error: BaseException) -> InputError:
    """Say that a file cannot be read as Parquet."""
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Expected all lists to be of size" in first_line:
        return InputError(f"{mask_credentials(path)!r}: {null_lists_message(())}")
    return InputError(
        f"{mask_credentials(path)!r} cannot be read as Parquet: got {first_line!r}; expected a "
        "whole, undamaged Parquet file. Write it again, or leave it out of the input."
    )
