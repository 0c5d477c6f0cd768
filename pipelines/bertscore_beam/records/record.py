"""The record of a part: from which rows and with which settings it was made.

It stands in the footer of the part, which has a seal, and says only what follows from
the rows and the settings. So a part vouches for itself, and whoever makes it makes the same bytes.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import SEAL_KEY, open_parquet, seal_of, write_part
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.checked import to_line, typed
from bertscore_beam.files.listing import Stored
from bertscore_beam.records.group_notes import GROUPS_KEY
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import InputError, load_json
from bertscore_core.stats.score_statistics import MEASURES, ScoreSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRows:
    """The rows of one language in a table.

    Attributes:
        label: Label of the setting they were scored with; "" without one.
    """

    label: str
    summary: ScoreSummary


RECORD_KEY = b"bertscore.part"
"""Key of the record in the metadata of a part."""

_SHARED = ("job_digest", "idf", "input_name", "file_version")
"""Texts that are equal in most records of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The result of one split.

    Attributes:
        part_name: Path of the part below the output folder.
        row_offset: First row, counted in the input file; 0 in a file of text.
        file_rows: Rows of the whole input file; None if they were not counted.
        file_size: Size of the input file in bytes.
        file_version: `InputFile.version` of the input file; "" without one.
        job_digest: Digest of the run's `job_identity`.
        idf: Fingerprint of the idf table that weighted the scores; "" without one.
        summary: Rows, scored rows, sums of the scores and rejected rows by reason.
        reading: `Split.reading`: how the rows were read. "" for plain Parquet.
        dropped: Fields of JSON that are not columns, with the number of rows that have them.
        languages: The rows of each language; empty if all rows are scored alike.
        other_scripts: As in `ScoredTable`; so is `tokenized`.
        input_rows: Rows that were read, if each may have several candidates; None if one each.
        part_bytes: Size of the part in bytes. This and what follows is known of a part that is
            there, and is not in its footer.
        seal: `seal_of` the part, for those who read some of its columns.
        staged: Where the part is staged; "" if it is under its name.
    """

    part_name: str
    input_name: str
    row_offset: int
    num_rows: int
    file_rows: int | None
    file_size: int
    file_version: str
    digests: RowDigests
    job_digest: str
    idf: str
    summary: ScoreSummary
    reading: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
    languages: Mapping[str, LanguageRows] = field(default_factory=dict)
    other_scripts: int = 0
    input_rows: int | None = None
    tokenized: int = 0
    part_bytes: int = 0
    seal: str = ""
    staged: str = ""

    @classmethod
    def of(cls, split: Split, *, summary: ScoreSummary, **made: Any) -> "PartRecord":
        """Return the record of a split's part; `made` are the other fields."""
        return cls(
            **{name: getattr(split, name) for name in ("part_name", "input_name", "row_offset")},
            num_rows=summary.rows,
            summary=summary,
            **_file_fields(split),
            **made,
        )

    @property
    def file(self) -> str:
        """Where the part is, below the output folder."""
        return self.staged or self.part_name

    @property
    def rows_read(self) -> int:
        """Rows of the input that the part was made of."""
        return self.num_rows if self.input_rows is None else self.input_rows

    def is_current(self, split: Split) -> bool:
        """Tell whether the file of a split of these rows is of the same version, read alike."""
        return split.file_version != "" and self.covers(split)

    def covers(self, split: Split) -> bool:
        """Tell the same, where an unknown version of the file is no doubt."""
        return all(getattr(self, name) == value for name, value in _file_fields(split).items())

    @property
    def offset(self) -> int:
        """Where the part begins in its file: `Split.row_offset` of its split."""
        return int(self.part_name.removesuffix(".parquet").rpartition("-")[2])

    def to_json(self) -> bytes:
        """Return the record as JSON, without what is known of its part beside."""
        content = asdict(self)
        for name in _FOUND:
            del content[name]
        return to_line(content)

    def to_note(self) -> dict[str, Any]:
        """Return the record as a manifest has it."""
        content = asdict(self)
        del content["staged"]
        return content


