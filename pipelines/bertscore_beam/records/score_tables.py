"""Sorted tables of the scores of an earlier run, for rows that have moved.

    OUT/_work/earlier/<list>.pq            which parts the earlier run has
    OUT/_work/earlier/<list>-00003.rows    the scores of some of these parts, sorted by digests

A run that reuses another writes the list when it begins. Its workers make the tables, when one of
them has rows that are not where they were. Each begins at another table, so they share the work. A
table holds successive parts, as many as can be sorted in memory, and a look-up is a binary search
in its mapped file. There are few large files, because an object store answers a request in tens of
milliseconds, and the rows of a split may be anywhere in the earlier run.

The bytes of a table follow from the parts. It begins with a digest of all the rest.
"""

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BufferedIOBase

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.parquet import open_kept, write_part
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.listing import Stored
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import check_is_regular, in_parallel, read_bytes
from bertscore_beam.records.records import all_records
from bertscore_beam.records.row_scores import (
    ENTRY,
    NO_REASON,
    NO_SETTING,
    ScoreTable,
    distinct,
    read_row_scores,
)
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import readable_head
from bertscore_core.errors import InputError, load_json

TABLES_FOLDER = "_work/earlier"

TABLE_ROWS = 500_000
"""Most rows of a table, if no part has more: 28 MB. To make it takes up to 150 MB."""

HELD_BYTES = 8 * 2**30
"""Most bytes of tables that a process fetches from an object store: 150 million rows."""

_FREE_SHARE = 0.1
"""Least share of the local disk that stays free."""

_READERS = 8
"""Parts that are read, or tables that are fetched, at the same time."""

_CURE = "Run the same command again: it lists the parts once more."
_DIGEST = hashlib.sha256().digest_size
_WHOLE = np.dtype("<u8")
_HEAD = _DIGEST + _WHOLE.itemsize
"""Bytes before the rows: a digest, and how many rows there are."""
_ROW = _WHOLE.itemsize + ENTRY.itemsize
"""Bytes of a row: the first half of its digest, and its entry. All first halves come first."""


def table_to_bytes(parts: Sequence[ScoreTable]) -> bytes:
    """Sort the scored rows of parts; of equal texts and settings the first counts."""
    signatures: dict[str, int] = {}
    reasons: dict[str, int] = {}
    highs, pieces = [np.empty(0, dtype=_WHOLE)], [np.empty(0, dtype=ENTRY)]
    for part in parts:
        entries = part.entries.copy()
        entries["reason"] = _renumbered(entries["reason"], part.reasons, reasons)
        entries["setting"] = _renumbered(entries["setting"], part.signatures, signatures)
        highs.append(part.highs)
        pieces.append(entries)
    if len(signatures) > NO_SETTING or len(reasons) > NO_REASON:
        raise ValueError("more settings than codes")
    keys, entries = distinct(np.concatenate(highs), np.concatenate(pieces))
    words = json.dumps({"signatures": [*signatures], "reasons": [*reasons]}).encode()
    count = len(entries).to_bytes(_WHOLE.itemsize, "little")
    rest = (count, keys.view(np.uint8).data, entries.view(np.uint8).data, words)
    digest = hashlib.sha256()
    for piece in rest:
        digest.update(piece)
    return b"".join((digest.digest(), *rest))


def _renumbered(
    codes: npt.NDArray[np.uint16], words: Sequence[str], numbers: dict[str, int]
) -> npt.NDArray[np.uint16]:
    """Return the codes of words under other numbers, new words added; codes without one stay."""
    table = np.arange(np.iinfo(codes.dtype).max + 1, dtype=codes.dtype)
    for code, word in enumerate(words):
        table[code] = numbers.setdefault(word, len(numbers))
    return table[codes]


def map_table(file: BufferedIOBase, *, is_checked: bool = False) -> ScoreTable:
    """Map a table that lies in a file on a disk; its digest is compared unless `is_checked`.

    Raises:
        ValueError: It is damaged.
    """
    digest = file.read(_DIGEST)
    if not is_checked and hashlib.file_digest(file, "sha256").digest() != digest:
        raise ValueError("other bytes than were written")
    file.seek(_DIGEST)
    count = int.from_bytes(file.read(_WHOLE.itemsize), "little")
    file.seek(_HEAD + count * _ROW)
    words = load_json(file.read())
    highs, entries = np.zeros(0, dtype=_WHOLE), np.zeros(0, dtype=ENTRY)
    if count:
        mapped = np.memmap(file, dtype=np.uint8, mode="r", offset=_HEAD, shape=(count * _ROW,))
        rows = np.asarray(mapped)  # a `memmap` takes longer to index
        middle = count * _WHOLE.itemsize
        highs, entries = rows[:middle].view(_WHOLE), rows[middle:].view(ENTRY)
    return ScoreTable(
        highs=highs,
        entries=entries,
        signatures=tuple(words["signatures"]),
        reasons=tuple(words["reasons"]),
    )


def list_earlier(folder: OutputFolder, source: OutputFolder) -> str:
    """Write which parts an earlier run has; return the name of the list."""
    records = all_records(source, readable_head(source))
    table = pa.table(
        {
            "name": pa.array([record.file for record in records], pa.string()),
            "size": pa.array([record.part_bytes for record in records], pa.int64()),
            "rows": pa.array([record.num_rows for record in records], pa.int64()),
        }
    )
    data = write_part(table)
    name = f"{TABLES_FOLDER}/{digest_of(data)}.pq"
    folder.write(name, data)
    return name


