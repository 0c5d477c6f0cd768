"""Open a finished scoring run, and read columns of its rows. Nothing here writes, or needs Beam."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.paths import roots_of
from bertscore_beam.dump.types import without_views
from bertscore_beam.files.checked import from_json, typed
from bertscore_beam.files.paths import absolute, is_missing
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.record import PartRecord, is_whole
from bertscore_beam.records.records import published_files
from bertscore_beam.records.summary import scored_languages
from bertscore_beam.run.folder import (
    RUN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    OtherFormatError,
    OutputFolder,
    run_from_json,
)
from bertscore_beam.run.publication import HEAD_FILE, Head, is_success, read_head, readable_head
from bertscore_core.errors import ConfigError, InputError, load_json

# Parts that are read ahead of the one in use. Each may take as much memory as a split does.
READ_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedOptions:
    """What `_run.json` says of the options of a scoring run that readers need."""

    model: str | None = None
    revision: str | None = None
    language: str | None = None
    languages: dict[str, Any] | None = None
    idf: str | None = None
    baseline: str | None = None
    max_batch_tokens: int | None = None
    group_by: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotes:
    """What `_run.json` says of a scoring run.

    Attributes:
        run: Its id.
        identity: The settings that all runs of its folder share.
        started: When it began, in seconds since the epoch.
        options: Its options.
        signature: How all rows were scored; None where that depends on their language.
        signatures: How the rows of each language were scored.
        root: Its folder.
    """

    run: str
    identity: dict[str, str]
    started: float | None = None
    options: StatedOptions = field(default_factory=StatedOptions)
    signature: str | None = None
    signatures: dict[str, str] = field(default_factory=dict)
    root: str = ""

    @property
    def fields(self) -> TableFields:
        """Which columns are for what."""
        group = self.identity.get("idf_group")
        columns = (self.identity["candidate_column"], self.identity["reference_column"])
        return TableFields(
            candidate_column=columns[0],
            reference_column=columns[1],
            compares_samples=columns[0] == columns[1],
            group=() if group is None else tuple(load_json(group)),
            language=self.identity.get("language_column") or None,
            source=self.identity.get("source_column"),
            strip_reasoning=self.identity.get("reasoning") == "stripped",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSummary:
    """What `_summary.json` says of the rows of a language that readers need."""

    signature: str | None = None
    scored: int = 0
    f1: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """What `_summary.json` says of another metric: how sentences were scored, or by language."""

    sentence_signature: str | dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What `_summary.json` says of a scoring run.

    `content` is all of it; docs/output.md explains the other names.
    """

    parts: int
    rows: int
    content: dict[str, Any]
    signature: str | None = None
    languages: dict[str, LanguageSummary] = field(default_factory=dict)
    metrics: dict[str, MetricSummary] = field(default_factory=dict)
    rejected: int = 0
    reused: int = 0
    other_scripts: int = 0
    tokenized: int = 0
    num_rejected_files: int = 0
    rejected_files: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    scoring_seconds: float | None = None
    pairs_per_second: float | None = None
    tokens: int | None = None
    padding: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A scoring run that has succeeded.

    Attributes:
        notes: Its `_run.json`.
        summary: Its `_summary.json`.
        records: Those of its parts, by input and then in the order of their rows.
        metrics: Names of its other metrics.
    """

    folder: OutputFolder
    notes: RunNotes
    summary: RunSummary
    records: tuple[PartRecord, ...]
    metrics: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of its rows, scored or not."""
        return sum(record.num_rows for record in self.records)

    @property
    def languages(self) -> tuple[str, ...]:
        """Its languages that have scores; empty if all rows were scored alike."""
        return scored_languages(self.summary.content)


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


def open_finished(folder: str) -> FinishedRun:
    """Open a run, and check that it has succeeded and that all of its parts are there.

    Raises:
        ConfigError: The folder holds no scoring run that has succeeded.
        InputError: A part or a record is missing, or a file of the run is damaged.
        OSError: The folder cannot be reached.
    """
    source = OutputFolder(absolute(folder))
    notes = read_notes(source)
    if notes is None:
        why = "it does not exist" if is_missing(source.root) else f"it has no {RUN_FILE}"
        raise ConfigError(
            f"{source.shown!r} is not a scoring run: {why}; expected the output folder of "
            "`score`. Check the path."
        )
    head = readable_head(source)
    if head is None or not is_success(source, head):
        raise ConfigError(why_not_done(source))
    summary = _read_summary(source)
    records = _whole_parts(source, head, summary)
    if read_head(source) != head:
        raise InputError(
            f"the run in {source.shown!r} cannot be read now: got scores that have been "
            "replaced since; expected them to stay. Give the command again."
        )
    return FinishedRun(
        folder=source, notes=notes, summary=summary, records=records, metrics=tuple(summary.metrics)
    )


