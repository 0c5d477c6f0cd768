"""Parquet files: open them, read their footers, write parts.

Whatever is wrong with a file is raised as `InputError`; see `reading`.
"""

import contextlib
import io
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import int96, types
from bertscore_beam.dump.lines import without_lines
from bertscore_beam.dump.paths import Column, is_list
from bertscore_beam.dump.reading import is_encrypted, reading
from bertscore_beam.dump.splits import RowGroup
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import (
    RemoteFile,
    fetch,
    open_source,
    read_bytes,
    reads_one_version,
    source_size,
)
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
    seal: str | None = None,
) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | RemoteFile]]:
    """Open a Parquet file; damaged bytes raise `InputError`, also while the file is read.

    Args:
        path: Path of the file.
        timestamp_unit: Unit in which to read its INT96 timestamps.
        size: As for `open_source`.
        version: As for `open_source`.
        whole: Whether all of the file is wanted, so that it may be fetched at once.
        seal: Of a file of `sealed_writer` its seal, or "" for any: its footer is checked when it is
            opened, and its pages as they are read. None for other files, whose pages may have
            checksums.

    Yields:
        The file, and the source of its bytes.

    Raises:
        InputError: If it is not a whole, undamaged Parquet file.
        OSError: If it cannot be reached.
    """
    with reading(path), open_source(path, size=size, version=version) as source:
        if whole:
            fetch(source, 0, source_size(source))
        known = (path, size, version) if version and reads_one_version(path) else None
        sealed = None if seal is None else _checked_footer(_footer(source), seal)
        metadata = _footers.get(known) if sealed is None else sealed
        file = _opened(source, metadata, timestamp_unit)
        if known is not None and not whole:
            with _footers_lock:
                _footers[known] = file.metadata
                if len(_footers) > _MOST_FOOTERS:
                    _footers.pop(next(iter(_footers)))
        yield file, source


@contextlib.contextmanager
def open_kept(path: str, cure: str, *, seal: str = "") -> Iterator[pq.ParquetFile]:
    """Open a Parquet file that an earlier command wrote into an output folder.

    Args:
        path: As for `open_parquet`, which says more of what is checked.
        cure: What to do if it is damaged: the last sentence of the error.
        seal: As for `open_parquet`.

    Raises:
        InputError: It is damaged.
        OSError: It cannot be reached.
    """
    try:
        with open_parquet(path, seal=seal) as (file, _):
            yield file
    except InputError as error:
        got = str(error.__cause__ or error).splitlines()[0]
        raise InputError(
            f"{mask_credentials(path)!r} is damaged: got {got!r}; expected a file as an earlier "
            f"command wrote it. {cure}"
        ) from error


class _File(pq.ParquetFile):
    """A file whose footer is gone when nobody needs it.

    The schema of pyarrow refers to the footer that keeps it: of a file of a thousand row groups
    each such pair holds 2.6 MB until Python looks for cycles, and few of them are in its way.
    """

    @property
    def schema(self) -> pq.ParquetSchema:
        """The schema in the types of Parquet."""
        return pq.ParquetSchema(self.metadata)


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
        return _File(source, metadata=footer, **options)
    except pa.ArrowNotImplementedError:
        # Of a type that Arrow does not know, such as Int128 of Polars. It can read the file by the
        # types of Parquet alone, if it does not find its own schema.
        data = _footer(source).replace(_ARROW_SCHEMA, types.HIDDEN_SCHEMA)
        return _File(source, metadata=pq.read_metadata(pa.BufferReader(_MARK + data)), **options)


_MARK = b"PAR1"
_END_BYTES = 8
"""Bytes at the end of a file: the length of its footer, and a mark."""
_FOOTER_BYTES = 64 * 1024
"""Bytes at the end of a file that are fetched together; few footers are larger."""


def fetch_columns(
    file: pq.ParquetFile, source: pa.NativeFile | RemoteFile, names: Collection[str]
) -> None:
    """Fetch top-level columns of an open file in one request for each row group."""
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        places = [
            (chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size)
            for chunk in chunks
            if chunk.path_in_schema in names
        ]
        if places:
            start = min(place for place, _ in places)
            fetch(source, start, max(place + size for place, size in places))


def _footer(source: pa.NativeFile | RemoteFile | BinaryIO) -> bytes:
    """Return the footer of an open file, and what is after it."""
    size = source.seek(0, io.SEEK_END)
    fetch(source, size - _FOOTER_BYTES, size)
    source.seek(max(0, size - _END_BYTES - _footer_length(source)))
    return bytes(source.read())


def _footer_length(source: pa.NativeFile | RemoteFile | BinaryIO) -> int:
    size = source.seek(0, io.SEEK_END)
    source.seek(max(0, size - _END_BYTES))
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
        return _layout_of(file, source, candidates)


