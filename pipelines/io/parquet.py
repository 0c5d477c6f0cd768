"""Read the layout and the splits of Parquet files, and turn tables into parts.

Whatever is wrong with the bytes of a file comes out as `InputError`. Errors of the way there (no
permission, no network) stay `OSError`, so that the caller can tell a bad file from a bad day.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractBufferedFile

from bertscore_core.errors import InputError
from pipelines.io.files import mask_credentials, open_source, source_size
from pipelines.splits import RowGroup, Split

UNREADABLE = (InputError, FileNotFoundError, PermissionError)
"""What reading a split raises when its file is bad or gone. Any other error lies in the way there,
and the runner may retry."""

# Rows decoded at a time inside an oversized row group, and bytes fetched at a time for each of its
# columns. An object store answers a request in about the time that it takes to send 4 MiB.
_BATCH_ROWS = 4096
_BUFFER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What the footer of a Parquet file says.

    Attributes:
        schema: Arrow schema, with the metadata of the file.
        row_groups: Size of each row group, in order.
        num_rows: Rows of the file.
        file_size: Size of the file in bytes.
    """

    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    num_rows: int
    file_size: int


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
        )


def read_split(split: Split, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a split, in order, with their types and the file's metadata.

    Memory is bounded by the split, also where it is a small piece of a very large row group: that
    is decoded in batches, and reading stops after the last row wanted.

    Args:
        split: What to read.
        columns: Names of the columns to read, in the order wanted; by default all.

    Returns:
        Exactly `split.num_rows` rows.

    Raises:
        InputError: If the file has changed since it was planned, or its bytes are damaged.
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


def _read_rows(
    file: pq.ParquetFile,
    source: pa.NativeFile | AbstractBufferedFile,
    split: Split,
    columns: list[str] | None,
) -> pa.Table:
    """Read the rows of a split by whole row groups where that is all of them, else in batches."""
    groups = range(split.first_row_group, split.row_group_stop)
    available = sum(file.metadata.row_group(group).num_rows for group in groups)
    if split.num_rows == 0:
        return file.schema_arrow.empty_table()
    if split.skip_rows == 0 and split.num_rows == available:
        # All bytes are wanted, so that they may be fetched ahead, in few large requests.
        ahead = pq.ParquetFile(source, metadata=file.metadata, pre_buffer=True)
        return ahead.read_row_groups(list(groups), columns=columns)
    batches = file.iter_batches(_BATCH_ROWS, row_groups=list(groups), columns=columns)
    wanted = list(_take(batches, split.skip_rows, split.num_rows))
    if not wanted:
        return file.schema_arrow.empty_table()
    return pa.Table.from_batches(wanted)


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
    return InputError(
        f"{mask_credentials(path)!r} cannot be read as Parquet: got {first_line!r}; expected a "
        "whole, undamaged Parquet file. Write it again, or leave it out of the input."
    )
