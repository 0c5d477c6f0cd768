"""Plan a run: which splits there are, and which files cannot be scored.

Only footers are read, many files at a time. A bad file is rejected with its reason and never stops
the others. The plan is saved next to the output, and a pipeline is given its path alone.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_core.errors import ConfigError, InputError
from pipelines.io.columns import check_collisions, check_columns
from pipelines.io.files import IO_THREADS, mask_credentials
from pipelines.io.inputs import InputFile
from pipelines.io.int96 import COARSE
from pipelines.io.limits import too_long_to_read, too_long_to_write
from pipelines.io.logical_types import lost_types_message
from pipelines.io.null_lists import null_lists_message
from pipelines.io.parquet import exact_unit, read_layout
from pipelines.io.search import Trouble
from pipelines.splits import Split, common_folder, input_names, part_name, plan_file

# Bump when a saved plan can no longer be read as before.
_PLAN_FORMAT = 3
_PLAN_KEY = b"bertscore.plan"
_SHOWN = 3


class FileReason(StrEnum):
    """Why a file is rejected; also the word under which it is counted."""

    UNREADABLE = "unreadable_file"
    UNLISTED = "unreadable_folder"
    NO_FILE = "not_a_file"
    NOT_PARQUET = "not_parquet"
    BAD_COLUMNS = "bad_columns"
    COLUMN_COLLISION = "column_collision"
    BAD_NAME = "bad_file_name"


_OUT_OF_REACH = (FileReason.UNREADABLE, FileReason.UNLISTED)
_REASONS = {
    Trouble.UNLISTED: FileReason.UNLISTED,
    Trouble.NO_FILE: FileReason.NO_FILE,
    Trouble.BAD_NAME: FileReason.BAD_NAME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFile:
    """A file that cannot be scored.

    Attributes:
        path: Where it lies.
        reason: Why, in one word.
        message: Why, in a sentence, with what helps.
        input_name: Its name below the common root, as its parts would bear it.
    """

    path: str
    reason: FileReason
    message: str
    input_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run has to do.

    Attributes:
        splits: All splits, by file and then by row.
        rejected_files: Files rejected, by path.
        digest: Identifies the corpus: names, sizes, versions and rows of the files, and the columns
            read. 16 hex digits. The cut into splits does not enter.
    """

    splits: tuple[Split, ...]
    rejected_files: tuple[RejectedFile, ...]
    digest: str

    @property
    def num_rows(self) -> int:
        """Rows to score."""
        return sum(split.num_rows for split in self.splits)

    @property
    def has_versions(self) -> bool:
        """Whether every file has a version to know it again by."""
        return all(split.file_version for split in self.splits)

    @property
    def unreachable_files(self) -> tuple[RejectedFile, ...]:
        """Files and folders rejected only because they could not be reached."""
        return tuple(f for f in self.rejected_files if f.reason in _OUT_OF_REACH)

    @property
    def is_whole(self) -> bool:
        """Whether every place to look for files could be listed: else no file counts as missing."""
        return all(file.reason is not FileReason.UNLISTED for file in self.rejected_files)

    @property
    def num_files(self) -> int:
        """Files with at least one split."""
        return len({split.input_name for split in self.splits})


def plan_inputs(
    files: Sequence[InputFile],
    *,
    candidate_column: str | None,
    reference_column: str,
    target_rows: int,
    target_bytes: int,
    root: str | None = None,
    written: Callable[[str], Iterable[str]] | None = None,
) -> Plan:
    """Read the footer of every file and cut the good ones into splits.

    Args:
        files: What to plan, as `expand_inputs` returns it.
        candidate_column: Name of the candidates, None if only references are wanted.
        reference_column: Name of the references.
        target_rows: Most rows in a split.
        target_bytes: Most encoded bytes in a split.
        root: The folder that input names are counted from; by default the deepest one that holds
            every place where the search for files began.
        written: Returns the paths of all that a run writes of a part, by its name; None if nothing
            is written. A file whose name makes one of them too long is rejected.

    Raises:
        InputError: If there is no file, or none that can be scored.
        OSError: If none can be scored, and some could not be reached.
        ConfigError: If a target is below 1.
    """
    if root is None:
        root = common_folder([file.root for file in files]) if all(f.root for f in files) else None
    names = input_names([file.path for file in files], root)

    def plan_one(file: InputFile) -> list[Split] | RejectedFile:
        name = names[file.path]
        return _unfit(file, name, written) or _plan_one(
            file, name, candidate_column, reference_column, target_rows, target_bytes
        )

    with ThreadPoolExecutor(IO_THREADS) as pool:
        outcomes = list(pool.map(plan_one, files))
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedFile))
    planned = [outcome for outcome in outcomes if not isinstance(outcome, RejectedFile)]
    if not planned:
        raise _nothing_left(rejected)
    splits = tuple(split for one_file in planned for split in one_file)
    return Plan(
        splits=splits,
        rejected_files=rejected,
        digest=_digest(splits, candidate_column, reference_column),
    )


