"""Rows that are sorted by buckets on the disk, since they do not fit in memory."""

from pathlib import Path

import numpy as np
import numpy.typing as npt


def bucket_of(keys: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    """Return the first bits of keys. Shape (N,)."""
    if not bits:
        return np.zeros(len(keys), dtype=np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


class Buckets:
    """Rows in one local file for each bucket.

    Attributes:
        count: The number of buckets.
    """

    def __init__(self, folder: Path, bits: int) -> None:
        """Take an empty folder, and how many bits of a key name its bucket."""
        self.count = 2**bits
        self._bits = bits
        self._folder = folder

    def add(self, rows: npt.NDArray[np.void], keys: npt.NDArray[np.uint64]) -> None:
        """Append rows to the files of their buckets, by their keys. Shape (N,) both."""
        buckets = bucket_of(keys, self._bits)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(self.count), side="right")
        for bucket, some in enumerate(np.split(rows[order], ends[:-1])):
            if len(some):
                with self._path(bucket).open("ab") as file:
                    file.write(some.tobytes())

    def take(self, bucket: int, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the rows of a bucket, and delete its file. Shape (N,)."""
        path = self._path(bucket)
        if not path.exists():
            return np.empty(0, dtype=kind)
        rows = np.fromfile(path, dtype=kind)
        path.unlink()
        return rows

    def _path(self, bucket: int) -> Path:
        return self._folder / str(bucket)
