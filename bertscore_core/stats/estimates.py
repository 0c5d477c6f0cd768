"""Statistics of agreement with their errors, and agreement within items.

A statistic of many rows is, to first order, its true value plus a mean of one term for each row:
the row's influence. `Estimates` keeps these terms, added up by cluster. Errors, intervals by
bootstrap, and whether one setting is below another follow from them for every statistic alike, at
the cost of one matrix product; a bootstrap that counts Kendall's tau again would take hours.

References:
    F. R. Hampel, "The influence curve and its role in robust estimation", JASA 69 (1974).
    P. Kline, A. Santos, "A score based approach to wild bootstrap inference" (2012).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from bertscore_core.errors import InputError
from bertscore_core.specification import NOISE
from bertscore_core.stats.paired import batches, times_drawn
from bertscore_core.stats.score_statistics import Doubles, effective_number
from bertscore_core.tokens import BoolArray, IntArray, places_within

# What every statistic of agreement takes, and the rule for numbers that are missing.
#
# Scores come as S settings (a layer, a measure, with idf or without) of the same N rows, so that
# all settings are compared on the same segments. **Missing numbers:** a statistic takes none; leave
# these rows out for all settings. **Constant numbers:** a side that does not vary by more than the
# noise of float32 has no order, and what needs an order is NaN.


def is_constant(values: Doubles, noise: float | Doubles = NOISE) -> BoolArray:
    """Tell whether numbers differ by at most this share of their size, along the last axis."""
    size = np.abs(values).max(axis=-1, initial=0.0)
    spread = values.max(axis=-1, initial=-np.inf) - values.min(axis=-1, initial=np.inf)
    return np.asarray(spread <= noise * size)


_MOST_EXPONENT = 960
"""Scores below 2**960 have sums that fit a double, and differences."""


def checked(people: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """Return judgements (N,) and scores (S, N) as float64; constant ones without their noise.

    Agreement does not depend on the unit of scores: those that may add up to more than a double can
    be are divided by a power of two.
    """
    judged = np.asarray(people, dtype=np.float64)
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if judged.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(judged):
        raise InputError(
            f"judgements and scores do not fit: got shapes {judged.shape} and {rows.shape}; "
            "expected (rows,) and (settings, rows)."
        )
    missing = len(judged) - int((np.isfinite(judged) & np.isfinite(rows).all(axis=0)).sum())
    if missing:
        raise InputError(
            f"{missing} of {len(judged)} rows have no judgement or no score of some setting; "
            "expected finite numbers. Leave these rows out."
        )
    both = np.concatenate([judged[None], rows])
    _, exponents = np.frexp(np.abs(both).max(axis=1, initial=0.0))
    both = np.ldexp(both, np.minimum(0, _MOST_EXPONENT - exponents)[:, None])
    # Judgements have no noise but that of means, which hangs on the order of adding.
    constant = is_constant(both, np.array([ROUNDING] + [NOISE] * len(rows)))
    both = np.where(constant[:, None], both[:, :1], both)
    return both[0], both[1:]


def numbered(
    keys: npt.NDArray[np.generic] | Sequence[object], rows: int, name: str
) -> tuple[IntArray, int]:
    """Number the keys of rows from 0, in sorted order; return also how many keys there are."""
    if len(keys) != rows:
        raise InputError(f"got {len(keys)} {name} for {rows} rows; expected one for each row.")
    different, numbers = np.unique(np.asarray(keys), return_inverse=True)
    return numbers.astype(np.int64), len(different)


# Counting smaller values among the first k, for many k at once, in O(n log n).
#
# Kendall's tau asks for each segment how many others are below it on both sides. With the segments
# in the order of one side, those are the values below its own among the first k: a question about a
# prefix. A wavelet matrix answers it: level by level it sorts the values by one bit, from the
# highest to the lowest, and keeps how many zeros precede each place. Every level is a few numpy
# operations over all questions, and S settings are done one after the other, so memory is a few
# times N.
#
# References:
#     F. Claude, G. Navarro, A. Ordóñez, "The wavelet matrix", Information Systems 47 (2015).


def count_below(values: IntArray, prefixes: IntArray, limits: IntArray) -> IntArray:
    """Count, for each of q questions, the values below a limit among the first few of n values."""
    top = int(max(values.max(initial=0), limits.max(initial=0)))
    level = values.astype(np.int64)
    begins = np.zeros(len(limits), dtype=np.int64)
    ends = prefixes.astype(np.int64)
    counts = np.zeros(len(limits), dtype=np.int64)
    zeros = np.zeros(len(values) + 1, dtype=np.int64)
    for bit in range(top.bit_length() - 1, -1, -1):
        is_one = (level >> bit) & 1 == 1
        np.cumsum(~is_one, out=zeros[1:])
        first, last = zeros[begins], zeros[ends]
        above = (limits >> bit) & 1 == 1
        # A zero where the limit has a one is below it, whatever the lower bits are.
        counts += np.where(above, last - first, 0)
        begins = np.where(above, zeros[-1] + begins - first, first)
        ends = np.where(above, zeros[-1] + ends - last, last)
        level = np.concatenate([level[~is_one], level[is_one]])
    return counts


def dense_ranks(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> IntArray:
    """Return the rank of each value among the different ones, from 0. Shape (n,)."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


