"""Read the rows of a run once: statistics by group, language and length, and the extreme rows.

Only score columns and those of groups are read, part by part. No texts are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_core.errors import ConfigError
from bertscore_core.score_statistics import GroupedRows, ScoreStatistics, statistics_by_group
from bertscore_core.tokens import BoolArray, IntArray
from pipelines.dump import columns
from pipelines.dump.columns import column_of
from pipelines.dump.language_codes import language_of
from pipelines.results.comparison import Group
from pipelines.score.finished import FinishedRun, PartRows, read_columns

MEASURES = (columns.PRECISION, columns.RECALL, columns.F1)
RAW_MEASURES = (columns.RAW_PRECISION, columns.RAW_RECALL, columns.RAW_F1)
_ALWAYS = (*MEASURES, columns.TRUNCATED, columns.ERROR)
_LENGTHS = (columns.CANDIDATE_TOKENS, columns.REFERENCE_TOKENS)

MOST_CELLS = 10_000
"""Most groups of a run, as for `score --group-by`."""

Floats = npt.NDArray[np.float32]


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


@dataclass(slots=True, kw_only=True)
class Findings:
    """What is known of the rows read so far.

    Attributes:
        groups: Statistics by group.
        languages: Statistics by language; empty without a column of languages.
        lengths: Statistics by length: of 2**k to 2**(k+1) - 1 tokens, by k.
        worst: Rows with the lowest F1, the lowest first.
        best: Rows with the highest F1, the highest first.
    """

    groups: dict[Group, ScoreStatistics] = field(default_factory=dict)
    languages: dict[str, ScoreStatistics] = field(default_factory=dict)
    lengths: dict[int, ScoreStatistics] = field(default_factory=dict)
    worst: list[Extreme] = field(default_factory=list)
    best: list[Extreme] = field(default_factory=list)

    @property
    def total(self) -> ScoreStatistics:
        """Statistics of all rows."""
        return sum(self.groups.values(), ScoreStatistics())


def gather(run: FinishedRun, by: Sequence[str], extremes: int) -> Findings:
    """Read what a page says of the rows of a run.

    Args:
        run: The run.
        by: Columns that make the groups.
        extremes: How many rows with the lowest F1, and with the highest, are wanted.

    Raises:
        ConfigError: A column of `by` is missing, or there are too many groups.
        InputError: A part is damaged.
        OSError: A part cannot be reached.
    """
    language = language_column(run)
    wanted = [*_ALWAYS, *RAW_MEASURES, *_LENGTHS, *by, *([language] if language else [])]
    found = Findings()
    for part in read_columns(run, wanted):
        _add_part(found, part, by, language, extremes)
        if len(found.groups) > MOST_CELLS:
            raise ConfigError(
                f"--by {','.join(by)} makes too many groups: got more than {MOST_CELLS:,}; "
                "expected fewer. Name columns with fewer values."
            )
    return found


def language_column(run: FinishedRun) -> str | None:
    """Return the column of language codes of a run; None without one."""
    options = run.run.get("options")
    name = options.get("language_column") if isinstance(options, dict) else None
    return name if isinstance(name, str) else None


def grouped_by(table: pa.Table, by: Sequence[str]) -> tuple[IntArray, list[Group]]:
    """Return the group of each row by its number, and the groups.

    Raises:
        ConfigError: The rows do not have such a column.
    """
    codes, names = np.zeros(len(table), dtype=np.int64), [()]
    groups: list[Group] = list(names)
    for name in by:
        try:
            column = column_of(table, name)
        except KeyError:
            raise ConfigError(
                f"the rows have no column {name!r} to group by: expected one of the input's "
                "columns. Check --by."
            ) from None
        encoded = _encoded(column)
        values = [None if one is None else str(one) for one in encoded.dictionary.to_pylist()]
        both = codes * len(values) + encoded.indices.to_numpy(zero_copy_only=False)
        present, codes = np.unique(both, return_inverse=True)
        pairs = [divmod(one, len(values)) for one in present.tolist()]
        groups = [(*groups[first], values[second]) for first, second in pairs]
    return codes, groups


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as a dictionary in which a null is a value."""
    whole = column.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    return pc.dictionary_encode(whole, null_encoding="encode")


