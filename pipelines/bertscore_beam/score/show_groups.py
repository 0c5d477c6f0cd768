"""Groups as a table for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertscore_beam.run.outcome import Shown
from bertscore_beam.score.group_table import CONFIDENCE

SHOWN_ROWS = 50
"""Most groups printed; the files have all of them."""


def show_groups(
    every: Sequence[Mapping[str, Any]],
    by: Sequence[str],
    number: int,
    confidence: float = CONFIDENCE,
) -> Shown:
    """Return the first groups as a table: F1 with its interval, and what stands out.

    Args:
        every: Groups as `described` returns them.
        by: The group columns.
        number: Groups in all.
        confidence: Confidence of the intervals.
    """
    rows = [_cells(one, by) for one in every[:SHOWN_ROWS]]
    left = number - sum(one["group"] is not None for one in every[:SHOWN_ROWS])
    title = f"Groups by {', '.join(by)}" if by else "All rows"
    if left:
        title += f" (the first; {left:,} more)"
    columns = (
        *(by or ("",)),
        "rows",
        "rejected",
        "truncated",
        "P",
        "R",
        "F1",
        f"{100 * confidence:g}% of F1",
        "raw median",
    )
    return Shown(title, columns, rows)


def show_groups_scored(summary: Mapping[str, Any]) -> list[Shown]:
    """Return the groups in the summary of a run, if it has any."""
    groups = summary.get("groups")
    return [show_groups(groups["shown"], groups["by"], groups["number"])] if groups else []


def _cells(one: Mapping[str, Any], by: Sequence[str]) -> tuple[str, ...]:
    if one["group"] is None:
        names = ["all rows", *("" for _ in by[1:])]
    else:
        names = ["(null)" if value is None else value for value in one["group"].values()]
    low, high = one["f1_low"], one["f1_high"]
    return (
        *names,
        f"{one['rows']:,}",
        f"{one['rejected']:,}",
        f"{one['truncated']:,}",
        *(_number(one[measure]) for measure in ("precision", "recall", "f1")),
        "" if low is None else f"{_number(low)} to {_number(high)}",
        _number(one["raw_f1_q50"]),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
