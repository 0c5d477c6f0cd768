"""The groups of a finished run: the same numbers as `score --by` writes, from its parts."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from bertscore_beam.files import absolute, mask_credentials, reaching, write_atomically
from bertscore_beam.options import check_group_columns
from bertscore_beam.records import (
    CONFIDENCE,
    GroupRow,
    check_columns,
    described,
    group_rows,
    merge_groups,
    narrow_words,
    open_finished,
    show_groups,
    table_of_groups,
    table_to_bytes,
)
from bertscore_beam.run import Shown
from bertscore_core.errors import ConfigError
from bertscore_core.stats import check_confidence

OPTION = "--by"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroups:
    """The groups of a run: all rows together first, then each group."""

    folder: str
    by: tuple[str, ...]
    confidence: float
    rows: tuple[GroupRow, ...]

    def document(self) -> dict[str, Any]:
        """Return the groups as plain values."""
        return {
            "run": self.folder,
            "by": list(self.by),
            "confidence": self.confidence,
            "groups": [described(row, self.by) for row in self.rows],
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader has to know besides."""
        words = narrow_words(self.rows)
        return () if words is None else (words,)

    def shown(self) -> Shown:
        """Return the groups as a table for people."""
        rows = [described(row, self.by) for row in self.rows]
        return show_groups(rows, self.by, len(self.rows) - 1, self.confidence)


def groups_of_run(folder: str, by: Sequence[str], confidence: float = CONFIDENCE) -> RunGroups:
    """Read the groups of a finished run; a few parts are in memory at a time.

    `by` holds names or dotted paths of columns; none for all rows together alone.

    Raises:
        ConfigError: The folder holds no finished scoring run, or a column is named twice.
        InputError: A part is damaged, a column cannot make groups or is in no part, or there are
            too many groups.
        OSError: The folder cannot be reached.
    """
    check_group_columns("by", by)
    check_confidence(confidence)
    run = open_finished(folder)
    with reaching("run", folder):
        check_columns(run, by, OPTION)
        merged = merge_groups(run, by, OPTION)
    return RunGroups(
        folder=run.folder.shown,
        by=tuple(by),
        confidence=confidence,
        rows=tuple(group_rows(merged, confidence)),
    )


def check_output(output: str, run: str) -> None:
    """Check that groups may be written to a file.

    Raises:
        ConfigError: Its name says no format, or it is inside the folder of the run.
    """
    if not output.endswith((".parquet", ".pq", ".csv")):
        raise ConfigError(
            f"--output cannot be written: got {mask_credentials(output)!r}; expected a name that "
            "ends in .parquet, .pq or .csv. Rename it."
        )
    check_outside(output, run)


def check_outside(output: str, run: str) -> None:
    """Check that a file is not inside the folder of a run, or of one that a pattern matches.

    Raises:
        ConfigError: It is.
    """
    folder = absolute(run).rstrip("/")
    file = absolute(output)
    if file.startswith(f"{folder}/") or any(
        parent.match(folder) for parent in PurePosixPath(file).parents
    ):
        raise ConfigError(
            f"--output is inside the run: got {mask_credentials(output)!r}; expected a file "
            "elsewhere. A run is never changed by reading it."
        )


def write_table(groups: RunGroups, output: str) -> None:
    """Write the groups to a file: Parquet or CSV, as its name ends.

    Raises:
        OSError: It cannot be written.
    """
    table = table_of_groups(groups.rows, groups.by)
    data = _csv(table) if output.endswith(".csv") else table_to_bytes(table)
    with reaching("output", output):
        write_atomically(absolute(output), data)


def _csv(table: pa.Table) -> bytes:
    for place, field in enumerate(table.schema):
        if pa.types.is_map(field.type):
            texts = [json.dumps(dict(counts)) for counts in table[place].to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    return sink.getvalue()