def _add_part(
    found: Findings, part: PartRows, by: Sequence[str], language: str | None, extremes: int
) -> None:
    """Add the rows of a part to the findings."""
    table = part.table
    groups, names = grouped_by(table, by)
    rows = _rows_of(table, groups, len(names))
    if language is None:
        _merge(found.groups, zip(names, statistics_by_group(rows), strict=True))
    else:
        _add_languages(found, table, rows, names, language)
    lengths = _lengths_of(table)
    if lengths is not None:
        known = lengths >= 0
        by_length = _chosen(rows, known, lengths[known], int(lengths.max(initial=-1)) + 1)
        each = enumerate(statistics_by_group(by_length))
        _merge(found.lengths, ((length, one) for length, one in each if one.rows))
    for worst in (True, False):
        kept = found.worst if worst else found.best
        kept += _extremes(part, rows, names, extremes, worst=worst)
        kept.sort(key=lambda one: one.scores[2] if worst else -one.scores[2])
        del kept[extremes:]


def _add_languages(
    found: Findings, table: pa.Table, rows: GroupedRows, names: Sequence[Group], language: str
) -> None:
    """Add the rows of a part by group and by language, which needs one pass."""
    codes, values = grouped_by(table, [language])
    cells, places = np.unique(rows.groups * len(values) + codes, return_inverse=True)
    every = np.ones(len(table), dtype=np.bool_)
    statistics = statistics_by_group(_chosen(rows, every, places, len(cells)))
    at = [divmod(cell, len(values)) for cell in cells.tolist()]
    _merge(found.groups, ((names[g], one) for (g, _), one in zip(at, statistics, strict=True)))
    spoken = ((language_of(values[v][0]), one) for (_, v), one in zip(at, statistics, strict=True))
    _merge(found.languages, spoken)


def _merge(into: dict[Any, ScoreStatistics], pairs: Iterable[tuple[Any, ScoreStatistics]]) -> None:
    for name, statistics in pairs:
        into[name] = into[name] + statistics if name in into else statistics


def _rows_of(table: pa.Table, groups: IntArray, number: int) -> GroupedRows:
    """Return the scores of a table with the group of each row."""
    raw = None
    if RAW_MEASURES[0] in table.schema.names:
        raw = _scores(table, RAW_MEASURES)
    truncated = pc.fill_null(table[columns.TRUNCATED], False)
    return GroupedRows(
        groups=groups,
        number=number,
        scores=_scores(table, MEASURES),
        raw=raw,
        truncated=truncated.to_numpy(),
        reasons=_reasons(table[columns.ERROR]),
        reused=None,
    )


def _chosen(rows: GroupedRows, chosen: BoolArray, groups: IntArray, number: int) -> GroupedRows:
    """Return some rows in other groups; their reasons are left out unless all are chosen."""
    return GroupedRows(
        groups=groups,
        number=number,
        scores=rows.scores[chosen],
        raw=None if rows.raw is None else rows.raw[chosen],
        truncated=rows.truncated[chosen],
        reasons=rows.reasons if chosen.all() else {},
        reused=None,
    )


def _scores(table: pa.Table, names: Sequence[str]) -> Floats:
    """Return columns of scores; NaN for null. Shape (N, 3)."""
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def _reasons(column: pa.ChunkedArray) -> Mapping[int, str]:
    """Return the reasons of rows by position."""
    (rows,) = np.nonzero(column.is_valid().to_numpy())
    return dict(zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True))


def _lengths_of(table: pa.Table) -> IntArray | None:
    """Return k for a row of 2**k to 2**(k+1) - 1 tokens, -1 for one without; None if not known."""
    if any(name not in table.schema.names for name in _LENGTHS):
        return None
    tokens = [pc.fill_null(table[name], 0).to_numpy() for name in _LENGTHS]
    _, exponents = np.frexp(np.maximum(*tokens))
    return np.asarray(exponents, dtype=np.int64) - 1


def _extremes(
    part: PartRows, rows: GroupedRows, names: Sequence[Group], count: int, *, worst: bool
) -> list[Extreme]:
    """Return the rows of a part with the lowest or highest F1; of equal ones the first."""
    f1 = rows.scores[:, 2]
    (scored,) = np.nonzero(~np.isnan(f1))
    values = f1[scored] if worst else -f1[scored]
    if len(values) > count > 0:
        # All rows up to the count-th value: which of equal ones argpartition takes is chance.
        limit = np.partition(values, count - 1)[count - 1]
        scored, values = scored[values <= limit], values[values <= limit]
    best = scored[np.argsort(values, kind="stable")[:count]].tolist()
    has_tokens = columns.CANDIDATE_TOKENS in part.table.schema.names
    return [
        Extreme(
            file=part.input_name,
            row=part.first_row + row,
            scores=(float(rows.scores[row, 0]), float(rows.scores[row, 1]), float(f1[row])),
            group=names[rows.groups[row]],
            reason=rows.reasons.get(row),
            tokens=part.table[columns.CANDIDATE_TOKENS][row].as_py() if has_tokens else None,
        )
        for row in best
    ]