def without_other_formats(folders: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return those of some folders that this version reads, and a sentence about others; or ""."""

    def error_of(folder: str) -> str:
        try:
            read_notes(OutputFolder(absolute(folder)))
        except OtherFormatError as error:
            return str(error)
        except InputError:  # who opens it says what is wrong
            pass
        return ""

    errors = [error_of(folder) for folder in folders]
    left_out = [error for error in errors if error]
    note = f"Not compared with {len(left_out):,} runs: {left_out[0]}" if left_out else ""
    both = zip(folders, errors, strict=True)
    return tuple(folder for folder, error in both if not error), note


def why_not_done(source: OutputFolder) -> str:
    """Say why a run is no success: it failed gates, is damaged, or has not ended."""
    gates = source.read_json(SUMMARY_FILE).get("failed_gates")
    if isinstance(gates, list) and gates:
        return (
            f"the run in {source.shown!r} ended, but did not pass {', '.join(map(str, gates))}: "
            f"see its {SUMMARY_FILE}. Mend the input, or run its command again with another limit: "
            "its scores are kept."
        )
    if source.exists(SUCCESS_FILE):
        return (
            f"the run in {source.shown!r} cannot be used: got a {SUCCESS_FILE} that does "
            f"not belong to its {HEAD_FILE}; expected both whole, and of one run. Run its command "
            "again: it keeps all parts that are whole."
        )
    return (
        f"the run in {source.shown!r} is not done: got no {SUCCESS_FILE} of it; expected one. Wait "
        "for it, or run its command again."
    )


def read_notes(source: OutputFolder) -> RunNotes | None:
    """Read `_run.json` of a scoring run; None without one, or if it is of another command.

    Raises:
        OtherFormatError: Another version has written it.
        InputError: It is damaged.
    """
    try:
        content = run_from_json(source, source.read(RUN_FILE))
        identity = content.get("identity")
        is_of_another = isinstance(identity, dict) and "command" in identity
        return None if is_of_another else replace(_notes_of(content), root=source.root)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise _damaged(source, RUN_FILE, error, " with --overwrite") from error


def _notes_of(content: Mapping[str, Any]) -> RunNotes:
    """Return what the `_run.json` of a scoring run says.

    Raises:
        ValueError: It says no such thing.
    """
    notes = typed(RunNotes, content)
    if missing := {"candidate_column", "reference_column"} - notes.identity.keys():
        raise ValueError(f"no {min(missing)!r} in 'identity'")
    group = load_json(notes.identity.get("idf_group", "[]"))
    if not isinstance(group, list) or not all(isinstance(name, str) for name in group):
        raise ValueError("no usable value of 'idf_group'")
    if notes.started is not None:
        utc(notes.started)
    return notes


def _read_summary(source: OutputFolder) -> RunSummary:
    try:
        content = from_json(source.read(SUMMARY_FILE))
        there = {name: value for name, value in content.items() if value is not None}
        return typed(RunSummary, {**there, "content": content})
    except (FileNotFoundError, ValueError) as error:
        raise _damaged(source, SUMMARY_FILE, error) from error


def _damaged(source: OutputFolder, name: str, error: Exception, how: str = "") -> InputError:
    why = "no such file" if isinstance(error, OSError) else str(error)
    return InputError(
        f"{name} of the run in {source.shown!r} cannot be used: got {why}; expected what `score` "
        f"wrote. Run its command again{how}."
    )


def utc(seconds: float) -> datetime:
    """Return a time in seconds since the epoch as a date and time in UTC.

    Raises:
        ValueError: No calendar has it.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} seconds since 1970") from error


def _whole_parts(source: OutputFolder, head: Head, summary: RunSummary) -> tuple[PartRecord, ...]:
    """Return the records of the parts that are there, with the sizes that the manifest lists.

    Of a copy of a folder all files have other versions; each is checked when it is read.
    """
    sizes = source.files(suffix=".parquet")
    found = filter(None, (record for _, record in published_files(source, head)))
    whole = [record for record in found if sizes.get(record.part_name) == record.part_bytes]
    rows = sum(record.num_rows for record in whole)
    if (len(whole), rows) != (summary.parts, summary.rows):
        raise InputError(
            f"the run in {source.shown!r} cannot be read: got {len(whole)} whole parts; expected "
            f"{summary.parts} with {summary.rows} rows. It is damaged: "
            "run its command again first."
        )
    return in_order(whole)


