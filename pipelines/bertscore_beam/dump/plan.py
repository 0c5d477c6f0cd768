"""The plan of a run: which splits there are, and which files cannot be scored.

Only footers are read: of a file of text, that of the Parquet file that was made of it. To show what
a run would do without one, rows are estimated from the first ones. Many files are planned at a
time. A bad file is rejected with its reason and never stops the others.
"""

import errno
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa

from bertscore_beam.dump import columns, inputs
from bertscore_beam.dump.candidates import check_candidates
from bertscore_beam.dump.census import Census, GroupColumns
from bertscore_beam.dump.formats import HEAD_BYTES, not_parquet_hint
from bertscore_beam.dump.input_names import common_folder, input_names
from bertscore_beam.dump.int96 import COARSE
from bertscore_beam.dump.parquet import FileLayout, exact_unit, read_copied_layout, read_layout
from bertscore_beam.dump.partitions import with_partitions
from bertscore_beam.dump.paths import JSON_KEY, Column, is_text, roots_of
from bertscore_beam.dump.reference_file import JOIN_OPTION, load
from bertscore_beam.dump.splits import (
    MOST_SPLIT_BYTES,
    RowGroup,
    Split,
    part_name,
    plan_file,
    rows_for_workers,
)
from bertscore_beam.dump.text.arrays import marked_columns, shown
from bertscore_beam.dump.text.schema import INTEGERS_KEY
from bertscore_beam.dump.text.text_source import TextFile, footer_of, rejection_of
from bertscore_beam.dump.text.to_parquet import read_columns
from bertscore_beam.dump.types import null_lists_message
from bertscore_beam.files.checked import digest_of, from_json, to_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import PATH_TOO_LONG
from bertscore_beam.files.path_lengths import too_long_to_write
from bertscore_beam.files.paths import FILES_IN_FLIGHT, join
from bertscore_beam.files.reach import got_of
from bertscore_beam.files.read import exists, in_parallel, open_source, read_if_there
from bertscore_core.errors import ConfigError, InputError, listed
from bertscore_core.tokens import is_encodable


class FileReason(StrEnum):
    """Why a file is rejected; also the word under which it is counted."""

    UNREADABLE = "unreadable_file"
    UNLISTED = "unreadable_folder"
    NO_FILE = "not_a_file"
    NOT_PARQUET = "not_parquet"
    NOT_TEXT = "not_text_format"
    BAD_COLUMNS = "bad_columns"
    COLUMN_COLLISION = "column_collision"
    BAD_NAME = "bad_file_name"

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the file could not be reached, which is not its fault."""
        return self in (FileReason.UNREADABLE, FileReason.UNLISTED)


class RejectedError(Exception):
    """A file is rejected."""

    def __init__(self, reason: FileReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFile:
    """A file that cannot be scored.

    Attributes:
        path: Path of the file, without credentials.
        reason: Why, in one word.
        message: Why, in a sentence, with the cure.
        input_name: Its name below the common root, which its parts would have.
    """

    path: str
    reason: FileReason
    message: str
    input_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a plan is made with, and made for.

    Attributes:
        workers: Number of workers that share the splits; None if it is not known.
        imports: The imports of files of text; None if there are none.
        group_by: Columns that make groups. Some file must have each of them.
        drop: Columns to leave out of the output. Some file must have each of them.
    """

    workers: int | None = None
    imports: "Imports | None" = None
    group_by: Sequence[str] = ()
    drop: Sequence[str] = ()


_USUAL = Resources()
"""What a plan is made with by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The splits and the rejected files of a run.

    Attributes:
        splits: All splits, by file and then by row.
        rejected_files: Files rejected, by path.
        split_rows: Most rows in a split.
        digest: Identifies the corpus: names, sizes, versions and rows of the files, and the columns
            read. 16 hex digits. It does not depend on the cut into splits.
        census: What the columns of languages and groups hold, if they were counted.
        notes: What users must know of columns that are read in another way than they are written.
    """

    splits: tuple[Split, ...]
    rejected_files: tuple[RejectedFile, ...]
    split_rows: int
    digest: str
    census: Census = field(default_factory=Census)
    notes: tuple[str, ...] = ()

    @property
    def is_estimated(self) -> bool:
        """Whether files of text are not imported: their rows are estimated from the first ones."""
        return any(split.is_estimated for split in self.splits)

    @property
    def num_rows(self) -> int | None:
        """Rows of the input; None if files must be imported to know."""
        return None if self.is_estimated else sum(split.num_rows for split in self.splits)

    @property
    def about_rows(self) -> int:
        """Rows to score, of which an input row may have several; estimated if not known."""
        return sum(split.about_rows for split in self.splits)

    @property
    def has_versions(self) -> bool:
        """Whether every file has a version, by which a change of it can be seen."""
        return all(split.file_version for split in self.splits)

    @property
    def unreachable_files(self) -> tuple[RejectedFile, ...]:
        """Files and folders that are rejected only because they could not be reached."""
        return tuple(file for file in self.rejected_files if file.reason.is_out_of_reach)

    @property
    def is_whole(self) -> bool:
        """Whether every folder could be listed. If not, no file counts as missing."""
        return all(file.reason is not FileReason.UNLISTED for file in self.rejected_files)

    @property
    def num_files(self) -> int:
        """Files with at least one split."""
        return len({split.input_name for split in self.splits})


