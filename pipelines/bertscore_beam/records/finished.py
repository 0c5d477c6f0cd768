"""Open a finished scoring run, and read columns of its rows. Nothing here writes, or needs Beam."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from bertscore_beam.dump import open_parquet, roots_of
from bertscore_beam.files import absolute, in_parallel, reaching
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import files_of_run, read_part_sizes, read_records
from bertscore_beam.run import (
    RUN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    OutputFolder,
    read_run,
    successful_run,
)
from bertscore_core.errors import ConfigError, InputError

# Parts that are read ahead of the one in use. Each may take as much memory as a split does.
_READ_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A scoring run that has succeeded.

    Attributes:
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
        return f"{self.input_name}:{self.row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRows:
    """Columns of the rows of one part.

    Attributes:
        first_row: Position of the first row in it, from 0. Lines of text count as rows.
        table: The columns that were asked for, one row for each row of the part.
    """

    first_row: int
    record: PartRecord
    table: pa.Table

    @property
    def input_name(self) -> str:
        """Name of the input file that they are from."""
        return self.record.input_name


def open_finished(folder: str, name: str = "run") -> FinishedRun:
    """Open a run, and check that it has succeeded and that all of its parts are there.

    Raises:
        ConfigError: The folder holds no scoring run that has succeeded.
        InputError: A part or a record is missing.
        OSError: The folder cannot be reached.
    """
    with reaching(name, folder):
        source = OutputFolder(absolute(folder))
        run = read_run(source)
        if run is None or not is_scoring(run):
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


def is_scoring(run: Mapping[str, Any]) -> bool:
    """Tell whether a `_run.json` is of a scoring run: its identity names no command."""
    identity = run.get("identity")
    return isinstance(identity, dict) and "command" not in identity


def _whole_parts(source: OutputFolder, summary: dict[str, Any]) -> tuple[PartRecord, ...]:
    records = read_records(source)
    sizes = read_part_sizes(source, files_of_run(source), records)
    whole = [record for name, record in records.items() if sizes.get(name) == record.part_bytes]
    rows = sum(record.num_rows for record in whole)
    if (len(whole), rows) != (summary["parts"], summary["rows"]):
        raise InputError(
            f"the run in {source.shown!r} cannot be read: got {len(whole)} whole parts; expected "
            f"{summary['parts']} with {summary['rows']} rows. It is damaged, or an earlier version "
            "of bertscore-beam made it. Run its command again first."
        )
    # The numbers in the names of parts have twelve digits, or more where that is not enough.
    whole.sort(key=lambda record: (record.input_name, len(record.part_name), record.part_name))
    return tuple(whole)


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

    def read(placed: tuple[int, PartRecord]) -> PartRows:
        first, record = placed
        table = read_part_columns(run.folder.path(record.part_name), columns)
        return PartRows(first_row=first, record=record, table=table)

    by_input = groupby(run.records, key=attrgetter("input_name"))
    placed = chain.from_iterable(_with_first_rows(records) for _, records in by_input)
    return in_parallel(read, placed, _READ_AHEAD, waiting=0)


def read_rows(
    run: FinishedRun, places: Sequence[RowPlace], columns: Sequence[str]
) -> list[pa.Table]:
    """Read single rows of a run. Only the parts that hold them are read, one after the other.

    Raises:
        InputError: The run has no such row, or a part is damaged.
        OSError: A part cannot be reached.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for number, place in enumerate(places):
        part_name, row = _part_of(run, place)
        wanted.setdefault(part_name, []).append((number, row))
    tables: dict[int, pa.Table] = {}
    for part_name, rows in wanted.items():
        table = read_part_columns(run.folder.path(part_name), columns)
        # A copy, since a slice would keep the whole part in memory.
        tables.update({number: table.take([row]) for number, row in rows})
    return [tables[number] for number in range(len(places))]


def _part_of(run: FinishedRun, place: RowPlace) -> tuple[str, int]:
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
    first = 0
    for record in records:
        yield first, record
        first += record.num_rows


def part_schema(run: FinishedRun, record: PartRecord) -> pa.Schema:
    """Return the schema of a part; see `read_columns` for errors."""
    with open_parquet(run.folder.path(record.part_name)) as (file, _):
        return file.schema_arrow


def read_part_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of one part; see `read_columns`."""
    with open_parquet(path) as (file, _):
        schema = file.schema_arrow
        wanted = set(roots_of(schema, columns))
        return file.read([name for name in schema.names if name in wanted])


def input_schemas(run: FinishedRun) -> Iterator[pa.Schema]:
    """Yield the columns of the first part of each input, without reading rows."""
    for _, records in groupby(run.records, key=attrgetter("input_name")):
        yield part_schema(run, next(records))