def in_order(records: Iterable[PartRecord]) -> tuple[PartRecord, ...]:
    """Return the records of parts by input and then in the order of their rows."""
    # The numbers in the names of parts have twelve digits, or more where that is not enough.
    return tuple(
        sorted(records, key=lambda one: (one.input_name, len(one.part_name), one.part_name))
    )


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
        table = read_part_columns(run.folder, record, columns)
        return PartRows(first_row=first, record=record, table=table)

    by_input = groupby(run.records, key=attrgetter("input_name"))
    placed = chain.from_iterable(_with_first_rows(records) for _, records in by_input)
    return in_parallel(read, placed, READ_AHEAD, waiting=0)


def read_rows(
    run: FinishedRun, places: Sequence[RowPlace], columns: Sequence[str]
) -> list[pa.Table]:
    """Read single rows of a run. Only the parts that hold them are read, one after the other.

    Raises:
        InputError: The run has no such row, or a part is damaged.
        OSError: A part cannot be reached.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    records: dict[str, PartRecord] = {}
    for number, place in enumerate(places):
        record, row = _part_of(run, place)
        records[record.part_name] = record
        wanted.setdefault(record.part_name, []).append((number, row))
    tables: dict[int, pa.Table] = {}
    for part_name, rows in wanted.items():
        table = read_part_columns(run.folder, records[part_name], columns)
        # A copy, since a slice would keep the whole part in memory.
        tables.update({number: table.take([row]) for number, row in rows})
    return [tables[number] for number in range(len(places))]


def _part_of(run: FinishedRun, place: RowPlace) -> tuple[PartRecord, int]:
    own = (record for record in run.records if record.input_name == place.input_name)
    rows = 0
    for first, record in _with_first_rows(own):
        rows = first + record.num_rows
        if first <= place.row < rows:
            return record, place.row - first
    raise InputError(
        f"the run in {run.folder.shown!r} has no row {str(place)!r}: got {rows} rows of that "
        "input file; expected FILE:N, with N counted from 0. Check the name and the number."
    )


def _with_first_rows(records: Iterable[PartRecord]) -> Iterator[tuple[int, PartRecord]]:
    first = 0
    for record in records:
        yield first, record
        first += record.num_rows


@contextmanager
def open_part(
    folder: OutputFolder, record: PartRecord, *, whole: bool = False
) -> Iterator[pq.ParquetFile]:
    """Open a part, which is checked; as a whole if all of it is wanted. See `read_columns`."""
    path = folder.path(record.file)
    with open_parquet(path, whole=whole, seal=record.seal) as (file, _):
        yield file


def check_parts(run: FinishedRun) -> None:
    """Read all parts of a run.

    Raises:
        InputError: Some are damaged.
        OSError: A part cannot be reached.
    """
    whole = in_parallel(lambda record: is_whole(run.folder, record), run.records, READ_AHEAD)
    found = zip(run.records, whole, strict=True)
    if damaged := [record.part_name for record, is_good in found if not is_good]:
        raise InputError(
            f"parts of the run in {run.folder.shown!r} are damaged: got {len(damaged):,} of "
            f"{len(run.records):,}, such as {damaged[0]!r}; expected none. Delete them, and run "
            "its command again: it scores their rows."
        )


def part_schema(run: FinishedRun, record: PartRecord) -> pa.Schema:
    """Return the schema of a part; see `read_columns` for errors."""
    with open_part(run.folder, record) as file:
        return file.schema_arrow


def read_part_columns(folder: OutputFolder, record: PartRecord, columns: Sequence[str]) -> pa.Table:
    """Read columns of one part; see `read_columns`."""
    with open_part(folder, record) as file:
        return columns_in(file, columns)


def columns_in(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Read columns of an open part; see `read_columns`."""
    schema = file.schema_arrow
    wanted = set(roots_of(schema, columns))
    table = file.read([name for name in schema.names if name in wanted])
    if table.num_rows != file.metadata.num_rows:  # no checksum covers the header of a page
        raise ValueError("other rows than were written")
    return without_views(table)


def input_schemas(run: FinishedRun) -> Iterator[pa.Schema]:
    """Yield the columns of the first part of each input, without reading rows."""
    for _, records in groupby(run.records, key=attrgetter("input_name")):
        yield part_schema(run, next(records))
