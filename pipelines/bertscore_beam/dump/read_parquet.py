"""Read the rows of splits of a Parquet file: those that were planned, in bounded memory."""

import itertools
from collections.abc import Generator, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import parquet
from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.columns import roots_of
from bertscore_beam.dump.int96 import int96_paths, int96_ranges, not_exact_message
from bertscore_beam.dump.logical_types import with_text_enums
from bertscore_beam.dump.nested import check_indices, largest_in, leaves
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.runs import row_group_of
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text.lines import LINE_COLUMN
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


def read_parquet(
    splits: Sequence[Split], columns: Sequence[str] | None = None
) -> Generator[pa.Table, Split, None]:
    """Read the rows of splits of one file, in order, with their types and the metadata.

    The first split is read first; send another one for its rows. What lies between the two in one
    row group is decoded and dropped. After an error it must be called again, with the splits that
    are left.

    Memory is bounded by a split, also if it is a small piece of a very large row group: that is
    decoded in batches, and reading goes no further than the last wanted row. Rows that take far
    more space in memory than on disk are refused before they fill the memory.

    Args:
        splits: What to read: one split, or some of one file in their order.
        columns: Columns to read, by default all. Of a dotted path the whole top-level column is
            read; a column that the file does not have is left out.

    Yields:
        Exactly `split.num_rows` rows of the first split, then of each that is sent.

    Raises:
        InputError: If the file has changed since it was planned, its bytes are damaged, or its rows
            take more than `MAX_DECODED_BYTES` in memory and more than twice what they take on disk.
        OSError: If it cannot be reached.
    """
    split = splits[0]
    path, size, version = split.path, split.file_size, split.file_version
    with open_parquet(
        split.data or path,
        split.timestamp_unit,
        size=None if split.data else size,
        version="" if split.data else version,
        whole=columns is None and split.num_rows == split.file_rows,
    ) as (file, source):
        names = None if columns is None else roots_of(file.schema_arrow, columns)
        if names is not None and LINE_COLUMN in file.schema_arrow.names:
            names.append(LINE_COLUMN)
        for row_group, pieces in itertools.groupby(splits, row_group_of):
            *_, last = pieces
            if row_group_of(split) != row_group:
                continue
            _check_unchanged(split, file.metadata, size if split.data else source_size(source))
            rows = _Rows(file, source, split, names)
            are_exact = rows.are_exact(split.skip_rows, last.skip_rows + last.about_rows)
            while row_group_of(split) == row_group:
                split = yield _checked(rows, split, is_exact=are_exact)


def _checked(rows: "_Rows", split: Split, *, is_exact: bool) -> pa.Table:
    """Read the rows of a split and check them.

    Args:
        rows: The rows of its row groups.
        split: The split.
        is_exact: Whether the INT96 timestamps are known to be exact in the unit planned.
    """
    table = rows.read(split)
    skip = split.skip_rows
    if not is_exact and not rows.are_exact(skip, skip + split.about_rows):
        message = not_exact_message(rows.int96)
        raise InputError(f"{mask_credentials(split.path)!r}: {message}")
    for column in table.columns:
        for chunk in column.chunks:
            check_indices(chunk)
    if table.num_rows != split.num_rows:
        raise InputError(
            f"rows are missing from {mask_credentials(split.path)!r}: got {table.num_rows} from "
            f"row {split.row_offset} on; expected {split.num_rows}. Write the file again."
        )
    return with_text_enums(table, rows.file.schema, rows.file.schema_arrow)


