"""Parquet files: open them, read their footers and rows, write parts.

Whatever is wrong with a file is raised as `InputError`; see `reading`.
"""

import contextlib
import itertools
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import int96, nested, types
from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.inputs import file_changed
from bertscore_beam.dump.lines import LINE_COLUMN, without_lines
from bertscore_beam.dump.paths import list_at, root_of, roots_of
from bertscore_beam.dump.reading import is_encrypted, reading
from bertscore_beam.dump.splits import RowGroup, Split, row_group_of
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.paths import mask_credentials
from bertscore_beam.files.read import RemoteFile, fetch, open_source, reads_one_version, source_size
from bertscore_core.errors import InputError

UNREADABLE = (InputError, OSError)
"""What reading a split raises when its file is damaged, missing or out of reach. The split is then
left for the next run, and the others continue: one bad sector must not stop them all."""

# Bytes fetched at a time for each column. An object store answers a request in about the time that
# it takes to send 4 MiB.
BUFFER_BYTES = 4 * 1024 * 1024
_ARROW_SCHEMA = b"ARROW:schema"
"""Key of the schema that Arrow writes beside that of Parquet."""


# The footers of the files that this process has read last, so that splits share them.
_MOST_FOOTERS = 8
_footers: dict[object, pq.FileMetaData] = {}
_footers_lock = threading.Lock()


@contextlib.contextmanager
def open_parquet(
    path: str,
    timestamp_unit: str = int96.COARSE,
    *,
    size: int | None = None,
    version: str = "",
    whole: bool = False,
    footer: str = "",
    digest: str = "",
) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | RemoteFile]]:
    """Open a Parquet file; damaged bytes raise `InputError`, also while the file is read.

    Args:
        path: Path of the file.
        timestamp_unit: Unit in which to read its INT96 timestamps.
        size: As for `open_source`.
        version: As for `open_source`.
        whole: Whether all of the file is wanted, so that it may be fetched at once.
        footer: `footer_digest` of the file, if it is known: the footer is checked before it is
            read. Pages are checked by their own checksums when they are read, if they have any.
        digest: Digest of the whole file, if it is known: then all of it is read and checked.

    Yields:
        The file, and the source of its bytes.

    Raises:
        InputError: If it is not a whole, undamaged Parquet file.
        OSError: If it cannot be reached.
    """
    with reading(path), open_source(path, size=size, version=version) as source:
        if whole:
            fetch(source, 0, source_size(source))
        if digest and digest_of(source.read()) != digest:
            raise ValueError("other bytes than were written")
        known = (path, size, version) if version and reads_one_version(path) else None
        metadata = _checked_footer(source, footer) if footer else _footers.get(known)
        file = _opened(source, metadata, timestamp_unit)
        if known is not None and not whole:
            with _footers_lock:
                _footers[known] = file.metadata
                if len(_footers) > _MOST_FOOTERS:
                    _footers.pop(next(iter(_footers)))
        yield file, source


def _opened(
    source: pa.NativeFile | RemoteFile, footer: pq.FileMetaData | None, unit: str
) -> pq.ParquetFile:
    options = {
        "buffer_size": BUFFER_BYTES,
        "pre_buffer": False,
        "coerce_int96_timestamp_unit": unit,
        "page_checksum_verification": True,
    }
    try:
        return pq.ParquetFile(source, metadata=footer, **options)
    except pa.ArrowNotImplementedError:
        # Of a type that Arrow does not know, such as Int128 of Polars. It can read the file by the
        # types of Parquet alone, if it does not find its own schema.
        data = _footer(source).replace(_ARROW_SCHEMA, types.HIDDEN_SCHEMA)
        return pq.ParquetFile(
            source, metadata=pq.read_metadata(pa.BufferReader(b"PAR1" + data)), **options
        )


_END_BYTES = 8
"""Bytes at the end of a file: the length of its footer, and a mark."""
_FOOTER_BYTES = 64 * 1024
"""Bytes at the end of a file that are fetched together; few footers are larger."""


def footer_digest(data: bytes) -> str:
    """Return the digest of the footer of a Parquet file: all that no checksum of a page covers.

    Headers of pages are not covered either, but none of their bits can be flipped so that other
    values are read.
    """
    with pa.BufferReader(data) as source:
        return digest_of(_footer(source))


