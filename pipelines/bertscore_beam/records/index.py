"""The index of a run: the scores of all its rows, sorted by the digests of their texts.

    OUT/_manifest/index.json                 which files it has, and what the codes in them mean
    OUT/_manifest/index/<id>/00003.keys      the high halves of the digests of some parts, sorted
    OUT/_manifest/index/<id>/00003.rows      the low halves, settings and scores, in the same order

Each pair of files holds the rows of successive parts, as many as can be sorted in memory. So it can
be written by any worker, without the others. A look-up is a binary search in the keys of each pair,
and reads an entry of the rows only when it hits. Both files are arrays of one width, so that they
can be mapped into memory and only what is touched is read.

Few large files, because an object store answers a request in tens of milliseconds; sorted by digest
and with the scores in them, because the rows of a split may be anywhere in the earlier run: from
many small files, or from its parts, every split would have to read nearly all. A join in the
pipeline would read the input twice, and hold all digests in memory on a local runner.

It is built from the pieces of the parts (`records.row_scores`), which are too many to be searched.
The bytes are the same, whoever writes them and however often.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.checked import typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import check_is_regular, in_parallel, read_bytes, read_each
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.row_scores import VALUES, rows_file, rows_from_bytes
from bertscore_beam.run import pool
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import JobFailedError, event
from bertscore_core.errors import InputError

logger = logging.getLogger(__name__)

INDEX_FILE = "_manifest/index.json"
INDEX_FOLDER = "_manifest/index"

KEY = np.dtype("<u8")

_ENTRY = np.dtype(
    [
        ("high", KEY),
        ("low", KEY),
        ("setting", "<u2"),
        *((name, VALUES[name]) for name in VALUES.names or ()),
    ]
)
"""What is known of a row."""

_OF_ROW = tuple(name for name in _ENTRY.names or () if name != "high")
_CHECKSUM = "checksum"
ROW = np.dtype([*((name, _ENTRY[name]) for name in _OF_ROW), (_CHECKSUM, "<u4")])
"""An entry of a file of rows. The checksum is that of the row with its key."""

_FORMAT = 3

FILE_ROWS = 1_000_000
"""Most rows of a file, if no part has more: 60 MB. To write it takes up to 300 MB."""

_WRITERS = 2
"""Files that are written at the same time: by the pool of a run, or by a worker of a service."""

# Pieces that are read at the same time. Five times as many are held, of about 1 MB each.
_READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One of the pairs of files.

    Attributes:
        number: Its place in their order, and its name.
        rows: Rows in it.
        signatures: What `setting` in an entry stands for: the place of a signature in the index.
        reasons: What `reason` in an entry stands for: the place of a word in the index.
    """

    number: int
    rows: int
    signatures: list[int]
    reasons: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What `index.json` says.

    Attributes:
        id: Digest of what it was built from, and name of the folder of its files.
        signatures: All signatures of its rows.
        reasons: All words for what became of a row.
        files: Those with rows. Of equal rows, those in the first file count.
    """

    id: str
    signatures: list[str]
    reasons: list[str]
    files: list[IndexFile]
    format: int = _FORMAT


_KINDS = ("keys", "rows")


def _file_name(index: str, number: int, kind: str) -> str:
    """Return the path of a file of keys, or of rows, below the output folder."""
    return f"{INDEX_FOLDER}/{index}/{number:05d}.{kind}"


def read_index(folder: OutputFolder) -> Index | None:
    """Read what the index of a run is; None without one that can be read."""
    content = folder.read_json(INDEX_FILE)
    with suppress(KeyError, TypeError, ValueError):
        index = typed(Index, content)
        return index if content["format"] == _FORMAT else None
    return None


def _checksums(entries: npt.NDArray[np.void]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 of the key and the values of each entry; any one flipped bit changes it."""
    data, size = entries.view(np.uint8).data, entries.itemsize
    sums = (zlib.crc32(data[start : start + size]) for start in range(0, len(data), size))
    return np.fromiter(sums, dtype=np.uint32, count=len(entries))


