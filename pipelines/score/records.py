"""The records of parts: from which rows and with which settings each was made.

    OUT/<input name>/part-000000020000.parquet            a part, whole or missing
    OUT/_manifest/parts/<digest>/part-000000020000.json   its record, written after it
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz          inputs of the workers
    OUT/_rejects/...                                      rows, splits and files without scores

`score.resume` compares them with the plan of the next run.
"""

import json
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bertscore_core.scores import ScoreSummary
from bertscore_core.work import Work
from pipelines.dump.parts import is_signed
from pipelines.dump.plan import Plan
from pipelines.dump.row_digests import RowDigests
from pipelines.dump.splits import Split, note_name
from pipelines.files.folders import HIDDEN_PREFIXES
from pipelines.files.paths import IO_THREADS
from pipelines.run import neighbours
from pipelines.run.folder import PLAN_FILE, OutputFolder
from pipelines.score.language_rows import LanguageRows

PARTS_FOLDER = "_manifest/parts"
PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"

_RECORD_SUFFIX = ".json"
_RECORD_FILE = re.compile(r"[0-9a-f]{32}/part-\d{12,}\.json")
_PART_FILE = re.compile(r"part-\d{12,}\.parquet")
_RECORD_FORMAT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The result of one split.

    Attributes:
        part_name: Path of the part below the output folder.
        input_name: Name of the input file.
        row_offset: First row, counted in the input file; 0 in a file of text.
        num_rows: Rows of the part.
        file_rows: Rows of the whole input file; None if they were not counted.
        file_size: Size of the input file in bytes.
        file_version: `InputFile.version` of the input file; "" without one.
        digests: Digests of the rows.
        job_digest: Digest of the run's `job_identity`.
        idf: Fingerprint of the idf table that weighted the scores; "" without one.
        summary: Rows, scored rows, sums of the scores and rejected rows by reason.
        seconds: Time spent on the part, with the time of waiting for the device.
        work: The work of the device for it.
        part_bytes: Size of the part in bytes.
        reading: `Split.reading`: how the rows were read. "" for plain Parquet.
        dropped: Fields of JSON that are no columns, with the number of rows that have them.
        reused: Rows that took the scores of an earlier run.
        reused_rows: Which rows these are, as `packed_rows` writes them; "" for none or all, and in
            a record of a version that did not write it.
        languages: The rows of each language; empty if all rows are scored alike.
        other_scripts: As in `ScoredTable`.
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
    seconds: float
    work: Work
    part_bytes: int
    reading: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
    reused: int = 0
    reused_rows: str = ""
    languages: Mapping[str, LanguageRows] = field(default_factory=dict)
    other_scripts: int = 0

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
            num_rows=summary.rows,
            file_rows=split.file_rows,
            file_size=split.file_size,
            file_version=split.file_version,
            reading=split.reading,
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
            and split.num_rows in (None, self.num_rows)
            and self.reading == split.reading
            and self.file_rows == split.file_rows
            and self.file_size == split.file_size
            and self.file_version == split.file_version
        )

    def is_current(self, split: Split) -> bool:
        """Tell whether the part is of the same rows for certain, without reading them."""
        return split.file_version != "" and self.covers(split)

    @property
    def texts_digest(self) -> str:
        """Identifies the texts of the part and how they were scored."""
        labels = [f"-{name}:{rows.label}" for name, rows in sorted(self.languages.items())]
        texts = f"{self.digests.candidates}-{self.digests.references}"
        return f"{texts}-{self.job_digest}-{self.idf}{''.join(labels)}"

    def moved_to(self, split: Split) -> "PartRecord":
        """Return the record for the same rows in the present version of the file."""
        return replace(
            self,
            file_rows=split.file_rows,
            file_size=split.file_size,
            file_version=split.file_version,
            reading=split.reading,
        )

    def rewritten(self, digests: RowDigests, part_bytes: int) -> "PartRecord":
        """Return the record of a part that was written again with the scores it had."""
        return replace(self, digests=digests, part_bytes=part_bytes)

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        fields = {"format": _RECORD_FORMAT, **asdict(self)}
        return json.dumps(fields, sort_keys=True, allow_nan=False).encode()


