"""Statistics of agreement with their errors, intervals and comparisons.

A statistic of many rows is, to first order, its true value plus a mean of one term for each row:
the row's influence. `Estimates` keeps these terms, added up by cluster where rows of one item
belong together. All else follows from them for every statistic alike: standard errors, intervals
by bootstrap, and whether one setting is below another on the same rows. Resampling the terms in
the place of the rows costs one matrix product for all settings, where a bootstrap that counts
Kendall's tau again each time would cost hours.

References:
    F. R. Hampel, "The influence curve and its role in robust estimation", JASA 69 (1974).
    B. Efron, R. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 21.
    P. Kline, A. Santos, "A score based approach to wild bootstrap inference" (2012).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, stdtr

from bertscore_core.agreement.inputs import Doubles, numbered
from bertscore_core.errors import InputError
from bertscore_core.resampling import times_drawn

RESAMPLES = 1000
"""Resamples of a bootstrap: bounds of a 95% interval then move by about 4% of its half width."""

ROUNDING = 1e-12
"""Differences of correlations below this are rounding, and settings with them are equal."""

_LEAST_DEGREES = 0.01  # of a single cluster, so that equal settings still have p = 0.5

_BLOCK = 2**23  # draws held at a time: 64 MiB of them


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
    def by_cluster(
        cls,
        values: Doubles,
        influences: Doubles,
        clusters: npt.NDArray[np.generic] | Sequence[object] | None,
        lowest: float = -1.0,
    ) -> "Estimates":
        """Add up the influences of rows, shape (S, N), by cluster.

        Raises:
            InputError: there is not one cluster for each row.
        """
        effective = None
        if clusters is not None:
            numbers, many = numbered(clusters, influences.shape[1], "clusters")
            squares = float((np.bincount(numbers).astype(np.float64) ** 2).sum())
            effective = len(numbers) ** 2 / squares if squares else 0.0
            sums = [np.bincount(numbers, row, many) for row in influences]
            together = np.array(sums, dtype=np.float64).reshape(-1, many)
            influences = together * (many / max(len(numbers), 1))
        return cls(values=values, influences=influences, lowest=lowest, effective=effective)

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

    def intervals(
        self, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
    ) -> Doubles:
        """Return intervals by bootstrap over clusters. Shape (S, 2).

        The terms are resampled on the logit scale of the statistic's range, so that bounds stay
        within it. A statistic at an end of its range has an interval of width 0, as in any
        bootstrap.

        Args:
            level: Share of the intervals that hold the true value.
            resamples: How often to draw.
            seed: Equal seeds and data give equal intervals.

        Raises:
            InputError: level is not between 0 and 1, or there are no resamples.
        """
        if not 0 < level < 1 or resamples < 1:
            raise InputError(
                f"got an interval of level {level} from {resamples} resamples; expected a level "
                "between 0 and 1, and 1 resample or more."
            )
        tails = self._tails(level, resamples, seed)
        width = 1 - self.lowest
        share = np.clip((self.values - self.lowest) / width, 0, 1)
        inside = (share > 0) & (share < 1)
        middle = np.where(inside, share, 0.5)
        bounds = expit(logit(middle) + tails / (width * middle * (1 - middle)))
        bounds = np.where(inside, bounds, np.where(np.isnan(tails), np.nan, share))
        return np.asarray(self.lowest + width * bounds.T, dtype=np.float64)

    def _tails(self, level: float, resamples: int, seed: int) -> Doubles:
        """Return the quantiles of the resampled mean of the terms. Shape (2, S)."""
        clusters = self.clusters
        if clusters < 2:
            return np.full((2, len(self.values)), np.nan)
        means = [
            weights @ self.influences.T / clusters for weights in draws(clusters, resamples, seed)
        ]
        # Few clusters spread less than the population that they are drawn from.
        spread = np.concatenate(means) * np.sqrt(clusters / (clusters - 1))
        tails = np.quantile(spread, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.asarray(tails, dtype=np.float64)

    def p_below(self, best: int) -> Doubles:
        """Return how likely a lag of each setting behind one of them is, if they are equal.

        A one-sided test of the difference on the same rows, by the t distribution, allowing for
        clusters. 0.5 for equal settings, so also for the best. One cluster that outweighs all
        others leaves hardly a degree of freedom, and then no setting is below the best.

        Args:
            best: Index of the setting that the others are compared with.

        Returns:
            p values. Shape (S,); NaN where a statistic is not defined.
        """
        lag = self.values[best] - self.values
        errors = _errors(self.influences[best] - self.influences)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(np.abs(lag) < ROUNDING, 0.0, lag / errors)
        return np.asarray(stdtr(max(self.degrees, _LEAST_DEGREES), -ratio), dtype=np.float64)

    @property
    def best(self) -> int:
        """Index of the greatest value.

        Raises:
            InputError: no setting has one.
        """
        return best_of(self.values)


def best_of(values: Doubles) -> int:
    """Return the index of the greatest value, NaN left out.

    Raises:
        InputError: all are NaN, or there are none.
    """
    if not np.isfinite(values).any():
        raise InputError(
            "no setting has a value of this statistic; expected judgements and scores that vary."
        )
    return int(np.nanargmax(values))


def draws(clusters: int, resamples: int, seed: int) -> Iterator[Doubles]:
    """Yield how often each cluster is drawn, with replacement. Shapes (b, C), bounded in memory."""
    rng = np.random.default_rng(seed)
    block = max(1, min(resamples, _BLOCK // max(clusters, 1)))
    for start in range(0, resamples, block):
        each = np.full(min(block, resamples - start), clusters)
        yield times_drawn(each, clusters, rng)


def _errors(influences: Doubles) -> Doubles:
    """Return the standard error of a mean of influences. Shape (S,)."""
    clusters = influences.shape[1]
    if clusters < 2:
        return np.full(len(influences), np.nan)
    return np.asarray(influences.std(axis=1, ddof=1) / np.sqrt(clusters), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """One statistic of S settings, with its values on B resamples of the data.

    For statistics that are cheap but have no useful terms, such as those of a few systems.

    Attributes:
        values: The statistic; NaN where it is not defined. Shape (S,).
        replicates: The same on each resample. Shape (B, S).
    """

    values: Doubles
    replicates: Doubles

    @property
    def errors(self) -> Doubles:
        """Standard errors: the spread of the resamples. Shape (S,); NaN where not defined."""
        defined = np.isfinite(self.replicates).sum(axis=0) > 1
        errors = np.full(len(self.values), np.nan)
        errors[defined] = np.nanstd(self.replicates[:, defined], axis=0, ddof=1)
        return errors

    def intervals(self, *, level: float = 0.95) -> Doubles:
        """Return the quantiles of the resamples as intervals. Shape (S, 2); NaN where undefined."""
        defined = np.isfinite(self.replicates).any(axis=0)
        bounds = np.full((len(self.values), 2), np.nan)
        tails = [(1 - level) / 2, (1 + level) / 2]
        if defined.any():
            bounds[defined] = np.nanquantile(self.replicates[:, defined], tails, axis=0).T
        return bounds

    def p_below(self, best: int) -> Doubles:
        """Return the share of resamples in which a setting is not below another; ties count half.

        Args:
            best: Index of the setting that the others are compared with.

        Returns:
            p values. Shape (S,); NaN where a statistic is not defined.
        """
        lag = self.replicates[:, [best]] - self.replicates
        known = np.isfinite(lag).sum(axis=0)
        not_below = (lag < 0).sum(axis=0) + (lag == 0).sum(axis=0) / 2
        return np.where(known > 0, (not_below + 0.5) / (known + 1), np.nan)

    @property
    def best(self) -> int:
        """Index of the greatest value.

        Raises:
            InputError: no setting has one.
        """
        return best_of(self.values)
