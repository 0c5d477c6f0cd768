"""Statistics of many scores: means, spreads, errors and quantiles, exact in any order.

Scores are rounded to steps of 2**-36 and added up as integers. So the same scores give the same
bits, however they are cut into parts and in whatever order the parts are merged. A sum of floats
would not. Sums are kept by group of pairs, so that the error of a mean can be estimated from the
differences between groups (the jackknife), which also holds if pairs resemble each other.

    part 1 + part 2 + ... = Moments  ->  means, errors, quantiles  ->  Baseline
"""

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.baseline import Baseline
from bertscore_core.errors import InputError
from bertscore_core.tokens import FloatArray, IntArray

Doubles = npt.NDArray[np.float64]

GROUPS = 64
"""Number of groups that pairs may belong to: 0 to 63."""

BINS = 200
"""Bins of the histograms, each .01 wide, from -1 to 1."""

FORMAT = "bertscore-moments/1"

MAX_PAIRS = 2**26
"""Largest number of pairs whose sums fit 64 bits: 2**26 * 2**36 = 2**62, and a bit for rounding."""

_SCALE = 2.0**36
# How far rounding may move precision or recall beyond 1. Measured: 4e-7.
_SLACK = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Sums over the scores of some pairs, for every layer and measure.

    Attributes:
        groups: Groups that have pairs, ascending. Shape (K,), each 0 to `GROUPS` - 1.
        counts: Pairs of each group. Shape (K,), each at least 1.
        sums: Precision, recall and F1 added up by group, in steps. Shape (K, L + 1, 3), int64.
        squares: Squares of precision, recall, F1 and of half of precision minus recall, added up,
            in steps. Shape (L + 1, 4), int64.
        histogram: Scores in each bin. Shape (L + 1, 3, BINS), int64.
        clipped: Number of F1 values that were beyond [-1, 1]; see `of`. Shape (L + 1,), int64.
    """

    groups: IntArray
    counts: IntArray
    sums: IntArray
    squares: IntArray
    histogram: IntArray
    clipped: IntArray

    @classmethod
    def zero(cls, rows: int) -> "Moments":
        """Return the moments of no pairs, the neutral element of `+`.

        Args:
            rows: Layers scored, the embeddings included: L + 1.
        """
        return cls(
            groups=np.zeros(0, dtype=np.int64),
            counts=np.zeros(0, dtype=np.int64),
            sums=np.zeros((0, rows, 3), dtype=np.int64),
            squares=np.zeros((rows, 4), dtype=np.int64),
            histogram=np.zeros((rows, 3, BINS), dtype=np.int64),
            clipped=np.zeros(rows, dtype=np.int64),
        )

    @classmethod
    def of(cls, scores: FloatArray, groups: npt.NDArray[np.integer]) -> "Moments":
        """Add up the scores of N pairs.

        F1 is the harmonic mean of precision and recall. If their signs differ it can leave [-1, 1],
        and it has no bound where they cancel, so that a single pair could outweigh all others and
        the mean would not converge. Such values are clipped to -1 or 1.

        Args:
            scores: Precision, recall and F1, not rescaled. Shape (L + 1, N, 3).
            groups: Group of each pair, 0 to `GROUPS` - 1. Shape (N,).

        Raises:
            InputError: a score is NaN, precision or recall are beyond [-1, 1], shapes do not fit, a
                group is out of range, or there are more than `MAX_PAIRS` pairs.
        """
        _check(scores, groups)
        values = scores.astype(np.float64)
        beyond = np.abs(values[..., 2]) > 1
        np.clip(values[..., 2], -1, 1, out=values[..., 2])
        # Rounded once for each score, so the sums do not depend on how pairs are split.
        steps = np.rint(values * _SCALE).astype(np.int64)
        half_gap = (values[..., 0] - values[..., 1])[..., None] / 2  # half: within [-1, 1], too
        squares = np.rint(np.concatenate([values, half_gap], axis=-1) ** 2 * _SCALE)
        order = np.argsort(groups, kind="stable")
        present, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
        # Sorted by group, each group is one run, and `reduceat` adds up runs. It refuses no runs.
        sums = np.add.reduceat(steps[:, order], starts, axis=1) if len(present) else steps
        return cls(
            groups=present.astype(np.int64),
            counts=counts.astype(np.int64),
            sums=np.ascontiguousarray(sums.transpose(1, 0, 2)),
            # By measure, not by group: only the spread over all pairs is needed.
            squares=squares.astype(np.int64).sum(axis=1),
            histogram=_histogram(values),
            clipped=beyond.sum(axis=1, dtype=np.int64),
        )

    @classmethod
    def merge(cls, parts: Iterable["Moments"]) -> "Moments":
        """Add up the moments of disjoint sets of pairs. Only one of them is in memory at a time.

        Raises:
            InputError: there are none, they differ in layers, or they have too many pairs.
        """
        rows, pairs = None, 0
        for part in parts:
            if rows is None:
                rows = part.rows
                total = cls.zero(rows)
                counts = np.zeros(GROUPS, dtype=np.int64)
                sums = np.zeros((GROUPS, rows, 3), dtype=np.int64)
            if part.rows != rows:
                raise InputError(
                    f"moments of {rows} and of {part.rows} layers cannot be added; expected those "
                    "of one model. Take the parts of one run."
                )
            pairs += part.num_pairs
            _check_number(pairs)
            counts[part.groups] += part.counts
            sums[part.groups] += part.sums
            total.squares[...] += part.squares
            total.histogram[...] += part.histogram
            total.clipped[...] += part.clipped
        if rows is None:
            raise InputError("got no moments to add up; expected at least one part.")
        (present,) = np.nonzero(counts)
        return cls(
            groups=present.astype(np.int64),
            counts=counts[present],
            sums=sums[present],
            squares=total.squares,
            histogram=total.histogram,
            clipped=total.clipped,
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of pairs together."""
        return self.merge((self, other))

    @property
    def rows(self) -> int:
        """Layers scored, the embeddings included: L + 1."""
        return len(self.squares)

    @property
    def num_pairs(self) -> int:
        """Pairs added up, N."""
        return int(self.counts.sum())

    @property
    def means(self) -> Doubles:
        """Mean of precision, recall and F1. Shape (L + 1, 3); NaN without pairs."""
        return _mean(self.sums.sum(axis=0), self.num_pairs)

    @property
    def deviations(self) -> Doubles:
        """Sample standard deviation over pairs. Shape (L + 1, 3); NaN below two pairs."""
        return _deviation(self.squares[:, :3], self.means, self.num_pairs)

    @property
    def standard_errors(self) -> Doubles:
        """Standard error of the means if pairs were independent. Shape (L + 1, 3)."""
        return self.deviations / math.sqrt(max(self.num_pairs, 1))

    @property
    def jackknife_errors(self) -> Doubles:
        """Standard error of the means from leaving out each group in turn. Shape (L + 1, 3).

        It also holds if the pairs of a group resemble each other. NaN below two groups.

        References:
            Busing, Meijer, van der Leeden 1999, "Delete-m jackknife for unequal m", equation 8.
            For a mean their pseudo-values are the groups' own means.
        """
        if len(self.groups) < 2:
            return np.full((self.rows, 3), np.nan)
        apart = self.sums / (self.counts[:, None, None] * _SCALE) - self.means
        weights = self.counts / (self.num_pairs - self.counts)
        # Groups differ in size, so each counts by its share of the other pairs.
        variance = (weights[:, None, None] * apart**2).sum(axis=0) / len(self.groups)
        return np.asarray(np.sqrt(variance), dtype=np.float64)

    @property
    def gaps(self) -> Doubles:
        """Mean of precision minus recall, 0 on average for random pairs. Shape (L + 1,)."""
        means = self.means
        return np.asarray(means[:, 0] - means[:, 1], dtype=np.float64)

    @property
    def gap_errors(self) -> Doubles:
        """Standard error of `gaps` if pairs were independent. Shape (L + 1,)."""
        halves = _deviation(self.squares[:, 3], self.gaps / 2, self.num_pairs)
        return 2 * halves / math.sqrt(max(self.num_pairs, 1))

    def quantiles(self, shares: Sequence[float]) -> Doubles:
        """Return the scores that given shares of the pairs are below, to the width of a bin.

        Args:
            shares: Q numbers from 0 to 1.

        Returns:
            Shape (Q, L + 1, 3), float64; NaN without pairs.
        """
        if not self.num_pairs:
            return np.full((len(shares), self.rows, 3), np.nan)
        wanted = np.asarray(shares, dtype=np.float64) * self.num_pairs
        columns = [_scores_at(wanted, counts) for counts in self.histogram.reshape(-1, BINS)]
        return np.stack(columns, axis=-1).reshape(len(shares), self.rows, 3)

    def baseline(self, name: str) -> Baseline:
        """Return the means as a table to rescale with.

        Raises:
            InputError: there are no pairs.
        """
        if not self.num_pairs:
            raise InputError(f"baseline {name} has no pairs to average; expected at least one.")
        return Baseline(name=name, rows=self.means)

    def to_bytes(self) -> bytes:
        """Return the moments as an .npz archive; equal moments give equal bytes."""
        head = json.dumps({"format": FORMAT, "scale": _SCALE}).encode()
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            head=np.frombuffer(head, dtype=np.uint8),
            # Little-endian, so that the bytes are the same on every platform.
            **{name: getattr(self, name).astype("<i8") for name in self.__slots__},
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the given bytes") -> "Moments":
        """Read moments written by `to_bytes`.

        Args:
            data: The archive.
            source: Its path, for the message.

        Raises:
            InputError: the bytes are not such an archive, or are damaged.
        """
        try:
            if data[:2] != b"PK":
                raise ValueError("it is no .npz archive")
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                head = json.loads(archive["head"].tobytes())
                if head["format"] != FORMAT:
                    raise ValueError(f"format {head['format']}")
                found = cls(**{name: archive[name].astype(np.int64) for name in cls.__slots__})
            if not found._is_consistent():
                raise ValueError("its sums do not belong together")
        except Exception as error:
            raise InputError(
                f"{source} holds no sums of scores ({error}); expected a file written by "
                "`bertscore-beam baseline`. Delete it and run that command again."
            ) from error
        return found

    def _is_consistent(self) -> bool:
        """Tell whether shapes and numbers of pairs agree."""
        rows, groups = len(self.squares), len(self.groups)
        shapes = {
            "groups": (groups,),
            "counts": (groups,),
            "sums": (groups, rows, 3),
            "squares": (rows, 4),
            "histogram": (rows, 3, BINS),
            "clipped": (rows,),
        }
        return (
            all(getattr(self, name).shape == shape for name, shape in shapes.items())
            and bool((np.diff(self.groups) > 0).all() and (self.counts > 0).all())
            and bool(((self.groups >= 0) & (self.groups < GROUPS)).all())
            and bool((self.histogram.sum(axis=-1) == self.num_pairs).all())
        )


