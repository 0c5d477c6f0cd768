"""Rows by bucket on the disk, where they do not fit in memory, and rows by value."""

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_MOST_BITS = 7
"""At most 128 files are open at a time: some systems allow a process 256."""


def bucket_of(keys: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    """Return the first bits of keys. Shape (N,)."""
    if not bits:
        return np.zeros(len(keys), dtype=np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


class Buckets:
    """Rows by bucket, each in a temporary file that stays open.

    The files have no names, so that a killed process leaves nothing on the disk.
    """

    def __init__(
        self, bits: int, key_of: Callable[[npt.NDArray[np.void]], npt.NDArray[np.uint64]]
    ) -> None:
        """Make 2 ** bits buckets, or as many as there may be open files."""
        self._bits = min(bits, _MOST_BITS)
        self._key_of = key_of
        self._files: dict[int, IO[bytes]] = {}

    def close(self) -> None:
        """Close the files that were not taken."""
        while self._files:
            self._files.popitem()[1].close()

    def add(self, rows: npt.NDArray[np.void]) -> None:
        """Append rows to the files of their buckets. Shape (N,)."""
        for bucket, places in rows_by_value(bucket_of(self._key_of(rows), self._bits)):
            if bucket not in self._files:
                self._files[bucket] = tempfile.TemporaryFile(prefix="bertscore-")  # noqa: SIM115
            self._files[bucket].write(rows[places].tobytes())

    def take(self, kind: "np.dtype[np.void]") -> Iterator[npt.NDArray[np.void]]:
        """Yield the rows of each bucket that has any, in the order in which they were added.

        A file is gone when it has been read.
        """
        for bucket in sorted(self._files):
            with self._files.pop(bucket) as file:
                file.seek(0)  # writes what is still in memory
                rows = np.fromfile(file, dtype=kind)
            yield rows


def rows_by_value(values: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each distinct value, ascending, and the positions where it is, ascending."""
    order = np.argsort(values, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(values[order])) + 1):
        if len(places):  # without any value there is one empty piece
            yield int(values[places[0]]), places


def in_order(*columns: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Sort N rows by some columns, the first before the next; rows with equal values stay in turn.

    Returns:
        The positions of the rows in that order, and which of these are the first with their values.
        Shapes: (N,).
    """
    order = np.lexsort(columns[::-1])
    first = np.zeros(len(order), dtype=np.bool_)
    first[:1] = True
    for column in columns:
        values = column[order]
        first[1:] |= values[1:] != values[:-1]
    return order, first
