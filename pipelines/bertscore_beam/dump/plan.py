"""The plan of a run: which splits there are, which files cannot be scored, and its file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.parquet import FileLayout, read_layout
from bertscore_beam.dump.splits import SPLIT_COLUMNS, Split, Splits
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.files import FILES_IN_FLIGHT, exists, join, read_many
from bertscore_core.errors import InputError, load_json


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
        """Whether the file could not be reached, which is no fault of it."""
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
        files_in_flight: Most files that are looked at in parallel.
        imports: The imports of files of text; None if there are none.
        group_by: Columns that make groups. Some file must have each of them.
    """

    workers: int | None = None
    files_in_flight: int = FILES_IN_FLIGHT
    imports: "Imports | None" = None
    group_by: Sequence[str] = ()


USUAL = Resources()
"""What a plan is made with by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What the columns of languages and groups hold, counted before any model runs.

    Attributes:
        languages: Rows of each language; empty without a column of languages.
        num_groups: Number of groups in the first splits; 0 without group columns.
        unread: Splits that were left out, since they could not be read.
    """

    languages: Mapping[str, int] = field(default_factory=dict)
    num_groups: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The splits and the rejected files of a run.

    Attributes:
        splits: All splits, by file and then by row; usually `Splits`.
        rejected_files: Files rejected, by path.
        split_rows: Most rows in a split.
        digest: Identifies the corpus: names, sizes, versions and rows of the files, and the columns
            read. 16 hex digits. It does not depend on the cut into splits.
        sketched: Files of text that must be imported first. Their splits are estimated from the
            first rows, and cannot be read.
        census: What the columns of languages and groups hold, if they were counted.
    """

    splits: Sequence[Split]
    rejected_files: tuple[RejectedFile, ...]
    split_rows: int
    digest: str
    sketched: tuple[TextFile, ...] = ()
    census: Census = Census()

    @property
    def num_rows(self) -> int | None:
        """Rows of the input; None if files must be imported to know."""
        return None if self.sketched else sum(split.rows_read for split in self.splits)

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
    files = sorted({(split.input_name, split.file_rows) for split in splits})
    text = json.dumps([files, reference_column], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rows_words(splits: Sequence[Split]) -> str:
    """Return the number of rows of splits in words, estimated where it is not known."""
    about = "" if all(split.num_rows is not None for split in splits) else "about "
    return f"{about}{sum(split.about_rows for split in splits):,}"


def few_rows_words(rows: int, min_rows: int) -> str:
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
            import is rejected. Before, it is planned from its first rows.
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
            layout = read_layout(join(self.folder, text.footer), candidates=candidates)
            lacks_rows = self.needs_rows and not exists(self.path(text))
            return None if lacks_rows else layout
        (noted,) = read_many([join(self.folder, text.rejection)])
        with suppress(ValueError, KeyError, TypeError):  # so is a damaged note
            content = load_json(noted or b"{}")
            reason, message = FileReason(content["reason"]), str(content["message"])
            if self.are_made or not reason.is_out_of_reach:
                raise RejectedError(reason, message)
        return None


def rejection_to_json(reason: FileReason, message: str) -> bytes:
    """Return why a file could not be imported, as `Imports.layout` reads it."""
    return json.dumps({"reason": reason, "message": message}).encode()


# A plan as a file: saved beside the output, so that the job itself carries only its path.

# Raise it when a saved plan can no longer be read as before.
_PLAN_FORMAT = 5
_PLAN_KEY = b"bertscore.plan"


def plan_to_bytes(plan: Plan) -> bytes:
    """Return a plan as a Parquet file: one row for each split, the rest in the schema metadata."""
    rest = {
        "format": _PLAN_FORMAT,
        "split_rows": plan.split_rows,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
        "census": asdict(plan.census),
    }
    table = Splits.of(plan.splits).table
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({_PLAN_KEY: json.dumps(rest)})
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Read a plan. Its splits stay a table: few of them are objects at a time.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        rest: dict[str, Any] = load_json(file.schema_arrow.metadata[_PLAN_KEY])
        if rest["format"] != _PLAN_FORMAT:
            raise ValueError(f"format {rest['format']}")
        table = file.read(SPLIT_COLUMNS.names, use_threads=False)
        return Plan(
            splits=Splits(table.cast(SPLIT_COLUMNS)),
            rejected_files=tuple(
                RejectedFile(**file | {"reason": FileReason(file["reason"])})
                for file in rest["rejected_files"]
            ),
            split_rows=int(rest["split_rows"]),
            digest=str(rest["digest"]),
            census=Census(**rest["census"]),
        )
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source!r} is not a plan of this version: got {error!r}; expected one that "
            f"bertscore-beam wrote (format {_PLAN_FORMAT}). Delete it and run the job again."
        ) from error
