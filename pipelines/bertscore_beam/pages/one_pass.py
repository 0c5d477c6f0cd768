"""Read the rows of a run once: statistics by group, language and length, and the extreme rows.

Only score columns and those of groups are read, part by part. No texts are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.census import MOST_GROUPS, Group, check_number, groups_of
from bertscore_beam.dump.languages import language_of
from bertscore_beam.pages.words import ORDERED_BY
from bertscore_beam.records.finished import FinishedRun, PartRows, RowPlace, read_columns
from bertscore_beam.records.groups import check_columns, grouped_rows, score_columns, with_language
from bertscore_core.stats.score_statistics import MEASURES, ScoreStatistics, statistics_by_group
from bertscore_core.sums import SumsByName
from bertscore_core.tokens import IntArray

F1 = MEASURES.index("f1")
_LENGTHS = (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS)

_Scored = list[tuple[float, RowPlace]]
"""Rows, each after the number by which it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is known of the rows of a run; of groups and languages nothing without such columns.

    Names of `language_groups` begin with the language as people read it; there are none if they are
    too many, or without groups by another column. Lengths are of 2**k to 2**(k+1) - 1 tokens, by k.
    The worst and the best rows begin with the most extreme F1.
    """

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics]
    languages: Mapping[str, ScoreStatistics]
    language_groups: Mapping[Group, ScoreStatistics]
    lengths: Mapping[int, ScoreStatistics]
    worst: Sequence[RowPlace]
    best: Sequence[RowPlace]


def gather(run: FinishedRun, by: Sequence[str], extremes: int) -> Findings:
    """Read what a page says of the rows of a run, and a number of extreme rows of each kind."""
    check_columns(run, by)
    language = run.notes.fields.language
    cell_columns = [*by, *([] if language is None else [language])]
    groups = SumsByName[Group, ScoreStatistics]()
    languages = SumsByName[str, ScoreStatistics]()
    language_groups = SumsByName[Group, ScoreStatistics]()
    is_crossed = bool(by) and language is not None and language not in by
    lengths = SumsByName[int, ScoreStatistics]()
    extreme: dict[int, _Scored] = {1: [], -1: []}  # the lowest F1, and the lowest -F1
    for part in read_columns(run, [*score_columns(run.metrics), *_LENGTHS, *cell_columns]):
        table = part.table
        if not table.num_rows:
            continue
        cells = groups_of(table, cell_columns)
        rows = grouped_rows(table, language, run.metrics)
        by_cell = rows.in_groups(cells.codes, len(cells.groups))
        # Groups and languages are both sums over the same cells.
        for cell, statistics in zip(cells.groups, statistics_by_group(by_cell), strict=True):
            groups.add(cell[: len(by)], statistics)
            if language is not None:
                languages.add(language_of(cell[-1]), statistics)
            if is_crossed:
                language_groups.add(with_language((cell[-1], *cell[:-1])), statistics)
        if len(language_groups) > MOST_GROUPS:
            is_crossed = False
            language_groups.clear()
        check_number(groups, by)
        codes = _lengths_of(table)
        # Rows without a length come first, as a group that is left out.
        by_length = rows.in_groups(codes + 1, int(codes.max()) + 2)
        for length, statistics in enumerate(statistics_by_group(by_length)[1:]):
            if statistics.rows:
                lengths.add(length, statistics)
        for sign, known in extreme.items():
            extreme[sign] = lowest_rows(known, part, sign * rows.scores[:, F1], extremes)
    of_groups = groups.merged()
    return Findings(
        total=ScoreStatistics.merge(list(of_groups.values())),
        groups=of_groups if by else {},
        languages=languages.merged(),
        language_groups=language_groups.merged(),
        lengths=lengths.merged(),
        worst=[place for _, place in extreme[1]],
        best=[place for _, place in extreme[-1]],
    )


def lowest_rows(
    so_far: _Scored, part: PartRows, values: npt.NDArray[np.floating], count: int
) -> _Scored:
    """Return the rows of all parts so far with the lowest values, the first of equals first.

    `values` are those of the part; rows of NaN are left out. Those behind `ORDERED_BY` decimals
    are equal.
    """
    values = np.round(values.astype(np.float64), ORDERED_BY)
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


def _lengths_of(table: pa.Table) -> IntArray:
    """Return k for a row of 2**k to 2**(k+1) - 1 tokens, -1 for one without."""
    tokens = [pc.fill_null(table[name], 0).to_numpy() for name in _LENGTHS]
    _, exponents = np.frexp(np.maximum(*tokens))
    return np.asarray(exponents, dtype=np.int64) - 1
