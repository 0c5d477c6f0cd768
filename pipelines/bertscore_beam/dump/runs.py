"""Runs of splits: the splits of one row group that are read as one stream.

    row group of 1,000,000 rows    | split | split | split | split | split | split | ...
    runs                           |         run           |         run           | ...

Every run decodes the row group from its start. So one run a row group reads every byte once; more
of them let workers share a large row group.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from bertscore_beam.dump.splits import Split

RUNS_PER_WORKER = 2
MOST_RUNS = 40
"""Most runs of a row group if the number of workers is not known."""
MANY_WORKERS = 500
"""Workers that can share an input with many row groups if their number is not known."""


@dataclass(frozen=True, slots=True)
class SplitRun:
    """Splits of one row group, in the order of their rows; or one split of anything else.

    It is the element of a pipeline. Each split has its own part and record.

    Attributes:
        splits: The splits. At least one.
    """

    splits: tuple[Split, ...]

    @property
    def name(self) -> str:
        """The names of its parts: of the first and, if there are more, of the last one."""
        first, last = self.splits[0].part_name, self.splits[-1].part_name
        return first if first == last else f"{first} to {last.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSize:
    """How large runs are, so that all workers have work until the end.

    Attributes:
        rows: About the most rows in a run; a single split may have more.
        most: Most runs of a row group.
    """

    rows: int
    most: int

    @classmethod
    def of(cls, splits: Iterable[Split], workers: int | None) -> Self:
        """Return the size with which workers share splits.

        Args:
            splits: The splits.
            workers: How many runs are worked on at the same time; None if that is not known.
        """
        rows = sum(split.about_rows for split in splits)
        runs = RUNS_PER_WORKER * (workers or MANY_WORKERS)
        most = MOST_RUNS if workers is None else runs
        return cls(rows=max(math.ceil(rows / runs), 1), most=most)

    def runs_of(self, splits: Sequence[Split]) -> Iterator[SplitRun]:
        """Cut splits of one row group into the fewest runs of about equal length."""
        rows = sum(split.about_rows for split in splits)
        number = min(math.ceil(rows / self.rows), self.most, len(splits)) or 1
        bounds = [place * len(splits) // number for place in range(number + 1)]
        for start, stop in itertools.pairwise(bounds):
            yield SplitRun(tuple(splits[start:stop]))


def row_group_of(split: Split) -> tuple[str, str, int, int]:
    """Return what only splits of one row group have in common."""
    return split.path, split.input_name, split.first_row_group, split.row_group_stop


def split_runs(splits: Iterable[Split], size: RunSize) -> Iterator[SplitRun]:
    """Yield the runs of splits that come in the order of their plan."""
    for _, pieces in itertools.groupby(splits, row_group_of):
        yield from size.runs_of(tuple(pieces))


def reading_words(splits: Sequence[Split], workers: int | None) -> str:
    """Say how many times the rows of splits are decoded, on average.

    Args:
        splits: The splits.
        workers: As for `RunSize.of`.
    """
    size = RunSize.of(splits, workers)
    rows = decoded = most = 0
    for run in split_runs(splits, size):
        last = run.splits[-1]
        end = last.skip_rows + last.about_rows  # from the start of the row group
        rows += sum(split.about_rows for split in run.splits)
        decoded += end
        most = max(most, end)
    if decoded == rows:
        return "once"
    return (
        f"about {decoded / rows:.1f} times over: workers share row groups of up to {most:,} rows, "
        "and each decodes them from their start"
    )
