"""Simulated nights: paired differences of rows, with and without clusters, drawn anew each time."""

import numpy as np
import numpy.typing as npt

from bertscore_core.stats import ClusterSums, PairedResult, PairedSums, paired_result

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
            d = change + random.normal(0, SPREAD, ROWS)
            results.append(paired_result(PairedSums.of(d), resamples=0))
            continue
        common = random.normal(0, SPREAD * shared**0.5, int(clusters.max()) + 1)
        own = random.normal(0, SPREAD * (1 - shared) ** 0.5, len(clusters))
        d = change + common[clusters.astype(np.int64)] + own
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
