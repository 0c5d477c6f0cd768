"""Agreement within items: which of several outputs for the same input is better.

An item is an input that several systems answered, such as a source sentence. Pairs are formed
within items only, so that easy and hard inputs are not compared with each other. Items are drawn
as a whole for intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.agreement.counting import count_below, dense_ranks
from bertscore_core.agreement.estimates import Estimates
from bertscore_core.agreement.inputs import Doubles, checked, numbered
from bertscore_core.errors import InputError
from bertscore_core.tokens import IntArray

Items = npt.NDArray[np.generic] | Sequence[object]

DARR_THRESHOLD = 25.0
"""Points of 100 that two direct assessments must be apart to count as a ranking, in WMT."""

MAX_PAIRS = 20_000_000
"""Most pairs within items; some 100 bytes are held for each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibratedAccuracy:
    """Pairwise accuracy with ties, at the best threshold of each setting.

    Attributes:
        estimates: Accuracies, from 0 to 1; items are the clusters.
        thresholds: Scores at most this far apart count as tied. Shape (S,).
    """

    estimates: Estimates
    thresholds: Doubles


def darr(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    items: Items | None = None,
    *,
    threshold: float = DARR_THRESHOLD,
) -> Estimates:
    """Return WMT's correlation like Kendall's over relative rankings made of direct assessments.

    Two outputs whose judgements are at least `threshold` apart are a ranking. It is concordant if
    the score orders them in the same way, else discordant: also if the score ties them. The
    statistic is concordant less discordant rankings, over all rankings of all items together.

    Args:
        people: Raw judgements, from 0 to 100 in WMT. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        items: The input that each row answers. None to compare all rows with each other, as where
            each input has one output. Shape (N,).
        threshold: Least difference of judgements, in their own unit. More than 0.

    Returns:
        Values of -1 to 1; NaN if no judgements are so far apart.

    Raises:
        InputError: shapes do not fit, a number is missing, or the threshold is not above 0.

    References:
        Q. Ma et al., "Results of the WMT18 metrics shared task" (2018), section 4.2. N. Mathur et
        al., "Results of the WMT20 metrics shared task" (2020). mt-metrics-eval, `KendallLike`.
    """
    judged, rows = checked(people, scores)
    if not threshold > 0:
        raise InputError(f"the threshold of rankings is {threshold}; expected a number above 0.")
    size = len(judged)
    numbers, _ = (
        numbered(items, size, "items") if items is not None else (np.zeros(size, np.int64), 1)
    )
    order = np.lexsort((judged, numbers))
    begins, lower, upper, ends = _apart(judged[order], numbers[order], threshold)
    rankings = (lower - begins) + (ends - upper)  # of each row; every pair has two rows
    total = int(rankings.sum()) // 2
    if not total:
        return Estimates.by_cluster(*_undefined(*rows.shape), items)
    values = np.zeros(len(rows))
    influences = np.zeros(rows.shape)
    # A ranking within an item is wholly of one cluster; between rows, half of it is of each, but
    # the statistic is quadratic in the rows.
    weight = size / total * (1.0 if items is None else 0.5)
    for row, ranked in enumerate(dense_ranks(line[order]) for line in rows):
        counts = count_below(
            ranked,
            np.concatenate([lower, begins, ends, upper]),
            np.concatenate([ranked, ranked, ranked + 1, ranked + 1]),
        ).reshape(4, size)
        concordant = (counts[0] - counts[1]) + (ends - upper) - (counts[2] - counts[3])
        values[row] = (int(concordant.sum()) - total) / total
        terms = 2 * concordant - rankings - values[row] * rankings
        influences[row, order] = terms * weight
    return Estimates.by_cluster(values, influences, items)


