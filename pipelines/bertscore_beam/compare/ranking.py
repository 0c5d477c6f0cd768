"""Rank the systems of a run, with clusters of systems that cannot be told apart.

As in the shared tasks of WMT: systems are ordered by their means, each pair of them is tested, and
a line is drawn where every system above is significantly better than every system below. The p
values are corrected for the number of pairs by Holm's method. The tables of WMT do not do that, so
they have more lines, some of them by chance.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bertscore_beam.compare import results
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.paired_sides import Paired
from bertscore_beam.dump.census import WHOLE, Group
from bertscore_core.errors import ConfigError
from bertscore_core.stats.paired import holm
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.sums import ExactSums


def rankings_of(
    options: CompareOptions, measure: str, paired: Paired, comparisons: Sequence[results.Comparison]
) -> list[results.Ranking]:
    """Rank the systems by the comparisons of their pairs: over all rows, and in each group.

    Raises:
        ConfigError: There is no row that all systems have scored.
    """
    if not any(rows for rows, _ in paired.common.values()):
        raise ConfigError(
            f"{len(paired.names)} systems cannot be ranked: got no row that all of them have "
            "scored; expected some. Check --key, or name the systems to rank with --systems."
        )
    by_pair = [(comparison.whole, *comparison.groups) for comparison in comparisons]
    rankings = []
    for groups in zip(*by_pair, strict=True):
        name = groups[0].group
        chosen = paired.common.values() if name == WHOLE else [paired.common[name]]
        own, sums = zip(*chosen, strict=True)
        compared = dict(zip((own.sides for own in paired.sums), groups, strict=True))
        if rows := sum(own):
            common = rows, np.array(ExactSums.merge(sums).over(rows))
            rankings.append(rank(name, measure, paired.names, common, compared, options.confidence))
    return rankings


def rank(
    group: Group,
    measure: str,
    systems: Sequence[str],
    common: tuple[int, Doubles],
    compared: Mapping[tuple[int, int], results.GroupComparison],
    confidence: float,
) -> results.Ranking:
    """Rank systems by their means and by the tests of their pairs.

    Args:
        group: The group.
        measure: What it is by.
        systems: Their names.
        common: Number of the rows that all have scored, and the means over them.
        compared: The comparison of each pair of systems, by their positions.
        confidence: 1 - confidence is the level of the tests.
    """
    rows, means = common
    p_values = holm([comparison.p_value for comparison in compared.values()])
    better = np.zeros((len(systems), len(systems)), dtype=np.bool_)
    pairs = []
    for ((left, right), comparison), p in zip(compared.items(), p_values, strict=True):
        if p is not None and p < 1 - confidence:
            is_first = (comparison.result.difference or 0.0) > 0
            better[(left, right) if is_first else (right, left)] = True
        pairs.append(
            results.RankedPair(
                system=systems[left],
                other=systems[right],
                difference=comparison.result.difference,
                interval=comparison.result.interval,
                p_value=comparison.p_value,
                p_adjusted=p,
                caveats=comparison.caveats,
            )
        )
    order = np.argsort(-means, kind="stable")
    better = better[np.ix_(order, order)]
    ranked, cluster = [], 1
    for place, number in enumerate(order.tolist()):
        if place and better[:place, place:].all():
            cluster += 1
        wins, losses = int(better[place].sum()), int(better[:, place].sum())
        ranked.append(
            results.RankedSystem(
                system=systems[number],
                mean=float(means[number]),
                first=1 + losses,
                last=len(systems) - wins,
                cluster=cluster,
                wins=wins,
            )
        )
    by_flips = any(pair.result.randomization_p is not None for pair in compared.values())
    return results.Ranking(
        group=group,
        measure=measure,
        rows=rows,
        confidence=confidence,
        test="randomization" if by_flips else "t test",
        systems=tuple(ranked),
        pairs=tuple(pairs),
    )