_FOUND = ("part_bytes", "seal", "staged")


def _file_fields(split: Split) -> dict[str, Any]:
    names = ("file_rows", "file_size", "file_version", "reading")
    return {name: getattr(split, name) for name in names}


_NAMES = {field.name for field in fields(PartRecord)}


def record_from_json(data: bytes) -> PartRecord | None:
    """Read a record; None if it is damaged."""
    try:
        return record_of(load_json(data))
    except ValueError:
        return None


def record_of(note: Mapping[str, Any]) -> PartRecord | None:
    """Return the record in a manifest; None if it is none."""
    try:
        content = dict(note)
        if not content.keys() <= _NAMES:
            return None
        for name in _SHARED:  # one object for all records: a run may have a million
            content[name] = sys.intern(content[name])
        record = typed(PartRecord, content)
        summaries = [record.summary, *(own.summary for own in record.languages.values())]
        return record if all(map(_has_sums, summaries)) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _has_sums(summary: ScoreSummary) -> bool:
    """Tell whether there are three sums that a double can be: damaged ones may be of any size."""
    sums, most = summary.sums, sys.float_info.max_exp
    return len(sums.steps) == len(MEASURES) and all(
        own.bit_length() - sums.places < most for own in sums.steps
    )


TOKEN_KEY = b"bertscore.token"
"""Key of what is new at each write, so that no part ever has the version of an earlier one."""


def part_to_bytes(
    table: pa.Table,
    record: PartRecord,
    *,
    token: str,
    utc_times: bool = False,
    groups: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Return a part with its record in its footer, and the note of its groups, if it is given.

    Equal rows and records give equal bytes, but for the token and the seal.
    """
    metadata = table.schema.metadata or {}  # also those of a part that was the input
    table = table.replace_schema_metadata(
        {key: value for key, value in metadata.items() if key not in _OF_A_PART}
    )
    notes = {RECORD_KEY: record.to_json(), TOKEN_KEY: token.encode(), **(groups or {})}
    return write_part(table, utc_times=utc_times, notes=notes)


_OF_A_PART = (RECORD_KEY, TOKEN_KEY, GROUPS_KEY, SEAL_KEY)


def read_record(
    folder: OutputFolder, name: str | None, stored: Stored, staged: str = ""
) -> PartRecord | None:
    """Read the record of a part from its footer; None if it is no part, or its footer is damaged.

    Args:
        folder: Its folder.
        name: The name that its record must have; None for any.
        stored: The file as it is listed.
        staged: Where the part is staged; "" if it is under its name.

    Raises:
        OSError: It cannot be reached.
    """
    try:
        path, version = folder.path(staged or name or ""), told_version(stored)
        with open_parquet(path, size=stored.size, version=version, seal="") as (file, _):
            footer = file.metadata
    except (InputError, FileNotFoundError):
        return None
    record = record_from_json(footer.metadata.get(RECORD_KEY, b""))
    if record is None or name not in (None, record.part_name):
        return None
    return replace(record, part_bytes=stored.size, seal=seal_of(footer), staged=staged)


def told_version(stored: Stored) -> str:
    """Return the version of a file; "" if its store tells none."""
    return "" if stored.version == f"{stored.size} bytes" else stored.version


def is_whole(folder: OutputFolder, record: PartRecord) -> bool:
    """Read a part to its end; tell whether it is as it was written, by the checksums of its pages.

    Raises:
        OSError: It cannot be reached.
    """
    known: dict[str, Any] = {"size": record.part_bytes, "seal": record.seal}
    return rows_in(folder.path(record.file), **known) == record.num_rows


def rows_in(path: str, **known: Any) -> int:
    """Read a Parquet file to its end, and count its rows; -1 if it is damaged or not there.

    `known` are arguments of `open_parquet`.

    Raises:
        OSError: It cannot be reached.
    """
    try:
        with open_parquet(path, whole=True, **known) as (file, _):
            return sum(len(batch) for batch in file.iter_batches())
    except (InputError, FileNotFoundError):
        return -1