def are_sound(keys: npt.NDArray[np.uint64], rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Tell which rows are as they were written."""
    entries = np.empty(len(rows), dtype=_ENTRY)
    entries["high"] = keys
    for name in _OF_ROW:
        entries[name] = rows[name]
    sound: npt.NDArray[np.bool_] = _checksums(entries) == rows[_CHECKSUM]
    return sound


@dataclass(frozen=True, slots=True)
class PieceChunk:
    """Pieces whose rows come into one pair of files.

    Attributes:
        index: Id of the index that is built.
        number: That of the files.
        parts: The names of their parts, in the order that decides which of equal rows counts.
    """

    index: str
    number: int
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return f"rows of {self.parts[0] if self.parts else 'no part'} and those after it"


def chunks_to_index(folder: OutputFolder, parts: Iterable[PartRecord]) -> list[PieceChunk]:
    """Return what is to be read for the index of a run's parts; nothing if it is there already."""
    chunks = _chunks(parts)
    return [] if _is_there(folder, chunks) else chunks


def _chunks(parts: Iterable[PartRecord]) -> list[PieceChunk]:
    """Return the chunks of a run's parts: one without any."""
    digest, rows = hashlib.sha256(b"["), 0
    chunks: list[list[str]] = [[]]
    for number, part in enumerate(parts):
        content = json.dumps([part.part_name, part.texts_digest])
        digest.update(f"{', ' if number else ''}{content}".encode())
        rows += part.num_rows
        if rows > FILE_ROWS and chunks[-1]:
            chunks.append([])
            rows = part.num_rows
        chunks[-1].append(part.part_name)
    digest.update(b"]")
    index = digest.hexdigest()[:32]
    return [PieceChunk(index, number, tuple(names)) for number, names in enumerate(chunks)]


def _is_there(folder: OutputFolder, chunks: list[PieceChunk]) -> bool:
    index = read_index(folder)
    return index is not None and index.id == chunks[0].index


def write_index(folder: OutputFolder, parts: Iterable[PartRecord]) -> None:
    """Build the index of a run's parts in the open pool, unless it is there already.

    Later runs can do without it. So if it cannot be written, nothing of it is left, and the run
    succeeds all the same. No index of other parts is left either.
    """
    chunks, opened = _chunks(parts), pool.opened()
    with _left_out_on_error():
        if not _is_there(folder, chunks):
            written = in_parallel(
                lambda chunk: pool.ask(write_index_file, folder, chunk),
                chunks,
                threads=1 if opened is None else _WRITERS,
                waiting=0,
            )
            declare_index(folder, written)
    # Also if it was there: the run that has built it may have been cut off before this.
    delete_index(folder, but=chunks[0].index)


@contextmanager
def _left_out_on_error() -> Iterator[None]:
    """Say that there is no index, and go on, if a disk or the memory has no room for it."""
    try:
        yield
    except (OSError, MemoryError, pool.WorkersDiedError, JobFailedError) as error:
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning(event("index_not_written", reason=reason))


def delete_index(folder: OutputFolder, but: str | None = None) -> None:
    """Delete the index of a run, unless it has this id, and all files that are not of it."""
    names = {f"{INDEX_FOLDER}/{name}" for name in folder.files(INDEX_FOLDER)}
    index = read_index(folder)
    if index is not None and index.id == but:
        numbers = [file.number for file in index.files]
        names -= {_file_name(index.id, number, kind) for number in numbers for kind in _KINDS}
    else:
        folder.delete(INDEX_FILE)  # first: without its files it would be damaged
    folder.delete(*names)
    folder.delete_empty_folders(INDEX_FOLDER)


def write_index_file(folder: OutputFolder, chunk: PieceChunk) -> Index:
    """Sort and write the rows of some pieces; of equal texts and settings it keeps the first.

    Returns:
        An index of this file alone; without it, if it has no rows and is not written.
    """
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    entries = _sorted_once(_entries(folder, chunk, signatures, reasons))
    files = []
    if len(entries):
        rows = np.empty(len(entries), dtype=ROW)
        for column in _OF_ROW:
            rows[column] = entries[column]
        rows[_CHECKSUM] = _checksums(entries)
        names = (_file_name(chunk.index, chunk.number, kind) for kind in _KINDS)
        contents = (entries["high"].tobytes(), rows.tobytes())
        folder.write_all(dict(zip(names, contents, strict=True)))
        of_file = {"signatures": [*signatures.values()], "reasons": [*reasons.values()]}
        files.append(IndexFile(number=chunk.number, rows=len(entries), **of_file))
    return Index(id=chunk.index, signatures=[*signatures], reasons=[*reasons], files=files)


_TURNS = threading.BoundedSemaphore(_WRITERS)


def index_chunk(folder: OutputFolder, chunk: PieceChunk) -> Iterator[Index | None]:
    """Do the same as a step of a service; None if the file cannot be written."""
    written = None
    with _TURNS, _left_out_on_error():
        written = write_index_file(folder, chunk)
    yield written


def declare_index(folder: OutputFolder, written: Iterable[Index | None]) -> None:
    """Write what the index is, when all its files are written.

    Nothing if one could not be, or without any: then it was there already.
    """
    indexes: list[Index] = []
    for index in written:
        if index is None:
            return
        indexes.append(index)
    if not indexes:
        return
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    files: list[IndexFile] = []
    for index in sorted((one for one in indexes if one.files), key=lambda one: one.files[0].number):
        of_signatures = [signatures.setdefault(one, len(signatures)) for one in index.signatures]
        of_reasons = [reasons.setdefault(one, len(reasons)) for one in index.reasons]
        (file,) = index.files
        files.append(replace(file, signatures=of_signatures, reasons=of_reasons))
    whole = Index(id=indexes[0].id, signatures=[*signatures], reasons=[*reasons], files=files)
    with _left_out_on_error():
        folder.write_json(INDEX_FILE, asdict(whole))


def _entries(
    folder: OutputFolder, chunk: PieceChunk, signatures: dict[str, int], reasons: dict[str, int]
) -> npt.NDArray[np.void]:
    """Return the scored rows of pieces; what is missing or damaged is left out.

    Codes of settings and reasons are numbered in each piece by itself. Here they get those of
    `signatures` and `reasons`, which new words are added to.
    """
    pieces = [np.empty(0, dtype=_ENTRY)]
    paths = (folder.path(rows_file(part)) for part in chunk.parts)
    for part, data in zip(chunk.parts, read_each(paths, _READERS), strict=True):
        if data is None:
            continue
        with suppress(InputError):
            rows = rows_from_bytes(data, rows_file(part))
            entries = np.empty(len(rows), dtype=_ENTRY)
            entries["high"], entries["low"] = rows.digests.T
            for name in VALUES.names or ():
                entries[name] = rows.values[name]
            entries["reason"] = _renumbered(rows.values["reason"], rows.reasons, reasons)
            signed = rows.signed
            entries["setting"] = _renumbered(signed.codes, signed.signatures, signatures)
            pieces.append(entries[rows.scored])
    return np.concatenate(pieces)


def _renumbered(
    codes: npt.NDArray[Any], words: Iterable[str], numbers: dict[str, int]
) -> npt.NDArray[Any]:
    """Return the codes of words under other numbers, new words added; codes without one stay."""
    table = np.arange(np.iinfo(codes.dtype).max + 1, dtype=codes.dtype)
    for code, word in enumerate(words):
        table[code] = numbers.setdefault(word, len(numbers))
    renumbered: npt.NDArray[Any] = table[codes]
    return renumbered


def _sorted_once(entries: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    names = ("setting", "low", "high")
    entries = entries[np.lexsort([entries[name] for name in names])]  # stable
    first = np.ones(len(entries), dtype=np.bool_)
    first[1:] = np.logical_or.reduce([entries[name][1:] != entries[name][:-1] for name in names])
    return entries[first]


# Read the files of an index with a bounded part of them in memory and on the local disk.
#
# A local file is mapped into memory while it is searched, and no longer. From an object store whole
# files are fetched to unnamed temporary files, as long as they take no more than `HELD_BYTES` of
# a disk that has room.

HELD_BYTES = 8 * 2**30
"""Most bytes of files that a process fetches: an index of 140 million rows."""

_FREE_SHARE = 0.1
"""Least share of the local disk that stays free."""

IndexPair: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.void]]


