"""Confidence intervals of the mean score of a group, from its statistics alone.

    10,000 scored rows or more   normal theory: mean +- z * standard error
    20 or more                   the bootstrap of the mean (BCa: Efron, 1987)
    fewer                        none: no method sees the zeros that a sample happens to lack

The bootstrap's distribution is computed and not drawn: the sum of n draws from a histogram has the
n-th power of its characteristic function. So it needs no seed and no rows, and groups can be merged
first.

The histogram gives the shape only; centre and width come from the exact mean and standard error.
The width is that of Student's t, since the standard error is an estimate, too (Hesterberg, 2015).

Rows are taken to be independent. Where few of them carry most of the variance (`is_dominated`),
such as some zeros among high scores, intervals hold the true mean less often than they say.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from bertscore_core.stats.score_statistics import (
    Doubles,
    PackedHistogram,
    ScoreStatistics,
    effective_number,
)
from bertscore_core.tokens import IntArray

_NORMAL_ROWS = 10_000
"""From this many scored rows on, intervals are by normal theory."""

LEAST_ROWS = 20
"""Fewer have no interval. Of 12 rows with 5% zeros it would hold the true mean in 44% of cases."""

_FEW_CARRIERS = 5.0
"""Fewer rows that carry the variance are few, if they are less than a fifth of all as well. Where
intervals of simulated groups held the mean in less than 93%, this was so for 17% to 82% of them; of
normal scores for 1% at most (`coverage` in tests/support/nights.py)."""

_STEPS = 32
# In bins. A narrower histogram says nothing about the shape.
_LEAST_DEVIATION = 4.0
# In standard deviations of the sum: what lies beyond is folded back into the window.
_WINDOW = 16.0
_NORMAL = NormalDist()


def mean_intervals(statistics: ScoreStatistics, confidence: float = 0.95) -> Doubles:
    """Return two-sided intervals of the mean precision, recall and F1 of a group.

    Args:
        statistics: The group. If it mixes baselines, the shape of the final scores is taken to be
            that of the raw ones.
        confidence: Probability that an interval holds the true mean, such as .95.

    Returns:
        Lower and upper ends. Shape (2, 3); NaN below `LEAST_ROWS` scored rows. Where scores are not
        rescaled they are within [-1, 1], unless rounding moves a mean beyond.

    Raises:
        InputError: The confidence is not between 0 and 1.
    """
    check_confidence(confidence)
    means, errors = statistics.means, statistics.standard_errors
    units = [
        _interval_in_errors(histogram, statistics.scored, confidence)
        for histogram in statistics.histograms
    ]
    ends = (means[:, None] + errors[:, None] * np.array(units)).T
    if statistics.sums == statistics.raw_sums:
        most = np.maximum(1, np.abs(means))
        ends = np.clip(ends, -most, most)
    return np.ascontiguousarray(ends, dtype=np.float64)


def effective_rows(deviations: Doubles, counts: npt.ArrayLike = 1) -> float | None:
    """Return the effective number of rows: that many, equally far from the mean, vary alike.

    It is (sum of u^2)^2 / sum of u^4 over deviations u from the mean: Kish's effective number with
    squared deviations as weights. None if all rows are equal. Shapes: deviations (K,), and the rows
    at each, (K,) or ().
    """
    return effective_number(np.square(deviations), counts) or None


def effective_rows_in(histogram: PackedHistogram) -> float | None:
    """Return the same of the scores in a histogram; None if it is too narrow to tell."""
    bins, counts = histogram.bins, histogram.counts
    deviations = bins - bins @ counts / max(counts.sum(), 1)
    is_narrow = np.square(deviations) @ counts < _LEAST_DEVIATION**2 * counts.sum()
    return None if is_narrow else effective_rows(deviations, counts)


def is_dominated(number: float | None, rows: float) -> bool:
    """Tell whether the variance of the rows is that of a few of them; see `effective_rows`."""
    return number is not None and number < min(_FEW_CARRIERS, rows / 5)


def check_confidence(confidence: float) -> None:
    """Check that a confidence is between 0 and 1.

    Raises:
        InputError: It is not.
    """
    if not 0 < confidence < 1:
        raise InputError(
            f"the confidence cannot be used: got {confidence}; expected a number between 0 and 1, "
            "such as 0.95."
        )


def method_of(scored: int) -> str | None:
    """Return how intervals of this many scored rows are computed; None if there is none."""
    if scored < LEAST_ROWS:
        return None
    return "normal" if scored >= _NORMAL_ROWS else "bootstrap"


def _interval_in_errors(
    histogram: PackedHistogram, number: int, confidence: float
) -> tuple[float, float]:
    """Return the ends of an interval of a mean of n values, in standard errors from the mean."""
    upper = (1 + confidence) / 2
    if number < LEAST_ROWS:
        return math.nan, math.nan
    normal = _NORMAL.inv_cdf(upper)
    if number >= _NORMAL_ROWS:
        return -normal, normal
    wider = student_quantile(upper, number - 1) / normal
    low, high = _bootstrap_ends(histogram, number, normal)
    return wider * low, wider * high


def student_quantile(share: float, degrees: float) -> float:
    """Return the quantile of Student's t below which a share of it lies."""
    from scipy.special import stdtrit  # here, since it takes a fifth of a second

    return float(stdtrit(degrees, share))


def _bootstrap_ends(histogram: PackedHistogram, number: int, normal: float) -> tuple[float, float]:
    deviation = math.sqrt(_moment(histogram.bins, histogram.counts / histogram.counts.sum(), 2))
    if deviation < _LEAST_DEVIATION:
        return -normal, normal
    # In coarser bins, from 0 on. Those that are empty have a share of 0.
    step = max(int(deviation // _STEPS), 1)
    shares = np.bincount((histogram.bins - histogram.bins[0]) // step, histogram.counts)
    shares = shares / shares.sum()
    values = np.arange(len(shares))
    mean, variance = float(values @ shares), _moment(values, shares, 2)
    spread = math.sqrt(number * variance)
    # All sums that there are on both sides of the mean, or a window.
    width = min(2 * number * len(shares), max(int(_WINDOW * spread), len(shares)))
    size = 1 << (width - 1).bit_length()
    # Sums modulo `size`: the power of the characteristic function at its frequencies.
    folded = np.fft.irfft(_power(np.fft.rfft(shares, size), number), size)
    sums = round(number * mean) - size // 2 + np.arange(size)
    share = np.maximum(folded[sums % size], 0.0)
    below = np.cumsum(share) / share.sum() - share / share.sum() / 2
    deviations = (sums - number * mean) / spread
    bias = _NORMAL.inv_cdf(float(np.interp(0.0, deviations, below)))
    acceleration = _moment(values, shares, 3) / variance**1.5 / (6 * math.sqrt(number))
    ends = []
    for z in (-normal, normal):
        moved = bias + (bias + z) / (1 - acceleration * (bias + z))
        ends.append(float(np.interp(_NORMAL.cdf(moved), below, deviations)))
    return ends[0], ends[1]


def _moment(values: IntArray, shares: Doubles, power: int) -> float:
    mean = float(values @ shares)
    return float((values - mean) ** power @ shares)


def _power(base: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """Return a power by squaring: numpy takes the logarithm of every number, 20 times slower."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        base, exponent = base * base, exponent >> 1
    return result