def within_item_kendall(people: npt.ArrayLike, scores: npt.ArrayLike, items: Items) -> Estimates:
    """Return the mean over items of Kendall's tau-b within the item.

    Items in which a side does not vary have no tau, and are left out for that setting.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        items: The input that each row answers. Shape (N,).

    Returns:
        Values of -1 to 1; NaN if no item has a tau.

    Raises:
        InputError: shapes do not fit, a number is missing, or there are more than `MAX_PAIRS`
            pairs.

    References:
        mt-metrics-eval, `Kendall(average_by="item", variant="b")`.
    """
    judged, rows = checked(people, scores)
    pairs = _pairs_within(items, len(judged))
    order = np.sign(judged[pairs.first] - judged[pairs.second])
    apart = pairs.sums(order != 0)
    values, influences = _undefined(len(rows), pairs.items)
    for row, line in enumerate(rows):
        ours = np.sign(line[pairs.first] - line[pairs.second])
        scale = np.sqrt(apart * pairs.sums(ours != 0))
        known = scale > 0
        if known.any():
            taus = pairs.sums(order * ours)[known] / scale[known]
            values[row] = taus.mean()
            influences[row] = 0.0
            influences[row, known] = (taus - values[row]) * (pairs.items / known.sum())
    return Estimates(values=values, influences=influences)


def accuracy_with_ties(
    people: npt.ArrayLike, scores: npt.ArrayLike, items: Items
) -> CalibratedAccuracy:
    """Return the pairwise accuracy with calibrated ties, as in the WMT23 metrics task.

    A pair of an item's outputs is right if score and judgement order it in the same way, or both
    tie it. People tie often, scores hardly ever; so scores at most a threshold apart count as tied,
    and the threshold is the one with the greatest accuracy. All thresholds are tried that make a
    difference: one sort of the pairs for each setting. The accuracy is the mean over items.

    Accuracy is not a correlation: guessing gives about half of the pairs that people order. It is
    at its best threshold, so a little too high where there are few items.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        items: The input that each row answers. Shape (N,).

    Returns:
        Accuracies of 0 to 1, NaN if no item has two outputs, and thresholds.

    Raises:
        InputError: shapes do not fit, a number is missing, or there are more than `MAX_PAIRS`
            pairs.

    References:
        D. Deutsch, G. Foster, M. Freitag, "Ties matter: meta-evaluating modern metrics with
        pairwise accuracy and tie calibration" (2023), sections 6 and 7. mt-metrics-eval,
        `KendallWithTiesOpt` with acc23, all pairs and by item.
    """
    judged, rows = checked(people, scores)
    pairs = _pairs_within(items, len(judged))
    order = np.sign(judged[pairs.first] - judged[pairs.second])
    many = pairs.sums(np.ones(len(order)))
    used = many > 0
    values, influences = _undefined(len(rows), pairs.items)
    thresholds = np.full(len(rows), np.nan)
    if not used.any():
        return CalibratedAccuracy(
            estimates=Estimates(values=values, influences=influences, lowest=0.0),
            thresholds=thresholds,
        )
    weights = 1 / many[pairs.item]
    for row, line in enumerate(rows):
        gaps = line[pairs.first] - line[pairs.second]
        thresholds[row] = _best_threshold(gaps, order, weights)
        right = np.where(np.abs(gaps) <= thresholds[row], 0.0, np.sign(gaps)) == order
        accuracies = pairs.sums(right)[used] / many[used]
        values[row] = accuracies.mean()
        influences[row] = 0.0
        influences[row, used] = (accuracies - values[row]) * (pairs.items / used.sum())
    return CalibratedAccuracy(
        estimates=Estimates(values=values, influences=influences, lowest=0.0),
        thresholds=thresholds,
    )


def check_pairs(items: Items) -> None:
    """Check that the pairs of rows within items can be formed, before there are scores.

    Raises:
        InputError: There are more than `MAX_PAIRS` pairs.
    """
    numbers, many = numbered(items, len(items), "items")
    _check_sizes(np.bincount(numbers, minlength=many))


