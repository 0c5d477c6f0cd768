"""Rows by bucket: in memory, or on the disk where they do not fit."""

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

import numpy as np
import numpy.typing as npt

Kind = TypeVar("Kind", bound=np.generic)

_OPEN_BITS = 7
"""At most 128 files are open at a time: some systems allow a process 256."""


def bucket_of(keys: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    """Return the first bits of keys. Shape (N,)."""
    if not bits:
        return np.zeros(len(keys), dtype=np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


class Buckets:
    """Rows in temporary files that stay open. A file holds a bucket, or several if there are many.

    The files have no names, so that a killed process leaves nothing on the disk.
    """

    def __init__(
        self, bits: int, key_of: Callable[[npt.NDArray[np.void]], npt.NDArray[np.uint64]]
    ) -> None:
        self._bits = bits
        self._key_of = key_of
        self._file_bits = min(bits, _OPEN_BITS)
        self._files: dict[int, IO[bytes]] = {}

    def close(self) -> None:
        """Close the files that were not taken."""
        while self._files:
            self._files.popitem()[1].close()

    def add(self, rows: npt.NDArray[np.void]) -> None:
        """Append rows to the files of their buckets. Shape (N,)."""
        for number, in_bucket in split_by_bucket(rows, self._key_of(rows), self._file_bits):
            if number not in self._files:
                self._files[number] = tempfile.TemporaryFile(prefix="bertscore-")  # noqa: SIM115
            self._files[number].write(in_bucket.tobytes())

    def take(self, kind: "np.dtype[np.void]") -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield each bucket that has rows, with its rows in the order in which they were added.

        A file is gone when it has been read.
        """
        for number in sorted(self._files):
            with self._files.pop(number) as file:
                file.seek(0)  # writes what is still in memory
                rows = np.fromfile(file, dtype=kind)
            if self._bits == self._file_bits:
                yield number, rows
            else:
                yield from split_by_bucket(rows, self._key_of(rows), self._bits)


def split_by_bucket(
    rows: npt.NDArray[Kind], keys: npt.NDArray[np.uint64], bits: int
) -> Iterator[tuple[int, npt.NDArray[Kind]]]:
    """Yield each bucket that has rows, ascending, with its rows in their order. Shape (N,)."""
    for bucket, places in rows_by_value(bucket_of(keys, bits)):
        yield bucket, rows[places]


def rows_by_value(values: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each distinct value, ascending, and the positions where it is, ascending."""
    order = np.argsort(values, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(values[order])) + 1):
        if len(places):  # without any value there is one empty piece
            yield int(values[places[0]]), places