class IndexReader:
    """Reads the files of an index. Threads may share it."""

    def __init__(self, folder: OutputFolder, index: Index) -> None:
        self.index = index
        self._folder = folder
        self._is_remote = is_remote(folder.root)
        self._lock = threading.Lock()
        self._opened: dict[int, Future[IndexPair | str]] = {}  # or on their way

    def open(self, file: IndexFile) -> IndexPair | str | None:
        """Return a pair of files, or what is wrong with it; None if there is no room for it."""
        with self._lock:
            is_first = file.number not in self._opened
            if is_first and not self._has_room(file):
                return None
            opened = self._opened.setdefault(file.number, Future())
        if is_first:
            is_kept = self._is_remote
            try:
                opened.set_result(self._mapped(file))
            except Exception as error:
                opened.set_result(f"{type(error).__name__}: {error}")
                is_kept = is_kept and isinstance(error, InputError)  # others may pass
            if not is_kept:
                with self._lock:
                    del self._opened[file.number]
        return opened.result()

    def _has_room(self, file: IndexFile) -> bool:
        if not self._is_remote:
            return True

        width = KEY.itemsize + ROW.itemsize
        sizes = {one.number: one.rows * width for one in self.index.files}
        held = sum(sizes[number] for number in self._opened)
        coming = sum(sizes[number] for number, opened in self._opened.items() if not opened.done())
        disk = shutil.disk_usage(tempfile.gettempdir())
        room = disk.free - _FREE_SHARE * disk.total
        size = sizes[file.number]
        return held + size <= HELD_BYTES and coming + size <= room

    def _mapped(self, file: IndexFile) -> IndexPair:
        keys, rows = (_file_name(self.index.id, file.number, kind) for kind in _KINDS)
        return self._map(keys, KEY, file.rows), self._map(rows, ROW, file.rows)

    def _map(self, name: str, kind: np.dtype[Any], rows: int) -> npt.NDArray[Any]:
        path = self._folder.path(name)
        if not self._is_remote:
            check_is_regular(path)
        # Without a name, so that a killed worker leaves nothing on the disk.
        with _unnamed() if self._is_remote else open(path, "rb") as file:
            if self._is_remote:
                file.write(read_bytes(path))
                file.flush()
            size = os.fstat(file.fileno()).st_size
            if size != rows * kind.itemsize:
                raise InputError(
                    f"{mask_credentials(path)!r} is damaged: got {size} bytes; expected "
                    f"{rows * kind.itemsize}."
                )
            entries: npt.NDArray[Any] = np.memmap(file, dtype=kind, mode="r")
        return entries


def _unnamed() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="bertscore-index-")
