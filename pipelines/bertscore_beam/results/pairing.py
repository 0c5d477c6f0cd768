"""Pair the rows of several sides, more than fit in memory: by buckets on the disk.

    entries of all sides --Spill.add--> buckets (files) --Spill.paired--> rows of one key together

Each bucket holds all rows of its keys and is paired by itself. So memory is that of some buckets,
and the disk holds each row once, in temporary files.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.buckets import Buckets
from bertscore_beam.results.keyed_rows import ENTRY

BUCKET_ROWS = 500_000
"""About the rows of a bucket."""

ABSENT = -1
"""Stands for a row that a side does not have."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Spill:
    """Entries on the local disk, by the bucket of their key."""

    def __init__(self, folder: Path, rows: int) -> None:
        """Take an empty folder, and about the number of rows to come."""
        bits = max(0, math.ceil(math.log2(max(1, rows) / BUCKET_ROWS)))
        # Positions are numbered in turn: the product spreads them over the buckets.
        self._buckets = Buckets(folder, bits, lambda rows: rows["high"] + rows["low"] * _GOLDEN)

    def add(self, entries: npt.NDArray[np.void]) -> None:
        """Append entries to their buckets."""
        self._buckets.add(entries)

    def close(self) -> None:
        """Close the files."""
        self._buckets.close()

    def paired(self, sides: int) -> Iterator["Bucket"]:
        """Yield all rows, each bucket with its rows together by key, and delete its file."""
        for _, entries in self._buckets.take(ENTRY):
            yield pair_entries(entries, sides)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bucket:
    """Some rows of all sides, together by key.

    Attributes:
        entries: The rows. Shape (N,), of the type `ENTRY`.
        places: For each of K keys and S sides the position of its row in `entries`, or `ABSENT`.
            Shape (K, S).
        repeated: For each side, rows whose key another row of the side has, too; one of them is
            in `places`. Shape (S,).
        repeated_keys: The number of such keys. Shape (S,).
    """

    entries: npt.NDArray[np.void]
    places: npt.NDArray[np.int64]
    repeated: npt.NDArray[np.int64]
    repeated_keys: npt.NDArray[np.int64]


def pair_entries(entries: npt.NDArray[np.void], sides: int) -> Bucket:
    """Put the rows of each key together, of any number of sides, S."""
    high, low, side = (np.ascontiguousarray(entries[name]) for name in ("high", "low", "side"))
    order = np.lexsort((low, high))
    high, low, side = high[order], low[order], side[order].astype(np.int64)
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    keys = np.cumsum(first) - 1
    number = int(keys[-1]) + 1 if len(keys) else 0
    slots = keys * sides + side
    counts = np.bincount(slots, minlength=number * sides).reshape(number, sides)
    places = np.full(number * sides, ABSENT, dtype=np.int64)
    places[slots] = order
    several = counts > 1
    return Bucket(
        entries=entries,
        places=places.reshape(number, sides),
        repeated=(counts * several).sum(axis=0),
        repeated_keys=several.sum(axis=0),
    )
