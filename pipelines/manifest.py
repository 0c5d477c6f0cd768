"""The files of an output folder, and what they say has been done.

    OUT/<input name>/part-000000020000.parquet            a part, whole or missing
    OUT/_manifest/parts/<digest>/part-000000020000.json   its record, written after it
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz          what the run works from
    OUT/_manifest/lock.json                               who works on the folder now
    OUT/_rejects/...                                      rows, splits and files without scores
    OUT/_run.json, OUT/_summary.json, OUT/_SUCCESS        options and signature, totals, the end

`standing` decides what they mean for the next run, `identity` which run may continue in them.
"""

import json
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from bertscore_core.errors import SignatureError
from bertscore_core.scores import ScoreSummary
from bertscore_core.work import Work
from pipelines import neighbours
from pipelines.io.files import (
    IO_THREADS,
    delete_many,
    join,
    list_files,
    read_bytes,
    read_many,
    write_atomically,
)
from pipelines.io.parquet import is_signed
from pipelines.planning import Plan
from pipelines.row_digests import RowDigests
from pipelines.splits import HIDDEN_PREFIXES, Split, note_name

PARTS_FOLDER = "_manifest/parts"
# Parquet, but not by that name: globs such as **/*.parquet must find parts alone.
PLAN_FILE = "_manifest/plan.pq"
PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"
RUN_FILE = neighbours.RUN_FILE
SUMMARY_FILE = "_summary.json"

_RECORD_SUFFIX = ".json"
_RECORD_FILE = re.compile(r"[0-9a-f]{32}/part-\d{12}\.json")
_PART_FILE = re.compile(r"part-\d{12}\.parquet")
_RECORD_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The result of one split.

    Attributes:
        part_name: Path of the part below the output folder.
        input_name: Name of the input file.
        row_offset: First row, counted in the input file.
        num_rows: Rows of the part.
        file_rows: Rows of the whole input file.
        file_size: Size of the input file in bytes.
        file_version: Version of the input file, as `InputFile.version` says, or "".
        digests: Digests of the rows.
        job_digest: Digest of the settings of the job, `job_identity`.
        idf: Fingerprint of the idf table the scores were weighed with, or "".
        summary: Rows, scored rows, sums of the scores and rejected rows by reason.
        seconds: Time spent on the part, that of waiting for the device included.
        work: What the device did for it.
        part_bytes: Size of the part in bytes.
    """

    part_name: str
    input_name: str
    row_offset: int
    num_rows: int
    file_rows: int
    file_size: int
    file_version: str
    digests: RowDigests
    job_digest: str
    idf: str
    summary: ScoreSummary
    seconds: float
    work: Work
    part_bytes: int

    @classmethod
    def of(
        cls,
        split: Split,
        *,
        digests: RowDigests,
        job_digest: str,
        idf: str,
        summary: ScoreSummary,
        seconds: float,
        work: Work,
        part_bytes: int,
    ) -> "PartRecord":
        """Record that the part of a split has been written."""
        return cls(
            part_name=split.part_name,
            input_name=split.input_name,
            row_offset=split.row_offset,
            num_rows=split.num_rows,
            file_rows=split.file_rows,
            file_size=split.file_size,
            file_version=split.file_version,
            digests=digests,
            job_digest=job_digest,
            idf=idf,
            summary=summary,
            seconds=seconds,
            work=work,
            part_bytes=part_bytes,
        )

    def covers(self, split: Split) -> bool:
        """Tell whether the record is about the same rows of the same version of the same file."""
        return (
            self.part_name == split.part_name
            and self.num_rows == split.num_rows
            and self.file_rows == split.file_rows
            and self.file_size == split.file_size
            and self.file_version == split.file_version
        )

    def is_current(self, split: Split) -> bool:
        """Tell whether that is known without a look at the rows."""
        return split.file_version != "" and self.covers(split)

    def moved_to(self, split: Split) -> "PartRecord":
        """Return the record of equal rows in the version of the file that a split is cut from."""
        return replace(
            self,
            file_rows=split.file_rows,
            file_size=split.file_size,
            file_version=split.file_version,
        )

    def rewritten(self, digests: RowDigests, part_bytes: int) -> "PartRecord":
        """Return the record of a part that was written again with the scores it had."""
        return replace(self, digests=digests, part_bytes=part_bytes)

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        fields = {"format": _RECORD_FORMAT, **asdict(self)}
        return json.dumps(fields, sort_keys=True, allow_nan=False).encode()


def record_from_json(data: bytes) -> PartRecord | None:
    """Read a record. None for one that is damaged, foreign or of another format."""
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields.pop("format") != _RECORD_FORMAT:
            return None
        nested = {
            "digests": RowDigests(**fields["digests"]),
            "summary": ScoreSummary(**fields["summary"]),
            "work": Work(**fields["work"]),
        }
        record = PartRecord(**fields | nested)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return record if _is_well_typed(record) else None


def _is_well_typed(record: PartRecord) -> bool:
    """Tell whether the fields that decide about a resume, or are added up, have their types."""
    words = (
        record.part_name,
        record.input_name,
        record.file_version,
        record.job_digest,
        record.idf,
        *asdict(record.digests).values(),
    )
    numbers = (record.row_offset, record.num_rows, record.file_rows, record.file_size)
    counts = (record.part_bytes, record.summary.rows, record.summary.truncated)
    work = asdict(record.work).values()
    return (
        all(type(word) is str for word in words)
        and all(type(number) is int for number in (*numbers, *counts))
        and all(type(number) in (int, float) for number in (*work, record.seconds))
    )


def record_path(output: str, part_name: str) -> str:
    """Return where the record of a part lies."""
    return join(output, PARTS_FOLDER, record_name(part_name))


def record_name(part_name: str) -> str:
    """Return the path of a part's record below the folder of records."""
    return note_name(part_name) + _RECORD_SUFFIX