def _checked_footer(source: pa.NativeFile | RemoteFile, digest: str) -> pq.FileMetaData:
    footer = _footer(source)
    if digest_of(footer) != digest:
        raise ValueError("another footer than was written")
    return pq.read_metadata(pa.BufferReader(footer))


def _footer(source: pa.NativeFile | RemoteFile) -> bytes:
    """Return the footer of an open file, and what is after it."""
    size = source_size(source)
    fetch(source, size - _FOOTER_BYTES, size)
    source.seek(max(0, size - _END_BYTES - _footer_length(source)))
    return bytes(source.read())


def _footer_length(source: pa.NativeFile | RemoteFile) -> int:
    source.seek(max(0, source_size(source) - _END_BYTES))
    return int.from_bytes(source.read(_END_BYTES // 2), "little")


def _encrypted(file: pq.ParquetFile, source: pa.NativeFile | RemoteFile) -> tuple[str, ...]:
    """Return the columns that are encrypted in a file whose footer is not.

    Such a footer is signed: it is longer than what it says. pyarrow 25 crashes the process if it is
    asked for what the footer says of an encrypted column, so these are found by reading a row.
    """
    sizes = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    first = next((number for number, group in enumerate(sizes) if group.num_rows), None)
    if first is None or _footer_length(source) == file.metadata.serialized_size:
        return ()

    def is_locked(name: str) -> bool:
        try:
            next(file.iter_batches(1, row_groups=[first], columns=[name]), None)
        except OSError as error:
            if not is_encrypted(error):
                raise
            return True
        return False

    return tuple(filter(is_locked, dict.fromkeys(file.schema_arrow.names)))


# What the footer of a Parquet file says: its columns, its row groups, what needs special care.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What the footer of a Parquet file says.

    Attributes:
        null_lists: Columns of fixed-size lists in which a list is null: Arrow writes these but
            cannot read them.
        lost_types: Columns whose logical type the output would not have, each with that type in
            words.
        encrypted: Columns that are encrypted.
        utc_times: Whether times of day are marked as UTC.
        int96: Paths of the INT96 columns, which hold timestamps.
        text: How the rows were read, if they once were text, a digest; "" otherwise.
    """

    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    num_rows: int
    file_size: int
    null_lists: tuple[str, ...] = ()
    lost_types: tuple[tuple[str, str], ...] = ()
    encrypted: tuple[str, ...] = ()
    utc_times: bool = False
    int96: tuple[str, ...] = ()
    text: str = ""


def read_layout(
    path: str, size: int | None = None, version: str = "", candidates: Sequence[str] = ()
) -> FileLayout:
    """Read the footer of a file, not its rows.

    Args:
        path: Path of the file.
        size: As for `open_source`. Without it fsspec looks through the listing of the whole folder.
        version: As for `open_source`.
        candidates: The columns of candidates, which give each row group its pairs.

    Raises:
        InputError: If it is not a whole Parquet file.
        OSError: If it cannot be reached.
    """
    with open_parquet(path, size=size, version=version) as (file, source):
        footer, encrypted = file.metadata, _encrypted(file, source)
        schema, text = without_lines(types.text_enums(file.schema, file.schema_arrow))
        readable = (name for name in candidates if root_of(schema, name) not in encrypted)
        places = (list_at(schema, name) for name in readable)
        lists = [
            [n for n, column in enumerate(file.schema) if column.path.startswith(f"{place}.")]
            for place in places
            if place
        ]
        groups = tuple(
            RowGroup(
                num_rows=group.num_rows,
                num_bytes=group.total_byte_size,
                # A null or an empty list counts as one value, and has one row.
                # Values of lists within its elements are more.
                num_pairs=(len(candidates) - len(lists)) * group.num_rows
                + sum(min(group.column(leaf).num_values for leaf in leaves) for leaves in lists),
            )
            for group in map(footer.row_group, range(footer.num_row_groups))
        )
        utc_times = types.has_utc_times(file.schema)
        is_hidden = types.HIDDEN_SCHEMA in (file.schema_arrow.metadata or {})
        lost = types.lost_types(file.schema, schema, utc_times=utc_times, is_hidden=is_hidden)
        return FileLayout(
            schema=schema,
            row_groups=groups,
            num_rows=footer.num_rows,
            file_size=source_size(source),
            null_lists=types.null_lists(file, encrypted),
            lost_types=tuple(lost),
            encrypted=encrypted,
            utc_times=utc_times,
            int96=int96.paths_of(file.schema),
            text=text,
        )


def exact_unit(path: str, left_out: Collection[str] = ()) -> str:
    """Return the unit in which no INT96 timestamp of a file changes, but for columns left out.

    This reads these columns, unless Spark wrote the file: its timestamps are microseconds.
    """
    with open_parquet(path) as (file, source):
        if int96.SPARK_VERSION in (file.metadata.metadata or {}):
            return int96.COARSE
        paths = int96.paths_of(file.schema, left_out)
        if not paths:
            return int96.COARSE
        units = int96.exact_units(file, source, paths, range(file.metadata.num_row_groups))
        if not units:
            raise InputError(int96.not_exact_message(paths))
        return int96.COARSE if int96.COARSE in units else int96.FINE


# Write parts, the Parquet files of an output, and read them back.

SIGNATURE_KEY = "bertscore.signature"
"""Key of a part's metadata that holds its signature."""
SIGNATURES_KEY = "bertscore.signatures"
"""The same for a part whose rows have languages: a JSON object, the signature of each language."""


def write_part(table: pa.Table, *, utc_times: bool = False) -> bytes:
    """Return a table as the bytes of a Parquet file. Equal tables give equal bytes.

    Args:
        table: Its rows.
        utc_times: Whether to mark times of day as UTC, which Arrow's types cannot say.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        types.writable(table),
        sink,
        compression="zstd",
        version="2.6",
        write_statistics=True,
        write_time_adjusted_to_utc=utc_times,
        write_page_checksum=True,
    )
    return bytes(sink.getvalue())


def is_signed(path: str) -> bool:
    """Tell whether a file is a part that this project scored: its metadata hold a signature."""
    try:
        with open_parquet(path) as (file, _):
            metadata = file.schema_arrow.metadata or {}
            return any(key.encode() in metadata for key in (SIGNATURE_KEY, SIGNATURES_KEY))
    except (InputError, FileNotFoundError):
        return False


# Read the rows of splits of a Parquet file: those that were planned, in bounded memory.

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
    splits: Sequence[Split], columns: Sequence[str] | None = None
) -> Generator[pa.Table, Split, None]:
    """Read the rows of splits of one file, in order, with their types and the metadata.

    The first split is read first; send another one for its rows. What lies between the two in one
    row group is decoded and dropped. After an error it must be called again, with the splits that
    are left. Of a path in `columns`, by default all, the whole top-level column is read; one
    that the file does not have is left out.

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
    ) as (file, source):
        names = None if columns is None else roots_of(file.schema_arrow, columns)
        if names is None and split.left_out:
            every = dict.fromkeys(file.schema_arrow.names)
            names = [name for name in every if name not in split.without]
        elif names is not None and LINE_COLUMN in file.schema_arrow.names:
            names.append(LINE_COLUMN)
        for row_group, pieces in itertools.groupby(splits, row_group_of):
            *_, last = pieces
            if row_group_of(split) != row_group:
                continue
            _check_unchanged(split, file.metadata, size if split.data else source_size(source))
            rows = _RowReader(file, source, split, names)
            are_exact = rows.are_exact(split.skip_rows, last.skip_rows + last.rows_read)
            while row_group_of(split) == row_group:
                split = yield _checked(rows, split, is_exact=are_exact)


def _checked(rows: "_RowReader", split: Split, *, is_exact: bool) -> pa.Table:
    table = rows.read(split)
    skip = split.skip_rows
    if not is_exact and not rows.are_exact(skip, skip + split.rows_read):
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
        limit = max(MAX_DECODED_BYTES, 2 * self._stored * split.rows_read // self._available)
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
        for batch in self._batches.take(split.skip_rows, split.rows_read):
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
