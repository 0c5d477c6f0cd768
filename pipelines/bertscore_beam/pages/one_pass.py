"""Read the rows of a run once: statistics by group, language and length, and the extreme rows.

Only score columns and those of groups are read, part by part. No texts are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.compare import Group
from bertscore_beam.dump import check_number, columns, groups_of, language_of
from bertscore_beam.records import (
    SCORE_COLUMNS,
    FinishedRun,
    PartRows,
    RowPlace,
    add_merging,
    check_columns,
    grouped_rows,
    read_columns,
)
from bertscore_core.stats import MEASURES, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import IntArray

OPTION = "--by"
F1 = MEASURES.index("f1")
_LENGTHS = (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS)

_Name = TypeVar("_Name")
_Sums = dict[_Name, list[ScoreStatistics]]
"""Statistics by name, which are merged several at a time."""
_Scored = list[tuple[float, RowPlace]]
"""Rows, each after the number by which it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is known of the rows of a run; of groups and languages nothing without such columns.

    Lengths are of 2**k to 2**(k+1) - 1 tokens, by k. The worst and the best rows begin with the
    most extreme F1.
    """

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics]
    languages: Mapping[str, ScoreStatistics]
    lengths: Mapping[int, ScoreStatistics]
    worst: Sequence[RowPlace]
    best: Sequence[RowPlace]


def gather(run: FinishedRun, by: Sequence[str], extremes: int) -> Findings:
    """Read what a page says of the rows of a run, and so many extreme rows of each kind."""
    check_columns(run, by, OPTION)
    language = language_column(run)
    cell_columns = [*by, *([] if language is None else [language])]
    groups: _Sums[Group] = {}
    languages: _Sums[str] = {}
    lengths: _Sums[int] = {}
    worst: _Scored = []
    best: _Scored = []
    for part in read_columns(run, [*SCORE_COLUMNS, *_LENGTHS, *cell_columns]):
        table = part.table
        if not table.num_rows:
            continue
        cells = groups_of(table, cell_columns)
        rows = grouped_rows(table, cells, part.record.is_reused)
        # Groups and languages are both sums over the same cells.
        for cell, statistics in zip(cells.groups, statistics_by_group(rows), strict=True):
            _add(groups, cell[: len(by)], statistics)
            if language is not None:
                _add(languages, language_of(cell[-1]), statistics)
        check_number(groups, by, OPTION)
        if (codes := _lengths_of(table)) is not None:
            # Rows without a length come first, as a group that is left out.
            number = int(codes.max()) + 2
            by_length = statistics_by_group(replace(rows, groups=codes + 1, number=number))
            for length, statistics in enumerate(by_length[1:]):
                if statistics.rows:
                    _add(lengths, length, statistics)
        f1 = rows.scores[:, F1]
        worst = lowest_rows(worst, part, f1, extremes)
        best = lowest_rows(best, part, -f1, extremes)
    of_groups = _merged(groups)
    return Findings(
        total=ScoreStatistics.merge(list(of_groups.values())),
        groups=of_groups if by else {},
        languages=_merged(languages),
        lengths=_merged(lengths),
        worst=[place for _, place in worst],
        best=[place for _, place in best],
    )


def language_column(run: FinishedRun) -> str | None:
    """Return the column of language codes of a run; None without one."""
    options = run.run.get("options")
    name = options.get("language_column") if isinstance(options, dict) else None
    return name if isinstance(name, str) else None


def lowest_rows(
    so_far: _Scored, part: PartRows, values: npt.NDArray[np.floating], count: int
) -> _Scored:
    """Return the rows of all parts so far with the lowest values, the first of equals first.

    `values` are those of the part; rows of NaN are left out.
    """
    (rows,) = np.nonzero(~np.isnan(values))
    if len(rows) > count > 0:
        # All rows up to the count-th value: which of equal ones `partition` takes is chance.
        limit = np.partition(values[rows], count - 1)[count - 1]
        rows = rows[values[rows] <= limit]
    rows = rows[np.argsort(values[rows], kind="stable")[:count]]
    more = [
        (float(values[row]), RowPlace(part.input_name, part.first_row + row))
        for row in rows.tolist()
    ]
    return sorted([*so_far, *more], key=itemgetter(0))[:count]


def _add(sums: _Sums[_Name], name: _Name, statistics: ScoreStatistics) -> None:
    add_merging(sums.setdefault(name, []), statistics)


def _merged(sums: _Sums[_Name]) -> dict[_Name, ScoreStatistics]:
    return {name: ScoreStatistics.merge(statistics) for name, statistics in sums.items()}


def _lengths_of(table: pa.Table) -> IntArray | None:
    """Return k for a row of 2**k to 2**(k+1) - 1 tokens, -1 for one without; None if not known."""
    if any(name not in table.schema.names for name in _LENGTHS):
        return None
    tokens = [pc.fill_null(table[name], 0).to_numpy() for name in _LENGTHS]
    _, exponents = np.frexp(np.maximum(*tokens))
    return np.asarray(exponents, dtype=np.int64) - 1