def _check_sizes(sizes: IntArray) -> None:
    """Check that items with so many rows do not form too many pairs."""
    total = int((sizes * (sizes - 1) // 2).sum())
    if total > MAX_PAIRS:
        raise InputError(
            f"the rows form {total:,} pairs within {len(sizes):,} items; expected at most "
            f"{MAX_PAIRS:,}. An item is one input with the outputs of some systems: take the "
            "column that names it."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pairs:
    """All pairs of two rows of one item: their rows and items, shape (P,), and how many items."""

    first: IntArray
    second: IntArray
    item: IntArray
    items: int

    def sums(self, values: npt.NDArray[np.generic]) -> Doubles:
        """Add up the values of pairs by item."""
        return np.bincount(self.item, values.astype(np.float64), self.items).astype(np.float64)


def _undefined(settings: int, clusters: int) -> tuple[Doubles, Doubles]:
    """Return the values and the influences of settings that have none: all are NaN."""
    return np.full(settings, np.nan), np.full((settings, clusters), np.nan)


def _pairs_within(items: Items, rows: int) -> _Pairs:
    """Form all pairs of rows within items.

    Raises:
        InputError: there is not one item for each row, or there are more than `MAX_PAIRS` pairs.
    """
    numbers, many = numbered(items, rows, "items")
    sizes = np.bincount(numbers, minlength=many)
    _check_sizes(sizes)
    order = np.argsort(numbers, kind="stable")
    ends = np.repeat(np.cumsum(sizes), sizes)
    partners = ends - np.arange(rows) - 1  # rows of the item that follow
    first = np.repeat(np.arange(rows), partners)
    begin = np.repeat(np.cumsum(partners) - partners, partners)
    second = first + 1 + np.arange(len(first)) - begin
    return _Pairs(first=order[first], second=order[second], item=numbers[order[first]], items=many)


def _best_threshold(gaps: Doubles, order: Doubles, weights: Doubles) -> float:
    """Return the least gap up to which pairs should count as tied for the greatest accuracy.

    Args:
        gaps: Differences of scores. Shape (P,).
        order: Signs of the differences of judgements. Shape (P,).
        weights: What a pair that is right adds. Shape (P,).
    """
    apart = np.abs(gaps)
    right = (np.sign(gaps) == order) * weights
    by_gap = np.argsort(apart, kind="stable")
    ordered = apart[by_gap]
    gain = np.cumsum(((order == 0) * weights - right)[by_gap])
    last = np.append(ordered[1:] != ordered[:-1], True)  # pairs equally far apart tie together
    # Rounded, so that of thresholds with equal accuracy the least is taken.
    gains = np.round(np.append(0.0, gain[last]), 9)
    return float(np.append(0.0, ordered[last])[np.argmax(gains)])


def _apart(
    judged: Doubles, numbers: IntArray, threshold: float
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Find the rows of the same item that are far enough below and above each row.

    Args:
        judged: Judgements, sorted within items. Shape (N,).
        numbers: Number of each row's item, ascending. Shape (N,).
        threshold: Least difference.

    Returns:
        For each row: the first row of its item, the end of those below, the first of those above,
        and the end of its item. Shape (N,) each.
    """
    different, ranks = np.unique(judged, return_inverse=True)
    below = np.searchsorted(different, different - threshold, side="right")
    above = np.searchsorted(different, different + threshold, side="left")
    # A rounded sum may be off by one place; the difference itself decides.
    last = len(different) - 1
    below += different - different[np.minimum(below, last)] >= threshold
    below -= (below > 0) & (different - different[np.maximum(below - 1, 0)] < threshold)
    above -= different[np.maximum(above - 1, 0)] - different >= threshold
    above += (above <= last) & (different[np.minimum(above, last)] - different < threshold)
    width = len(different) + 1
    keys = numbers * width + ranks
    return (
        np.searchsorted(numbers, numbers, side="left"),
        np.searchsorted(keys, numbers * width + below[ranks], side="left"),
        np.searchsorted(keys, numbers * width + above[ranks], side="left"),
        np.searchsorted(numbers, numbers, side="right"),
    )
