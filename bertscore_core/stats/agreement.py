"""How well scores agree with people: over segments and systems, and tests between settings.

Few systems are judged, too few to say how often a metric picks the best. So many hybrid systems are
made: each takes, for every item, the output of one system by chance. Its score is the mean over
items, for people and metric alike.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import rankdata

from bertscore_core.errors import InputError
from bertscore_core.stats.estimates import (
    RESAMPLES,
    ROUNDING,
    Estimates,
    Items,
    Resampled,
    checked,
    count_below,
    dense_ranks,
    draws,
    numbered,
)
from bertscore_core.stats.paired import batches
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.sums import below_one
from bertscore_core.tokens import BoolArray, IntArray

# Agreement over segments: Pearson, Spearman and Kendall's tau-b, and AUC for yes-or-no labels.
#
# Values equal scipy's. Each comes with the influence of every row; see `estimates`.

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
    standard = _standard(judged)
    return Estimates.of_each([_correlation(standard, row) for row in _standard(rows)], clusters)


def spearman(people: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return Spearman's rank correlation of each setting with people. Equal values share a rank.

    Arguments, result and errors are as for `pearson`.

    References:
        scipy.stats.spearmanr. The influence has, beside that of Pearson over the ranks, what a row
        adds to the ranks of the others: C. Croux, C. Dehon, "Influence functions of the Spearman
        and Kendall correlation measures" (2010).
    """
    judged, rows = checked(people, scores)
    grades = _grades(judged)
    return Estimates.of_each([_rank_correlation(grades, _grades(row)) for row in rows], clusters)


