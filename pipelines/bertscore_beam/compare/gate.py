"""The gate of a comparison: whether a run is worse than others by more than a given drop.

It looks at two things, for the whole and for each group:

- the paired difference: the gate fails if the true one is below -drop, with the confidence that was
  asked for;
- rows that AGAINST has scored and RUN has not: a difference of pairs says nothing of them, and a
  system that rejects its bad rows would otherwise look better. A few of a small group may be
  chance: the gate fails if the share that would be lost of many rows is above the limit, with the
  same confidence, or if all are lost. Rows of a cluster that are lost together count as one event.

**False alarms.** If nothing has changed, all tests of a command together fail with a probability of
at most 1 - confidence. The wholes, one for each run compared with and each measure, have half of
it, groups the other half; without groups the wholes have all. Holm's method corrects each half.
Tests of lost rows are corrected likewise. They hardly ever fail if the true share is half of the
limit. `tests/benchmarks/season.py` simulates whole seasons of nights.

A run that others are compared with is one that has passed itself, so it was lucky rather than not,
and stays where it is while others fail. So a drop counts from `LUCK` of its standard error on, if
that is more than the drop that was asked for: without it, 5.5% of the nights of a dump of 14 rows
fail, not 5%.

**What cannot be judged.** The signs of k rows or clusters that have moved give no p value below
2^-k. Groups in which that is too large are left out of the correction, so that the others lose
nothing by them (Tarone). One that has so few rows or clusters that it could never be judged is
named; how many of them have moved does not matter. If that is a whole, the gate is neither passed
nor failed. If there are enough, but too few have moved for a proof, it passes, with a notice where
the mean is lower.

References:
    R. E. Tarone, "A modified Bonferroni method for discrete data" (1990).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

import numpy as np

from bertscore_beam.compare import results
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.dump.columns import shown_number
from bertscore_core.stats.paired import holm, least_p
from bertscore_core.tokens import BoolArray

_MOST_INPUTS = 3
"""Most inputs of lost rows that a sentence names."""

LUCK = 0.3
"""By how much a run that has passed may be better than it really is, in standard errors."""


def judge(
    comparisons: Sequence[results.Comparison], options: CompareOptions
) -> tuple[results.Comparison, ...]:
    """Judge all comparisons of a command together, and return them with their gates."""
    wholes = [one.whole for one in comparisons]
    groups = [*chain.from_iterable(one.groups for one in comparisons)]
    level = (1 - options.confidence) / (2 if groups else 1)
    judged, others = (iter(_judge(subjects, level, options)) for subjects in (wholes, groups))
    return tuple(
        replace(one, whole=next(judged), groups=tuple(next(others) for _ in one.groups))
        for one in comparisons
    )


def _judge(
    subjects: Sequence[results.GroupComparison], level: float, options: CompareOptions
) -> list[results.GroupComparison]:
    """Judge wholes, or groups, together."""
    lost = holm([group.missing_p_value(options.max_missing_fraction) for group in subjects])
    return [
        replace(group, gate=_judge_lost_rows(group, gate, p_value, level, options))
        for group, gate, p_value in zip(
            subjects, _judge_drops(subjects, level, options), lost, strict=True
        )
    ]


def _judge_drops(
    subjects: Sequence[results.GroupComparison], level: float, options: CompareOptions
) -> list[results.GroupGate]:
    """Test drops together, with a probability of at most `level` of any false alarm."""
    results = [group.result for group in subjects]
    units = np.array([result.units for result in results], dtype=np.int64)
    has_rows = _able(units.tolist(), level)
    has_rows &= np.array([result.error is not None for result in results], dtype=np.bool_)
    moved = (result.moved_units for result in results)
    has_moved = _able(
        [number * enough for number, enough in zip(moved, has_rows, strict=True)], level
    )
    p_values = _drop_p_values(subjects, has_moved, level, options)
    # Another subject with so many would take part in the correction, too: it counts one.
    needed = next(own for own in count(1) if least_p(own) * (1 + (units >= own).sum()) < level)
    return [
        _gate_of(group, p_value, options, has_moved=moved, has_rows=enough, needed=needed)
        for group, p_value, moved, enough in zip(
            subjects, p_values, has_moved, has_rows, strict=True
        )
    ]


def _drop_p_values(
    subjects: Sequence[results.GroupComparison],
    has_moved: BoolArray,
    level: float,
    options: CompareOptions,
) -> list[float | None]:
    """Return corrected p values, to be compared with 1 - confidence; None for what cannot fail."""
    own = [
        _drop_p_value(group, options) if is_able else None
        for group, is_able in zip(subjects, has_moved, strict=True)
    ]
    return [p and min(1.0, p * (1 - options.confidence) / level) for p in holm(own)]


def _drop_p_value(group: results.GroupComparison, options: CompareOptions) -> float | None:
    result = group.result
    return result.drop_p_value(max(options.fail_if_drop or 0.0, LUCK * (result.error or 0.0)))


def _gate_of(
    group: results.GroupComparison,
    p_value: float | None,
    options: CompareOptions,
    *,
    has_moved: bool,
    has_rows: bool,
    needed: int,
) -> results.GroupGate:
    """Describe what a test found, or why it was not made. It needs this many units."""
    result, drop = group.result, options.fail_if_drop or 0.0
    if not has_rows:
        return results.GroupGate(p_value=None, not_judged=_too_few(group, needed))
    if not has_moved and result.moved_units and (result.difference or 0.0) < -drop:
        words = (
            f"it is lower by more than {drop:g}, but only {result.moved_units:,} of its "
            f"{_units(group)} have moved, too few to prove it: the difference is "
            f"{shown_number(group.measure, result.difference or 0.0, 6, '+')}, with a p value of "
            f"{_drop_p_value(group, options) or 0.0:.2g}"
        )
        return results.GroupGate(p_value=p_value, notice=words)
    worse = None
    if p_value is not None and p_value < 1 - options.confidence:
        worse = (
            f"it is lower by more than {drop:g}: the difference is "
            f"{shown_number(group.measure, result.difference or 0.0, 6, '+')}, and "
            f"its true value is below {-drop:g} with a p value of {p_value:.2g}"
            f"{f', over {_units(group)}' if result.repeats else ''}"
        )
    return results.GroupGate(p_value=p_value, worse=worse)


def _able(units: Sequence[int], level: float) -> BoolArray:
    """Tell which tests could fail at a level, corrected for the number of those that could."""
    least = np.array([least_p(number) for number in units])
    return least * np.searchsorted(np.sort(least), least, side="right") < level


def _too_few(group: results.GroupComparison, needed: int) -> str:
    result = group.result
    equal = ""
    if result.clusters is not None:
        equal = f", which weigh as much as {result.effective_clusters or 0:.1f} equal ones"
    cure = ". To count each row, use --cluster id" if result.repeats else ""
    return f"got {_units(group)}{equal}; expected at least {needed:,}{cure}"


def _units(group: results.GroupComparison) -> str:
    result = group.result
    if result.clusters is not None:
        return f"{result.clusters:,} clusters"
    repeats = f" ({result.repeats:,} more repeat these)" if result.repeats else ""
    return f"{result.units:,} rows{repeats}"


def _judge_lost_rows(
    group: results.GroupComparison,
    gate: results.GroupGate,
    p_value: float | None,
    level: float,
    options: CompareOptions,
) -> results.GroupGate:
    counts, limit = group.counts, options.max_missing_fraction
    is_above = p_value is not None and p_value < level
    if not is_above and (counts.pairs or not counts.missing or limit == 1):
        return gate
    words = (
        f"rows lost: {counts.missing:,} that the other side has scored have no score here, "
        f"{counts.missing_fraction:.2%} of its rows; expected at most {limit:.2%} "
        f"(--max-missing-fraction). They are {', '.join(map(str, group.lost[:_MOST_INPUTS]))}"
    )
    return replace(gate, rows_lost=words)
