"""Histograms of raw scores over bins of equal width from -1 to 1, dense and packed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.tokens import IntArray

Doubles = npt.NDArray[np.float64]

_BIN_TYPE = np.dtype("<u2")
_COUNT_TYPE = np.dtype("<u8")


def bins_of(values: Doubles, number: int) -> IntArray:
    """Return the bin of each score; one beyond [-1, 1] is in the first or last bin.

    Args:
        values: Scores, of any shape; finite.
        number: Bins of the histogram.
    """
    bins = np.clip(np.floor((values + 1) * (number / 2)), 0, number - 1)
    return bins.astype(np.int64)


def scores_at(wanted: Doubles, counts: IntArray) -> Doubles:
    """Return the scores that given numbers of pairs are below, if pairs are even in each bin.

    Args:
        wanted: Numbers of pairs. Shape (Q,).
        counts: Pairs in each bin; at least one in all. Shape (bins,).
    """
    upto = np.cumsum(counts)
    bins = np.searchsorted(upto, np.maximum(wanted, 0.5))  # never before the first pair
    inside = (wanted - (upto - counts)[bins]) / counts[bins]
    return np.asarray((bins + inside) * (2 / len(counts)) - 1, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PackedHistogram:
    """The bins of a histogram that are not empty: equal histograms are equal, and pickle small.

    Attributes:
        packed_bins: The bins, ascending, two bytes each.
        packed_counts: The pairs in each of them, eight bytes each.
    """

    packed_bins: bytes = b""
    packed_counts: bytes = b""

    @classmethod
    def of(
        cls, bins: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]
    ) -> "PackedHistogram":
        """Pack bins that are not empty, ascending, and the pairs in each. Shape (K,) both."""
        return cls(bins.astype(_BIN_TYPE).tobytes(), counts.astype(_COUNT_TYPE).tobytes())

    @classmethod
    def of_dense(cls, counts: IntArray) -> "PackedHistogram":
        """Pack a histogram. Shape (bins,)."""
        (bins,) = np.nonzero(counts)
        return cls.of(bins, counts[bins])

    @property
    def bins(self) -> IntArray:
        """The bins that are not empty, ascending. Shape (K,)."""
        return np.frombuffer(self.packed_bins, dtype=_BIN_TYPE).astype(np.int64)

    @property
    def counts(self) -> IntArray:
        """The pairs in each of them. Shape (K,)."""
        return np.frombuffer(self.packed_counts, dtype=_COUNT_TYPE).astype(np.int64)

    def dense(self, number: int) -> IntArray:
        """Return the pairs in every bin. Shape (number,)."""
        counts = np.zeros(number, dtype=np.int64)
        counts[self.bins] = self.counts
        return counts

    @classmethod
    def merge(cls, every: Sequence["PackedHistogram"]) -> "PackedHistogram":
        """Return the histogram of several sets of pairs together."""
        filled = [one for one in every if one.packed_bins]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        bins, where = np.unique(np.concatenate([one.bins for one in filled]), return_inverse=True)
        counts = np.zeros(len(bins), dtype=np.int64)
        np.add.at(counts, where, np.concatenate([one.counts for one in filled]))
        return cls.of(bins, counts)
