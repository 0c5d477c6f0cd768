"""Plan input files: look at their columns, reject those that cannot be scored, cut the others.

Only footers are read: of a file of text, that of the Parquet file that was made of it. Before that
is made, the first rows give a sketch. Many files are planned at a time. A bad file is rejected with
its reason and never stops the others.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa

from bertscore_beam.dump.candidates import check_candidates
from bertscore_beam.dump.census import GroupColumns
from bertscore_beam.dump.columns import (
    CANDIDATE_FROM,
    check_choosing_columns,
    check_collisions,
    check_columns,
    root_of,
)
from bertscore_beam.dump.inputs import (
    HEAD_BYTES,
    InputFile,
    common_folder,
    input_names,
    not_parquet_hint,
    partition_schema,
    partitions_of,
)
from bertscore_beam.dump.parquet import FileLayout, exact_unit, read_layout
from bertscore_beam.dump.plan import (
    USUAL,
    FileReason,
    Imports,
    Plan,
    RejectedError,
    RejectedFile,
    Resources,
    grouped,
)
from bertscore_beam.dump.splits import (
    RowGroup,
    Split,
    Splits,
    part_name,
    plan_file,
    rows_for_workers,
)
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import read_columns
from bertscore_beam.dump.types import COARSE, null_lists_message
from bertscore_beam.files import (
    Trouble,
    in_parallel,
    is_utf8,
    mask_credentials,
    open_source,
    too_long_to_read,
    too_long_to_write,
)
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
    candidates: tuple[str, ...]
    reference: str
    choosing: Mapping[str, str]
    groups: GroupColumns


_Measured: TypeAlias = tuple[Split, Sequence[RowGroup], TextFile | None]
"""What all splits of a file share, its row groups, and the file of text if these are estimated."""


def named_columns(
    candidates: Iterable[str], reference: str, choosing: Iterable[str]
) -> tuple[str, ...]:
    """Return the columns that every file must have; see `plan_inputs`."""
    return (*candidates, reference, *choosing)


def plan_inputs(
    files: Sequence[InputFile],
    *,
    candidate_column: str | tuple[str, ...] | None,
    reference_column: str,
    target_rows: int | None,
    target_bytes: int,
    resources: Resources = USUAL,
    written: Callable[[str], Iterable[str]] | None = None,
    choosing: Mapping[str, str] | None = None,
) -> Plan:
    """Look at every file and cut the good ones into splits.

    Args:
        files: What to plan, as `expand_inputs` returns it. At least one.
        candidate_column: Name or dotted path of the candidates, or the names of several columns;
            None if only references are wanted.
        reference_column: Name or dotted path of the references.
        target_rows: Most rows of a part, at least 1; None to choose it by the rows and the workers.
        target_bytes: Most encoded bytes in a split. At least 1.
        resources: What the plan is made with, and made for.
        written: Returns the paths of all files that a run writes for a part, given the part's name;
            None if nothing is written. A file whose name makes one of them too long is rejected.
        choosing: Further columns that are needed, since their values choose something, each with
            the option that names it.

    Raises:
        InputError: If no file can be scored; if a column cannot make groups, or no file has it.
        OSError: If none can be scored, and some could not be reached.
    """
    names = input_names([file.path for file in files], root_of_files(files))
    groups = GroupColumns(resources.group_by)
    candidates = (candidate_column,) if isinstance(candidate_column, str) else candidate_column
    columns = _Columns(candidates or (), reference_column, choosing or {}, groups)

    def look_at(file: InputFile) -> _Measured | RejectedFile:
        name = names[file.path]
        try:
            check_place(file, name, written)
            blank = Split(
                path=file.path,
                input_name=name,
                file_rows=None,
                file_size=file.size,
                file_version=file.version,
                partitions=partitions_of(file.path),
            )
            text = TextFile.of(
                file, named_columns(columns.candidates, reference_column, columns.choosing)
            )
            if text is None:
                return _parquet(blank, columns)
            return _text(blank, text, columns, resources.imports)
        except RejectedError as error:
            return rejected_file(file.path, name, error)

    outcomes = list(in_parallel(look_at, files, resources.files_in_flight))
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedFile))
    measured = [outcome for outcome in outcomes if not isinstance(outcome, RejectedFile)]
    if not measured:
        raise _nothing_left(rejected)
    groups.check()
    most_rows = target_rows
    if most_rows is None:
        rows = sum(group.pairs for _, groups_of_file, _ in measured for group in groups_of_file)
        most_rows = rows_for_workers(rows, resources.workers)

    splits = Splits.of(split for file in measured for split in _cut(file, most_rows, target_bytes))
    digest = _digest(splits, candidate_column, reference_column, *columns.choosing.items())
    return Plan(
        splits=splits,
        rejected_files=rejected,
        split_rows=most_rows,
        digest=digest,
        sketched=tuple(sketched for *_, sketched in measured if sketched is not None),
    )


def _cut(file: _Measured, target_rows: int, target_bytes: int) -> list[Split]:
    blank, row_groups, sketched = file
    splits = plan_file(blank, row_groups, target_rows=target_rows, target_bytes=target_bytes)
    if sketched is None:
        return splits
    return [
        replace(split, num_rows=None, file_rows=None, estimated_rows=split.about_rows)
        for split in splits
    ]


def _parquet(blank: Split, columns: _Columns) -> _Measured:
    with _rejecting(FileReason.NOT_PARQUET):
        layout = _named_layout(blank, columns.candidates)
    _check_schema(blank, layout.schema, columns)
    # Without candidates only references are read, and other columns may be as they like.
    scores = bool(columns.candidates)
    reference = root_of(layout.schema, columns.reference)
    null_lists = [name for name in layout.null_lists if scores or name == reference]
    if null_lists:
        raise RejectedError(FileReason.BAD_COLUMNS, null_lists_message(null_lists))
    if scores and layout.lost_types:
        raise RejectedError(
            FileReason.BAD_COLUMNS,
            f"columns have types that would be lost: got {', '.join(layout.lost_types)}; expected "
            "types that Arrow writes as it reads them. Cast these columns, to text for example, or "
            "leave them out.",
        )
    unit = COARSE
    if scores and layout.int96:
        with _rejecting(FileReason.BAD_COLUMNS):
            unit = exact_unit(blank.path)
    shared = replace(
        blank, file_size=layout.file_size, timestamp_unit=unit, utc_times=layout.utc_times
    )
    return shared, layout.row_groups, None


def _text(blank: Split, text: TextFile, columns: _Columns, imports: Imports | None) -> _Measured:
    with _rejecting(FileReason.NOT_TEXT):
        layout = None if imports is None else imports.layout(text, columns.candidates)
        if layout is None:
            schema, estimated = read_columns(text)
        else:
            schema = layout.schema
    header = " The first line of the file names them." if text.kind.has_header else ""
    _check_schema(blank, schema, columns, header)
    if imports is not None and layout is not None:
        shared = replace(blank, text=layout.text, data=imports.path(text))
        return shared, layout.row_groups, None
    if imports is not None and imports.are_made:
        raise RejectedError(
            FileReason.UNREADABLE, "it was not turned into Parquet. Run the same command again."
        )
    return blank, (estimated,), text


def root_of_files(files: Sequence[InputFile]) -> str | None:
    """Return the deepest folder that holds the roots of all files; None if one has no root."""
    roots = [file.root for file in files]
    return common_folder(roots) if all(roots) else None


def check_place(
    file: InputFile,
    name: str,
    written: Callable[[str], Iterable[str]] | None,
) -> None:
    """Check what can be checked without opening the file: that it is one, and its name.

    Raises:
        RejectedError: If it cannot be planned.
    """
    if not is_utf8(name):
        raise RejectedError(
            FileReason.BAD_NAME, f"the name {name!a} is not valid UTF-8. Rename the file or folder."
        )
    if file.trouble is not None:
        raise RejectedError(_REASONS[file.trouble], file.message)
    limit = too_long_to_read(file.path)
    if limit is None and written is not None:
        limit = too_long_to_write(written(part_name(name, 0)))
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


def _check_schema(blank: Split, schema: pa.Schema, columns: _Columns, more: str = "") -> None:
    schema = partition_schema(schema, blank.partitions)
    try:
        among = columns.reference in columns.candidates
        several = check_candidates(schema, columns.candidates, among=among)
        check_columns(schema, None, columns.reference)
        check_choosing_columns(schema, columns.choosing)
        check_collisions(schema)
    except InputError as error:
        raise RejectedError(FileReason.BAD_COLUMNS, f"{error}{more}") from error
    except ConfigError as error:
        raise RejectedError(FileReason.COLUMN_COLLISION, str(error)) from error
    if several:
        schema = schema.append(pa.field(CANDIDATE_FROM, pa.string()))
    columns.groups.look(schema, blank.input_name)


@contextmanager
def _rejecting(reason: FileReason) -> Iterator[None]:
    """Reject a file that cannot be read: with a reason if it is bad, else as out of reach."""
    try:
        yield
    except InputError as error:
        raise RejectedError(reason, str(error)) from error
    except OSError as error:
        too_long = error.errno == errno.ENAMETOOLONG
        raise RejectedError(
            FileReason.BAD_NAME if too_long else FileReason.UNREADABLE,
            f"{type(error).__name__}: {error}",
        ) from error


def rejected_file(path: str, name: str, error: RejectedError) -> RejectedFile:
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
    """An `OSError` if a file is out of reach: that is no fault of the input, and may pass."""
    groups = grouped([(file.path, file.message) for file in rejected])
    lines = [f"  {line}" for line in groups[:_SHOWN]]
    if len(groups) > _SHOWN:
        lines.append(f"  and {len(groups) - _SHOWN} more")
    kind = OSError if any(file.reason.is_out_of_reach for file in rejected) else InputError
    return kind(
        f"none of the inputs can be scored: got {len(rejected)} file(s), all of them bad; expected "
        "at least one good one.\n" + "\n".join(lines)
    )


def _digest(splits: Sequence[Split], *columns: str | tuple[str, ...] | None) -> str:
    files = sorted({_identity(split) for split in splits}, key=itemgetter(0))
    text = json.dumps([files, columns], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _identity(split: Split) -> tuple[str | int | None, ...]:
    file = (split.input_name, split.file_size, split.file_version, split.file_rows)
    return (*file, split.file_reading) if split.file_reading else file
