"""Resample paired differences: random sign flips, and the bootstrap.

**More rows than fit.** The units, rows or clusters, are divided in two: the `KEPT` largest
differences (`paired_sums`), which are resampled one by one, and the rest, of which only number, sum
and sum of squares are known. The sum of the rest is drawn as a normal variable. A sum of many small
terms with random signs, or drawn with replacement, is normal up to an error that shrinks with their
number. Only large terms would make it differ, and these are kept. Rows that have not moved are in
the rest, and add exactly 0 to it. So no size needs another method: up to `KEPT` changed rows the
resampling is exact, and above that it loses nothing that can be measured (tested by simulation
against resampling of all rows).

**p values** count the observed value itself, (k + 1) / (R + 1), and so are never 0. If the sign
flips of all units are no more than the resamples, each is taken once, and p is exact.

References:
    B. Phipson, G. K. Smyth, "Permutation p-values should never be zero" (2010). P. Koehn,
    "Statistical significance tests for machine translation evaluation" (2004).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

RESAMPLES = 9_999
"""Sign flips, and bootstrap samples: the error of a p value of .05 is .002."""

# Numbers held at a time: a few tens of megabytes.
_AT_ONCE = 2_000_000
# Sums that differ by less, relative to the sum of all sizes, are the same sum in another order.
_SAME = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What is resampled: rows or clusters.

    Attributes:
        kept: The differences that are resampled one by one. Shape (K,).
        sizes: Weight of each kept unit in the mean, where it is not the same for all; only without
            a rest. Shape (K,) or None.
        rest: Number of the other units.
        rest_mean: Mean of their differences.
        rest_squares: Sum of the squares of their differences.
    """

    kept: Doubles
    sizes: Doubles | None = None
    rest: int = 0
    rest_mean: float = 0.0
    rest_squares: float = 0.0

    @classmethod
    def of(cls, kept: Doubles, count: int, total: float, squares: float) -> "Units":
        """Return units, some of which are kept.

        Args:
            kept: The differences of those. Shape (K,).
            count: Number of all units.
            total: Sum of all differences.
            squares: Sum of the squares of all differences.
        """
        rest = count - len(kept)
        left, left_squares = total - float(kept.sum()), squares - float(kept @ kept)
        # What is left of equal sums is noise of rounding: then the rest is zeros.
        if not rest or left_squares <= _SAME * squares:
            left = left_squares = 0.0
        return cls(
            kept=kept,
            rest=rest,
            rest_mean=left / rest if rest else 0.0,
            rest_squares=left_squares,
        )

    @classmethod
    def all(cls, differences: Doubles, sizes: Doubles) -> "Units":
        """Return units that are all kept, with their weights in the mean."""
        return cls(kept=differences, sizes=sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """Tests by resampling; see `paired.PairedResult`."""

    randomization_p: float | None = None
    bootstrap_p: float | None = None
    bootstrap_interval: tuple[float, float] | None = None

    @classmethod
    def of(
        cls, randomization_p: float, means: Doubles, observed: float, confidence: float
    ) -> "Resampled":
        """Return the tests.

        Args:
            randomization_p: By sign flips.
            means: Means of the bootstrap samples. Shape (R,).
            observed: The observed mean.
            confidence: Of the interval.
        """
        low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
        # Shifted to a mean of 0, as if there were no difference. Equal but for rounding counts.
        least = abs(observed) - _SAME * float(np.abs(means).max())
        beyond = int(np.count_nonzero(np.abs(means - observed) >= least))
        return cls(
            randomization_p=randomization_p,
            bootstrap_p=(beyond + 1) / (len(means) + 1),
            bootstrap_interval=(float(low), float(high)),
        )


def flip_signs(units: Units, resamples: int, random: np.random.Generator) -> float:
    """Return the two-sided p value of the sum of differences under random signs.

    Args:
        units: Rows or clusters.
        resamples: Number of flips.
        random: Where the signs come from.
    """
    kept = units.kept
    observed = abs(float(kept.sum()) + units.rest * units.rest_mean)
    least = observed - _SAME * float(np.abs(kept).sum())
    if not units.rest_squares and len(kept) < resamples.bit_length():
        signs = np.arange(2 ** len(kept))[:, None] >> np.arange(len(kept)) & 1
        sums = (2.0 * signs - 1) @ kept
        return float(np.count_nonzero(np.abs(sums) >= least)) / len(sums)
    beyond = 0
    for count in _batches(resamples, len(kept)):
        bits = random.integers(0, 256, size=(count, (len(kept) + 7) // 8), dtype=np.uint8)
        ups = np.unpackbits(bits, axis=1, count=len(kept)).astype(np.float64)
        sums = 2 * (ups @ kept) - kept.sum()
        if units.rest_squares:
            sums += random.normal(0, np.sqrt(units.rest_squares), count)
        beyond += int(np.count_nonzero(np.abs(sums) >= least))
    return (beyond + 1) / (resamples + 1)


def bootstrap(units: Units, resamples: int, random: np.random.Generator) -> Doubles:
    """Return what the units give when they are drawn with replacement.

    Args:
        units: Rows or clusters.
        resamples: Number of samples, R.
        random: Where the draws come from.

    Returns:
        The sum of differences of each sample; where units have sizes, the mean. Shape (R,).
    """
    kept, sizes = units.kept, units.sizes
    n = len(kept) + units.rest
    samples = []
    for count in _batches(resamples, len(kept)):
        # Of the n units of a sample, so many are among those kept.
        drawn = random.binomial(n, len(kept) / n, count) if units.rest else np.full(count, n)
        times = times_drawn(drawn, len(kept), random)
        sums = times @ kept
        if sizes is not None:
            sums = sums / (times @ sizes)
        samples.append(sums + _rest(units, n - drawn, random))
    return np.concatenate(samples)


def times_drawn(drawn: npt.NDArray[np.int64], number: int, random: np.random.Generator) -> Doubles:
    """Draw units with replacement, and return how often each of them is drawn.

    Args:
        drawn: How many are drawn in each sample. Shape (B,).
        number: Units to draw from, K.
        random: Where the draws come from.

    Returns:
        Shape (B, K).
    """
    chosen = random.integers(0, max(1, number), int(drawn.sum()))
    chosen += np.repeat(np.arange(len(drawn)) * number, drawn)
    times = np.bincount(chosen, minlength=len(drawn) * number)
    return times.reshape(len(drawn), number).astype(np.float64)


def _rest(units: Units, drawn: npt.NDArray[np.int64], random: np.random.Generator) -> Doubles:
    """Return the sums of so many draws from the rest."""
    if not units.rest_squares:
        return np.zeros(len(drawn))
    spread = max(0.0, units.rest_squares / units.rest - units.rest_mean**2)
    noise = random.normal(size=len(drawn))
    sums: Doubles = drawn * units.rest_mean + np.sqrt(drawn * spread) * noise
    return sums


def _batches(resamples: int, width: int) -> list[int]:
    """Return how many resamples are made at a time."""
    most = max(1, _AT_ONCE // max(1, width))
    whole, left = divmod(resamples, most)
    return [most] * whole + ([left] if left else [])
