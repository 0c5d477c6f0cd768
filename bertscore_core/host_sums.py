"""Sums over the scores of pairs by the bucket of their hosts: exact in any order."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from bertscore_core.host_errors import HOST_BUCKETS
from bertscore_core.tokens import IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostSums:
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
        rows, number, _ = steps.shape
        _check_hosts(hosts, number)
        first, second = hosts.astype(np.int64).T
        other = np.flatnonzero(first != second)  # a pair within one bucket touches it once
        touched = np.concatenate([first, second[other]])
        which = np.concatenate([np.arange(number), other])
        order = np.argsort(touched, kind="stable")
        buckets, starts, pairs = np.unique(touched[order], return_index=True, return_counts=True)
        # Sorted by bucket, each is one run, and `reduceat` adds up runs. It refuses no runs.
        sums = np.zeros((0, rows, 3), dtype=np.int64)
        if number:
            by_pair = np.ascontiguousarray(steps.transpose(1, 0, 2))
            sums = np.add.reduceat(by_pair[which[order]], starts, axis=0)
        return cls(
            buckets=buckets,
            sides=np.bincount(hosts.ravel(), minlength=HOST_BUCKETS)[buckets].astype(np.int64),
            pairs=pairs.astype(np.int64),
            sums=sums,
        )

    @classmethod
    def zero(cls, rows: int) -> "HostSums":
        """Return the sums of no pairs, of so many layers."""
        return cls.spread_out(rows).packed()

    @classmethod
    def spread_out(cls, rows: int) -> "HostSums":
        """Return the sums of no pairs with a place for every bucket, for `add`."""
        return cls(
            buckets=np.arange(HOST_BUCKETS, dtype=np.int64),
            sides=np.zeros(HOST_BUCKETS, dtype=np.int64),
            pairs=np.zeros(HOST_BUCKETS, dtype=np.int64),
            sums=np.zeros((HOST_BUCKETS, rows, 3), dtype=np.int64),
        )

    def add(self, part: "HostSums") -> None:
        """Add the sums of other pairs to this one, which has a place for every bucket."""
        self.sides[part.buckets] += part.sides
        self.pairs[part.buckets] += part.pairs
        self.sums[part.buckets] += part.sums

    def packed(self) -> "HostSums":
        """Return the sums without the buckets that no pair touches."""
        (present,) = np.nonzero(self.sides)
        return HostSums(
            buckets=self.buckets[present],
            sides=self.sides[present],
            pairs=self.pairs[present],
            sums=self.sums[present],
        )

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
