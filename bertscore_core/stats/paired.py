"""The paired difference of two sets of scores of the same rows, with its error and tests.

What is estimated is the mean of d, the score of a row on one side minus that on the other: its
error is much smaller than that of two separate means, since both sides share the texts.

**The error** is s / sqrt(n) without clusters. With u_g the sum over cluster g of d minus the mean,

    variance = (G - 1) / G * sum of (u_g / (n - n_g))^2

u_g / (n - n_g) is how far the mean moves if cluster g is left out: the jackknife over clusters
("CR3"). The usual sandwich ("CR1") ignores that a large cluster pulls the mean towards itself. With
200 clusters whose sizes follow Zipf's law, CR1 is 20% below the true variance, CR3 3% above it.

**The interval and the bound** are the mean and Student's t times the error, with the effective
number of clusters less one as its degrees of freedom (Kish: n^2 / sum of n_g^2). G - 1 would give
intervals that are too short where some clusters hold most rows. Satterthwaite's degrees need the
share of the variance that rows of a cluster have in common, which is not known.

**The tests.** Approximate randomization flips the sign of whole rows, or clusters, at random; the
bootstrap draws them with replacement. `is_dominated` tells where few pairs decide. Of many groups,
`holm` keeps the chance of even one false alarm below the level; Benjamini-Hochberg would only bound
the share of false alarms, which is not enough to stop a night.

**The test of a drop** is never more certain than the signs of the units that have moved: k of them
give no p value below 2^-k. Up to `EXACT_UNITS` of them all signs are tried, and the larger p value
of this and of Student's t counts: the latter is 0 for two equal differences.

**Any size.** Sums are of differences divided by a power of two, so that no square is beyond what a
double can be, and results are multiplied by it at the end. Both are exact: numbers that are 2^k
times as large give the same p values, and all else 2^k times as large, to the last bit.

A row or cluster has moved if a score of it has, by more than the noise of float32: the last bits of
a processor decide nothing.

**Units** are rows that count by themselves (`PairedSums`) and clusters of rows (`ClusterSums`), in
any mixture: a comparison whose few repeated rows are clusters needs no more memory than they take.

References:
    J. G. MacKinnon, M. Ø. Nielsen, M. D. Webb, "Fast and reliable jackknife and bootstrap methods
    for cluster-robust inference" (2023). R. M. Bell, D. F. McCaffrey, "Bias reduction in standard
    errors for linear regression with multi-stage samples" (2002), for Satterthwaite's degrees.
    S. Holm, "A simple sequentially rejective multiple test procedure" (1979). L. Kish, "Survey
    Sampling" (1965). S. Riezler, J. T. Maxwell, "On some pitfalls in automatic evaluation and
    significance testing for MT" (2005), for randomization.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from bertscore_core.specification import NOISE
from bertscore_core.stats.intervals import check_confidence, effective_rows, student_quantile
from bertscore_core.stats.score_statistics import Doubles, effective_number
from bertscore_core.sums import LEAST_EXPONENT, Sums, below_one, summed_by_key
from bertscore_core.tokens import BoolArray

# Resample paired differences: random sign flips, and the bootstrap.
#
# **More rows than fit.** The units, rows or clusters, are divided in two: the `KEPT` largest
# differences (`PairedSums`), which are resampled one by one, and the rest, of which only number,
# sum and sum of squares are known. The sum of the rest is drawn as a normal variable. A sum of many
# small terms with random signs, or drawn with replacement, is normal up to an error that shrinks
# with their number. Only large terms would make it differ, and these are kept. Rows that have not
# moved are in the rest, and add exactly 0 to it. So no size needs another method: up to `KEPT`
# changed rows the resampling is exact, and above that it loses nothing that can be measured (tested
# by simulation against resampling of all rows).
#
# **p values** count the observed value itself, (k + 1) / (R + 1), and so are never 0. If the sign
# flips of all units are no more than the resamples, each is taken once, and p is exact.
#
# References:
#     B. Phipson, G. K. Smyth, "Permutation p-values should never be zero" (2010). P. Koehn,
#     "Statistical significance tests for machine translation evaluation" (2004).

RESAMPLES = 9_999
"""Sign flips, and bootstrap samples: the error of a p value of .05 is .002."""

# Numbers held at a time: a few tens of megabytes.
_AT_ONCE = 2_000_000
# Sums that differ by less, relative to the sum of all sizes, are the same sum in another order.
# With other signs they are the same within `NOISE`, by which moves of one size may differ.
_SAME = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What is resampled: sums over rows or clusters, some of them one by one, and a rest of rows.

    `sizes` are the numbers of rows of the kept units, if some have several.
    """

    kept: Doubles
    sizes: Doubles | None = None
    rest: int = 0
    rest_mean: float = 0.0
    rest_squares: float = 0.0

    def __len__(self) -> int:
        return len(self.kept) + self.rest


