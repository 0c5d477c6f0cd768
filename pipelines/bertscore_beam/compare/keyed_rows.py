"""The scored rows of runs as entries of one width, and how rows of several runs are paired.

A key is a digest of 128 bits of the values of its columns. Two different keys among 10^8 are equal
with probability 1.5e-23.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.repeats import GOLDEN, Repeats, text_columns
from bertscore_beam.dump import columns
from bertscore_beam.dump.candidates import input_rows
from bertscore_beam.dump.census import MOST_GROUPS, Group, check_number, groups_of
from bertscore_beam.dump.digests import Digests, digest_each, digest_texts
from bertscore_beam.dump.keys import NO_VALUE, keys_of
from bertscore_beam.dump.paths import column_of, has_column
from bertscore_beam.files.buckets import Buckets, in_order
from bertscore_beam.metrics.table import CORPUS_METRICS, num_counts
from bertscore_beam.records.finished import FinishedRun, PartRows, read_columns
from bertscore_beam.records.groups import metric_labels, metric_rows, with_language
from bertscore_beam.records.summary import error_metrics
from bertscore_core.errors import ConfigError
from bertscore_core.reasoning import REASONING
from bertscore_core.stats.score_statistics import NOT_COUNTED, Doubles, clipped_f1, is_clipped
from bertscore_core.tokens import BoolArray, IntArray

ENTRY = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        # Of rows that belong together; 0 of one that counts by itself.
        ("cluster", "<u8"),
        # Digest of the references, or their number of tokens; 0 if it is not known.
        ("reference", "<u8"),
        ("row", "<i8"),
        ("score", "<f8"),
        # Before rescaling.
        ("raw", "<f8"),
        ("file", "<u4"),
        ("group", "<u4"),
        ("side", "<u2"),
        ("text_tokens", "<i4"),
        ("unknown_tokens", "<i4"),
        # Whether the candidate was scored with a model's reasoning.
        ("reasoning", "?"),
    ]
)
"""A row of a side: 75 bytes."""


def entry_of(measure: str) -> np.dtype[np.void]:
    """Return the type of a row of a side: of a metric of corpora it has label and counts."""
    if measure not in CORPUS_METRICS:
        return ENTRY
    return np.dtype([*ENTRY.descr, ("label", "<u2"), ("counts", "<i8", (num_counts(measure),))])


Entries = npt.NDArray[np.void]

_UNBOUNDED = (columns.F1, columns.RAW_F1, columns.UTILITY)
"""Columns of F1, which has no bound: means take it clipped."""


class Grouping(NamedTuple):
    """Groups, with the number of each, and the number of each cell's group. Shape (C,)."""

    names: dict[Group, int]
    of_cells: IntArray

    @classmethod
    def of(cls, groups: Iterable[Group]) -> "Grouping":
        """Number the groups of cells as they appear."""
        names: dict[Group, int] = {}
        numbers = [names.setdefault(name, len(names)) for name in groups]
        return cls(names, np.array(numbers, dtype=np.int64))