def check_all_reached(plan: Plan) -> None:
    """Raise if a file could not be reached: without it every idf weight, and so every score, moves.

    Raises:
        OSError: A file cannot be read, or a folder cannot be listed, at the moment.
    """
    away = plan.unreachable_files
    if away:
        raise OSError(
            f"{len(away)} files or folders cannot be reached, such as {away[0].path!r} "
            f"({away[0].message}); expected all of them, since idf is counted over all. Run the "
            "same command again when they can be, or leave them out of the input."
        )


def grouped(messages: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line for each message, with its first file and the number of the others.

    Args:
        messages: Path and message of every file.
    """
    paths: dict[str, list[str]] = {}
    for path, message in messages:
        paths.setdefault(message, []).append(path)
    return [
        f"{first}{f' and {len(others):,} more' if others else ''}: {message}"
        for message, (first, *others) in paths.items()
    ]


def shape_digest(splits: Sequence[Split], reference_column: str) -> str:
    """Digest the names and numbers of rows of the files, to see a change without reading texts.

    16 hex digits.
    """
    shape = sorted({(split.input_name, split.file_rows) for split in splits})
    return _digest(shape, reference_column)


def rows_note(splits: Sequence[Split]) -> str:
    """Return the number of rows of splits in words, estimated where it is not known."""
    about = "about " if any(split.is_estimated for split in splits) else ""
    return f"{about}{sum(split.about_rows for split in splits):,}"


def few_rows_message(rows: int, min_rows: int) -> str:
    """Say that the input has too few rows."""
    return (
        f"the input has {rows:,} rows; expected at least {min_rows:,} (--min-rows). Check what "
        "writes it" + (", or give --min-rows 0 if an empty input is fine." if not rows else ".")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """The imports of a run.

    Attributes:
        folder: The folder of the run.
        are_made: Whether all good files of text that were found have been imported: one without an
            import is rejected.
        needs_rows: Whether a footer is not enough, since rows are read to plan.
    """

    folder: str
    are_made: bool = False
    needs_rows: bool = False

    def path(self, text: TextFile) -> str:
        """Return the path of the Parquet file that is made of a file of text."""
        return join(self.folder, text.data)

    def layout(self, text: TextFile, candidates: Sequence[str] = ()) -> FileLayout | None:
        """Return what planning needs of an import; None if it is not there, or too little.

        Args:
            text: The file.
            candidates: As for `read_layout`.

        Raises:
            RejectedError: The file could not be imported.
            OSError: The folder cannot be reached.
        """
        if not (text.version or self.are_made):  # whether it has changed cannot be seen
            return None
        with suppress(FileNotFoundError, InputError):  # a damaged footer is made again
            layout = read_copied_layout(footer_of(self.path(text)), candidates)
            lacks_rows = self.needs_rows and not exists(self.path(text))
            return None if lacks_rows else layout
        noted = read_rejection(rejection_of(self.path(text)))
        if noted is not None and (self.are_made or not noted.reason.is_out_of_reach):
            raise noted
        return None


def rejection_to_json(reason: FileReason, message: str) -> bytes:
    """Return why a file could not be imported, for `read_rejection`."""
    return to_json({"reason": reason, "message": message})


def read_rejection(path: str) -> RejectedError | None:
    """Read why a file could not be imported; None if nothing says so, or the note is damaged."""
    with suppress(ValueError, KeyError, TypeError):
        content = from_json(read_if_there(path) or b"{}")
        return RejectedError(FileReason(content["reason"]), str(content["message"]))
    return None


_SHOWN = 3
"""Most names, or reasons, that a message shows."""


AS_JSON, INTEGERS, LEFT_OUT = (
    "Columns of JSON lines have values of several types: got {}. In such a file every value of the "
    "column is kept as its JSON text.",
    "Columns of JSON lines have integers beyond 64 bits: got {}. In such a file every value of the "
    "column is kept as a text.",
    "Columns are left out of the output, since they cannot be read and written without a loss: {}. "
    "--drop-columns leaves them out silently.",
)
"""What users must know of columns that are read in another way than they are written."""


def column_notes(columns: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return these sentences with the columns of each, of those that have any."""
    return tuple(
        note.format(listed(sorted(columns[note]), _SHOWN))
        for note in (AS_JSON, INTEGERS, LEFT_OUT)
        if columns.get(note)
    )


# Look at files: reject those that cannot be scored, cut the others into splits.


@dataclass(frozen=True, slots=True)
class _PlanSettings:
    fields: columns.TableFields
    groups: GroupColumns
    named: tuple[str, ...]
    drop: Sequence[str]
    noted: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    dropped: set[str] = field(default_factory=set)


_Measured: TypeAlias = tuple[Split, Sequence[RowGroup]]
"""What all splits of a file share, and its row groups."""


def plan_inputs(
    found: Sequence[inputs.InputFile],
    *,
    fields: columns.TableFields,
    target_rows: int | None,
    target_bytes: int = MOST_SPLIT_BYTES,
    resources: Resources = _USUAL,
    written: Callable[[str], Iterable[str]] | None = None,
) -> Plan:
    """Look at every file and cut the good ones into splits.

    Args:
        found: What to plan, as `expand_inputs` returns it. At least one.
        fields: The columns. Without candidates only references are wanted.
        target_rows: Most rows of a part, at least 1; None to choose it by the rows and the workers.
        target_bytes: Most encoded bytes in a split. At least 1.
        resources: What the plan is made with, and made for.
        written: Returns the paths of all files that a run writes for a part, given the part's name;
            None if nothing is written. A file whose name makes one of them too long is rejected.

    Raises:
        InputError: If no file can be scored; if a column cannot make groups, or no file has it.
        OSError: If none can be scored, and some could not be reached.
    """
    root = common_folder([file.root for file in found])
    names = input_names([file.path for file in found], root)
    groups = GroupColumns(resources.group_by)
    named = fields.named(resources.group_by)
    wanted = _PlanSettings(fields, groups, named, resources.drop)

    def look_at(file: inputs.InputFile) -> _Measured | RejectedFile:
        name = names[file.path]
        try:
            check_place(file, name, written)
            blank = Split(
                path=file.path,
                input_name=name,
                file_size=file.size,
                file_version=file.version,
                partitions=file.partitions,
                references=fields.references,
            )
            text = TextFile.of(file, wanted.named, fields.lists)
            if text is None:
                return _parquet(blank, wanted)
            return _text(blank, text, wanted, resources.imports)
        except RejectedError as error:
            return rejected_file(file.path, name, error)

    outcomes = list(in_parallel(look_at, found, FILES_IN_FLIGHT))
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedFile))
    measured = [outcome for outcome in outcomes if not isinstance(outcome, RejectedFile)]
    if not measured:
        raise _nothing_left(rejected)
    groups.check()
    _check_dropped(resources.drop, wanted.dropped)
    most_rows = target_rows
    if most_rows is None:
        rows = sum(group.pairs for _, groups_of_file in measured for group in groups_of_file)
        most_rows = rows_for_workers(rows, resources.workers)

    splits = [
        split
        for blank, row_groups in measured
        for split in plan_file(blank, row_groups, target_rows=most_rows, target_bytes=target_bytes)
    ]
    identities = sorted({_identity(split) for split in splits}, key=itemgetter(0))
    candidates = fields.several or fields.candidate_column
    read = (candidates, fields.reference_column, *fields.choosing.items())
    return Plan(
        splits=tuple(splits),
        rejected_files=rejected,
        split_rows=most_rows,
        digest=_digest(identities, read),
        notes=column_notes(wanted.noted),
    )