def _flip_signs(units: Units, resamples: int, random: np.random.Generator) -> float:
    """Return the two-sided p value of the sum of differences under random signs."""
    kept = units.kept
    observed = abs(float(kept.sum()) + units.rest * units.rest_mean)
    least = observed - NOISE * float(np.abs(kept).sum())
    if not units.rest_squares and len(kept) < resamples.bit_length():
        sums = _all_signs(len(kept)) @ kept
        return float(np.count_nonzero(np.abs(sums) >= least)) / len(sums)
    beyond = 0
    for count in batches(resamples, len(kept)):
        bits = random.integers(0, 256, size=(count, (len(kept) + 7) // 8), dtype=np.uint8)
        ups = np.unpackbits(bits, axis=1, count=len(kept)).astype(np.float64)
        sums = 2 * (ups @ kept) - kept.sum()
        if units.rest_squares:
            sums += random.normal(0, np.sqrt(units.rest_squares), count)
        beyond += int(np.count_nonzero(np.abs(sums) >= least))
    return (beyond + 1) / (resamples + 1)


@cache
def _all_signs(units: int) -> Doubles:
    """Return all signs of this many units. Shape (2^units, units)."""
    bits = np.arange(2**units)[:, None] >> np.arange(units) & 1
    return 2.0 * bits.astype(np.float64) - 1


def bootstrap(units: Units, resamples: int, random: np.random.Generator) -> Doubles:
    """Return the sums of R samples of units drawn with replacement, or means if they have sizes."""
    kept, sizes, n = units.kept, units.sizes, len(units)
    samples = []
    for count in batches(resamples, len(kept)):
        # Of the n units of a sample, this many are among those kept.
        drawn = random.binomial(n, len(kept) / n, count) if units.rest else np.full(count, n)
        times = times_drawn(drawn, len(kept), random)
        sums = times @ kept
        if units.rest_squares:
            spread = max(0.0, units.rest_squares / units.rest - units.rest_mean**2)
            noise = random.normal(size=count)
            sums += (n - drawn) * units.rest_mean + np.sqrt((n - drawn) * spread) * noise
        samples.append(sums if sizes is None else sums / (times @ sizes + n - drawn))
    return np.concatenate(samples)


def times_drawn(drawn: npt.NDArray[np.int64], number: int, random: np.random.Generator) -> Doubles:
    """Return how often each of K units is drawn in B samples of this size. Shape (B, K)."""
    chosen = random.integers(0, max(1, number), int(drawn.sum()))
    chosen += np.repeat(np.arange(len(drawn)) * number, drawn)
    times = np.bincount(chosen, minlength=len(drawn) * number)
    return times.reshape(len(drawn), number).astype(np.float64)


def batches(resamples: int, width: int) -> list[int]:
    """Return how many of this many resamples of K numbers are made at a time."""
    most = max(1, _AT_ONCE // max(1, width))
    whole, left = divmod(resamples, most)
    return [most] * whole + ([left] if left else [])


# Sums over paired differences, by pair and by cluster, which can be merged in any order.

KEPT = 2_000
"""Largest differences that are kept one by one for resampling, in each group."""


def differences_of(scores: Doubles, others: Doubles) -> tuple[Doubles, int]:
    """Return the differences of finite scores, (N,), divided by 2**exponent, and the exponent.

    It is 0 unless a difference is larger than a double can be.
    """
    with np.errstate(over="ignore"):
        differences = scores - others
    if np.isfinite(differences).all():
        return differences, 0
    return scores / 2 - others / 2, 1


def _times_power(value: float, exponent: int) -> float:
    """Return value * 2**exponent; the largest double instead of one that is beyond it."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedSums(Sums):
    """Sums over the differences of some pairs. Merged with `+`.

    Attributes:
        count: Number of pairs.
        total: Sum of their differences.
        squares: Sum of the squares.
        moved: How many of the pairs have moved.
        largest: The differences that are largest in size and not 0, at most `KEPT`, ascending.
        exponent: All these differences are divided by 2**exponent: the largest is below 1 then.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    moved: int = 0
    largest: Doubles
    exponent: int = LEAST_EXPONENT

    @classmethod
    def of(
        cls,
        differences: npt.NDArray[np.floating[Any]],
        moved: BoolArray | None = None,
        exponent: int = 0,
    ) -> "PairedSums":
        """Return the sums over finite differences, which are divided by 2**exponent. Shape (N,).

        `moved` says which have moved by more than noise; None for those that are not 0. Shape (N,).
        """
        d, own_exponent = below_one(differences)
        return cls(
            count=len(d),
            total=float(d.sum()),
            squares=float(d @ d),
            moved=int(np.count_nonzero(d if moved is None else moved)),
            largest=_largest(d),
            exponent=own_exponent + exponent,
        )

    def at(self, exponent: int) -> Self:
        """Return the same sums of differences that are divided by 2**exponent."""
        by = self.exponent - exponent
        return replace(
            self,
            total=math.ldexp(self.total, by),
            squares=math.ldexp(self.squares, 2 * by),
            largest=np.ldexp(self.largest, by),
            exponent=exponent,
        )

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Return the sums over several sets of pairs together; at least one."""
        parts = list(parts)
        exponent = max(part.exponent for part in parts)
        parts = [part.at(exponent) for part in parts]
        return cls(
            count=sum(part.count for part in parts),
            total=sum(part.total for part in parts),
            squares=sum(part.squares for part in parts),
            moved=sum(part.moved for part in parts),
            largest=_largest(np.concatenate([part.largest for part in parts])),
            exponent=exponent,
        )

    def units(self) -> Units:
        """Return the pairs as what is resampled, divided by 2**exponent."""
        rest = self.count - len(self.largest)
        left = self.total - float(self.largest.sum())
        left_squares = self.squares - float(self.largest @ self.largest)
        # What is left of equal sums is noise of rounding: then the rest is zeros.
        if not rest or left_squares <= _SAME * self.squares:
            left = left_squares = 0.0
        return Units(
            kept=self.largest,
            rest=rest,
            rest_mean=left / rest if rest else 0.0,
            rest_squares=left_squares,
        )


def _largest(d: Doubles) -> Doubles:
    d = d[d != 0]
    chosen = d[np.argpartition(np.abs(d), -KEPT)[-KEPT:]] if len(d) > KEPT else d
    return np.sort(chosen, kind="stable")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterSums(Sums):
    """Sums over the differences of each of G clusters, 32 bytes for each. Merged with `+`.

    Attributes:
        clusters: What identifies each cluster, ascending. Shape (G,), uint64.
        totals: Sum of the differences of its pairs, divided by 2**exponent. Shape (G,).
        counts: Number of its pairs. Shape (G,), int64.
        moved: How many of these have moved. Shape (G,), int64.
    """

    clusters: npt.NDArray[np.uint64]
    totals: Doubles
    counts: npt.NDArray[np.int64]
    moved: npt.NDArray[np.int64]
    exponent: int = LEAST_EXPONENT

    @classmethod
    def of(
        cls,
        differences: npt.NDArray[np.floating[Any]],
        clusters: npt.NDArray[np.uint64],
        moved: BoolArray | None = None,
        exponent: int = 0,
    ) -> Self:
        """Return the sums over finite differences, which are divided by 2**exponent, by cluster.

        `moved` is that of `PairedSums.of`. Shape (N,) all.
        """
        d, own = below_one(differences)
        moves = (d != 0 if moved is None else moved).astype(np.int64)
        return cls._summed(own + exponent, clusters, d, np.ones(len(d), dtype=np.int64), moves)

    def at(self, exponent: int) -> Self:
        """Return the same sums of differences that are divided by 2**exponent."""
        totals = np.ldexp(self.totals, self.exponent - exponent)
        return replace(self, totals=totals, exponent=exponent)

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Return the sums over several sets of pairs together; at least one."""
        parts = list(parts)
        exponent = max(part.exponent for part in parts)
        rows = (
            (part.clusters, part.at(exponent).totals, part.counts, part.moved) for part in parts
        )
        return cls._summed(exponent, *map(np.concatenate, zip(*rows, strict=True)))

    @classmethod
    def _summed(cls, exponent: int, *columns: npt.NDArray[Any]) -> Self:
        clusters, totals, counts, moved = summed_by_key(*columns)
        return cls(clusters=clusters, totals=totals, counts=counts, moved=moved, exponent=exponent)

    def __len__(self) -> int:
        return len(self.clusters)


POWER = 0.8
"""Probability with which `PairedResult.detectable` is detected."""
LEAST_UNITS = 1.5
"""Fewer pairs, or effective clusters, have no error: one cluster alone says nothing of others."""
EXACT_UNITS = 13
"""Up to this many units that have moved, all their signs are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """A paired difference with its error and tests.

    `difference` is None without a pair; it has no error, interval or p value (None) with a single
    pair or cluster, nor with one cluster that outweighs all others (`LEAST_UNITS`).

    Attributes:
        clusters: Number of clusters; None if there are none.
        effective_clusters: Number of equal clusters that would weigh as much.
        units: Number of rows that count by themselves, and of clusters.
        moved_units: Number of those of which a score has moved.
        confidence: Of the interval and the bound, such as .95.
        difference: Mean of the differences; `error` is its standard error.
        degrees: Degrees of freedom of Student's t, by which `interval` and the upper bound are
            made.
        detectable: The smallest true difference that this many rows show with probability `POWER`:
            the interval then leaves out 0. None where no two differences are unlike.
        p_value: Two-sided, by Student's t: that the mean is 0.
        signs_p: One-sided, by all signs of the units: that the mean is not below 0. None above
            `EXACT_UNITS` of them.
        randomization_p: Two-sided, by approximate randomization.
        bootstrap_p: Two-sided, by the bootstrap of differences shifted to a mean of 0.
        bootstrap_interval: The two-sided interval by quantiles of the bootstrap.
        carriers: How many pairs, or clusters, carry the variance; see `is_dominated`.
    """

    pairs: int
    clusters: int | None = None
    effective_clusters: float | None = None
    units: int = 0
    moved_units: int = 0
    confidence: float
    difference: float | None = None
    error: float | None = None
    degrees: float | None = None
    interval: tuple[float, float] | None = None
    upper: float | None = None
    detectable: float | None = None
    p_value: float | None = None
    signs_p: float | None = None
    randomization_p: float | None = None
    bootstrap_p: float | None = None
    bootstrap_interval: tuple[float, float] | None = None
    carriers: float | None = None

    @property
    def repeats(self) -> int:
        """How many rows count no more than another one does, where clusters are not named."""
        return self.pairs - self.units if self.clusters is None else 0

    def drop_p_value(self, drop: float) -> float | None:
        """Return the p value of the claim that the true difference is below -drop, from 0 on.

        It is below 1 - confidence only if the one-sided upper bound is below -drop, and if so few
        units can be so certain. None without an error.
        """
        if self.difference is None or self.error is None or self.degrees is None:
            return None
        tail = _tail(self.difference + drop, self.error, self.degrees)
        return max(tail, least_p(self.moved_units), self.signs_p or 0.0)

    def at(self, exponent: int) -> "PairedResult":
        """Return the result of differences that are 2**exponent times as large.

        What is then beyond a double is the largest double.
        """

        def times(value: float | None) -> float | None:
            return None if value is None else _times_power(value, exponent)

        def both(ends: tuple[float, float] | None) -> tuple[float, float] | None:
            return None if ends is None else (times(ends[0]) or 0.0, times(ends[1]) or 0.0)

        return replace(
            self,
            difference=times(self.difference),
            error=times(self.error),
            interval=both(self.interval),
            upper=times(self.upper),
            detectable=times(self.detectable),
            bootstrap_interval=both(self.bootstrap_interval),
        )


def paired_result(
    rows: PairedSums,
    clusters: ClusterSums | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 12345,
) -> PairedResult:
    """Return the paired difference with its error and tests, from sums over pairs.

    `rows` are those that count by themselves, and `clusters` all others. The other arguments are as
    for `compare_paired`.
    """
    exponent = max(rows.exponent, LEAST_EXPONENT if clusters is None else clusters.exponent)
    rows, clusters = rows.at(exponent), None if clusters is None else clusters.at(exponent)
    n, total, moved, units = rows.count, rows.total, rows.moved, rows.units()
    if clusters is not None and len(clusters):
        n, total = n + int(clusters.counts.sum()), total + float(clusters.totals.sum())
        moved += int(np.count_nonzero(clusters.moved))
        sizes = np.append(np.ones(len(units.kept)), clusters.counts.astype(np.float64))
        units = replace(units, kept=np.append(units.kept, clusters.totals), sizes=sizes)
    effective = _effective(units)
    mean = total / n if n else None
    known = PairedResult(
        pairs=n,
        clusters=None if clusters is None else len(units),
        effective_clusters=None if clusters is None else effective,
        units=len(units),
        moved_units=moved,
        confidence=confidence,
        difference=mean,
    )
    if mean is None or effective < LEAST_UNITS:
        return known.at(exponent)
    variance, number_of_carriers = _variance_of_mean(units, n, mean)
    error = math.sqrt(variance)
    degrees = effective - 1.0
    half = _reach((1 + confidence) / 2, error, degrees)
    tests = _resample(units, n, mean, confidence, resamples, seed) if resamples else {}
    return replace(
        known,
        error=error,
        degrees=degrees,
        interval=(mean - half, mean + half),
        upper=mean + _reach(confidence, error, degrees),
        detectable=half + _reach(POWER, error, degrees) if error else None,
        p_value=min(1.0, 2 * _tail(-abs(mean), error, degrees)),
        signs_p=_signs_p(units, moved) if moved <= EXACT_UNITS else None,
        carriers=number_of_carriers,
        **tests,
    ).at(exponent)


CORPUS_SWAPS, CORPUS_SAMPLES = 10_000, 1_000
"""Random swaps and bootstrap samples of a corpus, as sacreBLEU takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusResult:
    """Two corpora of the same rows compared by a metric that is not a mean over rows.

    The p values are two-sided: by approximate randomization, and by the bootstrap, whose interval
    is that of the difference. They are None without resampling.
    """

    score: float
    against_score: float
    difference: float
    randomization_p: float | None = None
    bootstrap_p: float | None = None
    interval: tuple[float, float] | None = None


def compare_corpora(
    counts: Doubles,
    against: Doubles,
    score: Callable[[Doubles], float],
    *,
    confidence: float = 0.95,
    resample: bool = True,
    seed: int = 12345,
) -> CorpusResult:
    """Compare two corpora from the counts of their rows, which are paired.

    Takes the counts of each row of either side, (N, K), and a function that returns the score of a
    corpus from the sums of its counts, (K,); `resample` says whether to test the difference.

    Rows are resampled one by one. Of more than `KEPT` these are the ones that carry most of a
    count; the sums of all others are drawn as normal variables.

    References:
        sacreBLEU's `significance.py`. The interval is the same within its Monte Carlo error, and so
        is the p value by randomization, but for ties: there they do not count, so that corpora that
        differ in one row get the least p possible. Its bootstrap takes sizes before it centres
        them, and so rejects equal systems in 12% where 5% is said; here it centres first.
    """
    own, other = score(counts.sum(axis=0)), score(against.sum(axis=0))
    known = CorpusResult(score=own, against_score=other, difference=own - other)
    if not resample or not len(counts):
        return known
    if np.array_equal(counts, against):
        return replace(known, randomization_p=1.0, bootstrap_p=1.0, interval=(0.0, 0.0))

    def differences(samples: Iterator[Doubles]) -> Doubles:
        sums = np.maximum(np.rint(np.concatenate(list(samples))), 0)
        return np.array([score(a) - score(b) for a, b in zip(*np.hsplit(sums, 2), strict=True)])

    random, both = np.random.default_rng(seed), np.hstack([counts, against])
    moves = np.hstack([against - counts, counts - against])
    kept = _carrying(both, moves)
    swapped = differences(_swapped(both, moves, kept, random))
    drawn = differences(_drawn(both, kept, random))
    # Differences of equal sums are equal but for rounding, and count.
    least = abs(known.difference) - _SAME * max(abs(own), abs(other))
    p_values = [
        (int(np.count_nonzero(np.abs(values) >= least)) + 1) / (len(values) + 1)
        for values in (swapped, drawn - drawn.mean())
    ]
    low, high = np.quantile(drawn, [0.5 - confidence / 2, 0.5 + confidence / 2]).tolist()
    return replace(
        known, randomization_p=p_values[0], bootstrap_p=p_values[1], interval=(low, high)
    )


def _carrying(*counts: Doubles) -> npt.NDArray[np.int64]:
    """Return the rows that carry the largest shares of the variance of a count, at most `KEPT`."""
    rows = len(counts[0])
    if rows <= KEPT:
        return np.arange(rows)
    largest = np.zeros(rows)
    for column in chain.from_iterable(one.T for one in counts):
        squares = (column - column.mean()) ** 2
        np.maximum(largest, squares / (squares.sum() or 1.0), out=largest)
    return np.sort(np.argpartition(largest, -KEPT)[-KEPT:])


def _swapped(
    both: Doubles, moves: Doubles, kept: npt.NDArray[np.int64], random: np.random.Generator
) -> Iterator[Doubles]:
    """Return the sums of both sides after random swaps of rows. Shape (B, 2K) each time."""
    near = moves[kept]
    centre = both.sum(axis=0) + (moves.sum(axis=0) - near.sum(axis=0)) / 2
    spread = (moves.T @ moves - near.T @ near) / 4
    for count in batches(CORPUS_SWAPS, len(kept)):
        swaps = random.integers(0, 2, size=(count, len(kept))).astype(np.float64)
        yield swaps @ near + centre + _noise(spread, count, random)


def _drawn(
    both: Doubles, kept: npt.NDArray[np.int64], random: np.random.Generator
) -> Iterator[Doubles]:
    """Return the sums of both sides over rows drawn with replacement. Shape (B, 2K) each time."""
    near, number = both[kept], len(both)
    rest = number - len(kept)
    mean = (both.sum(axis=0) - near.sum(axis=0)) / max(rest, 1)
    spread = (both.T @ both - near.T @ near) / max(rest, 1) - np.outer(mean, mean)
    for count in batches(CORPUS_SAMPLES, len(kept)):
        drawn = np.full(count, number)
        if rest:  # of the rows of a sample, this many are among those kept
            drawn = random.binomial(number, len(kept) / number, count)
        others = (number - drawn)[:, None]
        noise = np.sqrt(others) * _noise(spread, count, random) if rest else 0.0
        yield times_drawn(drawn, len(kept), random) @ near + others * mean + noise


def _noise(covariance: Doubles, count: int, random: np.random.Generator) -> Doubles:
    """Return normal noise around 0. Shape (B, K)."""
    if not covariance.any():
        return np.zeros((count, len(covariance)))
    middle = np.zeros(len(covariance))
    return random.multivariate_normal(middle, covariance, count, "ignore", method="eigh")


def compare_paired(
    differences: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 12345,
) -> PairedResult:
    """Return the mean of paired differences with its error, interval and tests.

    Args:
        differences: The difference of each pair of scores, such as `new.f1 - old.f1`; finite.
            Shape (N,).
        clusters: What the rows that resemble each other have in common, such as the name or number
            of their document; None if rows are independent. Shape (N,).
        confidence: Of the interval and the bounds.
        resamples: Number of sign flips, and of bootstrap samples; 0 for neither.
        seed: Seed of both. The same seed gives the same result.

    Raises:
        InputError: A difference is not finite, a row has no cluster, clusters are of several types,
            the confidence is not between 0 and 1, or resamples are negative.
    """
    check_confidence(confidence)
    if resamples < 0:
        raise InputError(
            f"resamples cannot be {resamples}; expected 0 for neither flips nor bootstrap, or more."
        )
    try:
        d = np.asarray(differences, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"differences are not numbers: got {type(error).__name__}; expected one finite number "
            "for each pair. Subtract the scores of one side from those of the other."
        ) from error
    missing = int(np.count_nonzero(~np.isfinite(d)))
    if d.ndim != 1 or missing:
        raise InputError(
            f"differences cannot be compared: got shape {d.shape} with {missing} values not "
            "finite; expected one finite number for each pair. Leave out pairs without two scores."
        )
    return paired_result(
        PairedSums.of(d if clusters is None else d[:0]),
        None if clusters is None else ClusterSums.of(d, _numbered(clusters, len(d))),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for their number by Holm's method, in their order.

    Those that are None are not counted and stay None.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[place] = highest
    return adjusted


def least_p(units: int) -> float:
    """Return the smallest one-sided p value that the signs of this many units can give."""
    return 0.5**units


def _signs_p(units: Units, moved: int) -> float:
    """Return the p value by all signs of the units that have moved: the largest of them."""
    kept = units.kept[np.argsort(-np.abs(units.kept), kind="stable")[:moved]]
    highest = float(kept.sum()) + NOISE * float(np.abs(kept).sum())
    return float(np.mean(_all_signs(len(kept)) @ kept <= highest))


def _effective(units: Units) -> float:
    """Return the number of equal units that would weigh as much (Kish); 0 without any."""
    if units.sizes is None:
        return float(len(units))
    counts = np.append(np.ones(len(units.sizes)), units.rest)
    return effective_number(np.append(units.sizes, 1.0), counts)


def _variance_of_mean(units: Units, n: int, mean: float) -> tuple[float, float | None]:
    """Return the variance of the mean of n pairs, and how many units carry it.

    The number is exact up to `KEPT` of them that have moved.
    """
    sizes = np.ones(len(units.kept)) if units.sizes is None else units.sizes
    # How far the mean moves without each unit.
    moves = (units.kept - mean * sizes) / (n - sizes)
    rest, middle = units.rest, units.rest_mean
    left = max(0.0, units.rest_squares - mean * rest * (2 * middle - mean)) / (n - 1) ** 2
    variance = (len(units) - 1) / len(units) * (float(moves @ moves) + left)
    typical = (middle - mean) / (n - 1)
    counts = np.append(np.ones(len(moves)), rest)
    return variance, effective_rows(np.append(moves, typical), counts)


def _numbered(clusters: npt.ArrayLike, rows: int) -> npt.NDArray[np.uint64]:
    names = np.asarray(clusters)
    missing = sum(name is None or name != name for name in names.ravel().tolist())
    if names.shape != (rows,) or missing:
        raise InputError(
            f"clusters do not fit: got shape {names.shape} with {missing} values missing; expected "
            f"one for each of {rows} pairs. If a row resembles no other, give it a cluster of its "
            "own."
        )
    try:
        return np.unique(names, return_inverse=True)[1].astype(np.uint64)
    except TypeError as error:
        raise InputError(
            f"clusters have no order: got values of several types ({error}); expected all texts or "
            "all numbers. Turn them into texts."
        ) from error


def _reach(probability: float, error: float, degrees: float) -> float:
    return student_quantile(probability, degrees) * error if error else 0.0


def _tail(distance: float, error: float, degrees: float) -> float:
    from scipy.special import stdtr  # here, since it takes a fifth of a second

    if not error:
        return 0.0 if distance < 0 else 1.0
    return float(stdtr(degrees, distance / error))


def _resample(
    units: Units, n: int, mean: float, confidence: float, resamples: int, seed: int
) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    if units.sizes is None:
        means = bootstrap(units, resamples, random) / n
    elif len(units.kept) <= KEPT:
        means = bootstrap(units, resamples, random)
    else:
        # Of this many units the mean is linear in their totals but for terms of 1 / G.
        rest, middle = units.rest, units.rest_mean
        residuals = Units(
            kept=units.kept - mean * units.sizes,
            sizes=units.sizes,
            rest=rest,
            rest_mean=middle - mean,
            rest_squares=max(0.0, units.rest_squares - mean * rest * (2 * middle - mean)),
        )
        means = mean + bootstrap(_without_sizes(residuals), resamples, random) / n
    randomization_p = _flip_signs(_without_sizes(units), resamples, random)
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2]).tolist()
    # Shifted to a mean of 0, as if there were no difference. Equal but for rounding counts.
    least = abs(mean) - _SAME * float(np.abs(means).max())
    beyond = int(np.count_nonzero(np.abs(means - mean) >= least))
    return {
        "randomization_p": randomization_p,
        "bootstrap_p": (beyond + 1) / (len(means) + 1),
        "bootstrap_interval": (low, high),
    }


def _without_sizes(units: Units) -> Units:
    """Return units that are resampled by their totals alone: at most `KEPT` one by one."""
    if units.sizes is None:
        return units
    kept, rest = units.kept, units.rest
    return PairedSums(
        count=len(units),
        total=float(kept.sum()) + rest * units.rest_mean,
        squares=float(kept @ kept) + units.rest_squares,
        largest=_largest(kept),
    ).units()