class RowReader:
    """Reads rows as entries, and numbers their files, cells and systems alike in all runs.

    Attributes:
        files: Number of each input file, in order of appearance; so are the next two.
        cells: Number of each group, or of each group in each language.
        languages: Those with scores, if rows have several.
        inputs: Names of the inputs of the first run.
        is_negated: Whether lower is better: greater is, with a minus.
        systems: Number of each system, as the group of its name; of rows without one as (None,).
        labels: Number of each label of a metric of corpora.
        without_key: Rows left out for a null or NaN in a column of the key.
        repeats: Finds rows that repeat others; None if the options name clusters.
    """

    def __init__(
        self, options: CompareOptions, measure: str, runs: Sequence[FinishedRun] = ()
    ) -> None:
        """Begin with nothing; a metric of the runs is a measure before a column of that name."""
        self.options, self.measure = options, measure
        metrics = {*columns.METRICS, *chain.from_iterable(run.metrics for run in runs)}
        self._column = columns.SCORES.get(measure, measure)
        if measure in metrics - {*columns.SCORES}:
            self._column = columns.metric_column(measure)
        self.is_negated = any(measure in error_metrics(run.summary.content) for run in runs)
        self.entry, self.has_counts = entry_of(measure), measure in CORPUS_METRICS
        self.files: dict[str, int] = {}
        self.cells: dict[Group, int] = {}
        self.inputs = {record.input_name for run in runs[:1] for record in run.records}
        columns_of_runs = {run.notes.fields.language for run in runs}
        scored = {language for run in runs for language in run.languages}
        has_several = len(scored) > 1 and runs[0].notes.fields.language is not None
        self.languages = scored if has_several else set[str]()
        # Languages of another column in each run are not the same; those of groups are not new.
        is_new = len(columns_of_runs) == 1 and not columns_of_runs & {*options.by}
        is_used = has_several and is_new and not options.is_ranking
        self._by_language = tuple(filter(None, columns_of_runs)) if is_used else ()
        names = options.systems or ()
        self.systems: dict[Group, int] = {(name,): code for code, name in enumerate(names)}
        self.labels: dict[str, int] = {}
        self.without_key = 0
        self.repeats = None
        if options.cluster is None:
            self.repeats = Repeats(sum(run.rows for run in runs))

    def close(self) -> None:
        """Give up what is on the disk."""
        if self.repeats is not None:
            self.repeats.close()

    def read(
        self, run: FinishedRun, *, side: int = 0, references: str | None = None
    ) -> Iterator[Entries]:
        """Yield the rows of a run as entries, part by part.

        They belong to `side`, unless they have a column of systems. `references` is the column of
        references to digest; None to take their number of tokens. The cluster of a row is the unit
        that `repeats` has given it, if the options name none.
        """
        options, measure = self.options, self.measure
        score, counts = self._column, columns.METRIC_COUNTS.get(measure, "")
        raw = columns.RAW_F1 if score in _UNBOUNDED else columns.RAW_SCORES.get(measure, "")
        names = [score, raw, counts, columns.REFERENCE_TOKENS, columns.CANDIDATE_FROM]
        names += [
            columns.ERROR,
            *columns.UNKNOWN_COLUMNS,
            *options.choosing_columns,
            *self._by_language,
        ]
        language = run.notes.fields.language
        names += [language] if counts and language is not None else []
        names += text_columns(run) if self.repeats is not None else []
        for part in read_columns(run, [*names, *([] if references is None else [references])]):
            table = part.table
            entries = np.zeros(len(table), dtype=self.entry)
            entries["side"] = side
            own = _numbers(table, score, measure, run)
            entries["score"] = entries["raw"] = 0.0 - own if self.is_negated else own
            if raw in table.column_names:
                entries["raw"] = pc.fill_null(table[raw], math.nan).to_numpy()
            if counts:
                entries["counts"] = metric_rows(table, measure)[1]
                labels = metric_labels(table, measure, language)
                numbers = (self.labels.setdefault(label, len(self.labels)) for label in labels)
                entries["label"] = np.fromiter(numbers, np.int64, len(table))
            self._put_tokens(entries, table)
            self._put_places(entries, part)
            entries["reference"] = _references(table, references)
            if options.cluster is not None:
                _put_clusters(entries, column_of(table, options.cluster))
            if options.key:
                usable = _put_keys(entries, [column_of(table, name) for name in options.key])
                self.without_key += int(np.count_nonzero(~usable))
                entries, table = entries[usable], table.filter(pa.array(usable))
            by = (*self._by_language, *options.by)
            entries["group"] = _numbered(table, by, self.cells, bool(self._by_language))
            groups = self._groups()
            check_number(groups.names, options.by)
            if options.systems is not None:
                by = (options.system_column,)
                entries["side"] = _numbered(table, by, self.systems)
                if len(self.systems) > MOST_GROUPS:
                    raise ConfigError(
                        "the column of systems has too many values: got more than "
                        f"{MOST_GROUPS:,}; expected names of systems. Name "
                        "another column with --system."
                    )
            if self.repeats is not None:
                scored = ~np.isnan(entries["score"])
                of_rows = groups.of_cells[entries["group"]]
                entries["cluster"] = self.repeats.add(run, table, scored, entries["side"], of_rows)
            yield entries

    def groupings(self, pairs: int) -> list[Grouping]:
        """Return the groups, and if languages are compared as well, their groups.

        These are the languages alone where so many pairs of sides would have too many.
        """
        if not self._by_language:
            return [self._groups()]
        end = None if len(self.cells) * pairs <= MOST_GROUPS else 1
        return [self._groups(), Grouping.of(cell[:end] for cell in self.cells)]

    def _groups(self) -> Grouping:
        return Grouping.of(cell[len(self._by_language) :] for cell in self.cells)

    def for_means(self, entries: Entries) -> tuple[Doubles, Doubles, BoolArray]:
        """Return scores as means take them, the same before rescaling, and which are clipped."""
        score, raw = entries["score"], entries["raw"]
        if self._column not in _UNBOUNDED:
            return score, raw, np.zeros(len(entries), dtype=np.bool_)
        return clipped_f1(score, raw), clipped_f1(raw, raw), is_clipped(raw)

    def _put_tokens(self, entries: Entries, table: pa.Table) -> None:
        """Enter what the scores depend on: unknown tokens, of BERTScore, and reasoning."""
        counted = np.full((2, len(entries)), NOT_COUNTED)
        if columns.UNKNOWN in table.column_names and self._column.startswith("bertscore_"):
            counted[:] = columns.counted_tokens(*map(table.column, columns.UNKNOWN_COLUMNS))
        entries["text_tokens"], entries["unknown_tokens"] = counted
        if self._column.startswith(("bertscore_", "metric_")):  # not a column of the input
            marked = pc.equal(table[columns.ERROR], REASONING)
            entries["reasoning"] = pc.fill_null(marked, False).to_numpy()

    def _put_places(self, entries: Entries, part: PartRows) -> None:
        """Enter file and row, which are also the key of rows that have no other.

        Of several candidates a row, the candidate belongs to the key unless it is the system.
        """
        name = part.input_name
        entries["file"] = self.files.setdefault(name, len(self.files))
        entries["row"] = np.arange(part.first_row, part.first_row + len(entries))
        entries["high"] = digest_each([name.encode("utf-8", "surrogatepass")])[0, 0]
        entries["low"] = entries["row"]
        if part.record.input_rows is not None:
            origins = part.table[columns.CANDIDATE_FROM]
            entries["low"] = part.record.offset + input_rows(origins)
            options = self.options
            if options.systems is None or options.system_column != columns.CANDIDATE_FROM:
                entries["high"] ^= _digests([origins])[0][:, 0]


