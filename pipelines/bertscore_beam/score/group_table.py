"""What is written of groups: a table with a row for each, and their part of the summary."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.groups import Group
from bertscore_beam.score.groups import PartStatistics
from bertscore_core.intervals import mean_intervals, method_of
from bertscore_core.score_statistics import MEASURES, ScoreStatistics

GROUPS_FILE = "_groups.pq"
"""Parquet, but not by that name: globs such as **/*.parquet must find parts alone."""

CONFIDENCE = 0.95
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
SHOWN_GROUPS = 100
"""Most groups in the summary; the table has all of them."""

PREFIX = "bertscore_"
"""Begins the names of all columns that are not those of groups."""

_QUANTILES = tuple(f"q{round(share * 100):02}" for share in SHARES)
_COUNTS = pa.map_(pa.string(), pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """What is written of a group.

    Attributes:
        group: Its values; None for all rows together.
        values: Counts, means and so on, by name. A number that is not defined is None.
    """

    group: Group | None
    values: Mapping[str, Any]


def group_row(
    group: Group | None, statistics: ScoreStatistics, confidence: float = CONFIDENCE
) -> GroupRow:
    """Return what is written of a group: a function of its statistics alone."""
    values: dict[str, Any] = {
        "rows": statistics.rows,
        "scored": statistics.scored,
        "rejected": statistics.rejected,
        "truncated": statistics.truncated,
        "reused": statistics.reused,
        "reasons": dict(statistics.reasons),
        "rejected_reasons": dict(statistics.rejected_reasons),
        "interval": method_of(statistics.scored) if statistics.scored > 1 else None,
    }
    ends = mean_intervals(statistics, confidence)
    means, errors = statistics.means, statistics.standard_errors
    raw, quantiles = statistics.raw_means, statistics.quantiles(SHARES)
    for place, measure in enumerate(MEASURES):
        numbers = {
            measure: means[place],
            f"{measure}_error": errors[place],
            f"{measure}_low": ends[0, place],
            f"{measure}_high": ends[1, place],
            f"raw_{measure}": raw[place],
        }
        for name, value in zip(_QUANTILES, quantiles[:, place], strict=True):
            numbers[f"raw_{measure}_{name}"] = value
        values |= {name: _number(value) for name, value in numbers.items()}
    return GroupRow(group=group, values=values)


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def group_rows(found: PartStatistics, confidence: float = CONFIDENCE) -> list[GroupRow]:
    """Return all rows of a table: all rows together first, then each group, in their order."""
    each = [group_row(group, one, confidence) for group, one in found.groups.items()]
    return in_order([group_row(None, found.total, confidence), *each])


def in_order(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """Return rows of groups in order: numbers by value, then texts, then no value."""
    return sorted(rows, key=lambda row: (row.group is not None, _order(row.group or ())))


def _order(group: Group) -> tuple[tuple[int, float, str], ...]:
    return tuple(_place(value) for value in group)


def _place(value: str | None) -> tuple[int, float, str]:
    if value is None:
        return 2, 0.0, ""
    try:
        number = float(value)
    except ValueError:
        return 1, 0.0, value
    return (0, number, value) if math.isfinite(number) else (1, 0.0, value)


def table_of_groups(rows: Sequence[GroupRow], by: Sequence[str]) -> pa.Table:
    """Return rows of groups as a table, each value in a column.

    Args:
        rows: All rows together first, then the groups.
        by: Names of the group columns; their values are null for all rows together.
    """
    columns: dict[str, pa.Array] = {
        name: pa.array([row.group[place] if row.group else None for row in rows], pa.string())
        for place, name in enumerate(by)
    }
    columns[f"{PREFIX}all_rows"] = pa.array([row.group is None for row in rows])
    for name in rows[0].values:
        values = [row.values[name] for row in rows]
        if name.endswith("reasons"):
            values = [list(one.items()) for one in values]
        columns[PREFIX + name] = pa.array(values, _type_of(name))
    return pa.table(columns)


def _type_of(name: str) -> pa.DataType:
    if name.endswith("reasons"):
        return _COUNTS
    if name == "interval":
        return pa.string()
    whole = ("rows", "scored", "rejected", "truncated", "reused")
    return pa.int64() if name in whole else pa.float64()


def table_to_bytes(table: pa.Table) -> bytes:
    """Return a table as a Parquet file; equal tables give equal bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def summary_of_groups(rows: Sequence[GroupRow], by: Sequence[str]) -> dict[str, Any]:
    """Return what the summary says of groups: the first `SHOWN_GROUPS` of them."""
    groups = [row for row in rows if row.group is not None]
    return {
        "by": list(by),
        "number": len(groups),
        "confidence": CONFIDENCE,
        "file": GROUPS_FILE,
        "shown": [_shortened(described(row, by)) for row in groups[:SHOWN_GROUPS]],
    }


def _shortened(group: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is in the table alone: raw precision and recall."""
    left_out = ("raw_precision", "raw_recall")
    return {name: value for name, value in group.items() if not name.startswith(left_out)}


def described(row: GroupRow, by: Sequence[str]) -> dict[str, Any]:
    """Return a group as plain values, for JSON."""
    group = None if row.group is None else dict(zip(by, row.group, strict=True))
    return {"group": group, **row.values}