def _check(scores: FloatArray, groups: npt.NDArray[np.integer]) -> None:
    """Check the arguments of `Moments.of`."""
    if scores.ndim != 3 or scores.shape[2] != 3 or groups.shape != scores.shape[1:2]:
        raise InputError(
            f"scores and groups do not fit: got shapes {scores.shape} and {groups.shape}; expected "
            "(layers, pairs, 3) and (pairs,)."
        )
    _check_number(len(groups))
    if not np.issubdtype(groups.dtype, np.integer) or ((groups < 0) | (groups >= GROUPS)).any():
        raise InputError(
            f"got a group beyond 0 to {GROUPS - 1}; expected whole numbers in that range."
        )
    # Comparisons with NaN are false, so NaN is not within.
    within = (np.abs(scores[..., :2]) <= 1 + _SLACK).all(axis=(0, 2))
    wrong = np.flatnonzero(~within | np.isnan(scores[..., 2]).any(axis=0))
    if len(wrong):
        raise InputError(
            f"{len(wrong)} of {len(groups)} pairs have scores that are no numbers, or precision or "
            f"recall beyond 1, such as pair {wrong[0]}; expected raw scores from -1 to 1. Leave "
            "out texts without a token of weight, and do not rescale."
        )


def _check_number(pairs: int) -> None:
    """Check that sums of so many pairs fit 64 bits."""
    if pairs > MAX_PAIRS:
        raise InputError(
            f"{pairs} pairs are more than can be added up exactly; expected at most {MAX_PAIRS}. "
            "Take fewer pairs."
        )


