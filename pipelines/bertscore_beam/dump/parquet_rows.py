"""Read the rows of splits of a Parquet file: those that were planned, in bounded memory."""

import itertools
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import int96, nested, types
from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.inputs import file_changed
from bertscore_beam.dump.lines import LINE_COLUMN
from bertscore_beam.dump.parquet import BUFFER_BYTES, open_parquet
from bertscore_beam.dump.paths import roots_of
from bertscore_beam.dump.splits import Split, row_group_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import RemoteFile, source_size
from bertscore_core.errors import InputError

MAX_DECODED_BYTES = 1 << 30
"""Bytes that the rows of a split may take in memory, sixteen times the default size of a split on
disk. Splits are cut by their size on disk, where a dictionary can make large columns very small."""

# Row groups of this many buffers are fetched as a whole, also if only some of the rows are wanted.
_AHEAD_BUFFERS = 16
# Rows decoded at a time inside an oversized row group.
_BATCH_ROWS = 4096
# Bytes of decoded rows in one batch, where rows can be very large.
_BATCH_BYTES = 64 * 1024 * 1024
# Rows read, and bytes fetched for them, to learn how large the values of a column are.
_PEEK_ROWS = 16
_PEEK_BYTES = 4096


def read_parquet(
    splits: Sequence[Split], columns: Sequence[str] | None
) -> Generator[pa.Table, Split, None]:
    """Read the rows of splits of one file, in order, with their types and the metadata.

    The first split is read first; send another one for its rows. What lies between the two in one
    row group is decoded and dropped. After an error it must be called again, with the splits that
    are left. Of a path in `columns`, None for all, the whole top-level column is read; one that
    the file does not have is left out.

    Memory is bounded by a split, also if it is a small piece of a very large row group: that is
    decoded in batches, and reading goes no further than the last wanted row. Rows that take far
    more space in memory than on disk are refused before they fill the memory.
    """
    split = splits[0]
    path, size, version = split.path, split.file_size, split.file_version
    with open_parquet(
        split.data or path,
        split.timestamp_unit,
        size=None if split.data else size,
        version="" if split.data else version,
        whole=columns is None and split.num_rows == split.file_rows,
        seal="" if split.data else None,
    ) as (file, source):
        names = None if columns is None else roots_of(file.schema_arrow, columns)
        if names is None and split.left_out:
            every = dict.fromkeys(file.schema_arrow.names)
            names = [name for name in every if name not in split.left_out]
        elif names is not None and LINE_COLUMN in file.schema_arrow.names:
            names.append(LINE_COLUMN)
        for row_group, pieces in itertools.groupby(splits, row_group_of):
            *_, last = pieces
            if row_group_of(split) != row_group:
                continue
            _check_unchanged(split, file.metadata, size if split.data else source_size(source))
            rows = _RowReader(file, source, split, names)
            are_exact = rows.are_exact(split.skip_rows, last.skip_rows + last.num_rows)
            while row_group_of(split) == row_group:
                split = yield _checked(rows, split, is_exact=are_exact)


def _checked(rows: "_RowReader", split: Split, *, is_exact: bool) -> pa.Table:
    table = rows.read(split)
    skip = split.skip_rows
    if not is_exact and not rows.are_exact(skip, skip + split.num_rows):
        message = int96.not_exact_message(rows.int96)
        raise InputError(f"{mask_credentials(split.path)!r}: {message}")
    for column in table.columns:
        for chunk in column.chunks:
            nested.check_indices(chunk)
    if table.num_rows != split.num_rows:
        raise InputError(
            f"rows are missing from {mask_credentials(split.path)!r}: got {table.num_rows} "
            f"from row {split.row_offset} on; expected {split.num_rows}. Write the file again."
        )
    return types.with_text_enums(table, rows.file.schema, rows.file.schema_arrow)


