"""Choose rows of a finished run: those that a user names, or those with the extreme scores."""

from collections.abc import Sequence

import numpy as np

from bertscore_beam.dump import columns
from bertscore_beam.score.finished import FinishedRun, RowPlace, read_columns
from bertscore_core.errors import ConfigError, InputError


def named_rows(run: FinishedRun, names: Sequence[str]) -> list[RowPlace]:
    """Return the places of rows that are named `FILE:N`.

    FILE is the name of an input file as in the output folder, or the end of it if only one ends so;
    N is the position of the row, from 0.

    Raises:
        ConfigError: A name has another form.
        InputError: The run has no such file, or several.
    """
    return [_place(run, name) for name in names]


def _place(run: FinishedRun, name: str) -> RowPlace:
    file, _, number = name.rpartition(":")
    if not file or not number.isdecimal():
        raise ConfigError(
            f"{name!r} names no row: expected FILE:N, an input file of the run and the position of "
            "a row in it, counted from 0."
        )
    inputs = dict.fromkeys(record.input_name for record in run.records)
    found = [one for one in inputs if one == file] or [
        one for one in inputs if one.endswith(f"/{file}")
    ]
    if len(found) != 1:
        shown = ", ".join((found or list(inputs))[:_SHOWN])
        raise InputError(
            f"the run in {run.folder.shown!r} has {len(found) or 'no'} input files {file!r}: "
            f"expected one. It has {shown}. Give the name as it is in the output folder."
        )
    return RowPlace(found[0], int(number))


_SHOWN = 5
"""Names of files in a message."""


def extreme_rows(run: FinishedRun, count: int, *, worst: bool) -> list[RowPlace]:
    """Return the rows with the lowest or the highest F1, the most extreme first.

    Rows without a score are left out; of equal scores the first are taken. One column is read, part
    by part, and `count` rows are kept.
    """
    sign = 1.0 if worst else -1.0
    kept: list[tuple[float, RowPlace]] = []
    for part in read_columns(run, [columns.F1]):
        values = sign * part.table[columns.F1].to_numpy(zero_copy_only=False)
        # A null is NaN here, which is sorted to the end. Stable, as all sorts here.
        rows = np.argsort(values, kind="stable")[:count]
        kept += [
            (float(values[row]), RowPlace(part.input_name, part.first_row + row))
            for row in rows[~np.isnan(values[rows])].tolist()
        ]
        kept = sorted(kept, key=lambda one: one[0])[:count]
    return [place for _, place in kept]
