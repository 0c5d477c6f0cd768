"""Sums over paired differences, by pair and by cluster, which can be merged in any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bertscore_core.resampling import Units
from bertscore_core.sums import Sums

Doubles = npt.NDArray[np.float64]

KEPT = 2_000
"""Largest differences that are kept one by one for resampling, in each group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedSums:
    """Sums over the differences of some pairs. Merged with `+`.

    Attributes:
        count: Number of pairs.
        total: Sum of their differences.
        squares: Sum of the squares.
        largest: The differences that are largest in size and not 0, at most `KEPT`, ascending.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    largest: Doubles

    @classmethod
    def of(cls, differences: npt.NDArray[np.floating[Any]]) -> "PairedSums":
        """Return the sums over differences, none of them NaN. Shape (N,)."""
        d = np.asarray(differences, dtype=np.float64)
        return cls(
            count=len(d),
            total=float(d.sum()),
            squares=float(d @ d),
            largest=_largest(d[d != 0]),
        )

    def __add__(self, other: "PairedSums") -> "PairedSums":
        """Return the sums over both sets of pairs."""
        return PairedSums(
            count=self.count + other.count,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            largest=_largest(np.concatenate([self.largest, other.largest])),
        )

    def units(self) -> Units:
        """Return the pairs as what is resampled."""
        return Units.of(self.largest, self.count, self.total, self.squares)


def _largest(d: Doubles) -> Doubles:
    """Return the differences that are largest in size, ascending."""
    if len(d) > KEPT:
        d = d[np.argpartition(np.abs(d), -KEPT)[-KEPT:]]
    return np.sort(d)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterSums(Sums):
    """Sums over the differences of each of G clusters, 24 bytes for each. Merged with `+`.

    Attributes:
        clusters: What identifies each cluster, ascending. Shape (G,), uint64.
        totals: Sum of the differences of its pairs. Shape (G,).
        counts: Number of its pairs. Shape (G,), int64.
    """

    clusters: npt.NDArray[np.uint64]
    totals: Doubles
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, differences: npt.NDArray[np.floating[Any]], clusters: npt.NDArray[np.uint64]
    ) -> Self:
        """Return the sums over differences.

        Args:
            differences: None of them NaN. Shape (N,).
            clusters: The cluster of each pair. Shape (N,).
        """
        return cls._summed(clusters, differences, np.ones(len(clusters), dtype=np.int64))

    @classmethod
    def _summed(
        cls,
        clusters: npt.NDArray[np.uint64],
        totals: npt.NDArray[np.floating[Any]],
        counts: npt.NDArray[np.int64],
    ) -> Self:
        names, places = np.unique(clusters, return_inverse=True)
        return cls(
            clusters=names,
            totals=np.asarray(
                np.bincount(places, weights=totals, minlength=len(names)), dtype=np.float64
            ),
            # Counts are added as doubles, which hold whole numbers up to 2**53.
            counts=np.bincount(places, weights=counts, minlength=len(names)).astype(np.int64),
        )

    def __len__(self) -> int:
        """Return the number of clusters, G."""
        return len(self.clusters)

    @classmethod
    def merge(cls, every: Sequence[Self]) -> Self:
        """Return the sums over several sets of pairs together; at least one."""
        return cls._summed(
            *(np.concatenate([getattr(one, name) for one in every]) for name in cls.__slots__)
        )

    @property
    def effective(self) -> float:
        """Number of equal clusters that would weigh as much as these (Kish); 0 without any."""
        squares = float(np.square(self.counts.astype(np.float64)).sum())
        return float(self.counts.sum()) ** 2 / squares if squares else 0.0


def units_of(totals: Doubles) -> Units:
    """Return the totals of clusters as what is resampled."""
    kept = _largest(totals[totals != 0])
    return Units.of(kept, len(totals), float(totals.sum()), float(totals @ totals))