def _numbered(
    table: pa.Table, by: Sequence[str], numbers: dict[Group, int], by_language: bool = False
) -> IntArray:
    """Return the number of each row's group; a new group gets the next one."""
    rows = groups_of(table, by)
    names = map(with_language, rows.groups) if by_language else rows.groups
    codes = [numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(codes, dtype=np.int64)[rows.codes]


def _numbers(table: pa.Table, name: str, measure: str, run: FinishedRun) -> Doubles:
    """Return the numbers of a measure, NaN for none.

    Infinity is not a number, but for F1: it is minus infinity where P = -R.
    """
    column = column_of(table, name) if has_column(table.schema, name) else None
    kind = None if column is None else column.type
    if column is None or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        known = ", ".join(dict.fromkeys((*columns.SCORES, *columns.METRICS, *run.metrics)))
        cure = f"Name one with --measure, or {known}."
        if measure in columns.METRICS:
            cure = f"Score it with --metrics {measure}, and --reuse so that no model runs again."
        raise ConfigError(
            f"{run.folder.shown!r} cannot be compared by {measure!r}: got "
            f"{'no such column' if column is None else f'type {kind}'} {name!r}; expected numbers. "
            f"{cure}"
        )
    column = column.cast(pa.float64(), safe=False)
    is_number = pc.is_valid(column) if name in _UNBOUNDED else pc.is_finite(column)
    return np.asarray(pc.if_else(is_number, column, math.nan).to_numpy(), np.float64)


def _references(table: pa.Table, name: str | None) -> npt.NDArray[np.uint64]:
    if name is None:
        tokens = pc.fill_null(table[columns.REFERENCE_TOKENS], 0).to_numpy()
        return np.asarray(tokens, dtype=np.uint64)
    nothing = pa.chunked_array([pa.nulls(len(table), pa.string())])
    return digest_texts(nothing, column_of(table, name))[:, 0] | np.uint64(1)  # never 0


def _put_clusters(entries: Entries, column: pa.ChunkedArray) -> None:
    """Enter what identifies each row's cluster; a row without a value counts by itself."""
    named, valid = _digests([column])
    entries["cluster"] = np.where(valid, named[:, 0], np.uint64(0))


def _put_keys(entries: Entries, key: Sequence[pa.ChunkedArray]) -> BoolArray:
    digests, valid = _digests(key)
    entries["high"], entries["low"] = digests.T
    return valid


def _digests(values: Sequence[pa.ChunkedArray]) -> tuple[Digests, BoolArray]:
    """Return digests of the rows of columns, equal for equal values, and which have no null.

    What is equal: `dump.keys`. Shapes: (N, 2) and (N,).
    """
    digests, valid = np.zeros((len(values[0]), 2), np.uint64), np.ones(len(values[0]), np.bool_)
    for number, column in enumerate(values):
        keys = keys_of(column)
        words = (f"{number} {word}" for word in keys.words)  # equal ones of two columns differ
        digests ^= digest_each(word.encode("utf-8", "surrogatepass") for word in words)[keys.codes]
        valid &= keys.codes != NO_VALUE
    return digests, valid


# Rows of several sides are paired by buckets on the disk, since they may not fit in memory: each
# bucket holds all rows of its keys and is paired by itself. The disk holds each row once, in
# temporary files.

BUCKET_ROWS = 500_000
"""About the rows of a bucket, up to 64 million rows; more are in as many buckets."""

ABSENT = -1
"""Stands for a row that a side does not have."""


def row_buckets(rows: int) -> Buckets:
    """Return buckets for about this many entries."""
    bits = max(0, math.ceil(math.log2(max(1, rows) / BUCKET_ROWS)))
    # Positions are numbered in turn: the product spreads them over the buckets.
    return Buckets(bits, lambda entries: entries["high"] + entries["low"] * GOLDEN)


def pair_entries(entries: Entries, sides: int) -> tuple[IntArray, IntArray]:
    """Put the rows of each key together, of any number of sides.

    Returns:
        For each of K keys and S sides the position of its row in the entries, or `ABSENT`, and how
        many rows the side has of the key. Both of shape (K, S).
    """
    order, first = in_order(entries["high"], entries["low"])
    numbers = np.cumsum(first) - 1
    many = int(numbers[-1]) + 1 if len(numbers) else 0
    slots = numbers * sides + entries["side"][order]
    counts = np.bincount(slots, minlength=many * sides)
    places = np.full(many * sides, ABSENT, dtype=np.int64)
    places[slots] = order
    return places.reshape(many, sides), counts.reshape(many, sides)
