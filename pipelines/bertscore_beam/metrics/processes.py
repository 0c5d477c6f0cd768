"""Processes that compute metrics beside the device, and the columns that they make."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.columns import METRIC_COUNTS, metric_column
from bertscore_beam.metrics.own import MetricError, OwnMetric, score_with
from bertscore_beam.metrics.table import score_rows
from bertscore_beam.run.pool import Pool, WorkersDiedError
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray

_AT_ONCE = 200
"""Rows that a process scores at a time: a fraction of a second."""
_MOST_PROCESSES = 8


class MetricProcesses:
    """Processes that score rows with metrics while the device encodes others. Threads share them.

    They end with the process that made them, or when it closes them.
    """

    def __init__(
        self, names: Sequence[str], sharing: int | None = None, own: Sequence[OwnMetric] = ()
    ) -> None:
        """Make them; they start when there is work.

        Args:
            names: Some of `METRICS`.
            sharing: How many such sets share the cores of this machine; None for one a core.
            own: Metrics of one's own, which have one process together.
        """
        self.names, self.own = tuple(names), tuple(own)
        cores = os.cpu_count() or 1
        share = cores // (sharing or cores)
        self.pool = Pool(max(1, min(share - 1, _MOST_PROCESSES)), restarts=1)
        self.own_pool = Pool(1, restarts=1, threads=max(1, share))

    def close(self) -> None:
        """End the processes."""
        self.pool.kill()
        self.own_pool.kill()

    def begin(
        self,
        candidates: Sequence[Any],
        references: Sequence[Any],
        rows: IntArray,
        language_of: Callable[[int], str],
        sources: Sequence[str | None] = (),
    ) -> Callable[[], dict[str, pa.Array]]:
        """Begin to score some rows of a table, and return what waits for their columns.

        Args:
            candidates: The texts of all N rows of the table.
            references: The references of each.
            rows: Positions of the rows to score. Shape (M,).
            language_of: Returns the language of a row.
            sources: The source of each row; empty if they have none.
        """
        by_language: dict[str, list[int]] = {}
        for row in rows.tolist() if self.names else ():
            by_language.setdefault(language_of(row), []).append(row)

        def texts(piece: Sequence[int]) -> tuple[list[Any], list[Any]]:
            return [candidates[row] for row in piece], [list(references[row]) for row in piece]

        begun = [
            (piece, self.pool.begin(score_rows, self.names, language, *texts(piece)))
            for language, same in by_language.items()
            for piece in _cut(same)
        ]
        own_begun = []
        for piece in _cut(rows.tolist()) if self.own else ():
            own_sources = [sources[row] for row in piece] if sources else []
            asked = self.own_pool.begin(score_with, self.own, *texts(piece), own_sources)
            own_begun.append((piece, asked))

        def wait() -> dict[str, pa.Array]:
            made = columns_of(self.names, len(candidates), *_ended(begun))
            try:
                own_names = [metric.name for metric in self.own]
                return made | columns_of(own_names, len(candidates), *_ended(own_begun))
            except WorkersDiedError as error:
                paths = ", ".join(metric.path for metric in self.own)
                raise MetricError(
                    f"the process of the metrics {paths} has ended: got {error} Expected functions "
                    "that leave it alone, and memory for all of them. Look at what they do."
                ) from error

        return wait


_Scored = Sequence[tuple[Doubles, IntArray]]
"""What a metric has of some rows, for each metric: scores and counts, as `Metric.rows` says."""


def _ended(begun: Sequence[tuple[list[int], Future[Any]]]) -> tuple[IntArray, list[_Scored]]:
    """Wait for pieces, and return their rows and what these have."""
    scored = [future.result() for _, future in begun]
    return np.array([row for piece, _ in begun for row in piece], dtype=np.int64), scored


def _cut(rows: list[int]) -> list[list[int]]:
    return [rows[first : first + _AT_ONCE] for first in range(0, len(rows), _AT_ONCE)]


def columns_of(
    names: Sequence[str], number: int, rows: IntArray, scored: Sequence[_Scored]
) -> dict[str, pa.Array]:
    """Return the columns of metrics: of M rows of a table of N, scored in pieces, in their order.

    A row without a score is null in the columns of a metric.
    """
    made: dict[str, pa.Array] = {}
    for place, name in enumerate(names):
        values = np.full(number, np.nan)
        values[rows] = np.concatenate([np.zeros(0), *(piece[place][0] for piece in scored)])
        missing = np.isnan(values)
        made[metric_column(name)] = pa.array(values, mask=missing)
        if name in METRIC_COUNTS:
            lists: list[list[int] | None] = [None] * number
            counts = [own for piece in scored for own in piece[place][1].tolist()]
            for row, own in zip(rows.tolist(), counts, strict=True):
                lists[row] = None if missing[row] else own
            made[METRIC_COUNTS[name]] = pa.array(lists, pa.list_(pa.int64()))
    return made
