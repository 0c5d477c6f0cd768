"""Means of statistics with their intervals, as a page shows them."""

import math

from bertscore_beam.results.report.data import Estimate
from bertscore_core.intervals import mean_intervals
from bertscore_core.score_statistics import ScoreStatistics

F1 = 2
"""The place of F1 among the measures."""


def estimates(statistics: ScoreStatistics, confidence: float) -> tuple[Estimate, ...]:
    """Return the means of precision, recall and F1 with their intervals."""
    means, ends = statistics.means.tolist(), mean_intervals(statistics, confidence).tolist()
    return tuple(
        Estimate(mean=_known(mean), low=_known(low), high=_known(high))
        for mean, low, high in zip(means, *ends, strict=True)
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
