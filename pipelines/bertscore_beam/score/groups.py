"""The statistics of each group of scored rows.

    columns of a part --statistics_of--> {group: ScoreStatistics}    merged over the parts of a run

What a group is: `dump.groups`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.groups import Group, RowGroups, groups_of
from bertscore_beam.score.finished import read_part_columns
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.reused_rows import unpacked_rows
from bertscore_core.score_statistics import GroupedRows, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import BoolArray

SCORE_COLUMNS = (
    *columns.SCORES.values(),
    *columns.RAW_SCORES.values(),
    columns.TRUNCATED,
    columns.ERROR,
)
"""The columns of a part that its statistics are made of, besides those of the groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatistics:
    """The statistics of the rows of a part.

    Attributes:
        total: Of all of its rows.
        groups: Of each group.
    """

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics]


def statistics_of(table: pa.Table, by: Sequence[str], reused: BoolArray | None) -> PartStatistics:
    """Return the statistics of scored rows: all together, and those of each group.

    Args:
        table: The rows, with the columns of the groups and `SCORE_COLUMNS`.
        by: The group columns; without any there is no group.
        reused: Which rows took the scores of an earlier run; None if not known. Shape (N,).

    Raises:
        InputError: A column holds values that cannot be groups.
    """
    found = groups_of(table, by)
    rows = grouped_rows(table, found, reused)
    whole = replace(rows, groups=np.zeros_like(found.codes), number=1)
    (total,) = statistics_by_group(whole)
    each = statistics_by_group(rows) if by else []
    return PartStatistics(
        total=total, groups=dict(zip(found.groups if by else (), each, strict=True))
    )


def grouped_rows(table: pa.Table, found: RowGroups, reused: BoolArray | None) -> GroupedRows:
    """Return scored rows with the group of each, to be added up.

    Args:
        table: The rows, with `SCORE_COLUMNS`.
        found: Their groups.
        reused: As for `statistics_of`.
    """
    is_rescaled = columns.RAW_F1 in table.column_names
    return GroupedRows(
        groups=found.codes,
        number=len(found.groups),
        scores=_numbers(table, columns.SCORES.values()),
        raw=_numbers(table, columns.RAW_SCORES.values()) if is_rescaled else None,
        truncated=pc.fill_null(table[columns.TRUNCATED], False).to_numpy(zero_copy_only=False),
        reasons=_reasons(table[columns.ERROR]),
        reused=reused,
    )


def _numbers(table: pa.Table, names: Iterable[str]) -> npt.NDArray[np.float32]:
    """Return columns side by side, NaN for null. Shape (N, names)."""
    found = [table[name].to_numpy(zero_copy_only=False).astype(np.float32) for name in names]
    return np.stack(found, axis=-1)


def _reasons(column: pa.ChunkedArray) -> dict[int, str]:
    """Return the reasons of rows that have one, by position."""
    (rows,) = np.nonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    return dict(zip(rows.tolist(), column.drop_null().to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class GroupedPart:
    """What the groups of a part need of its record; there may be a million of them at a time.

    Attributes:
        part_name: As in the record, like all others.
    """

    part_name: str
    num_rows: int
    reused: int
    reused_rows: str

    @classmethod
    def of(cls, record: PartRecord) -> "GroupedPart":
        """Take it from a record."""
        return cls(record.part_name, record.num_rows, record.reused, record.reused_rows)


def statistics_of_part(path: str, part: GroupedPart, by: Sequence[str]) -> PartStatistics:
    """Read the statistics of a part from its file.

    Args:
        path: Its file.
        part: The part.
        by: The group columns.

    Raises:
        InputError: It is damaged, or a column holds values that cannot be groups.
        OSError: It cannot be reached.
    """
    table = read_part_columns(path, [*by, *SCORE_COLUMNS])
    reused = unpacked_rows(part.reused_rows, part.num_rows, part.reused)
    return statistics_of(table, by, reused)


_MERGED_AT_ONCE = 16


class Merging:
    """Merges the statistics of many parts, several at a time. Mutable."""

    def __init__(self) -> None:
        """Begin with no rows."""
        self._total: list[ScoreStatistics] = []
        self._groups: dict[Group, list[ScoreStatistics]] = {}

    def add(self, part: PartStatistics) -> None:
        """Add a part."""
        add_merging(self._total, part.total)
        for group, one in part.groups.items():
            add_merging(self._groups.setdefault(group, []), one)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._groups)

    @property
    def groups(self) -> Collection[Group]:
        """The groups so far."""
        return self._groups.keys()

    def result(self) -> PartStatistics:
        """Return the statistics of all parts together."""
        return PartStatistics(
            total=ScoreStatistics.merge(self._total),
            groups={group: ScoreStatistics.merge(some) for group, some in self._groups.items()},
        )


def add_merging(some: list[ScoreStatistics], more: ScoreStatistics) -> None:
    """Add to a list whose sum is meant, and shorten it when it is long."""
    some.append(more)
    if len(some) >= _MERGED_AT_ONCE:
        some[:] = [ScoreStatistics.merge(some)]
