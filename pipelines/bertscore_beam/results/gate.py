"""The gate of a comparison: whether a run is worse than another by more than a given drop.

It looks at two things, for the whole and for each group:

- the one-sided upper bound of the paired difference: the gate fails if it is below -drop, which
  says with the confidence that was asked for that the true difference is. Groups are judged
  together: their p values are corrected by Holm's method, so that the chance of any false alarm
  among them is at most 1 - confidence. The whole has that chance by itself, so that asking for
  groups does not make it see less;
- rows that AGAINST has scored and RUN has not: a difference of pairs says nothing of them, and a
  system that rejects its bad rows would otherwise look better.
"""

from collections.abc import Sequence

from bertscore_beam.results.comparison import GroupGate, PairCounts
from bertscore_core.paired import PairedResult, holm


def judge(
    results: Sequence[PairedResult],
    counts: Sequence[PairCounts],
    *,
    drop: float,
    confidence: float,
    most_missing: float,
) -> list[GroupGate]:
    """Judge the whole and its groups.

    Args:
        results: The paired difference of the whole, then of each group.
        counts: What became of the rows of each.
        drop: How far a score may fall.
        confidence: Of the decision.
        most_missing: Largest share of the rows scored in AGAINST that may have no score in RUN.
    """
    whole, *groups = (one.drop_p_value(drop) for one in results)
    p_values = [whole, *holm(groups)]
    return [
        GroupGate(
            p_value=p_value,
            failures=tuple(
                _failures(result, count, p_value, drop, confidence, most_missing)
                + _undecided(result, is_whole=number == 0)
            ),
        )
        for number, (result, count, p_value) in enumerate(
            zip(results, counts, p_values, strict=True)
        )
    ]


def _failures(
    result: PairedResult,
    counts: PairCounts,
    p_value: float | None,
    drop: float,
    confidence: float,
    most_missing: float,
) -> list[str]:
    words = []
    if p_value is not None and p_value < 1 - confidence:
        words.append(
            f"it fell by more than {drop:g}: the difference is {result.difference:+.6f}, and its "
            f"true value is below {-drop:g} with a p value of {p_value:.2g}"
        )
    if counts.missing_fraction > most_missing:
        words.append(
            f"{counts.missing:,} rows that were scored before have no score now: "
            f"{counts.missing_fraction:.2%} of them; at most {most_missing:.2%} may "
            "(--max-missing-fraction)"
        )
    return words


def _undecided(result: PairedResult, *, is_whole: bool) -> list[str]:
    """Return why the whole cannot be judged; a group that cannot be is left to its warning."""
    if is_whole and result.error is None:
        if result.clusters is None:
            return [f"it cannot be judged: got {result.pairs} pairs; expected two or more"]
        return [
            f"it cannot be judged: got {result.clusters:,} clusters, which weigh as much as "
            f"{result.effective_clusters or 0:.1f} equal ones; expected two or more"
        ]
    return []
