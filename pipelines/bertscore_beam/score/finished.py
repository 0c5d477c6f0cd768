"""Open a finished scoring run, and read columns of its rows. Nothing here writes, or needs Beam."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from bertscore_beam.dump.columns import roots_of
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import reaching
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, SUMMARY_FILE, OutputFolder, read_run
from bertscore_beam.run.success import successful_run
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.records import files_of_run, read_part_sizes, read_records
from bertscore_core.errors import ConfigError, InputError

# Parts that are read ahead of the one in use. Each may take as much memory as a split does.
_READ_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A scoring run that has succeeded.

    Attributes:
        folder: Its output folder.
        run: Its `_run.json`.
        summary: Its `_summary.json`.
        records: The records of its parts, by input and then in the order of their rows.
    """

    folder: OutputFolder
    run: dict[str, Any]
    summary: dict[str, Any]
    records: tuple[PartRecord, ...]

    @property
    def rows(self) -> int:
        """Number of its rows, scored or not."""
        return sum(record.num_rows for record in self.records)


class RowPlace(NamedTuple):
    """Where a row of a run is: the name of the input file, and its position in it, from 0."""

    input_name: str
    row: int

    def __str__(self) -> str:
        """Return the place as users write it."""
        return f"{self.input_name}:{self.row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRows:
    """Columns of the rows of one part.

    Attributes:
        input_name: Name of the input file.
        first_row: Position of the first row in it, from 0. Lines of text count as rows.
        record: The record of the part.
        table: The columns that were asked for, one row for each row of the part.
    """

    input_name: str
    first_row: int
    record: PartRecord
    table: pa.Table


def open_finished(folder: str, name: str = "run") -> FinishedRun:
    """Open a run, and check that it has succeeded and that all of its parts are there.

    Args:
        folder: Its output folder.
        name: The option that names it, for the messages.

    Raises:
        ConfigError: The folder holds no scoring run that has succeeded.
        InputError: A part or a record is missing.
        OSError: The folder cannot be reached.
    """
    with reaching(name, folder):
        source = OutputFolder(absolute(folder))
        run = read_run(source)
        identity = None if run is None else run.get("identity")
        if run is None or not isinstance(identity, dict) or "command" in identity:
            raise ConfigError(
                f"{source.shown!r} is no scoring run: got no {RUN_FILE} of one; expected the "
                "output folder of `score`. Check the path."
            )
        if successful_run(source) is None:
            raise ConfigError(
                f"the run in {source.shown!r} is not done: got no {SUCCESS_FILE} of it; expected "
                "one. Run its command again first."
            )
        summary = source.read_json(SUMMARY_FILE)
        records = _whole_parts(source, summary)
    return FinishedRun(folder=source, run=run, summary=summary, records=records)


def _whole_parts(source: OutputFolder, summary: dict[str, Any]) -> tuple[PartRecord, ...]:
    """Return the records of all parts of a run.

    Raises:
        InputError: A part or a record is missing.
    """
    records = read_records(source)
    sizes = read_part_sizes(source, files_of_run(source), records)
    whole = [one for name, one in records.items() if sizes.get(name) == one.part_bytes]
    if len(whole) != summary["parts"] or sum(one.num_rows for one in whole) != summary["rows"]:
        raise InputError(
            f"the run in {source.shown!r} cannot be read: got {len(whole)} whole parts; expected "
            f"{summary['parts']} with {summary['rows']} rows. It is damaged, or an earlier version "
            "of bertscore-beam made it. Run its command again first."
        )
    # The numbers in the names of parts have twelve digits, or more where that is not enough.
    return tuple(sorted(whole, key=lambda one: (one.input_name, len(one.part_name), one.part_name)))


def read_columns(run: FinishedRun, columns: Sequence[str]) -> Iterator[PartRows]:
    """Read columns of all rows of a run, part by part, in order; other columns are not read.

    A few parts are read ahead, so memory is bounded by them.

    Args:
        run: The run.
        columns: Names of columns; a dotted path gives the whole column that holds its values, from
            which `dump.columns.column_of` takes them. Those that a part does not have are left out.

    Yields:
        The rows of each part.

    Raises:
        InputError: A part is damaged.
        OSError: A part cannot be reached.
    """
    placed = [
        (input_name, first, record)
        for input_name, records in groupby(run.records, key=lambda one: one.input_name)
        for first, record in _with_first_rows(records)
    ]
    with ThreadPoolExecutor(_READ_AHEAD) as pool:
        tables: deque[Future[pa.Table]] = deque()
        waiting = iter(placed)
        for input_name, first, record in placed:
            while len(tables) <= _READ_AHEAD and (following := next(waiting, None)) is not None:
                path = run.folder.path(following[2].part_name)
                tables.append(pool.submit(read_part_columns, path, columns))
            table = tables.popleft().result()
            yield PartRows(input_name=input_name, first_row=first, record=record, table=table)


def read_rows(
    run: FinishedRun, places: Sequence[RowPlace], columns: Sequence[str]
) -> list[pa.Table]:
    """Read single rows of a run. Only the parts that hold them are read, one after the other.

    Args:
        run: The run.
        places: Where the rows are.
        columns: Names of columns, as in `read_columns`.

    Returns:
        A table of one row for each place, in their order.

    Raises:
        InputError: The run has no such row, or a part is damaged.
        OSError: A part cannot be reached.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for number, place in enumerate(places):
        part_name, row = _part_of(run, place)
        wanted.setdefault(part_name, []).append((number, row))
    found: dict[int, pa.Table] = {}
    for part_name, rows in wanted.items():
        table = read_part_columns(run.folder.path(part_name), columns)
        # A copy, since a slice would keep the whole part in memory.
        found.update({number: table.take([row]) for number, row in rows})
    return [found[number] for number in range(len(places))]


def _part_of(run: FinishedRun, place: RowPlace) -> tuple[str, int]:
    """Return the part that holds a row, and the row's position in it.

    Raises:
        InputError: The run has no such row.
    """
    own = (record for record in run.records if record.input_name == place.input_name)
    rows = 0
    for first, record in _with_first_rows(own):
        rows = first + record.num_rows
        if first <= place.row < rows:
            return record.part_name, place.row - first
    raise InputError(
        f"the run in {run.folder.shown!r} has no row {str(place)!r}: got {rows} rows of that "
        "input file; expected FILE:N, with N counted from 0. Check the name and the number."
    )


def _with_first_rows(records: Iterable[PartRecord]) -> Iterator[tuple[int, PartRecord]]:
    """Yield the parts of one input, each with the position of its first row."""
    first = 0
    for record in records:
        yield first, record
        first += record.num_rows


def part_schema(run: FinishedRun, record: PartRecord) -> pa.Schema:
    """Return the schema of a part; see `read_columns` for errors."""
    with open_parquet(run.folder.path(record.part_name)) as (file, _):
        return file.schema_arrow


def read_part_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of one part; see `read_columns`.

    Raises:
        InputError: It is damaged.
        OSError: It cannot be reached.
    """
    with open_parquet(path) as (file, _):
        schema = file.schema_arrow
        wanted = set(roots_of(schema, columns))
        return file.read([name for name in schema.names if name in wanted])


def input_schemas(run: FinishedRun) -> Iterator[pa.Schema]:
    """Yield the columns of the first part of each input, without reading rows.

    Raises:
        InputError: A part is damaged.
        OSError: A part cannot be reached.
    """
    for _, records in groupby(run.records, key=lambda one: one.input_name):
        with open_parquet(run.folder.path(next(records).part_name)) as (file, _):
            yield file.schema_arrow
