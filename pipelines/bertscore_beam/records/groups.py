"""The statistics of each group of scored rows, and the table that is written of them.

    columns of a part --statistics_of--> PartStatistics --merge_statistics--> those of a run

What a group is: `dump.census`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.census import (
    MOST_GROUPS,
    WHOLE,
    Group,
    GroupColumns,
    GroupsOfRows,
    check_number,
    groups_of,
)
from bertscore_beam.dump.languages import is_code, language_name, language_of
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.paths import column_of, has_column
from bertscore_beam.dump.texts import languages_of
from bertscore_beam.files.read import in_parallel
from bertscore_beam.metrics.table import CORPUS_METRICS, corpus_score, label_of, num_counts
from bertscore_beam.records.finished import (
    READ_AHEAD,
    FinishedRun,
    columns_in,
    open_part,
    part_schema,
)
from bertscore_beam.records.group_notes import MOST_NOTED, GroupedBy, note_of, noted_groups
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import GROUPS_FILE
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import InputError
from bertscore_core.stats.caveats import (
    Caveat,
    CaveatKind,
    CaveatOfGroups,
    GroupCaveats,
    caveat_messages,
    caveats_of_groups,
    caveats_of_mean,
)
from bertscore_core.stats.intervals import effective_rows_in, mean_intervals, method_of
from bertscore_core.stats.score_statistics import (
    MEASURES,
    Doubles,
    GroupedRows,
    MetricSums,
    ScoreStatistics,
    ScoreSummary,
    statistics_by_group,
    summary_by_group,
)
from bertscore_core.sums import SumsByName
from bertscore_core.tokens import BoolArray, IntArray

_SCORE_COLUMNS = (
    *columns.SCORES.values(),
    *columns.RAW_SCORES.values(),
    *columns.UNKNOWN_COLUMNS,
    columns.TRUNCATED,
    columns.WINDOWS,
    columns.ERROR,
)


def score_columns(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a part that its statistics are made of, besides those of the groups."""
    return (*_SCORE_COLUMNS, *columns.metric_columns(metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatistics:
    """The statistics of the rows of some parts; instead of too many groups there is None."""

    total: ScoreStatistics
    groups: Mapping[Group, ScoreStatistics] | None


def statistics_of(
    table: pa.Table,
    by: Sequence[str],
    language: str | None = None,
    metrics: Iterable[str] = columns.METRICS,
) -> PartStatistics:
    """Return the statistics of scored rows: all together, and those of each group.

    Args:
        table: The rows, with the columns of the groups and `score_columns`.
        by: The group columns; without any there is no group.
        language: The column of languages; None without one.
        metrics: Names of metrics; those that the rows do not have are left out.

    Raises:
        InputError: A column holds values that cannot be groups.
    """
    return _added_up(_sums_by_group(table, groups_of(table, by), language, metrics), by)


def _sums_by_group(
    table: pa.Table, found: GroupsOfRows, language: str | None, metrics: Iterable[str]
) -> dict[Group, ScoreStatistics]:
    rows = grouped_rows(table, language, metrics).in_groups(found.codes, len(found.groups))
    return dict(zip(found.groups, statistics_by_group(rows), strict=True))


def _added_up(sums: Mapping[Group, ScoreStatistics], by: Sequence[str]) -> PartStatistics:
    total = ScoreStatistics.merge(sums.values())
    return PartStatistics(total=total, groups=sums if by else {})


def summary_of(table: pa.Table) -> ScoreSummary:
    """Return the sums over scored rows that a run keeps of each part."""
    (summary,) = summary_by_group(grouped_rows(table))
    return summary


def grouped_rows(
    table: pa.Table, language: str | None = None, metrics: Iterable[str] = ()
) -> GroupedRows:
    """Return scored rows, to be added up, all in one group; see `statistics_of`."""
    is_rescaled = columns.RAW_F1 in table.column_names
    counted = [table[name] for name in columns.UNKNOWN_COLUMNS if name in table.column_names]
    return GroupedRows(
        groups=np.zeros(len(table), dtype=np.int64),
        number=1,
        scores=_numbers(table, columns.SCORES.values()),
        raw=_numbers(table, columns.RAW_SCORES.values()) if is_rescaled else None,
        truncated=pc.fill_null(table[columns.TRUNCATED], False).to_numpy(zero_copy_only=False),
        windowed=_is_windowed(table),
        reasons=_reasons(table[columns.ERROR]),
        tokens=columns.counted_tokens(*counted) if counted else None,
        metrics={
            label: rows
            for name in metrics
            if {columns.metric_column(name), columns.METRIC_COUNTS.get(name)} - {None}
            <= {*table.column_names}
            for label, rows in _metric_rows_by_label(table, name, language)
        },
    )


def metric_labels(table: pa.Table, name: str, language: str | None) -> npt.NDArray[np.object_]:
    """Return the label of a metric for each row; see `metrics.label_of`. Shape (N,)."""
    if language is None or not has_column(table.schema, language):
        return np.full(len(table), label_of(name, ""), dtype=object)
    languages = languages_of(column_of(table, language))
    return np.array([label_of(name, one) for one in languages], dtype=object)


def _metric_rows_by_label(
    table: pa.Table, name: str, language: str | None
) -> Iterator[tuple[str, tuple[Doubles, IntArray]]]:
    scores, counts = metric_rows(table, name)
    labels = metric_labels(table, name, language)
    for label in sorted(set(labels)):
        yield label, (np.where(labels == label, scores, np.nan), counts)


def metric_rows(table: pa.Table, name: str) -> tuple[Doubles, IntArray]:
    """Return the scores of a metric, NaN for none, and their counts: 0 where there are none.

    Shapes: (N,) and (N, K).
    """
    scores = table[columns.metric_column(name)].to_numpy(zero_copy_only=False).astype(np.float64)
    is_counted = name in columns.METRIC_COUNTS
    counts = np.zeros((len(scores), num_counts(name) if is_counted else 0), np.int64)
    if is_counted:
        values = pc.list_flatten(table[columns.METRIC_COUNTS[name]]).to_numpy()
        counts[~np.isnan(scores)] = values.reshape(-1, counts.shape[1])
    return scores, counts


def _is_windowed(table: pa.Table) -> BoolArray | None:
    if columns.WINDOWS not in table.column_names:
        return None
    windows = pc.fill_null(table[columns.WINDOWS], 0).to_numpy(zero_copy_only=False)
    return np.asarray(windows > 1)


def _numbers(table: pa.Table, names: Iterable[str]) -> npt.NDArray[np.float32]:
    numbers = [table[name].to_numpy(zero_copy_only=False).astype(np.float32) for name in names]
    return np.stack(numbers, axis=-1)


def _reasons(column: pa.ChunkedArray) -> dict[int, str]:
    (rows,) = np.nonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    return dict(zip(rows.tolist(), column.drop_null().to_pylist(), strict=True))


def merge_statistics(parts: Iterable[PartStatistics]) -> PartStatistics:
    """Return the statistics of all parts together: the same in any order, in any pieces.

    Too many groups are dropped as soon as they are seen, so that memory is bounded.
    """
    total, groups = SumsByName[Group, ScoreStatistics](), SumsByName[Group, ScoreStatistics]()
    are_few = True
    for part in parts:
        total.add(WHOLE, part.total)
        for group, statistics in (part.groups or {}).items():
            groups.add(group, statistics)
        are_few = are_few and part.groups is not None and len(groups) <= MOST_GROUPS
        if not are_few:
            groups.clear()
    return PartStatistics(
        total=ScoreStatistics.merge(total.parts([WHOLE])),
        groups=groups.merged() if are_few else None,
    )


def groups_note(table: pa.Table, how: GroupedBy) -> dict[bytes, bytes]:
    """Return what a part of these rows notes of its groups, for `statistics_of_parts`."""
    try:
        found = groups_of(table, how.by)
    except InputError:  # who reads the groups of the part says so
        return {}
    if len(found.groups) > MOST_NOTED:
        return {}
    return note_of(_sums_by_group(table, found, how.language, how.metrics), how)


def statistics_of_parts(
    records: Iterable[PartRecord], *, folder: OutputFolder, how: GroupedBy
) -> Iterator[PartStatistics]:
    """Read the statistics of each part: from the note in its footer, or from its columns.

    Raises:
        InputError: One is damaged, or a column holds values that cannot be groups.
        OSError: One cannot be reached.
    """
    by, language, metrics = how.by, how.language, how.metrics
    names = [*by, *score_columns(metrics), *([] if language is None else [language])]

    def read(record: PartRecord) -> PartStatistics:
        with open_part(folder, record) as file:
            noted = noted_groups(file.metadata.metadata or {}, how)
            if noted is not None:
                return _added_up(noted, by)
            table = columns_in(file, names)
        return statistics_of(table, by, language, metrics)

    return in_parallel(read, records, READ_AHEAD, waiting=0)


def group_part(record: PartRecord, **given: Any) -> Iterator[PartStatistics]:
    """Yield what `statistics_of_parts` returns of one part, without too many groups."""
    yield merge_statistics(statistics_of_parts([record], **given))


# What is written of groups: a table with a row for each, and their part of the summary.

CONFIDENCE = 0.95
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
"""The share of the rows that is below each."""
_SHOWN_GROUPS = 100
"""Most groups in the summary; the table has all of them."""

_PREFIX = "bertscore_"
"""Begins the names of all columns that are not those of groups or metrics."""

_COUNTS = pa.map_(pa.string(), pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """What is written of a group.

    Attributes:
        group: Its values; `WHOLE` for all rows together.
        values: Counts, means and so on, by name. A number that is not defined is None.
        caveats: Why the mean F1 may say less than it seems to.
    """

    group: Group
    values: Mapping[str, Any]
    caveats: tuple[Caveat, ...] = ()


def group_row(
    group: Group, statistics: ScoreStatistics, confidence: float = CONFIDENCE
) -> GroupRow:
    """Return what is written of a group: a function of its statistics alone."""
    values: dict[str, Any] = {
        "rows": statistics.rows,
        "scored": statistics.scored,
        "rejected": statistics.rejected,
        "clipped": statistics.clipped,
        "truncated": statistics.truncated,
        **statistics.unknown.described(),
        "reasons": dict(statistics.reasons),
        "rejected_reasons": dict(statistics.rejected_reasons),
        "interval": method_of(statistics.scored),
        "f1_carriers": effective_rows_in(statistics.histograms[MEASURES.index("f1")]),
    }
    ends = mean_intervals(statistics, confidence)
    means, errors = statistics.means, statistics.standard_errors
    raw, quantiles = statistics.raw_means, statistics.quantiles((*QUANTILES.values(),))
    for place, measure in enumerate(MEASURES):
        numbers = {
            measure: means[place],
            f"{measure}_error": errors[place],
            f"{measure}_low": ends[0, place],
            f"{measure}_high": ends[1, place],
            f"raw_{measure}": raw[place],
        }
        for name, value in zip(QUANTILES, quantiles[:, place], strict=True):
            numbers[f"raw_{measure}_{name}"] = value
        values |= {name: _number(value) for name, value in numbers.items()}
    for name, sums in statistics.by_metric.items():
        column, own = columns.metric_column(name), MetricSums.merge(sums)
        if name in CORPUS_METRICS:  # texts that are cut in several ways are not one corpus
            values[column] = corpus_score(name, sums[0].counts) if len(sums) == 1 else None
        values |= {f"{column}_mean": _number(own.mean), f"{column}_rows": own.rows}
        values[f"{column}_missing"] = statistics.missing[name]
    return GroupRow(group=group, values=values, caveats=caveats_of_mean(statistics))


def metrics_of(row: GroupRow) -> dict[str, dict[str, Any]]:
    """Return the metrics in a row of groups: the score of the corpus, the mean, and rows."""
    return {
        name: {
            kind or "corpus": row.values[f"{column}{kind and '_'}{kind}"]
            for kind in ("", "mean", "rows", "missing")
            if kind or name in CORPUS_METRICS
        }
        for name, column in metric_columns_in(row.values).items()
    }


def metric_columns_in(group: Mapping[str, Any]) -> dict[str, str]:
    """Return the column of each metric that a row of groups has, those of the libraries first."""
    begin, end = "metric_", "_rows"
    found = [
        name.removesuffix(end) for name in group if name.startswith(begin) and name.endswith(end)
    ]
    known = {column: name for name, column in columns.METRICS.items()}
    own = sorted({*found} - {*known})
    names = {name: column for column, name in known.items() if column in found}
    return names | {column.removeprefix(begin): column for column in own}


def caveat_messages_of(
    rows: Sequence[GroupRow], languages: Sequence[GroupRow] = ()
) -> dict[CaveatKind, str]:
    """Return the caveats of all rows, which come first, of groups, and of languages, in words."""
    whole, *groups = rows
    return caveat_messages(
        whole.caveats,
        GroupCaveats(_caveats_of_groups(groups), len(groups)),
        GroupCaveats(_caveats_of_groups(languages), len(languages), "groups by language"),
    )


def _caveats_of_groups(groups: Iterable[GroupRow]) -> tuple[CaveatOfGroups, ...]:
    return caveats_of_groups((group_values(row.group), row.caveats) for row in groups)


def caveats_of_metrics(row: GroupRow) -> list[dict[str, Any]]:
    """Return the caveats of a row that concern other metrics, as plain values."""
    kind = CaveatKind.SEVERAL_TOKENIZERS
    return [asdict(own) for own in row.caveats if own.kind == kind]


def read_caveats(plain: Iterable[Mapping[str, Any]]) -> list[Caveat]:
    """Return caveats from plain values."""
    return [Caveat(**own) for own in plain]


def caveat_messages_in(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the same of the summary of a run."""
    groups, languages = summary.get("groups") or {}, summary.get("languages") or {}
    of_languages = caveats_of_groups(
        ([name], read_caveats(own.get("caveats", ()))) for name, own in languages.items()
    )
    of_groups = [CaveatOfGroups(**own) for own in groups.get("caveats", ())]
    messages = caveat_messages(
        read_caveats(summary.get("caveats", ())),
        GroupCaveats(of_languages, len(languages), "languages"),
        GroupCaveats(of_groups, groups.get("number", 0)),
    )
    return tuple(messages.values())


def value_name(value: str | None) -> str:
    """Return how a value of a group is shown."""
    return "(null)" if value is None else value


def group_name(group: Group) -> str:
    """Return the name of a group for a sentence."""
    return " / ".join(group_values(group))


def group_values(group: Group) -> list[str]:
    """Return the values of a group as they are shown in a sentence."""
    return [value_name(value) or "(empty)" for value in group]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def group_rows(part: PartStatistics, confidence: float = CONFIDENCE) -> list[GroupRow]:
    """Return all rows of a table: all rows together first, then each group, by `group_order`."""
    of_groups = {WHOLE: part.total, **(part.groups or {})}
    rows = [group_row(group, statistics, confidence) for group, statistics in of_groups.items()]
    return sorted(rows, key=lambda row: group_order(row.group))


def group_order(group: Group) -> tuple[tuple[int, float, str], ...]:
    """Return a key by which groups are sorted: numbers by value, then texts, then no value."""
    return tuple(_sort_key(value) for value in group)


def language_order(group: Group) -> tuple[bool, object]:
    """Return a key by which groups that begin with a language are sorted: rows without one last."""
    return not is_code(group[0] or ""), group_order(group)


def _sort_key(value: str | None) -> tuple[int, float, str]:
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
    made: dict[str, pa.Array] = {
        name: pa.array([row.group[place] if row.group else None for row in rows], pa.string())
        for place, name in enumerate(by)
    }
    made[f"{_PREFIX}all_rows"] = pa.array([row.group == WHOLE for row in rows])
    for name in rows[0].values:
        values = [row.values[name] for row in rows]
        if name.endswith("reasons"):
            values = [list(reasons.items()) for reasons in values]
        prefix = "" if name.startswith("metric_") else _PREFIX
        made[prefix + name] = pa.array(values, _type_of(name))
    kinds = [[own.kind.value for own in row.caveats] for row in rows]
    return pa.table(made | {f"{_PREFIX}caveats": pa.array(kinds, pa.list_(pa.string()))})


def _type_of(name: str) -> pa.DataType:
    if name.endswith("reasons"):
        return _COUNTS
    if name == "interval":
        return pa.string()
    whole = ("rows", "scored", "rejected", "clipped", "truncated")
    is_whole = name in whole or name.endswith(("_rows", "_missing", "_tokens"))
    return pa.int64() if is_whole else pa.float64()


def _summary_of_groups(rows: Sequence[GroupRow], by: Sequence[str]) -> dict[str, Any]:
    groups = [row for row in rows if row.group != WHOLE]
    return {
        "by": list(by),
        "number": len(groups),
        "confidence": CONFIDENCE,
        "file": GROUPS_FILE,
        "shown": [_shortened(described(row, by)) for row in groups[:_SHOWN_GROUPS]],
        "caveats": [asdict(own) for own in _caveats_of_groups(groups)],
    }


def _shortened(group: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is in the table alone: raw precision and recall."""
    left_out = ("raw_precision", "raw_recall")
    return {name: value for name, value in group.items() if not name.startswith(left_out)}


def described(row: GroupRow, by: Sequence[str]) -> dict[str, Any]:
    """Return a group as plain values, for JSON."""
    group = None if row.group == WHOLE else dict(zip(by, row.group, strict=True))
    return {"group": group, **row.values, "caveats": [asdict(own) for own in row.caveats]}


# The groups of a run on one machine: read from its parts, and written into its folder.


def check_columns(run: FinishedRun, by: Sequence[str]) -> None:
    """Check that some part has each group column, of a type of keys. Only schemas are read.

    Raises:
        InputError: None has it, or a part has it in another type.
        OSError: A part cannot be reached.
    """
    known = GroupColumns(by)
    for record in run.records:
        if known.found == {*by}:
            return
        known.look(part_schema(run, record), record.input_name)
    if run.records:
        known.check()


def merge_groups(run: FinishedRun, by: Sequence[str]) -> PartStatistics:
    """Read the groups of a run from its parts, one after the other.

    Raises:
        InputError: A part is damaged, a column cannot make groups, or there are too many groups.
        OSError: A part cannot be reached.
    """
    known: set[Group] = set()
    how = GroupedBy(by=tuple(by), language=run.notes.fields.language, metrics=run.metrics)
    parts = statistics_of_parts(run.records, folder=run.folder, how=how)

    def checked() -> Iterator[PartStatistics]:
        for part in parts:
            known.update(part.groups or ())
            check_number(known, by)
            yield part

    return merge_statistics(checked())


def with_language(group: Group) -> Group:
    """Return a group whose first value tells a language with that language as people read it."""
    return (language_name(language_of(group[0])), *group[1:])


def groups_to_bytes(rows: Sequence[GroupRow], by: Sequence[str]) -> tuple[bytes, dict[str, Any]]:
    """Return the table of groups, and what the summary has of them.

    Both are empty if there are too many: a run that has been scored does not fail for them.

    Args:
        rows: All rows together first, then the groups in order.
        by: The group columns.
    """
    if not by or (len(rows) < 2 and rows[0].values["rows"]):
        return b"", {}
    return write_part(table_of_groups(rows, by)), {"groups": _summary_of_groups(rows, by)}


def no_groups_warning(summary: Mapping[str, Any], by: Sequence[str]) -> str | None:
    """Return the warning about a run that ends without the groups that it was asked for."""
    if not by or summary["groups"] or not summary["rows"]:
        return None
    return (
        f"there are no groups: got more than {MOST_GROUPS:,} by {', '.join(by)}; expected at "
        "most that. The scores are whole. Give the same command other columns with "
        "--by: it scores nothing again."
    )