def read_copied_layout(path: str, candidates: Sequence[str]) -> FileLayout:
    """Read the copy of a footer that an import has written; see `read_layout`."""
    data = read_bytes(path)
    with reading(path):
        return _layout_of(open_sealed(data), pa.BufferReader(data), candidates)


def _layout_of(
    file: pq.ParquetFile, source: pa.NativeFile | RemoteFile, candidates: Sequence[str]
) -> FileLayout:
    footer, encrypted = file.metadata, _encrypted(file, source)
    schema, text = without_lines(types.text_enums(file.schema, file.schema_arrow))
    found = (Column.find(schema, name) for name in candidates)
    lists = [
        [n for n, leaf in enumerate(file.schema) if leaf.path.startswith(f"{place}.")]
        for place in (".".join(one.names) for one in found if one and _has_several(one, encrypted))
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
        file_size=source_size(source),
        null_lists=types.null_lists(file, encrypted),
        lost_types=tuple(lost),
        encrypted=encrypted,
        utc_times=utc_times,
        int96=int96.paths_of(file.schema),
        text=text,
    )


def _has_several(candidates: Column, encrypted: Collection[str]) -> bool:
    return candidates.top.name not in encrypted and is_list(candidates.type)


def exact_unit(path: str, left_out: Collection[str]) -> str:
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
SETTINGS_KEY = "bertscore.settings"
"""The same for the settings of all its rows, as those who look for earlier scores need them."""


def write_part(
    table: pa.Table, *, utc_times: bool = False, notes: Mapping[bytes, bytes] | None = None
) -> bytes:
    """Return a table as the bytes of a Parquet file. Equal tables give equal bytes.

    Args:
        table: Its rows.
        utc_times: Whether to mark times of day as UTC, which Arrow's types cannot say.
        notes: More metadata of the file, which are not in its schema.
    """
    table, sink = types.writable(table), io.BytesIO()
    with sealed_writer(sink, table.schema, write_time_adjusted_to_utc=utc_times) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(notes or {})
    return sink.getvalue()


# A seal is a digest of the footer that stands in it: it is made with zeros in its place.
#
# It covers all that no checksum of a page covers, but for headers of pages. A flipped bit of one
# can lose the last values of a page, but gives no others: who reads columns counts their rows. The
# last value of a list can be lost unnoticed.

SEAL_KEY = b"bertscore.seal"
_SEAL = b"seal:"
_BLANK = _SEAL + b"0" * 32


@contextlib.contextmanager
def sealed_writer(file: BinaryIO, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
    """Write a Parquet file that shows damage: its pages have checksums, its footer has a seal.

    Args:
        file: An empty file, which can be read as well.
        schema: Its columns.
        options: More of those of `ParquetWriter`.
    """
    with pq.ParquetWriter(
        file, schema, compression="zstd", version="2.6", write_page_checksum=True, **options
    ) as writer:
        yield writer
        writer.add_key_value_metadata({SEAL_KEY: _BLANK})
    footer = _footer(file)
    file.seek(-len(footer), io.SEEK_END)
    file.write(_sealed(footer))


def _sealed(footer: bytes) -> bytes:
    """Return a footer with a seal in the place of its blank; texts of users may look like one."""
    seal, parts = _SEAL + digest_of(footer).encode(), footer.split(_BLANK)
    tried = (
        _BLANK.join(parts[:number]) + seal + _BLANK.join(parts[number:])
        for number in range(1, len(parts))
    )
    return next(made for made in tried if _stated(_parsed(made)) == seal)


def _parsed(footer: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(footer))


def _stated(footer: pq.FileMetaData) -> bytes:
    stated: bytes = (footer.metadata or {}).get(SEAL_KEY, b"")
    return stated


def seal_of(footer: pq.FileMetaData) -> str:
    """Return the seal of a file of `sealed_writer`: 32 hexadecimal digits."""
    return _stated(footer).removeprefix(_SEAL).decode()


def seal_in(data: bytes) -> str:
    """Return the same of the bytes of a file."""
    return seal_of(_parsed(data))


def open_sealed(data: bytes) -> pq.ParquetFile:
    """Open a file of `sealed_writer` that is in memory.

    Raises:
        ValueError: It is none, or its footer is damaged.
    """
    source = pa.BufferReader(data)
    return _opened(source, _checked_footer(_footer(source), ""), int96.COARSE)


def copied_footer(file: BinaryIO) -> bytes:
    """Return a file without pages that has the footer of a file of `sealed_writer`."""
    return _MARK + _footer(file)


def _checked_footer(footer: bytes, seal: str) -> pq.FileMetaData:
    metadata = _parsed(footer)
    stated = _stated(metadata)
    blank = footer.replace(stated, _BLANK) if stated else footer
    made = digest_of(blank)
    if stated != _SEAL + made.encode() or seal not in ("", made):
        raise ValueError("another footer than was written")
    return metadata
