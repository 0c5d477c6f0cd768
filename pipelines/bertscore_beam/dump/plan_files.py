"""Plan input files: look at their columns, reject those that cannot be scored, cut the others.

Of Parquet only footers are read, of JSON lines the first rows; CSV and compressed files are read
once. Many files are planned at a time. A bad file is rejected with its reason and never stops the
others.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter

import pyarrow as pa

from bertscore_beam.dump.columns import (
    check_choosing_columns,
    check_collisions,
    check_columns,
    root_of,
)
from bertscore_beam.dump.formats import Codec, Format, format_of, not_parquet_hint
from bertscore_beam.dump.input_names import common_folder, input_names
from bertscore_beam.dump.inputs import InputFile
from bertscore_beam.dump.int96 import COARSE
from bertscore_beam.dump.layout import FileLayout, exact_unit, read_layout
from bertscore_beam.dump.logical_types import lost_types_message
from bertscore_beam.dump.null_lists import null_lists_message
from bertscore_beam.dump.partitions import partition_schema, partitions_of
from bertscore_beam.dump.plan import USUAL, FileReason, Plan, RejectedFile, Resources, grouped
from bertscore_beam.dump.splits import (
    RowGroup,
    Split,
    byte_part_name,
    check_targets,
    part_name,
    plan_file,
    rows_for_workers,
)
from bertscore_beam.dump.text_layout import TextLayout, cut_text, read_text_layout
from bertscore_beam.dump.text_source import read_head
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.limits import too_long_to_read, too_long_to_write
from bertscore_beam.files.parallel import in_parallel
from bertscore_beam.files.paths import is_utf8
from bertscore_beam.files.search import Trouble
from bertscore_core.errors import ConfigError, InputError

_SHOWN = 3
"""Reasons shown where no file is left."""
_REASONS = {
    Trouble.UNLISTED: FileReason.UNLISTED,
    Trouble.NO_FILE: FileReason.NO_FILE,
    Trouble.BAD_NAME: FileReason.BAD_NAME,
}


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that a file must have; see `plan_inputs`."""

    candidate: str | None
    reference: str
    choosing: Mapping[str, str]