def _unfit(
    file: InputFile, name: str, written: Callable[[str], Iterable[str]] | None
) -> RejectedFile | None:
    """Say why a file cannot be planned, as far as that can be told without opening it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        message = f"the name {name!a} is not valid UTF-8. Rename the file."
        return _rejected(ascii(file.path)[1:-1], FileReason.BAD_NAME, message, ascii(name)[1:-1])
    if file.trouble is not None:
        return _rejected(file.path, _REASONS[file.trouble], file.message, name)
    limit = too_long_to_read(file.path)
    if limit is None and written is not None:
        limit = too_long_to_write(written(part_name(name, 0)))
    if limit is not None:
        message = f"{limit} Move the file up, rename it, or choose a shorter --output."
        return _rejected(file.path, FileReason.BAD_NAME, message, name)
    return None


def _plan_one(
    file: InputFile,
    name: str,
    candidate_column: str | None,
    reference_column: str,
    target_rows: int,
    target_bytes: int,
) -> list[Split] | RejectedFile:
    """Cut one file, or say why not."""
    try:
        layout = read_layout(file.path)
    except InputError as error:
        return _rejected(file.path, FileReason.NOT_PARQUET, str(error), name)
    except OSError as error:
        too_long = error.errno == errno.ENAMETOOLONG
        reason = FileReason.BAD_NAME if too_long else FileReason.UNREADABLE
        return _rejected(file.path, reason, _words(error), name)
    try:
        check_columns(layout.schema, candidate_column, reference_column)
        check_collisions(layout.schema)
    except InputError as error:
        return _rejected(file.path, FileReason.BAD_COLUMNS, str(error), name)
    except ConfigError as error:
        return _rejected(file.path, FileReason.COLUMN_COLLISION, str(error), name)
    null_lists = [
        name
        for name in layout.null_lists
        if candidate_column is not None or name == reference_column  # else it is not read
    ]
    if null_lists:
        return _rejected(file.path, FileReason.BAD_COLUMNS, null_lists_message(null_lists), name)
    unit = COARSE
    if candidate_column is not None:  # else no column is passed through
        if layout.lost_types:
            message = lost_types_message(layout.lost_types)
            return _rejected(file.path, FileReason.BAD_COLUMNS, message, name)
        try:
            unit = exact_unit(file.path) if layout.int96 else COARSE
        except InputError as error:
            return _rejected(file.path, FileReason.BAD_COLUMNS, str(error), name)
        except OSError as error:
            return _rejected(file.path, FileReason.UNREADABLE, _words(error), name)
    return plan_file(
        file.path,
        name,
        layout.row_groups,
        target_rows=target_rows,
        target_bytes=target_bytes,
        file_size=layout.file_size,
        file_version=file.version,
        timestamp_unit=unit,
        utc_times=layout.utc_times,
    )


def _words(error: OSError) -> str:
    return f"{type(error).__name__}: {error}"


def _rejected(path: str, reason: FileReason, message: str, name: str) -> RejectedFile:
    """Set a file aside, without its credentials."""
    return RejectedFile(
        path=mask_credentials(path),
        reason=reason,
        message=mask_credentials(message),
        input_name=name,
    )


def _nothing_left(rejected: Sequence[RejectedFile]) -> InputError | OSError:
    """Say that no file can be scored, with the first few reasons.

    Files out of reach are no fault of the input: asking again may help.
    """
    if not rejected:
        return InputError("no input: got no file to plan; expected at least one Parquet file.")
    groups = grouped([(file.path, file.message) for file in rejected])
    lines = [f"  {line}" for line in groups[:_SHOWN]]
    if len(groups) > _SHOWN:
        lines.append(f"  and {len(groups) - _SHOWN} more")
    kind = OSError if any(f.reason in _OUT_OF_REACH for f in rejected) else InputError
    return kind(
        f"none of the inputs can be scored: got {len(rejected)} file(s), all of them bad; expected "
        "at least one good one.\n" + "\n".join(lines)
    )


def check_all_reached(plan: Plan) -> None:
    """Raise if something could not be reached: idf must be counted over all, or every score moves.

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
    """Return a line for each message, with the first file that it is about and how many more.

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
    """Digest what shows a change of a corpus without reading its texts. 16 digits."""
    files = sorted({(split.input_name, split.file_rows) for split in splits})
    text = json.dumps([files, reference_column], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest(splits: Sequence[Split], *columns: str | None) -> str:
    """Hash the identity of the files and the names of the columns."""
    files = sorted(
        {(s.input_name, s.file_size, s.file_version, s.file_rows) for s in splits},
    )
    text = json.dumps([files, columns], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan_to_bytes(plan: Plan) -> bytes:
    """Save a plan as a Parquet file: a row per split, the rest in the schema metadata."""
    rest = {
        "format": _PLAN_FORMAT,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
    }
    table = pa.table(
        {name: [getattr(split, name) for split in plan.splits] for name in _SCHEMA.names},
        schema=_SCHEMA.with_metadata({_PLAN_KEY: json.dumps(rest).encode()}),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Load a plan.

    Args:
        data: What `plan_to_bytes` made.
        source: Where it comes from, for the error message.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        rest: dict[str, Any] = json.loads(table.schema.metadata[_PLAN_KEY])
        if rest["format"] != _PLAN_FORMAT:
            raise ValueError(f"format {rest['format']}")
        return Plan(
            splits=tuple(Split(**row) for row in table.to_pylist()),
            rejected_files=tuple(
                RejectedFile(
                    path=file["path"],
                    reason=FileReason(file["reason"]),
                    message=file["message"],
                    input_name=file["input_name"],
                )
                for file in rest["rejected_files"]
            ),
            digest=str(rest["digest"]),
        )
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source!r} is not a plan of this version: got {error!r}; expected one that "
            f"bertscore-beam wrote (format {_PLAN_FORMAT}). Delete it and run the job again."
        ) from error


def _column_types() -> pa.Schema:
    """Return the schema of a saved plan: the fields of a split, in order."""
    kinds = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_()}
    names = {f.name: f.type if isinstance(f.type, str) else f.type.__name__ for f in fields(Split)}
    return pa.schema([pa.field(name, kinds[kind], nullable=False) for name, kind in names.items()])


_SCHEMA = _column_types()