def _parquet(blank: Split, wanted: _PlanSettings) -> _Measured:
    with _rejecting(FileReason.NOT_PARQUET):
        layout = _named_layout(blank, wanted.fields.candidates)
    blank = _without(blank, layout.schema, wanted, _unkept(layout, wanted))
    _check_schema(blank, layout.schema, wanted)
    # Without candidates only references are read, and other columns may be as they like.
    scores = bool(wanted.fields.candidates)
    reference = roots_of(layout.schema, [wanted.fields.reference_column])
    read = (name for name in layout.null_lists if scores or name in reference)
    null_lists = [name for name in read if name not in blank.left_out]
    if null_lists:
        raise RejectedError(FileReason.BAD_COLUMNS, null_lists_message(null_lists))
    unit = COARSE
    if scores and layout.int96:
        with _rejecting(FileReason.BAD_COLUMNS):
            unit = exact_unit(blank.path, blank.left_out)
    shared = replace(
        blank, file_size=layout.file_size, timestamp_unit=unit, utc_times=layout.utc_times
    )
    return shared, layout.row_groups


def _unkept(layout: FileLayout, wanted: _PlanSettings) -> dict[str, str]:
    """Return the columns that cannot be kept, in words; reject the file if the run names one."""
    named = roots_of(layout.schema, wanted.named)
    encrypted = sorted(name for name in layout.encrypted if name in named)
    if encrypted:
        raise RejectedError(
            FileReason.BAD_COLUMNS,
            f"columns cannot be read here: got {listed(map(repr, encrypted), _SHOWN)}, encrypted; "
            "expected them without encryption. Decrypt them.",
        )
    lost = sorted(words for name, words in layout.lost_types if name in named)
    if lost and wanted.fields.candidates:
        raise RejectedError(
            FileReason.BAD_COLUMNS,
            f"columns have types that would be lost: got {listed(lost, _SHOWN)}; expected types "
            "that Arrow writes as it reads them. Cast these columns, to text for example.",
        )
    unkept: dict[str, str] = {}
    for name, words in layout.lost_types:
        unkept[name] = f"{unkept[name]}, {words}" if name in unkept else words
    return unkept | {name: f"{name!r} (encrypted)" for name in layout.encrypted}


