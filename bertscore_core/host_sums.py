"""Sums over the scores of pairs by the bucket of their hosts: exact in any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from bertscore_core.host_errors import HOST_BUCKETS
from bertscore_core.sums import Sums
from bertscore_core.tokens import IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostSums(Sums):
    """Sums over the scores of the pairs that touch each bucket of hosts.

    Attributes:
        buckets: Buckets that have sentences in the pairs, ascending. Shape (K,), each 0 to
            `HOST_BUCKETS` - 1; none where hosts are not known.
        sides: Sentences of each: a pair with both from one bucket counts twice. Shape (K,).
        pairs: Pairs that touch each: such a pair counts once. Shape (K,).
        sums: Precision, recall and F1 added up over these pairs, in steps. Shape (K, L + 1, 3).
    """

    buckets: IntArray
    sides: IntArray
    pairs: IntArray
    sums: IntArray

    @classmethod
    def of(cls, steps: IntArray, hosts: npt.NDArray[np.integer]) -> "HostSums":
        """Add up scores.

        Args:
            steps: Scores in steps. Shape (L + 1, N, 3), int64.
            hosts: Bucket of the host of candidate and reference. Shape (N, 2).

        Raises:
            InputError: there are not two buckets for each pair, or one is out of range.
        """
        number = steps.shape[1]
        _check_hosts(hosts, number)
        first, second = hosts.astype(np.int64).T
        other = np.flatnonzero(first != second)  # a pair within one bucket touches it once
        which = np.concatenate([np.arange(number), other])
        return cls._summed(
            np.concatenate([first, second[other]]),
            np.where(first == second, 2, 1)[which],
            np.ones(len(which), dtype=np.int64),
            steps.transpose(1, 0, 2)[which],
        )

    @classmethod
    def zero(cls, rows: int) -> "HostSums":
        """Return the sums of no pairs, of so many layers."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            buckets=none, sides=none, pairs=none, sums=np.zeros((0, rows, 3), dtype=np.int64)
        )

    @classmethod
    def merge(cls, every: Sequence[Self]) -> Self:
        """Return the sums over several sets of pairs together; at least one."""
        return cls._summed(
            *(np.concatenate([getattr(one, name) for one in every]) for name in cls.__slots__)
        )

    @classmethod
    def _summed(cls, buckets: IntArray, sides: IntArray, pairs: IntArray, sums: IntArray) -> Self:
        """Add up what has the same bucket."""
        order = np.argsort(buckets, kind="stable")
        names, starts = np.unique(buckets[order], return_index=True)
        if len(names):  # `reduceat` adds up runs, such as those of equal buckets; it refuses none
            sides, pairs, sums = (np.add.reduceat(v[order], starts) for v in (sides, pairs, sums))
        return cls(buckets=names, sides=sides, pairs=pairs, sums=sums)

    def check(self, rows: int, pairs: int) -> None:
        """Check that the sums belong together, and to so many layers and pairs.

        Raises:
            ValueError: they do not.
        """
        number = len(self.buckets)
        shapes = (self.sides.shape, self.pairs.shape, self.sums.shape)
        fits = shapes == ((number,), (number,), (number, rows, 3))
        if not (
            fits
            and (np.diff(self.buckets) > 0).all()
            and ((self.buckets >= 0) & (self.buckets < HOST_BUCKETS)).all()
            and ((self.pairs > 0) & (self.pairs <= self.sides)).all()
            and int(self.sides.sum()) in ({2 * pairs} if number else {0})
        ):
            raise ValueError("its sums by host do not belong together")


def _check_hosts(hosts: npt.NDArray[np.integer], pairs: int) -> None:
    """Check that there are two buckets for each pair."""
    if hosts.shape != (pairs, 2):
        raise InputError(
            f"scores and hosts do not fit: got hosts of shape {hosts.shape} for {pairs} pairs; "
            "expected (pairs, 2)."
        )
    if not np.issubdtype(hosts.dtype, np.integer) or ((hosts < 0) | (hosts >= HOST_BUCKETS)).any():
        raise InputError(
            f"got a bucket of hosts beyond 0 to {HOST_BUCKETS - 1}; expected whole numbers in that "
            "range."
        )
