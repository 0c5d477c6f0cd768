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
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from operator import attrgetter
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.checked import typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import check_is_regular, in_parallel, read_bytes, read_each
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.row_scores import UNCOUNTED, VALUES, rows_file, rows_from_bytes
from bertscore_beam.run import pool
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import event
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
_FIRST_ROW = np.dtype([(name, ROW[name]) for name in _OF_ROW if name not in UNCOUNTED])
_ROWS = {1: _FIRST_ROW, 2: ROW, _FORMAT: ROW}
"""The entries by the format of the index. Until format 2 its files are cut by the first bits of the
digests, and the codes mean the same in all."""

FILE_ROWS = 1_000_000
"""Most rows of a file, if no part has more: 60 MB. To write it takes up to 300 MB."""

# Pieces that are read at the same time. Five times as many are held, of about 1 MB each.
_READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One of the pairs of files.

    Attributes:
        number: Its place in their order, and its name.
        rows: Rows in it.
        signatures: The signatures that `setting` in an entry stands for.
        reasons: The words that `reason` in an entry stands for.
    """

    number: int
    rows: int
    signatures: list[str]
    reasons: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What `index.json` says.

    Attributes:
        id: Digest of what it was built from, and name of the folder of its files.
        files: Those with rows. Of equal rows, those in the first file count.
        format: 1 of the versions that wrote no checksums and did not count unknown tokens.
    """

    id: str
    files: list[IndexFile]
    format: int = _FORMAT

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures of its rows."""
        return tuple(sorted({*chain.from_iterable(file.signatures for file in self.files)}))

    @property
    def row(self) -> np.dtype[Any]:
        """The type of an entry of a file of rows."""
        return _ROWS[self.format]


_KINDS = ("keys", "rows")


def _file_name(index: str, number: int, kind: str) -> str:
    """Return the path of a file of keys, or of rows, below the output folder."""
    return f"{INDEX_FOLDER}/{index}/{number:05d}.{kind}"


def read_index(folder: OutputFolder) -> Index | None:
    """Read what the index of a run is; None without one that can be read."""
    content = folder.read_json(INDEX_FILE)
    with suppress(KeyError, TypeError, ValueError):
        if content["format"] in (1, 2):
            words = {name: content[name] for name in ("signatures", "reasons")}
            numbered = enumerate(content["rows"])
            files = [{"number": number, "rows": rows, **words} for number, rows in numbered if rows]
            content = {**content, "files": files}
        index = typed(Index, content)
        return index if index.format in _ROWS else None
    return None


def _checksums(entries: npt.NDArray[np.void]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 of the key and the values of each entry; any one flipped bit changes it."""
    data, size = memoryview(entries.tobytes()), entries.itemsize
    sums = (zlib.crc32(data[start : start + size]) for start in range(0, len(data), size))
    return np.fromiter(sums, dtype=np.uint32, count=len(entries))


def are_sound(keys: npt.NDArray[np.uint64], rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Tell which rows are as they were written; all, if they were written without a checksum."""
    if _CHECKSUM not in (rows.dtype.names or ()):
        return np.ones(len(rows), dtype=np.bool_)
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
    index, earlier = digest.hexdigest()[:32], read_index(folder)
    if earlier is not None and earlier.id == index:
        return []
    return [PieceChunk(index, number, tuple(names)) for number, names in enumerate(chunks)]


def write_index(folder: OutputFolder, parts: Iterable[PartRecord]) -> None:
    """Build the index of a run's parts in the open pool, unless it is there already.

    Later runs can do without it. So if it cannot be written, nothing of it is left, and the run
    succeeds all the same.
    """
    chunks, opened = chunks_to_index(folder, parts), pool.opened()
    try:
        written = in_parallel(
            lambda chunk: pool.ask(write_index_file, folder, chunk),
            chunks,
            threads=1 if opened is None else opened.most_in_flight,
            waiting=0,
        )
        declare_index(folder, written)
    except OSError as error:
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning(event("index_not_written", reason=reason))
    finally:
        # Also if it was there: the run that has built it may have been cut off before this.
        _delete_index_files(folder, kept=read_index(folder))


def _delete_index_files(folder: OutputFolder, kept: Index | None = None) -> None:
    """Delete the files of all indexes but one."""
    names = {f"{INDEX_FOLDER}/{name}" for name in folder.files(INDEX_FOLDER)}
    if kept is not None:
        numbers = [file.number for file in kept.files]
        names -= {_file_name(kept.id, number, kind) for number in numbers for kind in _KINDS}
    folder.delete(*names)
    folder.delete_empty_folders(INDEX_FOLDER)


def delete_index(folder: OutputFolder) -> None:
    """Delete the index of a run, if there is one."""
    folder.delete(INDEX_FILE)
    _delete_index_files(folder)


def write_index_file(folder: OutputFolder, chunk: PieceChunk) -> tuple[str, IndexFile]:
    """Sort and write the rows of some pieces; of equal texts and settings it keeps the first.

    Returns:
        The index and the file, which is not written if it has no rows.
    """
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    entries = _sorted_once(_entries(folder, chunk, signatures, reasons))
    if len(entries):
        rows = np.empty(len(entries), dtype=ROW)
        for column in _OF_ROW:
            rows[column] = entries[column]
        rows[_CHECKSUM] = _checksums(entries)
        names = (_file_name(chunk.index, chunk.number, kind) for kind in _KINDS)
        contents = (entries["high"].tobytes(), rows.tobytes())
        folder.write_all(dict(zip(names, contents, strict=True)))
    return chunk.index, IndexFile(
        number=chunk.number, rows=len(entries), signatures=[*signatures], reasons=[*reasons]
    )


def index_chunk(folder: OutputFolder, chunk: PieceChunk) -> Iterator[tuple[str, IndexFile]]:
    """Do the same as a step."""
    yield write_index_file(folder, chunk)


def declare_index(folder: OutputFolder, written: Iterable[tuple[str, IndexFile]]) -> None:
    """Write what the index is, when all its files are written; nothing without any.

    Then it was there already.
    """
    if not (written := list(written)):
        return
    files = sorted((file for _, file in written if file.rows), key=attrgetter("number"))
    folder.write_json(INDEX_FILE, asdict(Index(id=written[0][0], files=files)))


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

        width = KEY.itemsize + self.index.row.itemsize
        sizes = {one.number: one.rows * width for one in self.index.files}
        held = sum(sizes[number] for number in self._opened)
        coming = sum(sizes[number] for number, opened in self._opened.items() if not opened.done())
        disk = shutil.disk_usage(tempfile.gettempdir())
        room = disk.free - _FREE_SHARE * disk.total
        size = sizes[file.number]
        return held + size <= HELD_BYTES and coming + size <= room

    def _mapped(self, file: IndexFile) -> IndexPair:
        keys, rows = (_file_name(self.index.id, file.number, kind) for kind in _KINDS)
        return self._map(keys, KEY, file.rows), self._map(rows, self.index.row, file.rows)

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