RESAMPLES = 1000
"""Resamples of a bootstrap: bounds of a 95% interval then move by about 4% of its half width."""

ROUNDING = 1e-12
"""Differences of correlations below this are rounding, and settings with them are equal."""

_DIGITS = 9
"""Decimals of a statistic that are kept where the highest is chosen."""


def first_best(values: Doubles) -> int:
    """Return the place of the highest statistic; of those equal but for rounding, the first.

    NaN is never the highest; not all may be.
    """
    return int(np.nanargmax(np.round(values, _DIGITS)))


_TAILS = (0.025, 0.975)

_FULL = 1 - 1e-6  # greater correlations count as this, so that Fisher's z is finite

_LEAST_DEGREES = 0.01  # of a single cluster, so that equal settings still have p = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """One statistic of S settings over the same rows.

    Attributes:
        values: The statistic; NaN where it is not defined. Shape (S,).
        influences: What each cluster adds to it: its terms added up, in units of the statistic, so
            that their mean over clusters is 0. Shape (S, C).
        lowest: Least value that the statistic can have; the greatest is 1.
        effective: Number of equal clusters that would weigh as much as these (Kish); None if all
            weigh the same.
    """

    values: Doubles
    influences: Doubles
    lowest: float = -1.0
    effective: float | None = None

    @classmethod
    def of_each(
        cls,
        estimates: Sequence[tuple[float, Doubles]],
        clusters: npt.NDArray[np.generic] | Sequence[object] | None,
        lowest: float = -1.0,
    ) -> "Estimates":
        """Put settings together: the value of each, and influences of N rows, added up by cluster.

        Raises:
            InputError: there is not one cluster for each row.
        """
        influences, effective = np.array([influence for _, influence in estimates]), None
        if clusters is not None:
            numbers, many = numbered(clusters, influences.shape[1], "clusters")
            effective = effective_number(np.bincount(numbers))
            sums = [np.bincount(numbers, row, many) for row in influences]
            influences = np.array(sums, dtype=np.float64) * (many / max(len(numbers), 1))
        return cls(
            values=np.array([value for value, _ in estimates], dtype=np.float64),
            influences=influences,
            lowest=lowest,
            effective=effective,
        )

    def of(self, settings: Sequence[int]) -> "Estimates":
        """Return these settings alone, in this order."""
        rows = list(settings)
        return replace(self, values=self.values[rows], influences=self.influences[rows])

    @property
    def clusters(self) -> int:
        """Number of clusters, C."""
        return int(self.influences.shape[1])

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's t: the effective number of clusters less one."""
        return (self.clusters if self.effective is None else self.effective) - 1.0

    @property
    def errors(self) -> Doubles:
        """Standard errors, allowing for clusters. Shape (S,); NaN below two clusters."""
        return _errors(self.influences)

    def intervals(self, *, resamples: int = RESAMPLES, seed: int = 0) -> Doubles:
        """Return 95% intervals by bootstrap over clusters. Shape (S, 2).

        The terms are resampled on the logit scale of the statistic's range, so that bounds stay
        within it. A statistic at an end of its range has an interval of width 0. Equal seeds give
        equal intervals.
        """
        clusters = self.clusters
        if clusters < 2:
            return np.full((len(self.values), 2), np.nan)
        means = [
            weights @ self.influences.T / clusters for weights in draws(clusters, resamples, seed)
        ]
        # Few clusters spread less than the population that they are drawn from.
        spread = np.concatenate(means) * np.sqrt(clusters / (clusters - 1))
        tails = np.quantile(spread, _TAILS, axis=0)
        width = 1 - self.lowest
        share = np.clip((self.values - self.lowest) / width, 0, 1)
        inside = (share > 0) & (share < 1)
        middle = np.where(inside, share, 0.5)
        bounds = expit(logit(middle) + tails / (width * middle * (1 - middle)))
        bounds = np.where(inside, bounds, np.where(np.isnan(tails), np.nan, share))
        return np.asarray(self.lowest + width * bounds.T, dtype=np.float64)

    def p_below(self, best: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Doubles:
        """Return p values of one setting being better than each other one, for a choice of many.

        They are corrected for the number of settings: any of several that are equally good is below
        `best` at level .05 in at most .05 of the samples, also if `best` was chosen as the best of
        this sample. Clusters are allowed for: if one outweighs all others, no setting is below the
        best.

        Args:
            best: Index of the setting that the others are compared with, mostly the best.
            resamples: How often to draw differences of settings that are equally good. No p value
                is below 1 / (resamples + 1).
            seed: Equal seeds and data give equal p values.

        Returns:
            Shape (S,). 1 for the best, and for settings that are not worse; NaN where a statistic
            is not defined.

        References:
            T. Hothorn, F. Bretz, P. Westfall, "Simultaneous inference in general parametric models"
            (2008), multivariate t. P. R. Hansen, A. Lunde, J. M. Nason, "The model confidence set"
            (2011).
        """
        rng = np.random.default_rng(seed)
        drawn = [
            rng.standard_normal((count, self.clusters)) @ self.influences.T
            for count in batches(resamples, self.clusters)
        ]
        degrees = max(self.degrees, _LEAST_DEGREES)
        return _p_below(
            self.values[best] - self.values,
            _errors(self.influences[best] - self.influences),
            np.concatenate(drawn),
            np.sqrt(rng.chisquare(degrees, resamples) / degrees),
        )


def _p_below(lags: Doubles, errors: Doubles, drawn: Doubles, shrink: Doubles) -> Doubles:
    """Compare lags in errors with the greatest difference that is drawn of any two settings.

    Step by step (Romano and Wolf, 2005): the worst setting is compared with the differences of all,
    each better one with those of the settings that remain. `drawn` are statistics, up to a
    constant, of settings that are equally good, (B, S). `shrink` is by how much their errors are
    too small, (B,).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(np.abs(lags) < ROUNDING, 0.0, lags / errors)
    ratios[np.isnan(errors)] = np.nan
    order = np.argsort(ratios)[: np.isfinite(lags + errors).sum()]  # NaN is last
    drawn = drawn - drawn.mean(axis=0)
    greatest = np.zeros(len(drawn))
    p_values = np.full(len(lags), np.nan)
    for place, setting in enumerate(order):
        apart = drawn[:, order[:place]] - drawn[:, [setting]]
        spread = apart.std(axis=0, ddof=1)
        apart /= np.where(spread > 0, spread, np.inf)
        greatest = np.maximum(greatest, np.abs(apart, out=apart).max(axis=1, initial=0.0))
        reached = (greatest >= ratios[setting] * shrink).sum()
        p_values[setting] = (reached + 1) / (len(drawn) + 1)
    p_values[order[::-1]] = np.maximum.accumulate(p_values[order[::-1]])
    return p_values


def draws(clusters: int, resamples: int, seed: int) -> Iterator[Doubles]:
    """Yield how often each cluster is drawn, with replacement. Shapes (b, C), bounded in memory."""
    rng = np.random.default_rng(seed)
    for count in batches(resamples, clusters):
        yield times_drawn(np.full(count, clusters), clusters, rng)


def _errors(influences: Doubles) -> Doubles:
    clusters = influences.shape[1]
    if clusters < 2:
        return np.full(len(influences), np.nan)
    return np.asarray(influences.std(axis=1, ddof=1) / np.sqrt(clusters), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """One statistic of S settings, with its values on B resamples of the data.

    For statistics that are cheap but have no useful terms, such as those of a few systems. NaN
    where it is not defined: `values`, shape (S,), and `replicates`, (B, S).
    """

    values: Doubles
    replicates: Doubles

    def of(self, settings: Sequence[int]) -> "Resampled":
        """Return these settings alone, in this order."""
        rows = list(settings)
        return Resampled(values=self.values[rows], replicates=self.replicates[:, rows])

    def intervals(self) -> Doubles:
        """Return quantiles of the resamples as 95% intervals. Shape (S, 2); NaN where undefined."""
        defined = np.isfinite(self.replicates).any(axis=0)
        bounds = np.full((len(self.values), 2), np.nan)
        if defined.any():
            bounds[defined] = np.nanquantile(self.replicates[:, defined], _TAILS, axis=0).T
        return bounds

    def p_below(self, best: int) -> Doubles:
        """Return p values of one setting being better than each other one, for a choice of many.

        As `Estimates.p_below`, from the resamples, on the scale of Fisher's z: near 1 statistics
        vary less. Resamples in which some statistic is not defined are left out.
        """
        known = np.isfinite(self.values) & np.isfinite(self.replicates).any(axis=0)
        drawn = self.replicates[np.isfinite(self.replicates[:, known]).all(axis=1)]
        if len(drawn) < 2 or not known[best]:
            return np.full(len(self.values), np.nan)
        values, drawn = (np.arctanh(np.clip(v, -_FULL, _FULL)) for v in (self.values, drawn))
        errors = (drawn[:, [best]] - drawn).std(axis=0, ddof=1)
        return _p_below(values[best] - values, errors, drawn, np.ones(len(drawn)))


# Agreement within items: which of several outputs for the same input is better.
#
# An item is an input that several systems answered, such as a source sentence. Pairs are formed
# within items only, so that easy and hard inputs are not compared with each other. Items are drawn
# as a whole for intervals.

Items = npt.NDArray[np.generic] | Sequence[object]

_DARR_THRESHOLD = 25.0
"""Points of 100 that two direct assessments must be apart to count as a ranking, in WMT."""

MAX_PAIRS = 20_000_000
"""Most pairs within items; some 100 bytes are held for each."""


def darr(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    items: Items | None = None,
    *,
    threshold: float = _DARR_THRESHOLD,
) -> Estimates:
    """Return WMT's correlation like Kendall's over relative rankings made of direct assessments.

    Two outputs whose judgements are at least `threshold` apart are a ranking. It is concordant if
    the score orders them in the same way, else discordant: also if the score ties them. The
    statistic is concordant less discordant rankings, over all rankings of all items together.

    Args:
        people: Raw judgements, from 0 to 100 in WMT. Shape (N,).
        scores: As for `pearson`; so are the errors.
        items: The input that each row answers. None to compare all rows with each other, as where
            each input has one output. Shape (N,).
        threshold: Least difference of judgements, in their own unit. More than 0.

    Returns:
        Values of -1 to 1; NaN if no judgements are so far apart.

    References:
        Q. Ma et al., "Results of the WMT18 metrics shared task" (2018), section 4.2. N. Mathur et
        al., "Results of the WMT20 metrics shared task" (2020). mt-metrics-eval, `KendallLike`.
    """
    judged, rows = checked(people, scores)
    size = len(judged)
    numbers, _ = (
        numbered(items, size, "items") if items is not None else (np.zeros(size, np.int64), 1)
    )
    order = np.lexsort((judged, numbers))
    begins, lower, upper, ends = _bounds_beyond(judged[order], numbers[order], threshold)
    rankings = (lower - begins) + (ends - upper)  # of each row; every pair has two rows
    total = int(rankings.sum()) // 2
    if not total:
        return Estimates.of_each([(np.nan, np.full(size, np.nan))] * len(rows), items)
    back = np.argsort(order)
    # A ranking within an item is wholly of one cluster; between rows, half of it is of each, but
    # the statistic is quadratic in the rows.
    weight = size / total * (1.0 if items is None else 0.5)
    estimates = []
    for ranked in (dense_ranks(line[order]) for line in rows):
        counts = count_below(
            ranked,
            np.concatenate([lower, begins, ends, upper]),
            np.concatenate([ranked, ranked, ranked + 1, ranked + 1]),
        ).reshape(4, size)
        concordant = (counts[0] - counts[1]) + (ends - upper) - (counts[2] - counts[3])
        value = (int(concordant.sum()) - total) / total
        influence = (2 * concordant - rankings - value * rankings) * weight
        estimates.append((value, influence[back]))
    return Estimates.of_each(estimates, items)


def within_item_kendall(people: npt.ArrayLike, scores: npt.ArrayLike, items: Items) -> Estimates:
    """Return the mean over items of Kendall's tau-b within the item.

    Items in which a side does not vary have no tau, and are left out for that setting. Takes
    judgements (N,), scores of S settings (S, N) or (N,), and the input that each row answers.
    Values are -1 to 1; NaN if no item has a tau.

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
    taus = []
    for line in rows:
        ours = np.sign(line[pairs.first] - line[pairs.second])
        with np.errstate(invalid="ignore"):
            taus.append(pairs.sums(order * ours) / np.sqrt(apart * pairs.sums(ours != 0)))
    return _mean_over_items(np.array(taus), lowest=-1.0)


def accuracy_with_ties(people: npt.ArrayLike, scores: npt.ArrayLike, items: Items) -> Estimates:
    """Return the pairwise accuracy with calibrated ties, as in the WMT23 metrics task.

    A pair of an item's outputs is right if score and judgement order it in the same way, or both
    tie it. Scores at most a threshold apart count as tied, and the threshold is the one with the
    greatest accuracy of all. The accuracy is the mean over items. Guessing gives about half of the
    pairs that people order; with few items the accuracy is a little too high.

    Arguments and errors are as for `within_item_kendall`. Accuracies are 0 to 1; NaN if no item has
    two outputs.

    References:
        D. Deutsch, G. Foster, M. Freitag, "Ties matter: meta-evaluating modern metrics with
        pairwise accuracy and tie calibration" (2023), sections 6 and 7. mt-metrics-eval,
        `KendallWithTiesOpt` with acc23, all pairs and by item.
    """
    judged, rows = checked(people, scores)
    pairs = _pairs_within(items, len(judged))
    order = np.sign(judged[pairs.first] - judged[pairs.second])
    many = pairs.sums(np.ones(len(order)))
    weights = 1 / many[pairs.item]
    accuracies = []
    for line in rows:
        gaps = line[pairs.first] - line[pairs.second]
        threshold = _best_threshold(gaps, order, weights)
        right = np.where(np.abs(gaps) <= threshold, 0.0, np.sign(gaps)) == order
        with np.errstate(invalid="ignore"):
            accuracies.append(pairs.sums(right) / many)
    return _mean_over_items(np.array(accuracies), lowest=0.0)


def _mean_over_items(parts: Doubles, *, lowest: float) -> Estimates:
    """Return means over the items of which a setting has a value. NaN without any. Shape (S, I)."""
    known = np.isfinite(parts)
    share = known.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        values = np.where(known, parts, 0.0).mean(axis=1, keepdims=True) / share
        influences = np.where(known, parts - values, 0.0) / share
    return Estimates(values=values[:, 0], influences=influences, lowest=lowest)


def check_pairs(items: Items) -> None:
    """Check that the pairs of rows within items can be formed, before there are scores.

    Raises:
        InputError: There are more than `MAX_PAIRS` pairs.
    """
    numbers, many = numbered(items, len(items), "items")
    _check_sizes(np.bincount(numbers, minlength=many))


def _check_sizes(sizes: IntArray) -> None:
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
        return np.bincount(self.item, values.astype(np.float64), self.items).astype(np.float64)


def _pairs_within(items: Items, rows: int) -> _Pairs:
    numbers, many = numbered(items, rows, "items")
    sizes = np.bincount(numbers, minlength=many)
    _check_sizes(sizes)
    order = np.argsort(numbers, kind="stable")
    ends = np.repeat(np.cumsum(sizes), sizes)
    partners = ends - np.arange(rows) - 1  # rows of the item that follow
    first = np.repeat(np.arange(rows), partners)
    second = first + 1 + places_within(partners)
    return _Pairs(first=order[first], second=order[second], item=numbers[order[first]], items=many)


def _best_threshold(gaps: Doubles, order: Doubles, weights: Doubles) -> float:
    apart = np.abs(gaps)
    right = (np.sign(gaps) == order) * weights
    by_gap = np.argsort(apart, kind="stable")
    ordered = apart[by_gap]
    gain = np.cumsum(((order == 0) * weights - right)[by_gap])
    last = np.diff(ordered, append=np.inf) > 0  # pairs equally far apart tie together
    return float(np.append(0.0, ordered[last])[first_best(np.append(0.0, gain[last]))])


def _bounds_beyond(
    judged: Doubles, numbers: IntArray, threshold: float
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
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
