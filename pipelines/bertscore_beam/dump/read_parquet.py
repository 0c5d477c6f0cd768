"""Read the rows of a split of a Parquet file: those that were planned, in bounded memory."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import parquet
from bertscore_beam.dump.batches import take
from bertscore_beam.dump.columns import roots_of
from bertscore_beam.dump.int96 import int96_paths, int96_ranges, not_exact_message
from bertscore_beam.dump.logical_types import with_text_enums
from bertscore_beam.dump.nested import check_indices, largest_in, leaves
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.ranges import RemoteFile
from bertscore_beam.files.read import source_size
from bertscore_core.errors import InputError

MAX_DECODED_BYTES = 1 << 30
"""Bytes that the rows of a split may take in memory, sixteen times the default size of a split on
disk. Splits are cut by their size on disk, where a dictionary can make large columns very small."""

# Row groups of so many buffers are fetched as a whole, also if only some of their rows are wanted.
_AHEAD_BUFFERS = 16
# Rows decoded at a time inside an oversized row group.
_BATCH_ROWS = 4096
# Bytes of decoded rows in one batch, where rows can be very large.
_BATCH_BYTES = 64 * 1024 * 1024
# Rows read, and bytes fetched for them, to learn how large the values of a column are.
_PEEK_ROWS = 16
_PEEK_BYTES = 4096


def read_parquet(split: Split, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a split, in order, with their types and the file's metadata.

    Memory is bounded by the split, also if it is a small piece of a very large row group: that is
    decoded in batches, and reading stops after the last wanted row. Rows that take far more space
    in memory than on disk are refused before they fill the memory.

    Args:
        split: What to read.
        columns: Columns to read, by default all. Of a dotted path the whole top-level column is
            read; a column that the file does not have is left out.

    Returns:
        Exactly `split.num_rows` rows.

    Raises:
        InputError: If the file has changed since it was planned, its bytes are damaged, or its rows
            take more than `MAX_DECODED_BYTES` in memory and more than twice what they take on disk.
        OSError: If it cannot be reached.
    """
    with open_parquet(
        split.path,
        split.timestamp_unit,
        size=split.file_size,
        version=split.file_version,
        whole=columns is None and split.num_rows == split.file_rows,
    ) as (file, source):
        _check_unchanged(split, file.metadata, source_size(source))
        names = None if columns is None else roots_of(file.schema_arrow, columns)
        table = _read_rows(file, source, split, names)
        _check_timestamps(file, source, split, names)
        for column in table.columns:
            for chunk in column.chunks:
                check_indices(chunk)
        table = with_text_enums(table, file.schema, file.schema_arrow)
    if table.num_rows != split.num_rows:
        raise InputError(
            f"rows are missing from {mask_credentials(split.path)!r}: got {table.num_rows} from "
            f"row {split.row_offset} on; expected {split.num_rows}. Write the file again."
        )
    return table


def _read_rows(
    file: pq.ParquetFile,
    source: pa.NativeFile | RemoteFile,
    split: Split,
    columns: list[str] | None,
) -> pa.Table:
    """Read whole row groups if the split consists of them and they fit in memory, else batches."""
    groups = list(range(split.first_row_group, split.row_group_stop))
    available = sum(file.metadata.row_group(group).num_rows for group in groups)
    if split.num_rows == 0:
        return pa.Table.from_batches([], file.schema_arrow)
    stored = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    limit = max(MAX_DECODED_BYTES, 2 * stored * split.num_rows // available)
    if isinstance(source, RemoteFile) and stored <= _AHEAD_BUFFERS * parquet.BUFFER_BYTES:
        _fetch_ahead(file, source, groups, columns)
    largest = _largest_row(file, source, groups, columns, limit)
    if split.skip_rows == 0 and split.num_rows == available and largest * available <= limit:
        # All bytes are wanted, so they can be fetched in advance, in a few large requests.
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
    for batch in take(batches, split.skip_rows, split.about_rows):
        wanted.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size > limit:
            raise _too_large(split, rows, size, limit)
    if not wanted:
        return pa.Table.from_batches([], file.schema_arrow)
    return pa.Table.from_batches(wanted)


def _fetch_ahead(
    file: pq.ParquetFile, source: RemoteFile, groups: list[int], columns: list[str] | None
) -> None:
    """Let Arrow fetch the bytes of row groups in few requests; the source keeps them.

    Arrow joins the ranges of all columns if it may fetch them in advance, which it does for the
    first row. Where they lie is not looked up here: see `_largest_row`.
    """
    ahead = pq.ParquetFile(source, metadata=file.metadata, pre_buffer=True)
    next(ahead.iter_batches(1, row_groups=groups, columns=columns), None)


def _check_timestamps(
    file: pq.ParquetFile,
    source: pa.NativeFile | RemoteFile,
    split: Split,
    columns: list[str] | None,
) -> None:
    """Check that the INT96 timestamps of a split are exact in the unit that was planned."""
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
    source: pa.NativeFile | RemoteFile,
    groups: Sequence[int],
    columns: list[str] | None,
    limit: int,
) -> int:
    """Return how many bytes the largest row of some row groups may take in memory.

    A column with a dictionary may take far more space in memory than on disk, but its values are
    no larger than the largest entry. That is looked up only if the row group is large enough on
    disk to exceed its share of the limit.

    Column metadata (`row_group(n).column(m)`) would tell more, but pyarrow 25 crashes the process
    if those of a damaged file are inconsistent.
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
    source: pa.NativeFile | RemoteFile,
    group: int,
    columns: list[str] | None,
) -> int:
    """Estimate from the first rows and their dictionaries how many bytes of text a row may hold."""
    schema = file.schema
    named = [
        schema.column(number).path
        for number, (field, kind) in enumerate(leaves(file.schema_arrow))
        if number < len(schema)
        and (columns is None or field.name in columns)
        and schema.column(number).physical_type == "BYTE_ARRAY"
        and not pa.types.is_dictionary(kind)  # as small in memory as on disk
    ]
    if not named:
        return 0
    # Read as dictionaries, whatever their type: they come with all entries, and no text is copied.
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
    """Return the error for rows that would fill the memory."""
    first, last = split.row_offset, split.row_offset + rows - 1
    return InputError(
        f"rows {first} to {last} of {mask_credentials(split.path)!r} are too large: got {size} "
        f"bytes in memory, though the file is small; expected at most {limit} for the "
        f"{split.num_rows} rows of a split. Score with --split-rows {max(1, rows // 2)} or less."
    )


def _check_unchanged(split: Split, footer: pq.FileMetaData, size: int) -> None:
    """Check that a file has not changed since it was planned."""
    got = (footer.num_rows, size)
    expected = (split.file_rows, split.file_size)
    if got != expected or split.row_group_stop > footer.num_row_groups:
        raise file_changed(
            split, f"{got[0]} rows in {got[1]} bytes", f"{expected[0]} rows in {expected[1]} bytes"
        )


def file_changed(split: Split, got: str, expected: str) -> InputError:
    """Return the error for a file that has changed since it was planned."""
    return InputError(
        f"{mask_credentials(split.path)!r} has changed since it was planned: got {got}; expected "
        f"{expected}. Run the job again: it scores what has changed."
    )
