"""Look rows up in an earlier run, on a worker: at the same place first, then in its index.

Most rows of a night are where they were the night before, in the file of the same name. Then one
small file a split is read. Only for the others is the index needed. On a local disk it is mapped
into memory where it is. From an object store a bucket is fetched once a process, to an unnamed
temporary file: first its keys, 8 bytes a row, and its rows only when a key is found.
"""

import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError, SignatureError
from bertscore_core.score_changes import score_differences
from bertscore_core.signature import Signature
from pipelines.dump.splits import part_name
from pipelines.dump.text_digests import Digests
from pipelines.files.credentials import mask_credentials
from pipelines.files.paths import is_remote
from pipelines.files.read import read_bytes
from pipelines.run.events import event
from pipelines.run.folder import OutputFolder
from pipelines.runs.index import KEY, ROW, Index, IndexTable, read_index
from pipelines.runs.row_scores import (
    NO_REASON,
    ROWS_SUFFIX,
    VALUES,
    RowScores,
    rows_file,
    rows_from_bytes,
)

logger = logging.getLogger(__name__)

_LOST = (OSError, InputError)
"""What may happen to a run that is only read: it is deleted, damaged or out of reach. Its rows are
then scored again, which is right all the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundRows:
    """Which of N rows have scores in the earlier run.

    Attributes:
        found: Shape (N,).
        values: Their scores, of the type `VALUES`; undefined where nothing was found. Shape (N,).
        reasons: Their reasons, None without one. Shape (N,).
    """

    found: npt.NDArray[np.bool_]
    values: npt.NDArray[np.void]
    reasons: npt.NDArray[np.object_]

    @classmethod
    def none(cls, rows: int) -> "FoundRows":
        """Return that nothing was found."""
        return cls(
            found=np.zeros(rows, dtype=np.bool_),
            values=np.zeros(rows, dtype=VALUES),
            reasons=np.full(rows, None, dtype=object),
        )

    def put(
        self,
        rows: npt.NDArray[np.int64],
        values: npt.NDArray[np.void],
        words: npt.NDArray[np.object_],
    ) -> None:
        """Add the scores of some rows."""
        self.found[rows] = True
        self.values[rows] = values
        self.reasons[rows] = words


class EarlierRun:
    """The scores of an earlier run. Threads may share it."""

    def __init__(self, root: str) -> None:
        """Keep the folder; it is read when rows are looked up."""
        self._folder = OutputFolder(root)
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._has_index = True
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._piece_names = lru_cache(maxsize=64)(self._list_pieces)
        self._equal = lru_cache(maxsize=256)(_equal_scores)

    def find(
        self,
        input_name: str,
        positions: npt.NDArray[np.int64],
        digests: Digests,
        signature: Signature,
    ) -> FoundRows:
        """Look up the raw scores of rows that were scored alike.

        Args:
            input_name: Name of the input file that the rows are from.
            positions: Position of each row in that file, ascending. Shape (N,).
            digests: Digests of their texts. Shape (N, 2).
            signature: How they are to be scored.
        """
        result = FoundRows.none(len(positions))
        if len(positions):
            self._attempt(
                self._find_at_same_place, input_name, positions, digests, signature, result
            )
        if not result.found.all():
            self._attempt(self._find_in_index, digests, signature, result)
        return result

    def _attempt(self, look_up: Callable[..., None], *arguments: Any) -> None:
        try:
            look_up(*arguments)
        except _LOST as error:
            reason = mask_credentials(f"{type(error).__name__}: {error}")
            logger.warning(event("not_reused", run=self._folder.shown, reason=reason))

    def _find_at_same_place(
        self,
        input_name: str,
        positions: npt.NDArray[np.int64],
        digests: Digests,
        signature: Signature,
        result: FoundRows,
    ) -> None:
        """Look into the pieces of the same file: at the same positions, then anywhere in them."""
        starts = self._piece_names(input_name)
        first = max(0, int(np.searchsorted(starts, positions[0], side="right")) - 1)
        stop = int(np.searchsorted(starts, positions[-1], side="right"))
        names = [rows_file(part_name(input_name, start)) for start in starts[first:stop].tolist()]
        contents = self._folder.read_if_there(*names)
        pieces = [
            (int(start), rows_from_bytes(data, name))
            for start, name, data in zip(starts[first:stop], names, contents, strict=True)
            if data is not None
        ]
        for start, piece in pieces:
            there = positions - start
            inside = np.flatnonzero((there >= 0) & (there < len(piece)))
            self._take(piece, inside, there[inside], digests, signature, result)
        for _, piece in pieces:
            rows, there = _matches(piece, digests, result.found)
            self._take(piece, rows, there, digests, signature, result)

    def _list_pieces(self, input_name: str) -> npt.NDArray[np.int64]:
        """Return where the pieces of an input begin, ascending: it may be cut otherwise now."""
        folder, _, _ = rows_file(part_name(input_name, 0)).rpartition("/")
        names = self._folder.files(folder, suffix=ROWS_SUFFIX)
        stems = [name.removesuffix(ROWS_SUFFIX).removeprefix("part-") for name in names]
        return np.array(sorted(int(stem) for stem in stems if stem.isdecimal()), dtype=np.int64)

    def _take(
        self,
        piece: RowScores,
        rows: npt.NDArray[np.int64],
        there: npt.NDArray[np.int64],
        digests: Digests,
        signature: Signature,
        result: FoundRows,
    ) -> None:
        """Take those of the rows `there` of a piece that are equal to the rows wanted."""
        usable = np.array([self._equal(one, signature) for one in piece.signatures])
        equal = (
            (piece.digests[there] == digests[rows]).all(axis=1)
            & usable[piece.settings[there]]
            & piece.scored[there]
            & ~result.found[rows]
        )
        there = there[equal]
        result.put(rows[equal], piece.values[there], piece.reason_words()[there])

    def _find_in_index(self, digests: Digests, signature: Signature, result: FoundRows) -> None:
        index = self._open_index()
        if index is None:
            return
        words = np.full(NO_REASON + 1, None, dtype=object)
        words[: len(index.reasons)] = index.reasons
        for table in index.tables:
            if not self._equal(table.signature, signature):
                continue
            rows = np.flatnonzero(~result.found)
            buckets = table.bucket_of(digests[rows, 0])
            for bucket in np.unique(buckets).tolist():
                some = rows[buckets == bucket]
                found, entries = self._search(index, table, bucket, digests[some])
                values = np.empty(len(entries), dtype=VALUES)
                for name in VALUES.names or ():
                    values[name] = entries[name]
                result.put(some[found], values, words[values["reason"]])

    def _search(
        self, index: Index, table: IndexTable, bucket: int, digests: Digests
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        """Search a bucket; return which of the digests are in it, and the entries of these."""
        size = table.rows[bucket]
        empty = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=ROW)
        if not size:
            return empty
        keys = self._array(index.keys_file(table, bucket), KEY, size)
        places = np.searchsorted(keys, digests[:, 0], side="left")
        wanted = np.flatnonzero(places < size)
        wanted = wanted[keys[places[wanted]] == digests[wanted, 0]]
        if not len(wanted):
            return empty
        entries = self._array(index.rows_file(table, bucket), ROW, size)
        hits, at = [], []
        places = places[wanted]
        while len(wanted):  # nearly always once: two digests seldom share their high half
            equal = entries["low"][places] == digests[wanted, 1]
            hits.append(wanted[equal])
            at.append(places[equal])
            places, wanted = places[~equal] + 1, wanted[~equal]
            more = places < size
            more[more] = keys[places[more]] == digests[wanted[more], 0]
            places, wanted = places[more], wanted[more]
        return np.concatenate(hits), entries[np.concatenate(at)]

    def _open_index(self) -> Index | None:
        with self._lock:
            if self._index is None and self._has_index:
                self._index = read_index(self._folder)
                self._has_index = self._index is not None
            return self._index

    def _array(self, name: str, kind: np.dtype[Any], size: int) -> npt.NDArray[Any]:
        """Map a file of the index into memory, once a process."""
        with self._lock:
            if name not in self._arrays:
                self._arrays[name] = _mapped(self._folder.path(name), kind, size)
            return self._arrays[name]


@lru_cache(maxsize=4)
def open_earlier(root: str, run: str) -> EarlierRun:
    """Return the earlier run of a folder, once a process.

    Args:
        root: Its folder.
        run: The run that it held when this job was planned.
    """
    return EarlierRun(root)


def _equal_scores(earlier: str, now: Signature) -> bool:
    return nearest_differences([earlier], now) == {}


def _matches(
    piece: RowScores, digests: Digests, found: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return rows that are not found yet and may be in a piece, and where they may be."""
    rows = np.flatnonzero(~found)
    if not len(piece) or not len(rows):
        return rows[:0], rows[:0]
    order = np.argsort(piece.digests[:, 0], kind="stable")
    keys = piece.digests[order, 0]
    places = np.minimum(np.searchsorted(keys, digests[rows, 0], side="left"), len(keys) - 1)
    return rows, order[places]


def _mapped(path: str, kind: np.dtype[Any], size: int) -> npt.NDArray[Any]:
    """Map a file of entries of one width into memory.

    Raises:
        InputError: It has another number of entries.
        OSError: It cannot be reached.
    """
    if is_remote(path):
        # Without a name, so that a killed worker leaves nothing on the disk.
        with tempfile.TemporaryFile(prefix="bertscore-index-") as file:
            file.write(read_bytes(path))
            file.flush()
            entries: npt.NDArray[Any] = np.memmap(file, dtype=kind, mode="r")
    else:
        entries = np.memmap(path, dtype=kind, mode="r")
    if len(entries) != size:
        raise InputError(
            f"{mask_credentials(path)!r} is damaged: got {len(entries)} entries; expected {size}."
        )
    return entries


def nearest_differences(
    signatures: Sequence[str], now: Signature
) -> dict[str, tuple[str, str]] | None:
    """Return in which fields raw scores differ from those of the nearest of some signatures.

    Returns:
        Both values by field, empty if one has equal scores; None without a signature to compare.
    """
    found = []
    for text in signatures:
        with suppress(SignatureError):
            found.append(score_differences(Signature.parse(text), now))
    return min(found, key=len) if found else None