def kendall(people: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return Kendall's tau-b of each setting with people, in O(n log n).

    Arguments, result and errors are as for `pearson`.

    References:
        scipy.stats.kendalltau. The influence is that of a U-statistic: how much more a row agrees
        with the others than rows do on average.
    """
    judged, rows = checked(people, scores)
    order = np.argsort(judged, kind="stable")
    back = np.argsort(order)
    taus = [_tau(judged[order], row[order]) for row in rows]
    return Estimates.of_each([(value, influence[back]) for value, influence in taus], clusters)


def auc(labels: npt.ArrayLike, scores: npt.ArrayLike, clusters: Clusters = None) -> Estimates:
    """Return the area under the ROC curve of each setting for labels that are yes or no.

    It is the share of pairs of one row with yes and one with no that the score orders rightly; a
    tie counts half. Arguments and errors are as for `pearson`, but that labels are 1 or 0. Values
    are from 0 to 1; NaN if all labels are alike.

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
    return Estimates.of_each([_area(judged == 1, row) for row in rows], clusters, lowest=0.0)


def _correlations(first: Doubles, second: Doubles) -> Doubles:
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


def _correlation(judged: Doubles, row: Doubles) -> tuple[float, Doubles]:
    value = float(np.clip(row @ judged / len(row), -1, 1)) if len(row) else np.nan
    return value, row * judged - value / 2 * (row**2 + judged**2)


def _grades(values: Doubles) -> Doubles:
    """Return ranks as shares, less their mean, also with ties."""
    return np.asarray((rankdata(values) - 0.5) / max(len(values), 1) - 0.5, dtype=np.float64)


def _rank_correlation(first: Doubles, second: Doubles) -> tuple[float, Doubles]:
    size = len(first)
    if size == 0 or first.min() == first.max() or second.min() == second.max():
        return np.nan, np.full(size, np.nan)
    spread = (first @ first / size, second @ second / size)
    value = float(np.clip(first @ second / size / np.sqrt(spread[0] * spread[1]), -1, 1))
    both = first * second + _carried(first, second) + _carried(second, first)
    own = first**2 + 2 * _carried(first, first)
    other = second**2 + 2 * _carried(second, second)
    influence = (both - both.mean()) / np.sqrt(spread[0] * spread[1])
    influence -= value / 2 * ((own - own.mean()) / spread[0] + (other - other.mean()) / spread[1])
    return value, influence


def _carried(grades: Doubles, values: Doubles) -> Doubles:
    order = np.argsort(grades, kind="stable")
    ordered = grades[order]
    upto = np.concatenate([[0.0], np.cumsum(values[order])])
    below = upto[np.searchsorted(ordered, grades, side="left")]
    until = upto[np.searchsorted(ordered, grades, side="right")]
    return np.asarray((upto[-1] - (below + until) / 2) / len(grades), dtype=np.float64)


def _tau(judged: Doubles, row: Doubles) -> tuple[float, Doubles]:
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


def _area(yes: BoolArray, row: Doubles) -> tuple[float, Doubles]:
    many, few = int(yes.sum()), int((~yes).sum())
    if not many or not few:
        return np.nan, np.full(len(row), np.nan)
    everywhere, shares = rankdata(row), np.zeros(len(row))
    shares[yes] = (everywhere[yes] - rankdata(row[yes])) / few
    shares[~yes] = 1 - (everywhere[~yes] - rankdata(row[~yes])) / many
    value = float(shares[yes].mean())
    # Each side has a mean of its own, so a row weighs as much as its side is rare.
    return value, (shares - value) * np.where(yes, len(row) / many, len(row) / few)


# Agreement over systems: does the metric order whole systems as people do?
#
# A system's score is the mean over its rows, for people and metric alike. Intervals draw items, or
# each system's rows where items are not known: systems themselves are few and stay as they are.


def system_agreement(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    systems: Items,
    items: Items | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Resampled, Resampled]:
    """Return how the systems' mean scores agree with their mean judgements.

    Args:
        people: As for `pearson`; so are the scores, and the errors that are raised.
        scores: Shape (S, N) or (N,).
        systems: The system that each row comes from. Shape (N,).
        items: The input that each row answers, drawn for all systems together. None to draw the
            rows of each system on their own. Shape (N,).
        resamples: How often to draw.
        seed: Equal seeds and data give equal results.

    Returns:
        Pearson's correlation of the systems' scores, and the share of pairs of systems that score
        and people order in the same way, or both tie; NaN below two systems.

    References:
        T. Kocmi et al., "To ship or not to ship" (2021), for the accuracy. D. Deutsch, R. Dror, D.
        Roth, "A statistical analysis of summarization evaluation metrics using resampling methods"
        (2021), BOOT-INPUTS. mt-metrics-eval, `Pearson` and `Agreement` over systems.
    """
    judged, rows = checked(people, scores)
    both = np.concatenate([judged[None], rows])
    numbers, many = numbered(systems, len(judged), "systems")
    means = _means_by(both, numbers, many)[None]
    drawn = None if items is None else numbered(items, len(judged), "items")
    again = _redrawn(both, numbers, many, drawn, resamples, seed)
    return (
        Resampled(values=_pearson(means)[0], replicates=_pearson(again)),
        Resampled(values=_accuracy(means)[0], replicates=_accuracy(again)),
    )


_PERMUTATIONS = 1000
"""Permutations of a test between two systems, as in WMT."""


def soft_system_accuracy(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    systems: Items,
    items: Items,
    *,
    permutations: int = _PERMUTATIONS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Resampled:
    """Return soft pairwise accuracy: whether scores are as sure of each order of systems as people.

    For each pair of systems, i before j by name, p is the share of permutations in which i is above
    j by as much as it is. A permutation swaps the two in random items, the same for all pairs and
    settings. The statistic is the mean over pairs of 1 - |p by scores - p by people|.

    Args:
        people: As for `system_agreement`; so are scores, systems, resamples and seed.
        scores: Shape (S, N) or (N,).
        systems: Shape (N,).
        items: The input that each row answers. Two systems are compared on the items of both; rows
            of one system and item are averaged. Shape (N,).
        permutations: How often to swap.
        resamples: How often to draw items for intervals, where p values are those of the normal
            distribution with the moments of the permutations.
        seed: Equal seeds and data give equal results.

    Returns:
        Values of 0 to 1; NaN without a pair, or where a side is equal for all systems.

    References:
        B. Thompson, N. Mathur, D. Deutsch, H. Khayrallah, "Improving statistical significance in
        human evaluation of automatic metrics via soft pairwise accuracy" (2024).
    """
    judged, rows = checked(people, scores)
    both = np.concatenate([judged[None], rows])
    # Divided by a power of two each, so that their squares fit a double.
    both = np.array([below_one(side)[0] for side in both])
    table = _by_system_and_item(both, systems, items)
    known = np.isfinite(table[0])
    pairs = [(i, j) for i, j in combinations(range(len(known)), 2) if (known[i] & known[j]).any()]
    if not pairs:
        undefined = np.full((resamples, len(rows)), np.nan)
        return Resampled(values=undefined[0], replicates=undefined)

    def differences() -> Iterator[Doubles]:
        return (np.nan_to_num(table[:, first] - table[:, second]) for first, second in pairs)

    rng = np.random.default_rng(seed)
    reached, differs = np.zeros((len(pairs), len(table))), np.zeros(len(table), dtype=np.bool_)
    for many in batches(permutations, known.shape[1]):
        signs = rng.choice([-1.0, 1.0], (many, known.shape[1]))
        for row, apart in zip(reached, differences(), strict=True):
            differs |= apart.any(axis=1)
            least = apart.sum(axis=1) - ROUNDING * np.abs(apart).sum(axis=1)
            row += (signs @ apart.T >= least).sum(axis=0)
    values = _soft(reached / permutations).mean(axis=0)
    flat = ~(differs[0] & differs[1:])
    values[flat] = np.nan
    blocks = []
    for weights in draws(known.shape[1], resamples, seed):
        total = np.zeros((len(weights), len(rows)))
        for apart in differences():
            with np.errstate(invalid="ignore"):
                ratio = weights @ apart.T / np.sqrt(weights @ (apart**2).T)
            total += _soft(ndtr(-np.nan_to_num(ratio, nan=-np.inf)))  # equal systems: p = 1
        blocks.append(np.where(flat, np.nan, total / len(pairs)))
    return Resampled(values=values, replicates=np.concatenate(blocks))


def _by_system_and_item(rows: Doubles, systems: Items, items: Items) -> Doubles:
    """Return means, NaN where there is no row, of items of two systems or more. Shape (R, K, I)."""
    by_system, many = numbered(systems, rows.shape[1], "systems")
    by_item, all_items = numbered(items, rows.shape[1], "items")
    cells = by_system * all_items + by_item
    means = _means_by(rows, cells, many * all_items)
    table = means.reshape(len(rows), many, all_items)
    return np.asarray(table[..., np.isfinite(table[0]).sum(axis=0) > 1], dtype=np.float64)


def _soft(p_values: Doubles) -> Doubles:
    return 1 - np.abs(p_values[:, 1:] - p_values[:, :1])


def system_means(scores: npt.ArrayLike, systems: Items) -> tuple[list[str], Doubles]:
    """Return the names of the K systems, sorted, and their mean scores, of shape (S, K).

    Takes scores of S settings, (S, N) or (N,), and the system of each row, (N,).

    Raises:
        InputError: there is not one system for each row.
    """
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    numbers, many = numbered(systems, rows.shape[1], "systems")
    return [str(name) for name in np.unique(np.asarray(systems))], _means_by(rows, numbers, many)


def agreement_of_systems(people: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """Compare numbers of whole systems, such as corpus BLEU, with those of people.

    Takes one number of each of K systems, (K,), and numbers of S settings, (S, K) or (K,). Returns
    Pearson's correlations and the shares of pairs in the same order, (S,) each.
    """
    judged, rows = checked(people, scores)
    means = np.concatenate([judged[None], rows])[None]
    return _pearson(means)[0], _accuracy(means)[0]


def _means_by(rows: Doubles, numbers: IntArray, many: int) -> Doubles:
    """Return means of numbered groups of rows; NaN without a row. Shape (S, many)."""
    sums = np.array([np.bincount(numbers, row, many) for row in rows])
    with np.errstate(invalid="ignore"):
        means = sums / np.bincount(numbers, minlength=many)
    return _exact(means, _largest(rows))


_DIGITS = 12
"""Digits of the largest sum or mean that are kept: those behind them are the noise of adding."""
_LEAST_SUM = 1e-290
"""Largest sums below this are not scaled: ten to the power of their decimals is infinite."""


def _largest(rows: Doubles) -> Doubles:
    """Return the largest size of a number in each row. Shape (S, 1)."""
    return np.asarray(np.abs(rows).max(axis=1, initial=_LEAST_SUM, keepdims=True))


def _exact(sums: Doubles, largest: Doubles) -> Doubles:
    """Return sums or means without the noise of adding: equal ones are equal, in any order.

    Takes the greatest size that they can have, of a shape that broadcasts.
    """
    scale = 10.0 ** (_DIGITS - np.ceil(np.log10(largest)))
    return np.asarray(np.rint(sums * scale) / scale, dtype=np.float64)


def _redrawn(
    rows: Doubles,
    numbers: IntArray,
    many: int,
    items: tuple[IntArray, int] | None,
    resamples: int,
    seed: int,
) -> Doubles:
    """Return the systems' means with items drawn for all of them, or rows of each. Shape (B, S, K).

    A system of which no item is drawn has no mean in that resample: NaN.
    """
    means = np.empty((resamples, len(rows), many))
    for system in range(many):
        own = np.flatnonzero(numbers == system)
        if items is None:
            drawn = draws(len(own), resamples, seed + system)
        else:  # the same for each system
            drawn = (weights[:, items[0][own]] for weights in draws(items[1], resamples, seed))
        with np.errstate(invalid="ignore"):
            blocks = [w @ rows[:, own].T / w.sum(axis=1, keepdims=True) for w in drawn]
        means[..., system] = np.concatenate(blocks)
    return _exact(means, _largest(rows))


def _pearson(means: Doubles) -> Doubles:
    return _correlations(means[:, :1], means[:, 1:])


def _accuracy(means: Doubles) -> Doubles:
    first, second = np.triu_indices(means.shape[2], 1)
    if not len(first):
        return np.full((len(means), means.shape[1] - 1), np.nan)
    order: Doubles = np.sign(means[..., first] - means[..., second])
    share = np.equal(order[:, 1:], order[:, :1]).mean(axis=2)
    # A difference with a system of which nothing was drawn is not an order.
    unknown = np.asarray(np.isnan(order).any(axis=(1, 2)))
    return np.where(unknown[:, None], np.nan, share)


# Which system would be chosen: hybrids.

_HYBRIDS = 10_000
"""Hybrid systems made, as in the paper."""
_CHOICES = 100_000
"""How often hybrids are chosen from, as in the paper."""
_RIVALS = 100
"""Hybrids that are chosen from each time, as in the paper."""
_LEAST_BATCH = 5
"""Times as many hybrids in a batch as are chosen from: of 10,000 that makes 20 batches."""


def hybrid_agreement(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    items: Items,
    *,
    hybrids: int = _HYBRIDS,
    choices: int = _CHOICES,
    rivals: int = _RIVALS,
    seed: int = 0,
) -> dict[str, Doubles]:
    """Make hybrid systems, and see which of them each setting would choose.

    All settings see the same hybrids and choices. Rows are taken with equal chances among those of
    an item. Hybrids are made in batches of five to ten times `rivals`, and the rivals of a choice
    come from one batch, which changes no expected value.

    Args:
        people: As for `pearson`; so are the scores, and the errors that are raised.
        scores: Shape (S, N) or (N,).
        items: The input that each row answers. Shape (N,).
        hybrids: How many to make; at least as many as rivals.
        choices: How often to choose the best.
        rivals: How many hybrids, all different, to choose from each time.
        seed: Equal seeds and data give equal results.

    Returns:
        Of shape (S,) each: `hybrid_pearson`, Pearson's correlation of the hybrids' scores with
        their judgements (NaN if a side does not vary); `hybrid_hits_at_1`, the share of choices in
        which the setting's best is people's best; `hybrid_reciprocal_rank`, the mean of 1 / rank by
        people of the setting's best; `hybrid_difference`, by how much people judge it below their
        own best.

    References:
        Zhang et al. 2020, section 4 and appendix F. Y. Graham, Q. Liu, "Achieving accurate
        conclusions in evaluation of automatic machine translation metrics" (2016).
    """
    judged, rows = checked(people, scores)
    rng = np.random.default_rng(seed)
    both = np.concatenate([judged[None], rows])
    batches = min(choices, max(1, hybrids // (_LEAST_BATCH * rivals)))
    sizes = np.diff(np.linspace(0, (hybrids, choices), batches + 1, dtype=np.int64), axis=0)
    parts, outcomes = [], []
    for many, chosen in sizes.tolist():
        parts.append(_hybrid_means(both, numbered(items, len(judged), "items"), many, rng))
        picks = _choices(many, chosen, rivals, rng)
        outcomes.append(sum(_outcomes(parts[-1], block).sum(axis=2) for block in picks) / chosen)
    means = np.concatenate(parts, axis=1)
    names = ("hybrid_hits_at_1", "hybrid_reciprocal_rank", "hybrid_difference")
    return {
        "hybrid_pearson": _correlations(means[:1], means[1:]),
        **dict(zip(names, np.mean(outcomes, axis=0), strict=True)),
    }


def _hybrid_means(
    both: Doubles, items: tuple[IntArray, int], hybrids: int, rng: np.random.Generator
) -> Doubles:
    """Return means of taken rows."""
    numbers, many = items
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=many)
    begins = np.cumsum(sizes) - sizes
    grouped, means = both[:, order], []
    largest = _largest(both) * max(1, many)
    for count in batches(hybrids, many):
        taken = begins + rng.integers(0, sizes, (count, many))
        sums = np.array([row[taken].sum(axis=1) for row in grouped])
        means.append(_exact(sums, largest) / many)
    return np.concatenate(means, axis=1)


def _choices(
    hybrids: int, choices: int, rivals: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    for count in batches(choices, hybrids):
        lots = rng.random((count, hybrids))
        yield np.argpartition(lots, rivals - 1, axis=1)[:, :rivals]


def _outcomes(means: Doubles, chosen: IntArray) -> Doubles:
    """Return hit, reciprocal rank and difference of each choice. Shape (3, S, b).

    Of hybrids with equal scores the first of the row is chosen, which is one by chance.
    """
    judged = means[0][chosen]
    best = judged.max(axis=1)
    outcome = np.empty((3, len(means) - 1, len(chosen)))
    for setting, scores in enumerate(means[1:]):
        picks = scores[chosen].argmax(axis=1)
        own = judged[np.arange(len(chosen)), picks]
        rank = 1 + (judged > own[:, None]).sum(axis=1)
        outcome[:, setting] = rank == 1, 1 / rank, best - own
    return outcome