def _without(
    blank: Split, schema: pa.Schema, wanted: _PlanSettings, unkept: Mapping[str, str]
) -> Split:
    """Leave columns out that are to be dropped, or that cannot be kept, and note them."""
    if not wanted.fields.candidates:  # nothing is written
        return blank
    names = _with_partitions(schema, blank).names
    dropped = {name for name in wanted.drop if name in names}
    wanted.dropped.update(dropped)
    wanted.noted[LEFT_OUT].update(words for name, words in unkept.items() if name not in dropped)
    return replace(blank, left_out=tuple(sorted(dropped.union(unkept))))


def _with_partitions(schema: pa.Schema, blank: Split) -> pa.Schema:
    return with_partitions(pa.Table.from_batches([], schema), blank.partitions).schema


def _check_dropped(drop: Sequence[str], found: Collection[str]) -> None:
    if missing := sorted(name for name in drop if name not in found):
        raise InputError(
            f"no column to drop: got {listed(map(repr, missing), _SHOWN)}, which no file has; "
            "expected names of columns of the input, not of fields in them. Correct --drop-columns."
        )


def _text(
    blank: Split, text: TextFile, wanted: _PlanSettings, imports: Imports | None
) -> _Measured:
    row_groups: Sequence[RowGroup]
    with _rejecting(FileReason.NOT_TEXT):
        layout = None if imports is None else imports.layout(text, wanted.fields.candidates)
        if imports is not None and layout is not None:
            blank = replace(blank, text=layout.text, data=imports.path(text))
            schema, row_groups = layout.schema, layout.row_groups
        elif imports is not None and imports.are_made:
            raise RejectedError(
                FileReason.UNREADABLE, "it was not turned into Parquet. Run the same command again."
            )
        else:
            blank = replace(blank, text=text.key)
            schema, *row_groups = read_columns(text)
    header = " The first line of the file names them." if text.kind.has_header else ""
    blank = _without(blank, schema, wanted, {})
    _check_schema(blank, schema, wanted, header)
    return blank, row_groups


def check_place(
    file: inputs.InputFile, name: str, written: Callable[[str], Iterable[str]] | None
) -> None:
    """Check what can be checked without opening the file: that it is one, and its name.

    Raises:
        RejectedError: If it cannot be planned.
    """
    if not is_encodable(name):
        raise RejectedError(
            FileReason.BAD_NAME, f"the name {name!a} is not valid UTF-8. Rename the file or folder."
        )
    if file.trouble is not None:
        raise RejectedError(FileReason(file.trouble), file.message)
    limit = None if written is None else too_long_to_write(written(part_name(name, 0)))
    if limit is not None:
        raise RejectedError(
            FileReason.BAD_NAME,
            f"{limit} Move the file up, rename it, or choose a shorter --output.",
        )


def _named_layout(blank: Split, candidates: Sequence[str]) -> FileLayout:
    try:
        return read_layout(blank.path, blank.file_size, blank.file_version, candidates)
    except InputError as error:
        with open_source(blank.path) as source:
            hint = not_parquet_hint(blank.path, bytes(source.read(HEAD_BYTES)))
        if hint is None:
            raise
        raise InputError(hint) from error


