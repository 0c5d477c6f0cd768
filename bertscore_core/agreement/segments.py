"""Agreement over segments: Pearson, Spearman and Kendall's tau-b, and AUC for yes-or-no labels.

Values equal scipy's. Each comes with the influence of every row; see `estimates`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from bertscore_core.agreement.counting import count_below, dense_ranks
from bertscore_core.agreement.estimates import Estimates
from bertscore_core.agreement.inputs import Doubles, checked
from bertscore_core.errors import InputError

Clusters = npt.NDArray[np.generic] | Sequence[object] | None


def pearson(people: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return Pearson's correlation of each setting with people.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        clusters: What rows belong together, such as translations of one source. None if rows are
            independent. Shape (N,).

    Returns:
        Values of -1 to 1; NaN if a side is constant.

    Raises:
        InputError: shapes do not fit, or a number is missing.

    References:
        scipy.stats.pearsonr. Influence: S. J. Devlin, R. Gnanadesikan, J. R. Kettenring, "Robust
        estimation and outlier detection with correlation coefficients", Biometrika 62 (1975).
    """
    judged, rows = checked(people, scores)
    return Estimates.by_cluster(*_correlation(_standard(judged), _standard(rows)), clusters)


def spearman(people: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return Spearman's rank correlation of each setting with people. Equal values share a rank.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        clusters: As for `pearson`.

    Returns:
        Values of -1 to 1; NaN if a side is constant.

    Raises:
        InputError: shapes do not fit, or a number is missing.

    References:
        scipy.stats.spearmanr. The influence has, beside that of Pearson over the ranks, what a row
        adds to the ranks of the others: C. Croux, C. Dehon, "Influence functions of the Spearman
        and Kendall correlation measures" (2010).
    """
    judged, rows = checked(people, scores)
    size = max(len(judged), 1)
    grades = (rankdata(judged) - 0.5) / size - 0.5  # of mean 0, also with ties
    values, influences = [], []
    for row in rows:
        own = (rankdata(row) - 0.5) / size - 0.5
        value, influence = _rank_correlation(grades, own)
        values.append(value)
        influences.append(influence)
    return Estimates.by_cluster(
        np.array(values), np.array(influences).reshape(len(rows), len(judged)), clusters
    )


def kendall(people: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return Kendall's tau-b of each setting with people, in O(n log n).

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        clusters: As for `pearson`.

    Returns:
        Values of -1 to 1; NaN if a side is constant.

    Raises:
        InputError: shapes do not fit, or a number is missing.

    References:
        scipy.stats.kendalltau. The influence is that of a U-statistic: how much more a row agrees
        with the others than rows do on average.
    """
    judged, rows = checked(people, scores)
    order = np.argsort(judged, kind="stable")
    ordered = judged[order]
    found = [_tau(ordered, row[order]) for row in rows]
    influences = np.zeros(rows.shape)
    for row, (_, influence) in enumerate(found):
        influences[row, order] = influence
    return Estimates.by_cluster(np.array([value for value, _ in found]), influences, clusters)


def auc(labels: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return the area under the ROC curve of each setting for labels that are yes or no.

    It is the share of pairs of one row with yes and one with no that the score orders rightly; a
    tie counts half.

    Args:
        labels: 1 for yes (such as a paraphrase), 0 for no. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        clusters: As for `pearson`.

    Returns:
        Values of 0 to 1; NaN if all labels are alike.

    Raises:
        InputError: shapes do not fit, a number is missing, or a label is neither 0 nor 1.

    References:
        E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
        correlated ROC curves", Biometrics 44 (1988). sklearn.metrics.roc_auc_score.
    """
    judged, rows = checked(labels, scores)
    wrong = ~np.isin(judged, (0.0, 1.0))
    if wrong.any():
        raise InputError(
            f"{int(wrong.sum())} of {len(judged)} labels are neither 0 nor 1, such as "
            f"{judged[wrong][0]:g}; expected labels of yes (1) and no (0)."
        )
    yes = judged == 1
    many, few = int(yes.sum()), int((~yes).sum())
    if not many or not few:
        return Estimates.by_cluster(
            np.full(len(rows), np.nan), np.full(rows.shape, np.nan), clusters, lowest=0.0
        )
    shares = np.zeros(rows.shape)
    for row, share in zip(rows, shares, strict=True):
        everywhere = rankdata(row)
        share[yes] = (everywhere[yes] - rankdata(row[yes])) / few
        share[~yes] = 1 - (everywhere[~yes] - rankdata(row[~yes])) / many
    values = shares[:, yes].mean(axis=1)
    # Each side has a mean of its own, so a row weighs as much as its side is rare.
    weights = np.where(yes, len(judged) / many, len(judged) / few)
    return Estimates.by_cluster(values, (shares - values[:, None]) * weights, clusters, lowest=0.0)


def correlations(first: Doubles, second: Doubles) -> Doubles:
    """Return Pearson's correlation along the last axis, without terms. Other axes broadcast.

    NaN below two values, or where a side is constant.
    """
    products = _standard(first) * _standard(second)
    if products.shape[-1] < 2:
        return np.full(products.shape[:-1], np.nan)
    return np.asarray(np.clip(products.mean(axis=-1), -1, 1), dtype=np.float64)


def _standard(values: Doubles) -> Doubles:
    """Return values less their mean, over their spread. NaN if they do not vary. Shape as given."""
    if not values.shape[-1]:
        return values
    apart = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(apart).max(axis=-1, keepdims=True)
    apart /= np.where(largest > 0, largest, 1.0)  # squares of any size then fit a double
    spread = np.sqrt((apart**2).mean(axis=-1, keepdims=True))
    constant = values.max(axis=-1, keepdims=True) == values.min(axis=-1, keepdims=True)
    return np.asarray(apart / np.where(constant, np.nan, spread), dtype=np.float64)


def _correlation(judged: Doubles, rows: Doubles) -> tuple[Doubles, Doubles]:
    """Return correlations (S,) and influences (S, N) of standardized values."""
    size = judged.shape[0]
    values = np.clip(rows @ judged / size, -1, 1) if size else np.full(len(rows), np.nan)
    influences = rows * judged - values[:, None] / 2 * (rows**2 + judged**2)
    return values, influences


def _rank_correlation(first: Doubles, second: Doubles) -> tuple[float, Doubles]:
    """Return the correlation and the influences of grades of mean 0."""
    size = len(first)
    if size == 0 or first.min() == first.max() or second.min() == second.max():
        return np.nan, np.full(size, np.nan)
    spread = (first @ first / size, second @ second / size)
    value = float(np.clip(first @ second / size / np.sqrt(spread[0] * spread[1]), -1, 1))
    both = first * second + _carried(first, second) + _carried(second, first)
    one = first**2 + 2 * _carried(first, first)
    other = second**2 + 2 * _carried(second, second)
    influence = (both - both.mean()) / np.sqrt(spread[0] * spread[1])
    influence -= value / 2 * ((one - one.mean()) / spread[0] + (other - other.mean()) / spread[1])
    return value, influence


def _carried(grades: Doubles, values: Doubles) -> Doubles:
    """Return the mean over rows of values where the grade is above a row's, ties half. Shape (n,).

    A row raises the grade of each row above it by one place.
    """
    order = np.argsort(grades, kind="stable")
    ordered = grades[order]
    upto = np.concatenate([[0.0], np.cumsum(values[order])])
    below = upto[np.searchsorted(ordered, grades, side="left")]
    until = upto[np.searchsorted(ordered, grades, side="right")]
    return np.asarray((upto[-1] - (below + until) / 2) / len(grades), dtype=np.float64)


def _tau(judged: Doubles, row: Doubles) -> tuple[float, Doubles]:
    """Return tau-b and the influences of rows sorted by judgement."""
    size = len(judged)
    ranks = dense_ranks(row)
    ordered = np.sort(ranks)
    first = np.searchsorted(judged, judged, side="left")
    last = np.searchsorted(judged, judged, side="right")
    below = np.searchsorted(ordered, ranks, side="left")
    until = np.searchsorted(ordered, ranks, side="right")
    if size < 2 or last[0] == size or until.min(initial=size) == size:
        return np.nan, np.full(size, np.nan)
    counts = count_below(
        ranks, np.concatenate([first, first, last, last]), np.tile([0], 4 * size)
        + np.concatenate([ranks, ranks + 1, ranks, ranks + 1]),
    ).reshape(4, size)  # fmt: skip
    # Rows below on the judgement's side and below or above on the score's; then those above.
    lower, lower_or_tied = counts[0], counts[1]
    higher_lower = below - counts[2]
    higher_higher = size - last - until + counts[3]
    agreement = lower - (first - lower_or_tied) + higher_higher - higher_lower
    pairs = float(size - 1)
    # Shares of pairs: agreement less disagreement, and pairs not tied on either side.
    signed = agreement / pairs
    apart = ((size - (last - first)) / pairs, (size - (until - below)) / pairs)
    means = signed.mean(), apart[0].mean(), apart[1].mean()
    scale = np.sqrt(means[1] * means[2])
    value = float(agreement.sum() / pairs / size / scale)
    influence = 2 * (signed - means[0]) / scale - value * (
        (apart[0] - means[1]) / means[1] + (apart[1] - means[2]) / means[2]
    )
    return float(np.clip(value, -1, 1)), influence
