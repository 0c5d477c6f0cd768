"""Processes that compute metrics beside the device, and the columns that they make."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.columns import METRIC_COUNTS, METRICS
from bertscore_beam.metrics.table import score_rows
from bertscore_beam.run.pool import Pool
from bertscore_core.stats.score_statistics import Doubles

_AT_ONCE = 200
"""Rows that a process scores at a time: a fraction of a second."""
_MOST_PROCESSES = 8


class MetricProcesses:
    """Processes that score rows with metrics while the device encodes others. Threads share them.

    They end with the process that made them.
    """

    def __init__(self, names: Sequence[str], sharing: int | None = None) -> None:
        """Make them; they start when there is work.

        Args:
            names: Some of `METRICS`.
            sharing: How many such sets share the cores of this machine; None for one a core.
        """
        self.names = tuple(names)
        cores = os.cpu_count() or 1
        number = max(1, min(cores // (sharing or cores) - 1, _MOST_PROCESSES))
        self.pool = Pool(number, restarts=1)
        self._threads = ThreadPoolExecutor(number)

    def begin(
        self,
        candidates: Sequence[Any],
        references: Sequence[Any],
        rows: npt.NDArray[np.int64],
        language_of: Callable[[int], str],
    ) -> Callable[[], dict[str, pa.Array]]:
        """Begin to score some rows of a table, and return what waits for their columns.

        Args:
            candidates: The texts of all N rows of the table.
            references: The references of each.
            rows: Positions of the rows to score. Shape (M,).
            language_of: Returns the language of a row.
        """
        by_language: dict[str, list[int]] = {}
        for row in rows.tolist():
            by_language.setdefault(language_of(row), []).append(row)
        pieces = [
            (language, own[first : first + _AT_ONCE])
            for language, own in by_language.items()
            for first in range(0, len(own), _AT_ONCE)
        ]
        waiting = [
            self._threads.submit(
                self.pool.ask,
                score_rows,
                self.names,
                language,
                [candidates[row] for row in own],
                [list(references[row]) for row in own],
            )
            for language, own in pieces
        ]

        def wait() -> dict[str, pa.Array]:
            done = [future.result() for future in waiting]
            order = np.array([row for _, own in pieces for row in own], dtype=np.int64)
            return columns_of(self.names, len(candidates), order, done)

        return wait


def columns_of(
    names: Sequence[str],
    number: int,
    rows: npt.NDArray[np.int64],
    scored: Sequence[Sequence[tuple[Doubles, npt.NDArray[np.int64]]]],
) -> dict[str, pa.Array]:
    """Return the columns of metrics: of M rows of a table of N, scored in pieces, in their order.

    A row without a score is null in both columns of a metric.
    """
    made: dict[str, pa.Array] = {}
    for place, name in enumerate(names):
        values = np.full(number, np.nan)
        values[rows] = np.concatenate([np.zeros(0), *(piece[place][0] for piece in scored)])
        missing = np.isnan(values)
        made[METRICS[name]] = pa.array(values, mask=missing)
        if name in METRIC_COUNTS:
            lists: list[list[int] | None] = [None] * number
            counts = [own for piece in scored for own in piece[place][1].tolist()]
            for row, own in zip(rows.tolist(), counts, strict=True):
                lists[row] = None if missing[row] else own
            made[METRIC_COUNTS[name]] = pa.array(lists, pa.list_(pa.int64()))
    return made
