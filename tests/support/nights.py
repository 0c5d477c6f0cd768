"""Simulated nights: scores and paired differences of rows, drawn anew each time."""

import numpy as np
import numpy.typing as npt

from bertscore_core.stats.intervals import effective_rows_in, is_dominated, mean_intervals
from bertscore_core.stats.paired import ClusterSums, PairedResult, PairedSums, paired_result
from bertscore_core.stats.score_statistics import GroupedRows, statistics_by_group

ROWS = 400
SPREAD = 0.03
SHARED = 0.5
"""Default share of the variance of differences that the rows of a cluster have in common."""


def equal_clusters(count: int = 40) -> np.ndarray:
    """Return the cluster of each row: all of one size."""
    return np.repeat(np.arange(count), ROWS // count).astype(np.uint64)


def clusters_of(sizes: npt.ArrayLike) -> np.ndarray:
    """Return the cluster of each row, where clusters have these numbers of rows."""
    rows = np.maximum(1, np.round(sizes)).astype(np.int64)
    return np.repeat(np.arange(len(rows)), rows).astype(np.uint64)


def unequal_clusters() -> np.ndarray:
    """Return the cluster of each row: sizes from 2 to 18."""
    return clusters_of(np.repeat([2, 8, 12, 18], 10))


def lognormal(count: int, spread: float, seed: int) -> np.ndarray:
    """Return the cluster of each row: lognormal sizes, as documents of many collections have."""
    return clusters_of(np.random.default_rng(seed).lognormal(2, spread, count))


def zipf(count: int) -> np.ndarray:
    """Return the cluster of each row: cluster k of `count` has `count` / k rows, from k = 1 on."""
    return clusters_of(count / np.arange(1, count + 1))


def nights(
    count: int,
    change: float,
    clusters: np.ndarray | None = None,
    *,
    shared: float = SHARED,
    seed: int = 0,
) -> list[PairedResult]:
    """Return what is measured on a number of nights whose true change is known.

    Args:
        count: Number of nights.
        change: The true change.
        clusters: The cluster of each row; None if rows are independent.
        shared: Share of the variance of differences that the rows of a cluster have in common.
        seed: Of the nights.
    """
    random = np.random.default_rng(seed)
    results = []
    for _ in range(count):
        if clusters is None:
            alone, sums = change + random.normal(0, SPREAD, ROWS), None
        else:
            common = random.normal(0, SPREAD * shared**0.5, int(clusters.max()) + 1)
            own = random.normal(0, SPREAD * (1 - shared) ** 0.5, len(clusters))
            d = change + common[clusters.astype(np.int64)] + own
            alone, sums = d[:0], ClusterSums.of(d, clusters)
        results.append(paired_result(PairedSums.of(alone), sums, resamples=0))
    return results


def firing_rate(results: list[PairedResult], drop: float, level: float = 0.05) -> float:
    """Return the share of nights on which a gate for this drop fires."""
    return float(np.mean([one.drop_p_value(drop) < level for one in results]))


SHAPES = {
    "normal": 0.85,
    "gamma, skewness -1.4": 0.85,
    "gamma, skewness -4": 0.85,
    "2% zeros": 0.98 * 0.85,
    "10% zeros": 0.9 * 0.85,
}
"""Distributions of scores, and their means."""


def draw(shape: str, rows: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw scores of one of `SHAPES`; their differences have its shape as well. Shape (rows,)."""
    if shape.startswith("gamma"):
        form = 2.0 if shape.endswith("1.4") else 0.25
        return 0.95 - random.gamma(form, 0.1 / form, rows)
    scores = random.normal(0.85, 0.03, rows)
    scores[random.random(rows) < {"2": 0.02, "1": 0.1}.get(shape[0], 0)] = 0
    return scores


def coverage(shape: str, rows: int, samples: int, *, seed: int = 0) -> npt.NDArray[np.float64]:
    """Simulate intervals of 95%, and tests of the true difference, over samples of a shape.

    Returns:
        Shares of the samples: whose interval of a group holds the mean, and is warned about; whose
        interval of differences, of which few are high and most are low, holds it (that of Student's
        t); whose gate rejects the true mean, at 5%.
    """
    random, mean, found = np.random.default_rng(seed), SHAPES[shape], []
    for _ in range(samples):
        scores = draw(shape, rows, random)
        low, high, is_warned = interval_of_group(scores)
        paired = paired_result(PairedSums.of(mean - scores), resamples=0)
        start, end = paired.interval or (0.0, 0.0)
        fires = (paired.drop_p_value(0.0) or 0.0) < 0.05
        found.append((low <= mean <= high, is_warned, start <= 0 <= end, fires))
    shares: npt.NDArray[np.float64] = np.mean(found, axis=0)
    return shares


def interval_of_group(scores: npt.NDArray[np.float64]) -> tuple[float, float, bool]:
    """Return the interval of the mean of scores, and whether `groups` warns about it."""
    rows = GroupedRows(
        groups=np.zeros(len(scores), dtype=np.int64),
        number=1,
        scores=np.stack([scores] * 3, axis=1),
        raw=None,
        truncated=np.zeros(len(scores), dtype=np.bool_),
        reasons={},
    )
    (statistics,) = statistics_by_group(rows)
    low, high = mean_intervals(statistics)[:, 2].tolist()
    return low, high, is_dominated(effective_rows_in(statistics.histograms[2]), len(scores))
