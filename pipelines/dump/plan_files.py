"""Plan input files: read their footers, reject those that cannot be scored, cut the others.

Only footers are read, many files at a time. A bad file is rejected with its reason and never stops
the others.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bertscore_core.errors import ConfigError, InputError
from pipelines.dump.columns import check_choosing_columns, check_collisions, check_columns
from pipelines.dump.input_names import common_folder, input_names
from pipelines.dump.inputs import InputFile
from pipelines.dump.int96 import COARSE
from pipelines.dump.layout import FileLayout, exact_unit, read_layout
from pipelines.dump.logical_types import lost_types_message
from pipelines.dump.null_lists import null_lists_message
from pipelines.dump.plan import FileReason, Plan, RejectedFile, grouped
from pipelines.dump.splits import Split, part_name, plan_file, rows_for_workers
from pipelines.files.credentials import mask_credentials
from pipelines.files.limits import too_long_to_read, too_long_to_write
from pipelines.files.paths import IO_THREADS
from pipelines.files.search import Trouble

_SHOWN = 3
"""Reasons shown where no file is left."""
_REASONS = {
    Trouble.UNLISTED: FileReason.UNLISTED,
    Trouble.NO_FILE: FileReason.NO_FILE,
    Trouble.BAD_NAME: FileReason.BAD_NAME,
}


class _RejectedError(Exception):
    """A file is rejected."""

    def __init__(self, reason: FileReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A file that can be planned, with its name, its layout and the unit of its timestamps."""

    file: InputFile
    name: str
    layout: FileLayout
    unit: str

    @property
    def rows(self) -> int:
        return sum(group.num_rows for group in self.layout.row_groups)

    def cut(self, target_rows: int, target_bytes: int) -> list[Split]:
        splits = plan_file(
            self.file.path,
            self.name,
            self.layout.row_groups,
            target_rows=target_rows,
            target_bytes=target_bytes,
            file_size=self.layout.file_size,
            file_version=self.file.version,
        )
        utc_times = self.layout.utc_times
        return [replace(split, timestamp_unit=self.unit, utc_times=utc_times) for split in splits]


def plan_inputs(
    files: Sequence[InputFile],
    *,
    candidate_column: str | None,
    reference_column: str,
    target_rows: int | None,
    target_bytes: int,
    workers: int | None = None,
    written: Callable[[str], Iterable[str]] | None = None,
    choosing: Mapping[str, str] | None = None,
) -> Plan:
    """Read the footer of every file and cut the good ones into splits.

    Args:
        files: What to plan, as `expand_inputs` returns it.
        candidate_column: Name of the candidates, None if only references are wanted.
        reference_column: Name of the references.
        target_rows: Most rows in a split; None to choose it by the rows and the workers.
        target_bytes: Most encoded bytes in a split.
        workers: Number of workers that share the splits; None if it is not known.
        written: Returns the paths of all files that a run writes for a part, given the part's name;
            None if nothing is written. A file whose name makes one of them too long is rejected.
        choosing: Further columns that are needed, since their values choose something, each with
            the option that names it.

    Raises:
        InputError: If there is no file, or none that can be scored.
        OSError: If none can be scored, and some could not be reached.
        ConfigError: If a target is below 1.
    """
    choosing = choosing or {}
    names = input_names([file.path for file in files], _root_of(files))

    def look_at(file: InputFile) -> _Measured | RejectedFile:
        name = names[file.path]
        try:
            _check_place(file, name, written)
            layout = _usable_layout(file.path, candidate_column, reference_column, choosing)
            # Without candidates only references are read, and no column is passed through.
            unit = COARSE if candidate_column is None else _unit_of(file.path, layout)
        except _RejectedError as error:
            return _rejected(file.path, name, error)
        return _Measured(file=file, name=name, layout=layout, unit=unit)

    with ThreadPoolExecutor(IO_THREADS) as pool:
        outcomes = list(pool.map(look_at, files))
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedFile))
    measured = [outcome for outcome in outcomes if not isinstance(outcome, RejectedFile)]
    if not measured:
        raise _nothing_left(rejected)
    most_rows = target_rows
    if most_rows is None:
        most_rows = rows_for_workers(sum(one.rows for one in measured), workers)
    splits = tuple(split for one in measured for split in one.cut(most_rows, target_bytes))
    digest = _digest(splits, candidate_column, reference_column, *choosing.items())
    return Plan(splits=splits, rejected_files=rejected, split_rows=most_rows, digest=digest)


def _root_of(files: Sequence[InputFile]) -> str | None:
    """Return the deepest folder that holds the roots of all files; None if one has no root."""
    roots = [file.root for file in files]
    return common_folder(roots) if all(roots) else None


def _check_place(
    file: InputFile, name: str, written: Callable[[str], Iterable[str]] | None
) -> None:
    """Check what can be checked without opening the file: that it is one, and its name.

    Raises:
        _RejectedError: If it cannot be planned.
    """
    if not _is_utf8(name):
        raise _RejectedError(
            FileReason.BAD_NAME, f"the name {name!a} is not valid UTF-8. Rename the file."
        )
    if file.trouble is not None:
        raise _RejectedError(_REASONS[file.trouble], file.message)
    limit = too_long_to_read(file.path)
    if limit is None and written is not None:
        limit = too_long_to_write(written(part_name(name, 0)))
    if limit is not None:
        raise _RejectedError(
            FileReason.BAD_NAME,
            f"{limit} Move the file up, rename it, or choose a shorter --output.",
        )


def _usable_layout(
    path: str, candidate_column: str | None, reference_column: str, choosing: Mapping[str, str]
) -> FileLayout:
    """Read the footer of a file, and check that its columns can be scored and passed through.

    Raises:
        _RejectedError: If they cannot, or the footer cannot be read.
    """
    with _rejecting(FileReason.NOT_PARQUET):
        layout = read_layout(path)
    try:
        check_columns(layout.schema, candidate_column, reference_column)
        check_choosing_columns(layout.schema, choosing)
        check_collisions(layout.schema)
    except InputError as error:
        raise _RejectedError(FileReason.BAD_COLUMNS, str(error)) from error
    except ConfigError as error:
        raise _RejectedError(FileReason.COLUMN_COLLISION, str(error)) from error
    scores = candidate_column is not None
    # Without candidates only references are read, and other columns may be as they like.
    null_lists = [name for name in layout.null_lists if scores or name == reference_column]
    if null_lists:
        raise _RejectedError(FileReason.BAD_COLUMNS, null_lists_message(null_lists))
    if scores and layout.lost_types:
        raise _RejectedError(FileReason.BAD_COLUMNS, lost_types_message(layout.lost_types))
    return layout


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


def _is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: names of local files may hold any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_utf8(text: str) -> str:
    return text if _is_utf8(text) else ascii(text)[1:-1]


def _nothing_left(rejected: Sequence[RejectedFile]) -> InputError | OSError:
    """Return the error to raise when no file can be scored, with the first few reasons.

    A file out of reach is no fault of the input, so that a retry may help: that is an `OSError`.
    """
    if not rejected:
        return InputError("no input: got no file to plan; expected at least one Parquet file.")
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
    files = sorted(
        {(s.input_name, s.file_size, s.file_version, s.file_rows) for s in splits},
    )
    text = json.dumps([files, columns], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