class _RejectedError(Exception):
    """A file is rejected."""

    def __init__(self, reason: FileReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A file that can be planned: what its splits share, and where it can be cut."""

    blank: Split
    layout: tuple[RowGroup, ...] | TextLayout

    @property
    def rows(self) -> int:
        """Its rows, estimated for a file of text."""
        if isinstance(self.layout, TextLayout):
            return self.layout.about_rows
        return sum(group.num_rows for group in self.layout)

    def cut(self, target_rows: int, target_bytes: int) -> list[Split]:
        """Cut it into splits; a damaged file of text is rejected."""
        targets = {"target_rows": target_rows, "target_bytes": target_bytes}
        blank, layout = self.blank, self.layout
        if isinstance(layout, TextLayout):
            with _rejecting(FileReason.NOT_TEXT):
                return cut_text(blank.path, layout, blank, **targets)
        splits = plan_file(
            blank.path,
            blank.input_name,
            layout,
            file_size=blank.file_size,
            file_version=blank.file_version,
            **targets,
        )
        return [
            replace(
                split,
                timestamp_unit=blank.timestamp_unit,
                utc_times=blank.utc_times,
                partitions=blank.partitions,
            )
            for split in splits
        ]


def plan_inputs(
    files: Sequence[InputFile],
    *,
    candidate_column: str | None,
    reference_column: str,
    target_rows: int | None,
    target_bytes: int,
    resources: Resources = USUAL,
    written: Callable[[str], Iterable[str]] | None = None,
    choosing: Mapping[str, str] | None = None,
) -> Plan:
    """Look at every file and cut the good ones into splits.

    Args:
        files: What to plan, as `expand_inputs` returns it.
        candidate_column: Name or dotted path of the candidates, None if only references are wanted.
        reference_column: Name or dotted path of the references.
        target_rows: Most rows in a split; None to choose it by the rows and the workers.
        target_bytes: Most encoded bytes in a split.
        resources: What the plan is made with, and made for.
        written: Returns the paths of all files that a run writes for a part, given the part's name;
            None if nothing is written. A file whose name makes one of them too long is rejected.
        choosing: Further columns that are needed, since their values choose something, each with
            the option that names it.

    Raises:
        InputError: If there is no file, or none that can be scored.
        OSError: If none can be scored, and some could not be reached.
        ConfigError: If a target is below 1.
    """
    names = input_names([file.path for file in files], _root_of(files))
    columns = _Columns(candidate_column, reference_column, choosing or {})
    check_targets(target_rows or 1, target_bytes)

    def look_at(file: InputFile) -> _Measured | RejectedFile:
        name = names[file.path]
        kind, codec = format_of(file.path, file.input_format)
        try:
            _check_place(file, name, written, is_text=kind is not Format.PARQUET)
            blank = Split(
                path=file.path,
                input_name=name,
                file_rows=None,
                file_size=file.size,
                file_version=file.version,
                partitions=partitions_of(file.path),
            )
            if kind is Format.PARQUET:
                return _parquet_layout(blank, columns)
            return _text_layout(blank, kind, codec, columns)
        except _RejectedError as error:
            return _rejected(file.path, name, error)

    outcomes = list(in_parallel(look_at, files, resources.files_in_flight))
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedFile))
    measured = [outcome for outcome in outcomes if not isinstance(outcome, RejectedFile)]
    if not measured:
        raise _nothing_left(rejected)
    most_rows = target_rows
    if most_rows is None:
        most_rows = rows_for_workers(sum(one.rows for one in measured), resources.workers)
    check_targets(most_rows, target_bytes)

    def cut(one: _Measured) -> list[Split] | RejectedFile:
        try:
            return one.cut(most_rows, target_bytes)
        except _RejectedError as error:
            return _rejected(one.blank.path, one.blank.input_name, error)

    pieces = list(in_parallel(cut, measured, resources.files_in_flight))
    # Only a file that must be read to be cut can still turn out to be damaged.
    rejected += tuple(piece for piece in pieces if isinstance(piece, RejectedFile))
    splits = tuple(
        split for piece in pieces if not isinstance(piece, RejectedFile) for split in piece
    )
    if not splits:
        raise _nothing_left(rejected)
    digest = _digest(splits, candidate_column, reference_column, *columns.choosing.items())
    return Plan(splits=splits, rejected_files=rejected, split_rows=most_rows, digest=digest)


def _parquet_layout(blank: Split, columns: _Columns) -> _Measured:
    """Look at a Parquet file.

    Raises:
        _RejectedError: If it cannot be planned.
    """
    layout = _usable_layout(blank, columns)
    # Without candidates only references are read, and no column is passed through.
    unit = COARSE if columns.candidate is None else _unit_of(blank.path, layout)
    shared = replace(
        blank, file_size=layout.file_size, timestamp_unit=unit, utc_times=layout.utc_times
    )
    return _Measured(blank=shared, layout=layout.row_groups)


def _text_layout(blank: Split, kind: Format, codec: Codec, columns: _Columns) -> _Measured:
    """Look at a file of JSON lines, CSV or TSV.

    Raises:
        _RejectedError: If it cannot be planned.
    """
    named = (columns.candidate, columns.reference, *columns.choosing)
    wanted = [name for name in named if name is not None]
    with _rejecting(FileReason.NOT_TEXT):
        layout = read_text_layout(blank.path, kind, codec, wanted)
    _check_schema(partition_schema(layout.schema, blank.partitions), columns)
    return _Measured(blank=replace(blank, file_size=layout.file_size), layout=layout)


def _root_of(files: Sequence[InputFile]) -> str | None:
    """Return the deepest folder that holds the roots of all files; None if one has no root."""
    roots = [file.root for file in files]
    return common_folder(roots) if all(roots) else None


def _check_place(
    file: InputFile,
    name: str,
    written: Callable[[str], Iterable[str]] | None,
    *,
    is_text: bool,
) -> None:
    """Check what can be checked without opening the file: that it is one, and its name.

    Raises:
        _RejectedError: If it cannot be planned.
    """
    if not is_utf8(name):
        raise _RejectedError(
            FileReason.BAD_NAME, f"the name {name!a} is not valid UTF-8. Rename the file or folder."
        )
    if file.trouble is not None:
        raise _RejectedError(_REASONS[file.trouble], file.message)
    limit = too_long_to_read(file.path)
    if limit is None and written is not None:
        part = byte_part_name(name, 0) if is_text else part_name(name, 0)
        limit = too_long_to_write(written(part))
    if limit is not None:
        raise _RejectedError(
            FileReason.BAD_NAME,
            f"{limit} Move the file up, rename it, or choose a shorter --output.",
        )


def _usable_layout(blank: Split, columns: _Columns) -> FileLayout:
    """Read the footer of a file, and check that its columns can be scored and passed through.

    Raises:
        _RejectedError: If they cannot, or the footer cannot be read.
    """
    with _rejecting(FileReason.NOT_PARQUET):
        layout = _named_layout(blank)
    _check_schema(partition_schema(layout.schema, blank.partitions), columns)
    scores = columns.candidate is not None
    # Without candidates only references are read, and other columns may be as they like.
    reference = root_of(layout.schema, columns.reference)
    null_lists = [name for name in layout.null_lists if scores or name == reference]
    if null_lists:
        raise _RejectedError(FileReason.BAD_COLUMNS, null_lists_message(null_lists))
    if scores and layout.lost_types:
        raise _RejectedError(FileReason.BAD_COLUMNS, lost_types_message(layout.lost_types))
    return layout


def _named_layout(blank: Split) -> FileLayout:
    """Read the footer of a Parquet file.

    Raises:
        InputError: If it is not one; the message names another format that it plainly has.
    """
    try:
        return read_layout(blank.path, blank.file_size, blank.file_version)
    except InputError as error:
        hint = not_parquet_hint(blank.path, read_head(blank.path))
        if hint is None:
            raise
        raise InputError(hint) from error


def _check_schema(schema: pa.Schema, columns: _Columns) -> None:
    """Check the columns of a file.

    Raises:
        _RejectedError: If they cannot be scored.
    """
    try:
        check_columns(schema, columns.candidate, columns.reference)
        check_choosing_columns(schema, columns.choosing)
        check_collisions(schema)
    except InputError as error:
        raise _RejectedError(FileReason.BAD_COLUMNS, str(error)) from error
    except ConfigError as error:
        raise _RejectedError(FileReason.COLUMN_COLLISION, str(error)) from error


def _unit_of(path: str, layout: FileLayout) -> str:
    """Return the unit in which the INT96 timestamps of a file are exact.

    Raises:
        _RejectedError: If there is none, or they cannot be read.
    """
    if not layout.int96:
        return COARSE
    with _rejecting(FileReason.BAD_COLUMNS):
        return exact_unit(path)


@contextmanager
def _rejecting(reason: FileReason) -> Iterator[None]:
    """Reject a file that cannot be read: with a reason if it is bad, else as out of reach."""
    try:
        yield
    except InputError as error:
        raise _RejectedError(reason, str(error)) from error
    except OSError as error:
        too_long = error.errno == errno.ENAMETOOLONG
        raise _RejectedError(
            FileReason.BAD_NAME if too_long else FileReason.UNREADABLE,
            f"{type(error).__name__}: {error}",
        ) from error


def _rejected(path: str, name: str, error: _RejectedError) -> RejectedFile:
    """Describe a rejected file, without its credentials and in valid UTF-8."""
    return RejectedFile(
        path=mask_credentials(_as_utf8(path)),
        reason=error.reason,
        message=mask_credentials(str(error)),
        input_name=_as_utf8(name),
    )


def _as_utf8(text: str) -> str:
    return text if is_utf8(text) else ascii(text)[1:-1]


def _nothing_left(rejected: Sequence[RejectedFile]) -> InputError | OSError:
    """Return the error to raise when no file can be scored, with the first few reasons.

    A file out of reach is no fault of the input, so that a retry may help: that is an `OSError`.
    """
    if not rejected:
        return InputError("no input: got no file to plan; expected at least one file.")
    groups = grouped([(file.path, file.message) for file in rejected])
    lines = [f"  {line}" for line in groups[:_SHOWN]]
    if len(groups) > _SHOWN:
        lines.append(f"  and {len(groups) - _SHOWN} more")
    kind = OSError if any(file.is_out_of_reach for file in rejected) else InputError
    return kind(
        f"none of the inputs can be scored: got {len(rejected)} file(s), all of them bad; expected "
        "at least one good one.\n" + "\n".join(lines)
    )


def _digest(splits: Sequence[Split], *columns: str | tuple[str, str] | None) -> str:
    """Hash the identity of the files and the names of the columns, some with their options."""
    files = sorted({_identity(split) for split in splits}, key=itemgetter(0))
    # The digest of one JSON text, which is never there as a whole: [[file, ...], [column, ...]].
    digest = hashlib.sha256(b"[[")
    for number, file in enumerate(files):
        digest.update(b"," * (number > 0) + _json(file))
    digest.update(b"]," + _json(columns) + b"]")
    return digest.hexdigest()[:16]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def _identity(split: Split) -> tuple[str | int | None, ...]:
    """Return what identifies a file and how it is read."""
    file = (split.input_name, split.file_size, split.file_version, split.file_rows)
    return (*file, split.file_reading) if split.file_reading else file
