"""Is one setting's correlation with people greater than another's on the same rows?

Both correlations share the judgements and, mostly, the errors of the metric, so that two separate
intervals say little. `williams` is for Pearson's correlation over independent rows; `permutation`
for any statistic; `Estimates.p_below` for any statistic with terms, and where rows come in
clusters. None of them corrects for the number of settings, as WMT's tables do not.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from bertscore_core.agreement.estimates import ROUNDING, best_of
from bertscore_core.agreement.inputs import Doubles, checked
from bertscore_core.agreement.segments import correlations
from bertscore_core.errors import InputError
from bertscore_core.tokens import BoolArray

PERMUTATIONS = 1000
"""Permutations of a test: the least p value is 1 / 1001."""

Statistic = Callable[[Doubles, Doubles], Doubles]
"""From judgements (N,) and scores (S, N) to values (S,)."""

_BLOCK = 2**21  # scores held at a time


def williams_test(first: Doubles, second: Doubles, between: Doubles, rows: int) -> Doubles:
    """Return one-sided p values of the first correlation being greater than the second.

    Args:
        first: Correlations of some metrics with people.
        second: Correlations of other metrics with people. Shape as `first`.
        between: Correlations between the two metrics. Shape as `first`.
        rows: Number of rows, N.

    Returns:
        p values, 0.5 for metrics that correlate fully; NaN below four rows or where a correlation
        is NaN. Shape as `first`.

    References:
        E. J. Williams, "Regression analysis" (1959). Y. Graham, T. Baldwin, "Testing for
        significance of increased correlation with human judgment" (2014). mt-metrics-eval,
        `WilliamsTest`, which takes the size of the difference; here its sign counts.
    """
    if rows < 4:
        return np.full(np.shape(first), np.nan)
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    determinant = np.maximum(determinant, 0)  # rounding
    middle = (first + second) / 2
    above = (first - second) * np.sqrt((rows - 1) * np.maximum(1 + between, 0))
    below = np.sqrt(
        2 * (rows - 1) / (rows - 3) * determinant + middle**2 * np.maximum(1 - between, 0) ** 3
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((first == second) | (between > 1 - ROUNDING), 0.0, above / below)
    ratio = np.where(np.isnan(first + second + between), np.nan, ratio)
    return np.asarray(stdtr(rows - 3, -ratio), dtype=np.float64)


def williams(people: npt.ArrayLike, scores: npt.ArrayLike, best: int | None = None) -> Doubles:
    """Return p values of the best setting's Pearson correlation being greater than each other's.

    Rows must be independent: where they come in clusters, take `Estimates.p_below`.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N).
        best: Index of the setting that the others are compared with; the best by default.

    Returns:
        p values, one-sided. Shape (S,); 0.5 for the best itself.

    Raises:
        InputError: shapes do not fit, a number is missing, or no setting has a correlation.
    """
    judged, rows = checked(people, scores)
    values = correlations(judged[None], rows)
    best = best_of(values) if best is None else best
    between = correlations(rows[[best]], rows)
    return williams_test(np.full(len(rows), values[best]), values, between, len(judged))


def permutation(
    statistic: Statistic,
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    best: int | None = None,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Doubles:
    """Return p values of the best setting being better than each other one, by permutation.

    If two metrics are equally good, their scores, each standardized, can be swapped in any row. The
    p value is the share of random swaps that leave at least the difference seen (which is counted
    itself, so that it is never 0).

    It computes the statistic twice for each permutation and setting: ask for the settings that
    matter.

    Args:
        statistic: Takes judgements (N,) and scores (S, N), and returns S values.
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N).
        best: Index of the setting that the others are compared with; the best by default.
        permutations: How often to swap.
        seed: Equal seeds and data give equal results; all settings see the same swaps.

    Returns:
        p values, one-sided. Shape (S,); 0.5 for the best itself, NaN where there is no value.

    Raises:
        InputError: shapes do not fit, a number is missing, no setting has a value, or there are no
            permutations.

    References:
        D. Deutsch, R. Dror, D. Roth, "A statistical analysis of summarization evaluation metrics
        using resampling methods" (2021), PERM-BOTH. mt-metrics-eval, `PermutationSigDiff`.
    """
    judged, rows = checked(people, scores)
    if permutations < 1:
        raise InputError(f"got {permutations} permutations; expected 1 or more.")
    values = np.asarray(statistic(judged, rows), dtype=np.float64)
    best = best_of(values) if best is None else best
    spread = rows.std(axis=1, keepdims=True)
    standard = (rows - rows.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    p_values = np.full(len(rows), np.nan)
    for other in np.flatnonzero(np.isfinite(values)):
        pair = standard[[best, other]]
        seen = np.asarray(statistic(judged, pair))
        counts = _swapped(statistic, judged, pair, float(seen[0] - seen[1]), permutations, seed)
        p_values[other] = 0.5 if other == best else (counts + 1) / (permutations + 1)
    return p_values


def not_below_best(p_values: Doubles, level: float = 0.05) -> BoolArray:
    """Mark the settings that are not significantly below the best. Shape (S,); never a NaN."""
    return np.asarray(p_values >= level, dtype=np.bool_)


def _swapped(
    statistic: Statistic,
    judged: Doubles,
    pair: Doubles,
    seen: float,
    permutations: int,
    seed: int,
) -> int:
    """Count the swaps of two settings, shape (2, N), that differ at least as much as was seen."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(len(judged), 1))
    total = 0
    for start in range(0, permutations, block):
        swaps = rng.random((min(block, permutations - start), len(judged))) < 0.5
        first = np.asarray(statistic(judged, np.where(swaps, pair[1], pair[0])))
        second = np.asarray(statistic(judged, np.where(swaps, pair[0], pair[1])))
        # A difference that is equal but for rounding counts.
        total += int((first - second >= seen - ROUNDING).sum())
    return total
