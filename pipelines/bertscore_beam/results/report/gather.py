"""Read the rows of a run once: statistics by group, language and length, and the extreme rows.

Only score columns and those of groups are read, part by part. No texts are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.groups import RowGroups, check_number, groups_of
from bertscore_beam.dump.language_codes import language_of
from bertscore_beam.results.comparison import Group
from bertscore_beam.score.finished import FinishedRun, PartRows, read_columns
from bertscore_beam.score.groups import SCORE_COLUMNS, add_merging, grouped_rows
from bertscore_beam.score.reused_rows import unpacked_rows
from bertscore_beam.score.run_groups import check_columns
from bertscore_core.score_statistics import GroupedRows, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import IntArray

OPTION = "--by"
_LENGTHS = (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS)

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """A row with one of the lowest or highest F1.

    Attributes:
        file: Name of its input file.
        row: Its position in it, from 0.
        scores: Precision, recall and F1.
        group: Its group.
        reason: Its reason; None without one.
        tokens: Tokens of its candidate; None if they are not known.
    """

    file: str
    row: int
    scores: tuple[float, float, float]
    group: Group
    reason: str | None
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is known of the rows of a run.

    Attributes:
        total: Statistics of all rows.
        groups: Statistics by group; empty without groups.
        languages: Statistics by language; empty without a column of languages.
        lengths: Statistics by length: of 2**k to 2**(k+1) - 1 tokens, by k.
        worst: Rows with the lowest F1, the lowest first.
        best: Rows with the highest F1, the highest first.
    """

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics]
    languages: Mapping[str, ScoreStatistics]
    lengths: Mapping[int, ScoreStatistics]
    worst: tuple[Extreme, ...]
    best: tuple[Extreme, ...]


def gather(run: FinishedRun, by: Sequence[str], extremes: int) -> Findings:
    """Read what a page says of the rows of a run.

    Args:
        run: The run.
        by: Columns that make the groups.
        extremes: How many rows with the lowest F1, and with the highest, are wanted.

    Raises:
        InputError: A column of `by` is in no part or cannot make groups, there are too many groups,
            or a part is damaged.
        OSError: A part cannot be reached.
    """
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


class _Sums(Generic[Name]):
    """Statistics by name, merged several at a time. Mutable."""

    def __init__(self) -> None:
        """Begin with no rows."""
        self._by_name: dict[Name, list[ScoreStatistics]] = {}

    def add(self, pairs: Iterable[tuple[Name, ScoreStatistics]]) -> None:
        """Add statistics to those of their names."""
        for name, one in pairs:
            add_merging(self._by_name.setdefault(name, []), one)

    @property
    def names(self) -> Collection[Name]:
        """The names so far."""
        return self._by_name.keys()

    def result(self) -> dict[Name, ScoreStatistics]:
        """Return the statistics of each name."""
        return {name: ScoreStatistics.merge(some) for name, some in self._by_name.items()}


class _Gathering:
    """What is known of the rows read so far. Mutable."""

    def __init__(self, by: Sequence[str], language: str | None, extremes: int) -> None:
        """Begin with no rows."""
        self._by, self._language, self._extremes = by, language, extremes
        self._groups: _Sums[Group] = _Sums()
        self._languages: _Sums[str] = _Sums()
        self._lengths: _Sums[int] = _Sums()
        self._worst: list[Extreme] = []
        self._best: list[Extreme] = []

    @property
    def wanted(self) -> list[str]:
        """The columns to read."""
        language = [] if self._language is None else [self._language]
        return [*SCORE_COLUMNS, *_LENGTHS, *self._by, *language]

    def add(self, part: PartRows) -> None:
        """Add the rows of a part."""
        table, record = part.table, part.record
        if not table.num_rows:
            return
        groups = groups_of(table, self._by)
        reused = unpacked_rows(record.reused_rows, record.num_rows, record.reused)
        rows = grouped_rows(table, groups, reused)
        if self._language is None:
            self._groups.add(zip(groups.groups, statistics_by_group(rows), strict=True))
        else:
            self._add_languages(rows, groups, groups_of(table, [self._language]))
        check_number(self._groups.names, self._by, OPTION)
        self._add_lengths(table, rows)
        self._worst += _extremes(part, rows, groups, self._extremes, worst=True)
        self._worst = sorted(self._worst, key=lambda one: one.scores[2])[: self._extremes]
        self._best += _extremes(part, rows, groups, self._extremes, worst=False)
        self._best = sorted(self._best, key=lambda one: -one.scores[2])[: self._extremes]

    def findings(self) -> Findings:
        """Return what is known."""
        groups = self._groups.result()
        return Findings(
            total=ScoreStatistics.merge(list(groups.values())),
            groups=groups if self._by else {},
            languages=self._languages.result(),
            lengths=self._lengths.result(),
            worst=tuple(self._worst),
            best=tuple(self._best),
        )

    def _add_languages(self, rows: GroupedRows, groups: RowGroups, languages: RowGroups) -> None:
        """Add rows by group and by language at once: both are sums over the same cells."""
        values = len(languages.groups)
        cells, codes = np.unique(rows.groups * values + languages.codes, return_inverse=True)
        statistics = statistics_by_group(replace(rows, groups=codes, number=len(cells)))
        at = [divmod(cell, values) for cell in cells.tolist()]
        each = list(zip(at, statistics, strict=True))
        self._groups.add((groups.groups[group], one) for (group, _), one in each)
        self._languages.add(
            (language_of(languages.groups[value][0]), one) for (_, value), one in each
        )

    def _add_lengths(self, table: pa.Table, rows: GroupedRows) -> None:
        """Add the rows whose length is known."""
        lengths = _lengths_of(table)
        if lengths is None:
            return
        # Rows without a length come first, as a group that is left out.
        number = int(lengths.max(initial=-1)) + 2
        _, *each = statistics_by_group(replace(rows, groups=lengths + 1, number=number))
        self._lengths.add((length, one) for length, one in enumerate(each) if one.rows)


def _lengths_of(table: pa.Table) -> IntArray | None:
    """Return k for a row of 2**k to 2**(k+1) - 1 tokens, -1 for one without; None if not known."""
    if any(name not in table.schema.names for name in _LENGTHS):
        return None
    tokens = [pc.fill_null(table[name], 0).to_numpy() for name in _LENGTHS]
    _, exponents = np.frexp(np.maximum(*tokens))
    return np.asarray(exponents, dtype=np.int64) - 1


def _extremes(
    part: PartRows, rows: GroupedRows, groups: RowGroups, count: int, *, worst: bool
) -> list[Extreme]:
    """Return the rows of a part with the lowest or highest F1; of equal ones the first."""
    f1 = rows.scores[:, 2]
    (scored,) = np.nonzero(~np.isnan(f1))
    values = f1[scored] if worst else -f1[scored]
    if len(values) > count > 0:
        # All rows up to the count-th value: which of equal ones `partition` takes is chance.
        limit = np.partition(values, count - 1)[count - 1]
        scored, values = scored[values <= limit], values[values <= limit]
    chosen = scored[np.argsort(values, kind="stable")[:count]].tolist()
    has_tokens = columns.CANDIDATE_TOKENS in part.table.schema.names
    return [
        Extreme(
            file=part.input_name,
            row=part.first_row + row,
            scores=(float(rows.scores[row, 0]), float(rows.scores[row, 1]), float(f1[row])),
            group=groups.groups[rows.groups[row]],
            reason=rows.reasons.get(row),
            tokens=part.table[columns.CANDIDATE_TOKENS][row].as_py() if has_tokens else None,
        )
        for row in chosen
    ]