def _check_schema(blank: Split, schema: pa.Schema, wanted: _PlanSettings, more: str = "") -> None:
    schema = _with_partitions(schema, blank)
    kept = [column for column in schema if column.name not in blank.left_out]
    schema = pa.schema(kept, metadata=schema.metadata)
    try:
        schema = _with_references(schema, wanted.fields.references)
        _check_no_json(schema, wanted)
        fields = wanted.fields
        several = check_candidates(schema, fields.candidates, among=fields.compares_samples)
        columns.check_columns(schema, None, wanted.fields.reference_column)
        for name in wanted.fields.sources:
            columns.check_text(schema, name, "source", is_text)
        columns.check_choosing_columns(schema, fields.choosing)
        columns.check_collisions(schema, wanted.fields.added)
    except InputError as error:
        raise RejectedError(FileReason.BAD_COLUMNS, f"{error}{more}") from error
    except ConfigError as error:
        raise RejectedError(FileReason.COLUMN_COLLISION, str(error)) from error
    if several:
        schema = schema.append(pa.field(columns.CANDIDATE_FROM, pa.string()))
    wanted.groups.look(schema, blank.input_name)


def _with_references(schema: pa.Schema, references: columns.ReferenceFile | None) -> pa.Schema:
    """Add the columns of a file of references to those of a file that has none."""
    if references is None:
        return schema
    columns.check_choosing_columns(schema, {references.key: JOIN_OPTION})
    added = load(references).table.schema
    if both := sorted({*schema.names} & {*added.names}):
        raise InputError(
            "columns are in the input and in the file of references: got "
            f"{listed(map(repr, both), _SHOWN)}; expected them in one of both. Rename "
            "them, or leave out --reference-file."
        )
    return pa.schema([*schema, *added], metadata=schema.metadata)


def _check_no_json(schema: pa.Schema, wanted: _PlanSettings) -> None:
    """Check that the run names no column of JSON, and note these."""
    found = set(marked_columns(schema, JSON_KEY))
    for name in wanted.named:
        column = Column.find(schema, name)
        place = name if column is None else shown(column.place)
        if any(f"{place}.".startswith(f"{column}.") for column in found):
            raise InputError(
                f"the column {name!r} has values of several types: got them as JSON, from an "
                "import; expected values of one type. Name it when importing (--candidate-column, "
                "--reference-column, --columns): then only the rows that do not fit are rejected."
            )
    wanted.noted[AS_JSON].update(map(repr, found))
    wanted.noted[INTEGERS].update(map(repr, marked_columns(schema, INTEGERS_KEY)))


@contextmanager
def _rejecting(reason: FileReason) -> Iterator[None]:
    """Reject a file that cannot be read: with a reason if it is bad, else as out of reach."""
    try:
        yield
    except inputs.FileChangedError as error:
        raise RejectedError(FileReason.UNREADABLE, str(error)) from error
    except InputError as error:
        raise RejectedError(reason, str(error)) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise RejectedError(FileReason.BAD_NAME, PATH_TOO_LONG) from error
        raise RejectedError(FileReason.UNREADABLE, got_of(error)) from error


def rejected_file(path: str, name: str, error: RejectedError) -> RejectedFile:
    """Describe a rejected file, without its credentials and in valid UTF-8."""
    return RejectedFile(
        path=mask_credentials(_as_utf8(path)),
        reason=error.reason,
        message=mask_credentials(str(error)),
        input_name=_as_utf8(name),
    )


def _as_utf8(text: str) -> str:
    return text if is_encodable(text) else ascii(text)[1:-1]


def _nothing_left(rejected: Sequence[RejectedFile]) -> InputError | OSError:
    """An `OSError` if a file is out of reach: that is not the input's fault, and may pass."""
    groups = grouped([(file.path, file.message) for file in rejected])
    lines = [f"  {line}" for line in groups[:_SHOWN]]
    if len(groups) > _SHOWN:
        lines.append(f"  and {len(groups) - _SHOWN} more")
    kind = OSError if any(file.reason.is_out_of_reach for file in rejected) else InputError
    return kind(
        f"none of the inputs can be scored: got {len(rejected)} file(s), all of them bad; expected "
        "at least one good one.\n" + "\n".join(lines)
    )


def _digest(*parts: object) -> str:
    return digest_of(json.dumps(parts, ensure_ascii=True, separators=(",", ":")), 16)


def _identity(split: Split) -> tuple[str | int, ...]:
    file = (split.input_name, split.file_size, split.file_version, split.file_rows)
    return (*file, split.reading) if split.reading else file