class _Rows:
    """The rows of the row groups of a split, read from their start to their end.

    Attributes:
        file: The file.
        int96: The columns that are read whose timestamps are stored as INT96.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        source: pa.NativeFile | RemoteFile,
        split: Split,
        columns: list[str] | None,
    ) -> None:
        self.file = file
        self._source = source
        self._columns = columns
        self._unit = split.timestamp_unit
        self._groups = list(range(split.first_row_group, split.row_group_stop))
        groups = [file.metadata.row_group(group) for group in self._groups]
        self._available = sum(group.num_rows for group in groups)
        self._stored = sum(group.total_byte_size for group in groups)
        self._batches: Batches | None = None
        self._largest = 0
        self.int96 = [
            path
            for path in int96_paths(file.schema)
            if columns is None or any(f"{path}.".startswith(f"{name}.") for name in columns)
        ]

    def read(self, split: Split) -> pa.Table:
        """Read whole row groups if the split consists of them and they fit in memory."""
        if split.num_rows == 0:
            return pa.Table.from_batches([], self.file.schema_arrow)
        limit = max(MAX_DECODED_BYTES, 2 * self._stored * split.about_rows // self._available)
        if self._batches is None:
            if self._is_small:
                _fetch_ahead(self.file, self._source, self._groups, self._columns)
            self._largest = _largest_row(
                self.file, self._source, self._groups, self._columns, limit
            )
            is_whole = split.skip_rows == 0 and split.num_rows == self._available
            if is_whole and self._largest * self._available <= limit:
                return self._read_whole()
            self._batches = self._in_batches()
        wanted: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._batches.take(split.skip_rows, split.about_rows):
            wanted.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if size > limit:
                raise _too_large(split, rows, size, limit)
        if not wanted:
            return pa.Table.from_batches([], self.file.schema_arrow)
        return pa.Table.from_batches(wanted)

    @property
    def _is_small(self) -> bool:
        """Whether all bytes are fetched in a few requests, also if some rows are not wanted."""
        is_remote = isinstance(self._source, RemoteFile)
        return is_remote and self._stored <= _AHEAD_BUFFERS * parquet.BUFFER_BYTES

    def _read_whole(self) -> pa.Table:
        # All bytes are wanted, so they can be fetched in advance, in a few large requests.
        ahead = pq.ParquetFile(
            self._source,
            metadata=self.file.metadata,
            pre_buffer=True,
            coerce_int96_timestamp_unit=self._unit,
        )
        read = partial(ahead.read_row_groups, columns=self._columns)
        first, *others = (read(groups) for groups in self._together)
        # Without columns, concatenating would forget the number of rows.
        return pa.concat_tables([first, *others]) if others else first

    def _in_batches(self) -> Batches:
        rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, self._largest)))
        read = partial(self.file.iter_batches, rows, columns=self._columns)
        return Batches(chain.from_iterable(read(row_groups=groups) for groups in self._together))

    @property
    def _together(self) -> list[list[int]]:
        """The row groups that Arrow can read at a time.

        That is one where a dictionary is below a struct or a list: Arrow cannot join several.
        """
        is_apart = any(
            field.type != leaf and pa.types.is_dictionary(leaf)
            for field, leaf in leaves(self.file.schema_arrow)
            if self._columns is None or field.name in self._columns
        )
        return [[group] for group in self._groups] if is_apart else [self._groups]

    def are_exact(self, start: int, stop: int) -> bool:
        """Tell whether INT96 timestamps are exact in the unit that was planned.

        Args:
            start: First row, counted in the row groups.
            stop: One past the last row.
        """
        if not self.int96:
            return True
        ranges = int96_ranges(
            self.file, self._source, self.int96, self._groups, start, stop - start
        )
        return all(needed.is_exact(self._unit) for needed in ranges)


def _fetch_ahead(
    file: pq.ParquetFile, source: RemoteFile, groups: list[int], columns: list[str] | None
) -> None:
    """Let Arrow fetch the bytes of row groups in few requests; the source keeps them.

    Arrow joins the ranges of all columns if it may fetch them in advance, which it does for the
    first row. Where they lie is not looked up here: see `_largest_row`.
    """
    ahead = pq.ParquetFile(source, metadata=file.metadata, pre_buffer=True)
    next(ahead.iter_batches(1, row_groups=groups, columns=columns), None)


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
