"""Whether a trend is that of the scores, or of the mix of groups.

If more rows are of a language with low scores than before, the mean of all rows falls, though each
language may have become better.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

from bertscore_beam.dump.census import Group
from bertscore_beam.pages.report_data import MeanOfRows, Night
from bertscore_beam.pages.words import run_names

DROP = 0.005
"""The drop that matters where no other is asked for: that of configs/nightly/night.sh."""

_SHOWN_DIGITS = 4
"""Digits of a mean on the page: a smaller change has no sign."""

_Means = Mapping[Group, MeanOfRows]


def mix_notices(nights: Sequence[Night], drop: float | None) -> list[str]:
    """Return what a reader of a trend must know of the mix of its groups, and of its languages.

    A change is told if, at the earlier mix, it would differ by more than `drop` or in sign: from
    each run to the next, and from the first to the last. Of each mix the worst one is named. Runs
    with other settings are left out.
    """
    alike = [night for night in nights if night.comparable and night.total.values["f1"] is not None]
    names = run_names(night.run for night in nights)
    limit, notices = DROP if drop is None else drop, []
    steps = [*pairwise(alike), *([(alike[0], alike[-1])] if len(alike) > 2 else [])]
    for kind, means_of in _MIXES.items():
        told = [(*found, *two) for two in steps if (found := _told(*two, means_of, limit))]
        if told:
            _, change, before, now = max(told, key=itemgetter(0))
            others = len(told) - 1
            notices.append(
                f"The mix of {kind}s has changed: from {names[before.run]} to {names[now.run]} "
                f"mean F1 moved by {change.format(kind=kind)}."
                + (f" More such changes in the trend: {others:,}." if others else "")
            )
    return notices


_MIXES: dict[str, Callable[[Night], _Means]] = {
    "group": lambda night: night.groups,
    "language": lambda night: night.languages,
}


def _told(
    before: Night, now: Night, means_of: Callable[[Night], _Means], limit: float
) -> tuple[float, str] | None:
    """Return how far a change is from that at the earlier mix, and both in words, if it is told."""
    earlier, later = means_of(before), means_of(now)
    if not earlier or not later:
        return None
    shown = now.total.values["f1"] - before.total.values["f1"]
    fixed = change_at_mix(earlier, later)
    if fixed is None:
        return math.inf, f"{shown:+.4f}; no {{kind}} is in both"
    away = abs(round(shown - fixed, 9))
    has_turned = round(shown, _SHOWN_DIGITS) * round(fixed, _SHOWN_DIGITS) < 0
    if away > limit or has_turned:
        return away, f"{shown:+.4f}; with the earlier mix it would have moved by {fixed:+.4f}"
    return None


def change_at_mix(before: _Means, now: _Means) -> float | None:
    """Return the mean change of the groups that both have, weighted by their earlier rows.

    None if they have none in common.
    """
    shared = before.keys() & now.keys()
    rows = sum(before[name].scored for name in shared)
    changes = (before[name].scored * (now[name].mean - before[name].mean) for name in shared)
    return math.fsum(changes) / rows if rows else None
