"""Simulated nights: paired differences of rows, with and without clusters, drawn anew each time."""

import numpy as np

from bertscore_core.paired import ClusterSums, PairedResult, PairedSums, paired_result

ROWS = 400
SPREAD = 0.03
SHARED = 0.5
"""Share of the variance of differences that the rows of a cluster have in common."""


def equal_clusters(count: int = 40) -> np.ndarray:
    """Return the cluster of each row: all of one size."""
    return np.repeat(np.arange(count), ROWS // count).astype(np.uint64)


def unequal_clusters() -> np.ndarray:
    """Return the cluster of each row: sizes from 2 to 38."""
    sizes = np.concatenate([np.full(10, 2), np.full(10, 8), np.full(10, 12), np.full(10, 18)])
    return np.repeat(np.arange(len(sizes)), sizes).astype(np.uint64)


def nights(
    count: int, change: float, clusters: np.ndarray | None = None, *, seed: int = 0
) -> list[PairedResult]:
    """Return what so many nights measure whose true change is known.

    Rows of a cluster share half of the variance of their differences.
    """
    random = np.random.default_rng(seed)
    results = []
    for _ in range(count):
        if clusters is None:
            d = change + random.normal(0, SPREAD, ROWS)
            results.append(paired_result(PairedSums.of(d), resamples=0))
            continue
        shared = random.normal(0, SPREAD * SHARED**0.5, int(clusters.max()) + 1)
        own = random.normal(0, SPREAD * (1 - SHARED) ** 0.5, len(clusters))
        d = change + shared[clusters.astype(np.int64)] + own
        results.append(paired_result(PairedSums.of(d), ClusterSums.of(d, clusters), resamples=0))
    return results


def true_error(clusters: np.ndarray | None = None) -> float:
    """Return the standard error that the mean difference of such nights truly has."""
    if clusters is None:
        return SPREAD / ROWS**0.5
    sizes = np.bincount(clusters.astype(np.int64))
    n = sizes.sum()
    return float(SPREAD * ((SHARED * (sizes**2).sum() + (1 - SHARED) * n) / n**2) ** 0.5)


def firing_rate(results: list[PairedResult], drop: float, level: float = 0.05) -> float:
    """Return the share of nights on which a gate for this drop fires."""
    return float(np.mean([one.drop_p_value(drop) < level for one in results]))