class _RowReader:
    """The rows of the row groups of a split, read from their start to their end."""

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
        self.int96 = [
            path
            for path in int96.paths_of(file.schema)
            if columns is None or any(f"{path}.".startswith(f"{name}.") for name in columns)
        ]

    def read(self, split: Split) -> pa.Table:
        if split.num_rows == 0:
            return pa.Table.from_batches([], self.file.schema_arrow)
        limit = max(MAX_DECODED_BYTES, 2 * self._stored * split.num_rows // self._available)
        if self._batches is None:
            # All bytes come in a few requests, also if some rows are not wanted.
            is_remote = isinstance(self._source, RemoteFile)
            if is_remote and self._stored <= _AHEAD_BUFFERS * BUFFER_BYTES:
                self._fetch_ahead()
            largest = self._largest_row(limit)
            is_whole = split.skip_rows == 0 and split.num_rows == self._available
            if is_whole and largest * self._available <= limit:
                return self._read_whole()
            size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, largest)))
            read = partial(self.file.iter_batches, size, columns=self._columns)
            streams = (read(row_groups=groups) for groups in self._together)
            self._batches = Batches(itertools.chain.from_iterable(streams))
        pieces: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._batches.take(split.skip_rows, split.num_rows):
            pieces.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if size > limit:
                raise _too_large(split, rows, size, limit)
        if not pieces:
            return pa.Table.from_batches([], self.file.schema_arrow)
        return pa.Table.from_batches(pieces)

    def _again(self, **options: Any) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._source, metadata=self.file.metadata, page_checksum_verification=True, **options
        )

    def _fetch_ahead(self) -> None:
        """Let Arrow fetch the bytes of row groups in few requests; the source keeps them.

        Arrow joins the ranges of all columns if it may fetch them in advance, which it does for
        the first row. Where they lie is not looked up here: see `_largest_row`.
        """
        ahead = self._again(pre_buffer=True)
        next(ahead.iter_batches(1, row_groups=self._groups, columns=self._columns), None)

    def _read_whole(self) -> pa.Table:
        # All bytes are wanted, so they can be fetched in advance, in a few large requests.
        ahead = self._again(pre_buffer=True, coerce_int96_timestamp_unit=self._unit)
        read = partial(ahead.read_row_groups, columns=self._columns)
        first, *others = (read(groups) for groups in self._together)
        # Without columns, concatenating would forget the number of rows.
        return pa.concat_tables([first, *others]) if others else first

    @property
    def _together(self) -> list[list[int]]:
        """The row groups that Arrow can read at a time.

        That is one where a dictionary is below a struct or a list: Arrow cannot join several.
        """
        is_apart = any(
            field.type != leaf and pa.types.is_dictionary(leaf)
            for field, leaf in nested.leaves(self.file.schema_arrow)
            if self._columns is None or field.name in self._columns
        )
        return [[group] for group in self._groups] if is_apart else [self._groups]

    def are_exact(self, start: int, stop: int) -> bool:
        if not self.int96:
            return True
        return self._unit in int96.exact_units(
            self.file, self._source, self.int96, self._groups, start, stop - start
        )

    def _largest_row(self, limit: int) -> int:
        """Return how many bytes the largest row may take in memory.

        A column with a dictionary may take far more space in memory than on disk, but its values
        are no larger than the largest entry. That is looked up only if the row group is large
        enough on disk to exceed its share of the limit.

        Column metadata (`row_group(n).column(m)`) would tell more, but pyarrow 25 crashes the
        process if those of a damaged file are inconsistent.
        """
        largest = 0
        for index in self._groups:
            group = self.file.metadata.row_group(index)
            mean = group.total_byte_size // max(1, group.num_rows)
            if group.total_byte_size * group.num_rows * len(self._groups) <= limit:
                largest = max(largest, group.total_byte_size)
            else:
                largest = max(largest, mean + self._peek(index))
        return largest

    def _peek(self, group: int) -> int:
        stored = zip(self.file.schema, nested.leaves(self.file.schema_arrow), strict=False)
        named = [
            column.path
            for column, (field, kind) in stored
            if (self._columns is None or field.name in self._columns)
            and column.physical_type == "BYTE_ARRAY"
            and not pa.types.is_dictionary(kind)  # as small in memory as on disk
        ]
        if not named:
            return 0
        # Read as dictionaries, whatever their type: all entries come, and no text is copied.
        peek = self._again(read_dictionary=named, buffer_size=_PEEK_BYTES, pre_buffer=False)
        first = next(peek.iter_batches(_PEEK_ROWS, row_groups=[group], columns=named), None)
        return 0 if first is None else sum(nested.largest_in(column) for column in first.columns)


def _too_large(split: Split, rows: int, size: int, limit: int) -> InputError:
    first, last = split.row_offset, split.row_offset + rows - 1
    return InputError(
        f"rows {first} to {last} of {mask_credentials(split.path)!r} are too large: got "
        f"{size} bytes in memory, though the file is small; expected at most {limit} for the "
        f"{split.num_rows} rows of a split. Score with --split-rows {max(1, rows // 2)} or less."
    )


def _check_unchanged(split: Split, footer: pq.FileMetaData, size: int) -> None:
    got = (footer.num_rows, size)
    expected = (split.file_rows, split.file_size)
    if got != expected or split.row_group_stop > footer.num_row_groups:
        raise file_changed(
            split.path,
            f"{got[0]} rows in {got[1]} bytes",
            f"{expected[0]} rows in {expected[1]} bytes",
        )
