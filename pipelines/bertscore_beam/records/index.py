"""The index of a run: the scores of all its rows, sorted by the digests of their texts.

    OUT/_manifest/index.json                 what the codes in it mean; written last
    OUT/_manifest/index/<id>/00003.keys      the high halves of the digests of a bucket, sorted
    OUT/_manifest/index/<id>/00003.rows      the low halves, settings and scores, in the same order

The first bits of a digest choose its bucket. A look-up is a binary search in keys, and reads an
entry of the rows only when it hits. Both files are arrays of one width, so that they can be mapped
into memory and only what is touched is read.

Few large files, because an object store answers a request in tens of milliseconds; sorted by digest
and with the scores in them, because the rows of a split may be anywhere in the earlier run: from
many small files, or from its parts, every split would have to read nearly all. A join in the
pipeline would read the input twice, and hold all digests in memory on a local runner.

It is built from the pieces of the parts (`records.row_scores`), which are too many to be searched:

    chunks of pieces --read_pieces--> rows by bucket --write_bucket--> files of a bucket

On one machine the rows wait in files of its disk (`write_index`), elsewhere in the shuffle of the
pipeline (`score.conclude`). The bytes are the same, whoever writes them and however often.
"""

import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from operator import itemgetter
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.buckets import Buckets, split_by_bucket
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import check_is_regular, read_bytes, read_each
from bertscore_beam.records.row_scores import UNCOUNTED, VALUES, rows_file, rows_from_bytes
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import InputError

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

_ROWS = {1: np.dtype([(name, ROW[name]) for name in _OF_ROW if name not in UNCOUNTED]), 2: ROW}
"""The entries by the format of the index."""

BUCKET_ROWS = 1_000_000
"""Rows that a bucket has on average, at most: about 60 MB, which are sorted in memory."""

_FORMAT = 2
# Pieces that are read at the same time. Five times as many are held, of about 1 MB each.
_READERS = 16
# Buckets that are sorted and written at the same time. Each takes up to 250 MB meanwhile.
_WRITERS = 2

_Words: TypeAlias = Mapping[int, str]
Fragment: TypeAlias = tuple[int, _Words, _Words, Any]
"""Rows of a chunk of pieces that are in one bucket: the number of that chunk, what the codes of
settings and of reasons stand for, and the entries as bytes."""
Bucket: TypeAlias = tuple[str, int, int]
"""Id of the index, bits of its buckets, and number of the bucket; `WORDS` for none."""
WORDS = -1
"""The number of a fragment without entries that names all signatures and reasons of its chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What `index.json` says.

    Attributes:
        id: Digest of what it was built from, and name of the folder of its files.
        signatures: The signatures that `setting` in an entry stands for.
        reasons: The words that `reason` in an entry stands for.
        rows: Rows of each bucket. Shape (2 ** bits,).
        format: 1 of the versions that wrote no checksums and did not count unknown tokens.
    """

    id: str
    signatures: tuple[str, ...]
    reasons: tuple[str, ...]
    rows: tuple[int, ...]
    format: int = _FORMAT

    @property
    def row(self) -> np.dtype[Any]:
        """The type of an entry of a file of rows."""
        return _ROWS[self.format]

    @property
    def bits(self) -> int:
        """Bits of a digest that choose its bucket."""
        return len(self.rows).bit_length() - 1


def _bucket_file(index: str, bucket: int, suffix: str) -> str:
    """Return the path of a bucket's keys, or of its rows, below the output folder."""
    return f"{INDEX_FOLDER}/{index}/{bucket:05d}{suffix}"


def read_index(folder: OutputFolder) -> Index | None:
    """Read what the index of a run is; None without one that can be read."""
    content = folder.read_json(INDEX_FILE)
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        if content["format"] in _ROWS:
            return Index(
                format=content["format"],
                id=str(content["id"]),
                signatures=tuple(map(str, content["signatures"])),
                reasons=tuple(map(str, content["reasons"])),
                rows=tuple(map(int, content["rows"])),
            )
    return None