def strange_records(output: str) -> list[str]:
    """Return the paths of records of versions that kept them under other names, and of other files.

    Nothing reads them, and globs such as **/*.parquet match their folders.
    """
    folder = join(output, PARTS_FOLDER)
    return [join(folder, name) for name in list_files(folder) if not _RECORD_FILE.fullmatch(name)]


def delete_plans(output: str) -> None:
    """Delete what only a run at work needs; the plans hold addresses as they were given."""
    delete_many([join(output, PLAN_FILE), join(output, PENDING_FILE)])


def write_record(output: str, record: PartRecord) -> None:
    """Save the record of a part that has been written."""
    write_atomically(record_path(output, record.part_name), record.to_json())


def read_record(output: str, part_name: str) -> PartRecord | None:
    """Read the record of a part, None if there is none or it cannot be read."""
    (data,) = read_many([record_path(output, part_name)])
    record = None if data is None else record_from_json(data)
    return record if record is not None and record.part_name == part_name else None


def read_records(output: str) -> dict[str, PartRecord]:
    """Read all records of an output folder, by part name; what cannot be read is left out."""
    folder = join(output, PARTS_FOLDER)
    names = list(list_files(folder, suffix=_RECORD_SUFFIX))
    found = {
        name: record_from_json(data)
        for name, data in zip(names, read_many([join(folder, n) for n in names]), strict=True)
        if data is not None
    }
    return {
        record.part_name: record
        for name, record in found.items()
        if record is not None and record_name(record.part_name) == name
    }


def read_part_sizes(
    output: str, known: Collection[str], listing: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the size in bytes of each part that is there and is ours, by part name.

    Ours is a part that has a record or is planned, and any other file with the name of a part that
    carries our signature: a run may have been killed between a part and its record. Other people's
    files are left alone, and so is what lies in the folder of another run.

    Args:
        output: Folder of the run.
        known: Names of parts with a record, and of parts that are planned.
        listing: All files of the folder with their sizes, where they have just been listed.
    """
    listing = list_files(output) if listing is None else listing
    others = neighbours.runs_below(listing)
    found = {
        name: size
        for name, size in listing.items()
        if name.endswith(".parquet")
        and not name.startswith(HIDDEN_PREFIXES)
        and not neighbours.is_below(name, others)
    }
    unsure = [
        name
        for name in found
        if name not in known and _PART_FILE.fullmatch(name.rpartition("/")[2])
    ]
    with ThreadPoolExecutor(IO_THREADS) as pool:
        signed = pool.map(is_signed, [join(output, name) for name in unsure])
        ours = {name for name, is_ours in zip(unsure, signed, strict=True) if is_ours}
    return {name: size for name, size in found.items() if name in known or name in ours}


def read_parts(
    output: str, plan: Plan, listing: Mapping[str, int] | None = None
) -> tuple[dict[str, PartRecord], dict[str, int]]:
    """Return the records of an output folder, and the sizes of its parts, by part name.

    Args:
        output: Folder of the run.
        plan: What is to be done there.
        listing: As for `read_part_sizes`.
    """
    records = read_records(output)
    known = records.keys() | {split.part_name for split in plan.splits}
    return records, read_part_sizes(output, known, listing)


def read_run(output: str) -> dict[str, Any] | None:
    """Read what an earlier run on the folder wrote about itself, None if there was none.

    Raises:
        SignatureError: If there is such a file and it cannot be read.
    """
    try:
        run = json.loads(read_bytes(join(output, RUN_FILE)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        run = None
    if not isinstance(run, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder is damaged: got no JSON object; expected what an "
            "earlier run wrote. Choose another --output, or use --overwrite to start afresh."
        )
    return run
