"""Read the rows of a run once: statistics by group, language and length, and the extreme rows.

Only score columns and those of groups are read, part by part. No texts are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.compare import Group
from bertscore_beam.dump import RowGroups, check_number, columns, groups_of, language_of
from bertscore_beam.pages.report_data import F1, ChosenRow
from bertscore_beam.records import (
    SCORE_COLUMNS,
    FinishedRun,
    PartRows,
    add_merging,
    check_columns,
    grouped_rows,
    read_columns,
    unpacked_rows,
)
from bertscore_core.stats import GroupedRows, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import IntArray

OPTION = "--by"
_LENGTHS = (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS)

_Name = TypeVar("_Name")


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
    worst: tuple[ChosenRow, ...]
    best: tuple[ChosenRow, ...]


def gather(run: FinishedRun, by: Sequence[str], extremes: int) -> Findings:
    """Read what a page says of the rows of a run, and so many extreme rows of each kind."""
    check_columns(run, by, OPTION)
    gathering = _Gathering(by, language_column(run), extremes)
    for part in read_columns(run, gathering.wanted):
        gathering.add(part)
    return gathering.findings()


def language_column(run: FinishedRun) -> str | None:
    """Return the column of language codes of a run; None without one."""
    options = run.run.get("options")
    name = options.get("language_column") if isinstance(options, dict) else None
    return name if isinstance(name, str) else None


_Sums = dict[_Name, list[ScoreStatistics]]
"""Statistics by name, which are merged several at a time."""


def _add(sums: _Sums[_Name], pairs: Iterable[tuple[_Name, ScoreStatistics]]) -> None:
    for name, statistics in pairs:
        add_merging(sums.setdefault(name, []), statistics)


def _merged(sums: _Sums[_Name]) -> dict[_Name, ScoreStatistics]:
    return {name: ScoreStatistics.merge(statistics) for name, statistics in sums.items()}


class _Gathering:
    """What is known of the rows read so far. Mutable."""

    def __init__(self, by: Sequence[str], language: str | None, extremes: int) -> None:
        self._by, self._language, self._extremes = by, language, extremes
        self._groups: _Sums[Group] = {}
        self._languages: _Sums[str] = {}
        self._lengths: _Sums[int] = {}
        self._worst: list[ChosenRow] = []
        self._best: list[ChosenRow] = []

    @property
    def wanted(self) -> list[str]:
        language = [] if self._language is None else [self._language]
        return [*SCORE_COLUMNS, *_LENGTHS, *self._by, *language]

    def add(self, part: PartRows) -> None:
        table, record = part.table, part.record
        if not table.num_rows:
            return
        groups = groups_of(table, self._by)
        reused = unpacked_rows(record.reused_rows, record.num_rows, record.reused)
        rows = grouped_rows(table, groups, reused)
        if self._language is None:
            _add(self._groups, zip(groups.groups, statistics_by_group(rows), strict=True))
        else:
            self._add_languages(rows, groups, groups_of(table, [self._language]))
        check_number(self._groups, self._by, OPTION)
        self._add_lengths(table, rows)
        self._worst += _extremes(part, rows, groups, self._extremes, worst=True)
        self._worst = sorted(self._worst, key=lambda row: row.f1)[: self._extremes]
        self._best += _extremes(part, rows, groups, self._extremes, worst=False)
        self._best = sorted(self._best, key=lambda row: -row.f1)[: self._extremes]

    def findings(self) -> Findings:
        groups = _merged(self._groups)
        return Findings(
            total=ScoreStatistics.merge(list(groups.values())),
            groups=groups if self._by else {},
            languages=_merged(self._languages),
            lengths=_merged(self._lengths),
            worst=tuple(self._worst),
            best=tuple(self._best),
        )

    def _add_languages(self, rows: GroupedRows, groups: RowGroups, languages: RowGroups) -> None:
        """Add rows by group and by language at once: both are sums over the same cells."""
        values = len(languages.groups)
        cells, codes = np.unique(rows.groups * values + languages.codes, return_inverse=True)
        statistics = statistics_by_group(replace(rows, groups=codes, number=len(cells)))
        at = [divmod(cell, values) for cell in cells.tolist()]
        cell_statistics = list(zip(at, statistics, strict=True))
        _add(self._groups, ((groups.groups[group], own) for (group, _), own in cell_statistics))
        of_value = [language_of(value) for (value,) in languages.groups]
        _add(self._languages, ((of_value[value], own) for (_, value), own in cell_statistics))

    def _add_lengths(self, table: pa.Table, rows: GroupedRows) -> None:
        lengths = _lengths_of(table)
        if lengths is None:
            return
        # Rows without a length come first, as a group that is left out.
        number = int(lengths.max(initial=-1)) + 2
        _, *by_length = statistics_by_group(replace(rows, groups=lengths + 1, number=number))
        _add(self._lengths, ((length, own) for length, own in enumerate(by_length) if own.rows))


def _lengths_of(table: pa.Table) -> IntArray | None:
    """Return k for a row of 2**k to 2**(k+1) - 1 tokens, -1 for one without; None if not known."""
    if any(name not in table.schema.names for name in _LENGTHS):
        return None
    tokens = [pc.fill_null(table[name], 0).to_numpy() for name in _LENGTHS]
    _, exponents = np.frexp(np.maximum(*tokens))
    return np.asarray(exponents, dtype=np.int64) - 1


def _extremes(
    part: PartRows, rows: GroupedRows, groups: RowGroups, count: int, *, worst: bool
) -> list[ChosenRow]:
    f1 = rows.scores[:, F1]
    (scored,) = np.nonzero(~np.isnan(f1))
    values = f1[scored] if worst else -f1[scored]
    if len(values) > count > 0:
        # All rows up to the count-th value: which of equal ones `partition` takes is chance.
        limit = np.partition(values, count - 1)[count - 1]
        scored, values = scored[values <= limit], values[values <= limit]
    chosen = scored[np.argsort(values, kind="stable")[:count]].tolist()
    has_tokens = columns.CANDIDATE_TOKENS in part.table.schema.names
    return [
        ChosenRow(
            file=part.input_name,
            row=part.first_row + row,
            precision=float(rows.scores[row, 0]),
            recall=float(rows.scores[row, 1]),
            f1=float(f1[row]),
            group=groups.groups[rows.groups[row]],
            reason=rows.reasons.get(row),
            tokens=part.table[columns.CANDIDATE_TOKENS][row].as_py() if has_tokens else None,
        )
        for row in chosen
    ]