def _checksums(entries: npt.NDArray[np.void]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 of the key and the values of each entry; any one flipped bit changes it."""
    data, size = memoryview(entries.tobytes()), entries.itemsize
    sums = (zlib.crc32(data[start : start + size]) for start in range(0, len(data), size))
    return np.fromiter(sums, dtype=np.uint32, count=len(entries))


def are_sound(
    keys: npt.NDArray[np.uint64], rows: npt.NDArray[np.void], index: Index
) -> npt.NDArray[np.bool_]:
    """Tell which rows are as they were written; all, if they were written without a checksum."""
    if index.format == 1:
        return np.ones(len(rows), dtype=np.bool_)
    entries = np.empty(len(rows), dtype=_ENTRY)
    entries["high"] = keys
    for name in _OF_ROW:
        entries[name] = rows[name]
    sound: npt.NDArray[np.bool_] = _checksums(entries) == rows[_CHECKSUM]
    return sound


@dataclass(frozen=True, slots=True)
class PieceChunk:
    """Pieces that are read together: about as many rows as a bucket has.

    So a fragment has many rows, however many buckets there are.

    Attributes:
        index: Id of the index that is built.
        bits: Bits of a digest that choose its bucket.
        number: Which chunk it is, in their order.
    """

    index: str
    bits: int
    number: int
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return f"rows of {self.parts[0] if self.parts else 'no part'} and those after it"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedParts:
    """The parts of a run that its index is built of. A part without a piece is left out then.

    Attributes:
        names: Their names, in the order that decides which one of equal rows is found.
    """

    id: str
    names: tuple[str, ...]
    num_rows: int

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str, int]]) -> "IndexedParts":
        """Return parts that come one by one: name, digest of what it holds, number of rows."""
        digest, num_rows = hashlib.sha256(b"["), 0
        names: list[str] = []
        for name, content, rows in parts:
            digest.update((", " if names else "").encode() + json.dumps([name, content]).encode())
            names.append(name)
            num_rows += rows
        digest.update(b"]")
        return cls(id=digest.hexdigest()[:32], names=tuple(names), num_rows=num_rows)


def chunks_to_index(folder: OutputFolder, parts: IndexedParts) -> Iterator[PieceChunk]:
    """Yield what is to be read for the index of a run's parts; nothing if it is there already."""
    earlier = read_index(folder)
    if earlier is not None and earlier.id == parts.id:
        return
    names, num_rows = parts.names, max(1, parts.num_rows)
    bits = max(0, math.ceil(math.log2(num_rows / BUCKET_ROWS)))
    together = max(1, BUCKET_ROWS * len(names) // num_rows)
    for number, start in enumerate(range(0, max(1, len(names)), together)):
        yield PieceChunk(parts.id, bits, number, names[start : start + together])


def write_index(folder: OutputFolder, parts: IndexedParts) -> None:
    """Build the index of a run's parts on this machine, unless it is there already.

    Memory is bounded by some buckets and pieces. Meanwhile all rows are on the local disk, in
    temporary files of 56 bytes a row.

    Raises:
        OSError: A disk has no room for it. Then nothing of it is left.
    """
    try:
        if chunks := list(chunks_to_index(folder, parts)):
            _check_room(folder, parts.num_rows)
            _build(folder, chunks)
    finally:
        # Also if it was there: the run that has built it may have been cut off before this.
        index = read_index(folder)
        _delete_index_files(folder, kept=None if index is None else index.id)


def _delete_index_files(folder: OutputFolder, kept: str | None = None) -> None:
    """Delete the files of all indexes but one."""
    names = [name for name in folder.files(INDEX_FOLDER) if not name.startswith(f"{kept}/")]
    folder.delete(*(f"{INDEX_FOLDER}/{name}" for name in names))
    folder.delete_empty_folders(INDEX_FOLDER)


def delete_index(folder: OutputFolder) -> None:
    """Delete the index of a run, if there is one."""
    folder.delete(INDEX_FILE)
    _delete_index_files(folder)


def read_pieces(chunk: PieceChunk, *, folder: OutputFolder) -> Iterator[tuple[Bucket, Fragment]]:
    """Read pieces; yield the words of their codes, then their scored rows by bucket."""
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    entries = _entries(folder, chunk, signatures, reasons)
    of_setting, of_reason = dict(enumerate(signatures)), dict(enumerate(reasons))
    yield (chunk.index, chunk.bits, WORDS), (chunk.number, of_setting, of_reason, b"")
    for bucket, rows in split_by_bucket(entries, entries["high"], chunk.bits):
        words = _used(of_setting, rows["setting"]), _used(of_reason, rows["reason"])
        yield (chunk.index, chunk.bits, bucket), (chunk.number, *words, rows.tobytes())


def write_bucket(
    folder: OutputFolder,
    grouped: tuple[Bucket, Iterable[Fragment]],
    signatures: Iterable[str],
    reasons: Iterable[str],
) -> tuple[Bucket, int]:
    """Sort and write one bucket, with its rows; of equal texts and settings it keeps the first.

    Returns:
        The bucket, and how many rows it has; of `WORDS` nothing is written.
    """
    bucket, fragments = grouped
    if bucket[2] == WORDS:
        return bucket, 0
    settings, causes = (
        {word: n for n, word in enumerate(sorted(words))} for words in (signatures, reasons)
    )
    ordered = sorted(fragments, key=itemgetter(0))
    entries = np.concatenate([np.frombuffer(data, dtype=_ENTRY) for *_, data in ordered])
    start = 0
    for _, of_setting, of_reason, data in ordered:
        of_run = entries[start : start + memoryview(data).nbytes // _ENTRY.itemsize]
        of_run["setting"] = _renumbered(of_run["setting"], of_setting, settings)
        of_run["reason"] = _renumbered(of_run["reason"], of_reason, causes)
        start += len(of_run)
    entries = _sorted_once(entries)
    name, _, number = bucket
    rows = np.empty(len(entries), dtype=ROW)
    for column in _OF_ROW:
        rows[column] = entries[column]
    rows[_CHECKSUM] = _checksums(entries)
    folder.write_all(
        {
            _bucket_file(name, number, ".keys"): entries["high"].tobytes(),
            _bucket_file(name, number, ".rows"): rows.tobytes(),
        }
    )
    return bucket, len(entries)


def declare_index(
    folder: OutputFolder,
    written: Sequence[tuple[Bucket, int]],
    signatures: Iterable[str],
    reasons: Iterable[str],
) -> None:
    """Write what the index is, when all its buckets are written; nothing without any.

    Then it was there already.
    """
    if not written:
        return
    (name, bits, _), _ = written[0]
    rows = [0] * 2**bits
    for (_, _, number), size in written:
        if number != WORDS:
            rows[number] = size
    words = tuple(sorted(signatures)), tuple(sorted(reasons))
    about = asdict(Index(id=name, signatures=words[0], reasons=words[1], rows=tuple(rows)))
    folder.write_json(INDEX_FILE, about)


def _check_room(folder: OutputFolder, num_rows: int) -> None:
    """Raise if a disk has no room for the rows, before a byte is written.

    The files in which they wait go as those of the index come, so that both take little more room
    than one, also on one disk.
    """
    needed = num_rows * (KEY.itemsize + ROW.itemsize)
    paths = [tempfile.gettempdir(), *([] if is_remote(folder.root) else [folder.root])]
    for path in paths:
        if (free := shutil.disk_usage(path).free) < needed:
            raise OSError(
                errno.ENOSPC,
                f"the index of {num_rows:,} rows needs {needed:,} bytes: got {free:,} free; "
                "expected more. Give TMPDIR a larger disk, or leave the index out with --no-index",
                path,
            )


def _build(folder: OutputFolder, chunks: Sequence[PieceChunk]) -> None:
    """Sort more rows than fit in memory: into buckets on the disk first, then each bucket."""
    name, bits = chunks[0].index, chunks[0].bits
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    written = [((name, bits, WORDS), 0)]
    with closing(Buckets(bits, itemgetter("high"))) as buckets:
        for chunk in chunks:
            buckets.add(_entries(folder, chunk, signatures, reasons))
        codes = dict(enumerate(signatures)), dict(enumerate(reasons))

        def write(taken_bucket: tuple[int, npt.NDArray[np.void]]) -> tuple[Bucket, int]:
            bucket, entries = taken_bucket
            grouped = (name, bits, bucket), [(0, *codes, entries)]
            return write_bucket(folder, grouped, signatures, reasons)

        taken = buckets.take(_ENTRY)
        with ThreadPoolExecutor(_WRITERS) as pool:  # for the sake of object stores
            while together := list(islice(taken, _WRITERS)):
                written += pool.map(write, together)
    declare_index(folder, written, signatures, reasons)


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
            signed, causes = rows.signed, dict(enumerate(rows.reasons))
            entries["reason"] = _renumbered(rows.values["reason"], causes, reasons)
            settings = dict(enumerate(signed.signatures))
            entries["setting"] = _renumbered(signed.codes, settings, signatures)
            pieces.append(entries[rows.scored])
    return np.concatenate(pieces)


def _used(words: _Words, codes: npt.NDArray[Any]) -> _Words:
    """Return the words of the codes that occur: thousands of idf tables are not sent with each."""
    return {code: words[code] for code in set(codes.tolist()) & words.keys()}


def _renumbered(
    codes: npt.NDArray[Any], words: _Words, numbers: dict[str, int]
) -> npt.NDArray[Any]:
    """Return the codes of words under other numbers, new words added; codes without one stay."""
    table = np.arange(np.iinfo(codes.dtype).max + 1, dtype=codes.dtype)
    for code, word in words.items():
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
# buckets are fetched to unnamed temporary files, as long as they take no more than `HELD_BYTES` of
# a disk that has room.

HELD_BYTES = 8 * 2**30
"""Most bytes of buckets that a process fetches: an index of 140 million rows."""

_FREE_SHARE = 0.1
"""Least share of the local disk that stays free."""

_Bucket: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.void]]


class IndexFiles:
    """The files of an index. Threads may share it."""

    def __init__(self, folder: OutputFolder, index: Index) -> None:
        self._folder, self._index = folder, index
        self._is_remote = is_remote(folder.root)
        self._lock = threading.Lock()
        self._fetched: dict[int, Future[_Bucket]] = {}  # or on their way, or found damaged

    def open(self, bucket: int) -> _Bucket | None:
        """Return the keys and the rows of a bucket with rows; None if there is no room for it."""
        if not self._is_remote:
            return self._mapped(bucket)
        with self._lock:
            is_first = bucket not in self._fetched
            if is_first and not self._has_room(bucket):
                return None
            fetched = self._fetched.setdefault(bucket, Future())
        if is_first:
            try:
                fetched.set_result(self._mapped(bucket))
            except BaseException as error:
                if not isinstance(error, InputError):  # such as a disk that is full after all
                    with self._lock:
                        del self._fetched[bucket]
                fetched.set_exception(error)
        if isinstance(known := fetched.exception(), InputError):
            raise InputError(*known.args)  # a new one: the traceback of each holds its callers
        return fetched.result()

    def _has_room(self, bucket: int) -> bool:
        def size(*buckets: int) -> int:
            entry = KEY.itemsize + self._index.row.itemsize
            return sum(self._index.rows[number] for number in buckets) * entry

        coming = [number for number, fetched in self._fetched.items() if not fetched.done()]
        disk = shutil.disk_usage(tempfile.gettempdir())
        room = disk.free - _FREE_SHARE * disk.total
        return size(bucket, *self._fetched) <= HELD_BYTES and size(bucket, *coming) <= room

    def _mapped(self, bucket: int) -> _Bucket:
        name, rows = self._index.id, self._index.rows[bucket]
        keys = self._map(_bucket_file(name, bucket, ".keys"), KEY, rows)
        return keys, self._map(_bucket_file(name, bucket, ".rows"), self._index.row, rows)

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
