"""The groups of scored rows: which rows belong together, and the statistics of each group.

    columns of a part --statistics_of--> {group: ScoreStatistics}    merged over the parts of a run

A group is the values of some columns of the input, as texts: equal numbers are equal texts,
whatever their type. A null, a NaN and a text that is not UTF-8 are one value, None. So is every row
of a part that does not have the column.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import can_choose, column_of, has_column
from bertscore_beam.dump.languages import dictionary_of
from bertscore_beam.idf.row_keys import values_as_text
from bertscore_beam.score.finished import read_part_columns
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.reused_rows import unpacked_rows
from bertscore_core.errors import InputError
from bertscore_core.score_statistics import GroupedRows, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import BoolArray, IntArray

Group: TypeAlias = tuple[str | None, ...]
"""The values of the group columns, as texts; None for no value."""

MOST_GROUPS = 10_000

SCORE_COLUMNS = (
    *columns.SCORES.values(),
    *columns.RAW_SCORES.values(),
    columns.TRUNCATED,
    columns.ERROR,
)
"""The columns of a part that its statistics are made of, besides those of the groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroups:
    """The groups of N rows.

    Attributes:
        groups: The groups that have rows.
        codes: Position of each row's group in `groups`. Shape (N,).
    """

    groups: tuple[Group, ...]
    codes: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatistics:
    """The statistics of the rows of a part.

    Attributes:
        total: Of all of its rows.
        groups: Of each group.
    """

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics]


def groups_of(table: pa.Table, by: Sequence[str]) -> RowGroups:
    """Return the group of every row.

    Args:
        table: The rows.
        by: Names or dotted paths of the group columns. Of one that the table does not have, all
            values are None.

    Raises:
        InputError: A column holds values that cannot be groups.
    """
    codes = np.zeros(table.num_rows, dtype=np.int64)
    keys: list[Group] = [()]
    for name in by:
        own, words = _coded(table, name)
        # Pairs of a group so far and a value, numbered anew: never more than there are rows.
        pairs, codes = np.unique(codes * len(words) + own, return_inverse=True)
        keys = [(*keys[pair // len(words)], words[pair % len(words)]) for pair in pairs.tolist()]
    return RowGroups(groups=tuple(keys) if table.num_rows else (), codes=codes.astype(np.int64))


def _coded(table: pa.Table, name: str) -> tuple[IntArray, list[str | None]]:
    """Return a column as codes, and the text that each code stands for."""
    if not has_column(table.schema, name):
        return np.zeros(table.num_rows, dtype=np.int64), [None]
    if (count := table.column_names.count(name)) > 1:
        raise InputError(
            f"the column {name!r} cannot be used for groups: got {count} columns of that name; "
            "expected one. Rename the others."
        )
    column = column_of(table, name)
    if not can_choose(column.type):
        raise InputError(
            f"the column {name!r} cannot be used for groups: got type {column.type}; expected "
            "texts, numbers, booleans or dates. Convert the column, or name another one."
        )
    encoded = dictionary_of(column)
    # Different values may have the same text, such as 1 and 1.0: numbered by their texts.
    numbers: dict[str | None, int] = {None: 0}
    of_value = [
        numbers.setdefault(text, len(numbers))
        for text in values_as_text(pa.chunked_array([encoded.dictionary]))
    ]
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(of_value)).to_numpy()
    return np.array([*of_value, 0], dtype=np.int64)[indices], list(numbers)


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


def statistics_of_part(path: str, record: PartRecord, by: Sequence[str]) -> PartStatistics:
    """Read the statistics of a part from its file.

    Args:
        path: The part.
        record: Its record.
        by: The group columns.

    Raises:
        InputError: It is damaged, or a column holds values that cannot be groups.
        OSError: It cannot be reached.
    """
    table = read_part_columns(path, [*by, *SCORE_COLUMNS])
    reused = unpacked_rows(record.reused_rows, record.num_rows, record.reused)
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
    def groups(self) -> Iterable[Group]:
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


def check_number(groups: Iterable[Group], by: Sequence[str], option: str) -> None:
    """Check that there are not too many groups.

    Args:
        groups: The groups.
        by: Their columns.
        option: The option that names the columns, for the message.

    Raises:
        InputError: There are more than `MOST_GROUPS`.
    """
    every = list(groups)
    if len(every) <= MOST_GROUPS:
        return
    values = [len({group[place] for group in every}) for place in range(len(by))]
    worst = max(range(len(by)), key=values.__getitem__)
    each = ", ".join(f"{name!r} {n:,}" for name, n in zip(by, values, strict=True))
    raise InputError(
        f"too many groups: got more than {MOST_GROUPS:,}; expected at most that. The column "
        f"{by[worst]!r} has the most values (values seen so far: {each}). Leave it out of {option}."
    )