def record_from_json(data: bytes) -> PartRecord | None:
    """Read a record; None if it is damaged or has another format."""
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields.pop("format") != _RECORD_FORMAT:
            return None
        nested = {
            "digests": RowDigests(**fields["digests"]),
            "summary": ScoreSummary(**fields["summary"]),
            "work": Work(**fields["work"]),
            "languages": {
                language: LanguageRows(label=rows["label"], summary=ScoreSummary(**rows["summary"]))
                for language, rows in fields.get("languages", {}).items()
            },
        }
        record = PartRecord(**fields | nested)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return record if _is_well_typed(record) else None


def _is_well_typed(record: PartRecord) -> bool:
    """Tell whether the fields that are compared or added up have the right types."""
    words = (
        record.part_name,
        record.input_name,
        record.file_version,
        record.job_digest,
        record.idf,
        record.reading,
        record.reused_rows,
        *asdict(record.digests).values(),
        *(rows.label for rows in record.languages.values()),
    )
    numbers = (record.row_offset, record.num_rows, record.file_size)
    summaries = (record.summary, *(rows.summary for rows in record.languages.values()))
    counts = (
        record.part_bytes,
        record.reused,
        record.other_scripts,
        *(n for summary in summaries for n in (summary.rows, summary.truncated, summary.windowed)),
    )
    work = asdict(record.work).values()
    dropped = record.dropped.values()
    return (
        all(type(word) is str for word in words)
        and all(type(number) is int for number in (*numbers, *counts, *dropped))
        and type(record.file_rows) in (int, type(None))
        and all(type(number) in (int, float) for number in (*work, record.seconds))
    )


def record_path(part_name: str) -> str:
    """Return the path of a part's record below the output folder."""
    return f"{PARTS_FOLDER}/{record_name(part_name)}"


def record_name(part_name: str) -> str:
    """Return the path of a part's record below the folder of records."""
    return note_name(part_name) + _RECORD_SUFFIX


def foreign_records(folder: OutputFolder) -> list[str]:
    """Return the files in the folder of records that are not named like a record.

    Earlier versions named records otherwise. Nothing reads those, and globs such as **/*.parquet
    match their folders.
    """
    names = folder.files(PARTS_FOLDER)
    return [f"{PARTS_FOLDER}/{name}" for name in names if not _RECORD_FILE.fullmatch(name)]


def delete_plans(folder: OutputFolder) -> None:
    """Delete the plans, which only the workers need; they may contain credentials in paths."""
    folder.delete(PLAN_FILE, PENDING_FILE)


def read_record(folder: OutputFolder, part_name: str) -> PartRecord | None:
    """Read the record of a part; None if it is missing or damaged."""
    (data,) = folder.read_if_there(record_path(part_name))
    record = None if data is None else record_from_json(data)
    return record if record is not None and record.part_name == part_name else None


def read_records(folder: OutputFolder) -> dict[str, PartRecord]:
    """Read all records of an output folder by part name; damaged records are left out."""
    names = list(folder.files(PARTS_FOLDER, suffix=_RECORD_SUFFIX))
    contents = folder.read_if_there(*(f"{PARTS_FOLDER}/{name}" for name in names))
    found = {
        name: record_from_json(data)
        for name, data in zip(names, contents, strict=True)
        if data is not None
    }
    return {
        record.part_name: record
        for name, record in found.items()
        if record is not None and record_name(record.part_name) == name
    }


def read_part_sizes(
    folder: OutputFolder, known: Collection[str], listing: Mapping[str, int]
) -> dict[str, int]:
    """Return the size in bytes of each part in the folder, by part name.

    A file is a part if it has a record or is planned. It is also a part if it has the name of one
    and a signature in its metadata: a run may have been killed between a part and its record. Other
    files, and the folders of other runs, are left alone.

    Args:
        folder: Folder of the run.
        known: Names of parts with a record, and of planned parts.
        listing: All files of the folder with their sizes.
    """
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
        signed = pool.map(is_signed, [folder.path(name) for name in unsure])
        parts = {name for name, is_part in zip(unsure, signed, strict=True) if is_part}
    return {name: size for name, size in found.items() if name in known or name in parts}


def read_parts(
    folder: OutputFolder, plan: Plan, listing: Mapping[str, int]
) -> tuple[dict[str, PartRecord], dict[str, int]]:
    """Return the records of an output folder, and the sizes of its parts, by part name.

    Args:
        folder: Folder of the run.
        plan: All splits.
        listing: All files of the folder with their sizes.
    """
    records = read_records(folder)
    known = records.keys() | {split.part_name for split in plan.splits}
    return records, read_part_sizes(folder, known, listing)