def _histogram(values: Doubles) -> IntArray:
    """Count scores (L + 1, N, 3) by bin. Shape (L + 1, 3, BINS), int64."""
    rows = len(values)
    bins = np.clip(np.floor((values + 1) * (BINS / 2)), 0, BINS - 1).astype(np.int64)
    # One count over all rows and measures: each has BINS numbers of its own.
    cells = np.arange(rows)[:, None, None] * 3 + np.arange(3)
    flat = np.bincount((cells * BINS + bins).ravel(), minlength=rows * 3 * BINS)
    return flat.reshape(rows, 3, BINS).astype(np.int64)


def _scores_at(wanted: Doubles, counts: IntArray) -> Doubles:
    """Return the scores that given numbers of pairs are below, if they are even in each bin."""
    upto = np.cumsum(counts)
    bins = np.searchsorted(upto, np.maximum(wanted, 0.5))  # never before the first pair
    inside = (wanted - (upto - counts)[bins]) / counts[bins]
    return np.asarray((bins + inside) * (2 / BINS) - 1, dtype=np.float64)


def _mean(total: IntArray, pairs: int) -> Doubles:
    """Divide sums of steps by a number of pairs. Shape as given; NaN for 0."""
    return total / (pairs * _SCALE) if pairs else np.full(total.shape, np.nan)


def _deviation(squares: IntArray, means: Doubles, pairs: int) -> Doubles:
    """Return the sample standard deviation from squares in steps. NaN below two pairs."""
    if pairs < 2:
        return np.full(means.shape, np.nan)
    variance = (squares / _SCALE - pairs * means**2) / (pairs - 1)  # rounding may make it < 0
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)), dtype=np.float64)
