"""Read the files of an index with a bounded part of them in memory and on the local disk.

A local file is mapped into memory while it is searched, and no longer. From an object store whole
buckets are fetched to unnamed temporary files, as long as they take no more than `HELD_BYTES` of a
disk that has room. Of all other buckets only ranges are read. Digests are spread evenly, so the
place of one among sorted keys is known to some thousand keys before any is read.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import read_bytes, read_ranges
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.runs.index import KEY, ROW, Index
from bertscore_core.errors import InputError

HELD_BYTES = 8 * 2**30
"""Most bytes of buckets that a process fetches: an index of 180 million rows."""

_FREE_SHARE = 0.1
"""Least share of the local disk that stays free."""

_ONE_REQUEST_BYTES = 64 * 1024
"""Two ranges that are not farther apart are read with one request: it costs as much as that."""


class IndexFiles:
    """The files of an index. Threads may share it."""

    def __init__(self, folder: OutputFolder, index: Index) -> None:
        """Open no file yet."""
        self._folder = folder
        self._index = index
        self._is_remote = is_remote(folder.root)
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._fetched: dict[str, IO[bytes]] = {}
        weakref.finalize(self, _close, self._fetched)
        self._held: set[int] = set()
        self._held_bytes = 0
        self._fetched_bytes = 0

    def hold(self, bucket: int) -> bool:
        """Tell whether a bucket is on a local disk, or is going to be; others are read by range."""
        if not self._is_remote:
            return True
        size = self._index.rows[bucket] * (KEY.itemsize + ROW.itemsize)
        with self._lock:
            if bucket not in self._held and self._has_room(size):
                self._held.add(bucket)
                self._held_bytes += size
            return bucket in self._held

    def keys(
        self, bucket: int, wanted: npt.NDArray[np.uint64]
    ) -> Iterator[tuple[slice, int, npt.NDArray[np.uint64]]]:
        """Read the keys of a bucket, or those near some that are wanted.

        Args:
            bucket: The bucket, which has rows.
            wanted: Keys, ascending. Shape (N,).

        Yields:
            Some of the keys wanted, the place of the first key read, and the keys among which they
            are, if they are in the bucket.

        Raises:
            InputError: A file is damaged.
            OSError: A file cannot be reached.
        """
        size, name = self._index.rows[bucket], self._index.keys_file(bucket)
        if self.hold(bucket):
            yield slice(0, len(wanted)), 0, self._mapped(bucket, name, KEY, size)
            return
        share = (wanted << np.uint64(self._index.bits)).astype(np.float64) / 2.0**64
        # Eight standard deviations of a place, at most.
        margin = int(4 * np.sqrt(size)) + 16
        starts = np.clip((share * size).astype(np.int64) - margin, 0, size)
        stops = np.clip((share * size).astype(np.int64) + margin, 0, size)
        yield from self._ranges(name, KEY, starts, stops)

    def rows(self, bucket: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Read rows of a bucket.

        Args:
            bucket: The bucket.
            places: Their places, ascending. Shape (N,).

        Raises:
            InputError: A file is damaged.
            OSError: A file cannot be reached.
        """
        name = self._index.rows_file(bucket)
        if self.hold(bucket):
            return np.asarray(self._mapped(bucket, name, ROW, self._index.rows[bucket])[places])
        found = np.empty(len(places), dtype=ROW)
        for some, first, rows in self._ranges(name, ROW, places, places + 1):
            found[some] = rows[places[some] - first]
        return found

    def _ranges(
        self,
        name: str,
        kind: np.dtype[Any],
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
    ) -> Iterator[tuple[slice, int, npt.NDArray[Any]]]:
        """Read ranges of entries, ascending, those together that are near each other.

        Yields:
            Which of the ranges, the place of the first entry read, and the entries.
        """
        far = np.flatnonzero((starts[1:] - stops[:-1]) * kind.itemsize > _ONE_REQUEST_BYTES) + 1
        groups = [
            slice(first, last)
            for first, last in zip([0, *far.tolist()], [*far.tolist(), len(starts)], strict=True)
        ]
        places = [(int(starts[some][0]), int(stops[some][-1])) for some in groups]
        path = self._folder.path(name)
        size = kind.itemsize
        contents = read_ranges(path, [(first * size, last * size) for first, last in places])
        for some, (first, last), data in zip(groups, places, contents, strict=True):
            _check_size(path, len(data), (last - first) * size)
            yield some, first, np.frombuffer(data, dtype=kind)

    def _has_room(self, size: int) -> bool:
        disk = shutil.disk_usage(tempfile.gettempdir())
        awaited = self._held_bytes - self._fetched_bytes
        room = disk.free - _FREE_SHARE * disk.total - awaited
        return size <= room and self._held_bytes + size <= HELD_BYTES

    def _mapped(self, bucket: int, name: str, kind: np.dtype[Any], size: int) -> npt.NDArray[Any]:
        """Map a file of the index into memory, as long as the result is used."""
        path = self._folder.path(name)
        if not self._is_remote:
            with open(path, "rb") as file:
                return _map(file, path, kind, size)
        with self._lock:
            lock = self._locks[name]
        with lock:
            if name not in self._fetched:
                data = read_bytes(path)
                # Without a name, so that a killed worker leaves nothing on the disk.
                fetched = tempfile.TemporaryFile(prefix="bertscore-index-")  # noqa: SIM115 - kept
                try:
                    fetched.write(data)
                    fetched.flush()
                except OSError:  # the disk is full after all
                    fetched.close()
                    with self._lock:
                        self._held.discard(bucket)
                    raise
                self._fetched[name] = fetched
                with self._lock:
                    self._fetched_bytes += len(data)
        return _map(self._fetched[name], path, kind, size)


def _close(files: dict[str, IO[bytes]]) -> None:
    for file in files.values():
        file.close()


def _map(file: IO[bytes], path: str, kind: np.dtype[Any], size: int) -> npt.NDArray[Any]:
    _check_size(path, os.fstat(file.fileno()).st_size, size * kind.itemsize)
    entries: npt.NDArray[Any] = np.memmap(file, dtype=kind, mode="r")
    return entries


def _check_size(path: str, found: int, expected: int) -> None:
    if found != expected:
        raise InputError(
            f"{mask_credentials(path)!r} is damaged: got {found} bytes; expected {expected}."
        )