def delete_tables(folder: OutputFolder) -> None:
    """Delete the tables of a run, and its list."""
    folder.delete(*(f"{TABLES_FOLDER}/{name}" for name in folder.files(TABLES_FOLDER)))
    folder.delete_empty_folders(TABLES_FOLDER)


@dataclass(slots=True)
class _Chunk:
    """The parts of a table, by name and size, and how many rows they have."""

    parts: list[tuple[str, int]] = field(default_factory=list)
    rows: int = 0

    @property
    def most_bytes(self) -> int:
        """The most bytes of entries that its table can have."""
        return self.rows * _ROW


class ScoreTables:
    """The tables of an earlier run, made when they are missed. Threads may share it."""

    def __init__(self, folder: OutputFolder, source: OutputFolder, listed: str) -> None:
        """Read nothing yet. `listed`: the name of the list, as `list_earlier` returns it."""
        self._folder, self._source, self._list = folder, source, listed
        self._is_remote = is_remote(folder.root)
        self._making, self._lock = threading.Lock(), threading.Lock()
        self._made: dict[int, str] = {}  # what is wrong with each; "" for nothing
        self._checked: set[int] = set()
        self._opened: dict[int, Future[ScoreTable | str]] = {}  # or on their way

    def each(self, turn: int) -> Iterator[ScoreTable | str]:
        """Make the tables that are missing, beginning at one of them; then yield all in order.

        Instead of a table that cannot be used, and of a part of the earlier run that could not be
        read for one, a sentence says why.
        """
        numbers = range(len(self._chunks))
        first = turn % max(len(numbers), 1)
        with self._making:
            for number in (*numbers[first:], *numbers[:first]):
                yield from self._make_if_missing(number)
        yield from in_parallel(self._open, numbers, _READERS if self._is_remote else 1, waiting=0)

    @cached_property
    def _chunks(self) -> list[_Chunk]:
        """The parts of each table."""
        with open_kept(self._folder.path(self._list), _CURE) as file:
            listed = file.read()
        chunks: list[_Chunk] = []
        for name, size, rows in zip(*(column.to_pylist() for column in listed), strict=True):
            if not chunks or chunks[-1].rows + rows > TABLE_ROWS:
                chunks.append(_Chunk())
            chunks[-1].parts.append((name, size))
            chunks[-1].rows += rows
        return chunks

    def _name(self, number: int) -> str:
        return f"{self._list.removesuffix('.pq')}-{number:05d}.rows"

    def _make_if_missing(self, number: int) -> Iterator[str]:
        if number in self._made:
            return
        try:
            if not self._folder.exists(self._name(number)):
                yield from self._make(number)
            self._made[number] = ""
        except Exception as error:
            self._made[number] = f"{type(error).__name__}: {error}"

    def _make(self, number: int) -> list[str]:
        """Make a table; return what is wrong with parts that are left out of it."""

        def read(named: tuple[str, int]) -> ScoreTable | str | None:
            name, size = named
            try:
                return read_row_scores(self._source.path(name), Stored(size, "", ""))
            except (InputError, FileNotFoundError) as error:
                return str(error)

        parts = [*in_parallel(read, self._chunks[number].parts, _READERS, waiting=0)]
        data = table_to_bytes([part for part in parts if isinstance(part, ScoreTable)])
        self._folder.write(self._name(number), data)
        return [part for part in parts if isinstance(part, str)]

    def _open(self, number: int) -> ScoreTable | str:
        if problem := self._made[number]:
            return problem
        with self._lock:
            is_first = number not in self._opened
            if is_first and not self._has_room(number):
                return "no room is left for a further table"
            opened = self._opened.setdefault(number, Future())
        if is_first:
            try:
                opened.set_result(self._mapped(number))
            except Exception as error:
                opened.set_result(f"{type(error).__name__}: {error}")
            # A local file is mapped while it is searched, and no longer.
            if not self._is_remote or isinstance(opened.result(), str):
                with self._lock:
                    del self._opened[number]
        return opened.result()

    def _has_room(self, number: int) -> bool:
        if not self._is_remote:
            return True
        size = self._chunks[number].most_bytes
        held = [self._chunks[one].most_bytes for one in self._opened]
        coming = [
            self._chunks[one].most_bytes
            for one, opened in self._opened.items()
            if not opened.done()
        ]
        disk = shutil.disk_usage(tempfile.gettempdir())
        room = disk.free - _FREE_SHARE * disk.total
        return sum(held) + size <= HELD_BYTES and sum(coming) + size <= room

    def _mapped(self, number: int) -> ScoreTable:
        """Map a table; one that is damaged is made again."""
        path = self._folder.path(self._name(number))
        with suppress(ValueError, FileNotFoundError):
            return self._map(path, number)
        self._checked.discard(number)
        self._make(number)
        return self._map(path, number)

    def _map(self, path: str, number: int) -> ScoreTable:
        if not self._is_remote:
            check_is_regular(path)
        # Without a name, so that a killed worker leaves nothing on the disk.
        with _unnamed() if self._is_remote else open(path, "rb") as file:
            if self._is_remote:
                file.write(read_bytes(path))
                file.seek(0)
            table = map_table(file, is_checked=number in self._checked)
        if not self._is_remote:
            self._checked.add(number)
        return table


def _unnamed() -> BufferedIOBase:
    return tempfile.TemporaryFile(prefix="bertscore-table-")


@lru_cache(maxsize=4)
def open_tables(folder: OutputFolder, root: str, listed: str) -> ScoreTables:
    """Return the tables of the run in a folder `root`, once a process; see `ScoreTables`."""
    return ScoreTables(folder, OutputFolder(root), listed)
