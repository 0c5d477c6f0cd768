"""Rank the systems of a run, with clusters of systems that cannot be told apart.

As in the shared tasks of WMT: systems are ordered by their means, each pair of them is tested, and
a line is drawn where every system above is significantly better than every system below. The p
values are corrected for the number of pairs by Holm's method. The tables of WMT do not do that, so
they have more lines, some of them by chance.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bertscore_beam.results.comparison import (
    Group,
    GroupComparison,
    RankedPair,
    RankedSystem,
    Ranking,
)
from bertscore_beam.results.pairing import ABSENT, Bucket
from bertscore_core.paired import holm


class CommonRows:
    """Sums over the rows that all systems have scored, by group."""

    def __init__(self, groups: int, systems: int) -> None:
        """Begin with nothing."""
        self._rows = np.zeros(groups, dtype=np.int64)
        self._totals = np.zeros((groups, systems))

    def add(self, bucket: Bucket) -> None:
        """Add the rows of a bucket."""
        scores = bucket.entries["score"].astype(np.float64)[bucket.places]
        scores[bucket.places == ABSENT] = np.nan
        common = ~np.isnan(scores).any(axis=1)
        groups = bucket.entries["group"][bucket.places[common, 0]].astype(np.int64)
        self._rows += np.bincount(groups, minlength=len(self._rows))
        for system, values in enumerate(scores[common].T):
            self._totals[:, system] += np.bincount(groups, values, len(self._rows))

    def of(self, group: int | None) -> tuple[int, npt.NDArray[np.float64]]:
        """Return the number of common rows of a group, of all for None, and the systems' means."""
        rows = int(self._rows.sum() if group is None else self._rows[group])
        totals = self._totals.sum(axis=0) if group is None else self._totals[group]
        return rows, totals / rows if rows else np.full(len(totals), np.nan)


def rank(
    group: Group,
    systems: Sequence[str],
    common: tuple[int, npt.NDArray[np.float64]],
    compared: Mapping[tuple[int, int], GroupComparison],
    confidence: float,
) -> Ranking | None:
    """Rank systems by their means and by the tests of their pairs.

    Args:
        group: The group.
        systems: Their names.
        common: Number of the rows that all have scored, and the means over them.
        compared: The comparison of each pair of systems, by their positions.
        confidence: 1 - confidence is the level of the tests.

    Returns:
        The ranking; None if no row was scored by all.
    """
    rows, means = common
    if not rows:
        return None
    p_values = holm([one.p_value for one in compared.values()])
    better = np.zeros((len(systems), len(systems)), dtype=np.bool_)
    for (one, other), comparison, p in zip(compared, compared.values(), p_values, strict=True):
        if p is not None and p < 1 - confidence:
            is_first = (comparison.result.difference or 0.0) > 0
            better[(one, other) if is_first else (other, one)] = True
    order = np.argsort(-means, kind="stable")
    better = better[np.ix_(order, order)]
    ranked, cluster = [], 1
    for place, number in enumerate(order.tolist()):
        if place and better[:place, place:].all():
            cluster += 1
        wins, losses = int(better[place].sum()), int(better[:, place].sum())
        ranked.append(
            RankedSystem(
                system=systems[number],
                mean=float(means[number]),
                first=1 + losses,
                last=len(systems) - wins,
                cluster=cluster,
                wins=wins,
            )
        )
    pairs = tuple(
        RankedPair(
            system=systems[one],
            other=systems[other],
            difference=comparison.result.difference,
            interval=comparison.result.interval,
            p_value=comparison.p_value,
            p_adjusted=p,
        )
        for ((one, other), comparison), p in zip(compared.items(), p_values, strict=True)
    )
    return Ranking(
        group=group, rows=rows, confidence=confidence, systems=tuple(ranked), pairs=pairs
    )
