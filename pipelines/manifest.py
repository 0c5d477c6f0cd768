"""What an output folder says has been done, and what follows for the next run.

    OUT/<input name>/part-000000020000.parquet            a part, whole or not there
    OUT/_manifest/parts/<part name>.json                  its record, written after it
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz     what the run works from
    OUT/_run.json, OUT/_summary.json, OUT/_SUCCESS        options and signature, totals, the end

A part counts as done when its record is whole, was made with the same settings from the same rows
of the same version of the file, and the part is there in the size recorded. Everything else is done
again, which is harmless: a part is a function of its split and the signature.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bertscore_core.errors import SignatureError
from bertscore_core.scores import ScoreSummary
from pipelines.io.files import join, list_files, read_bytes, read_many, write_atomically
from pipelines.planning import Plan
from pipelines.splits import HIDDEN_PREFIXES, Split

PARTS_FOLDER = "_manifest/parts"
# Parquet, but not by that name: globs such as **/*.parquet must find parts alone.
PLAN_FILE = "_manifest/plan.pq"
IDF_FILE = "_manifest/idf.npz"
RUN_FILE = "_run.json"
SUMMARY_FILE = "_summary.json"
SUCCESS_FILE = "_SUCCESS"

_RECORD_SUFFIX = ".json"
_PART_FILE = re.compile(r"part-\d{12}\.parquet")
_RECORD_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """What became of one split.

    Attributes:
        part_name: Path of the part below the output folder.
        input_name: Name of the input file.
        row_offset: First row, counted in the input file.
        num_rows: Rows of the part.
        file_rows: Rows of the whole input file.
        file_size: Size of the input file in bytes.
        file_version: Etag or modification time of the input file, or "".
        job_digest: Digest of the settings of the job, `job_identity`.
        idf: Fingerprint of the idf table the scores were weighed with, or "".
        summary: Rows, scored rows, sums of the scores and rejected rows by reason.
        seconds: Time spent on the part.
        part_bytes: Size of the part in bytes.
    """

    part_name: str
    input_name: str
    row_offset: int
    num_rows: int
    file_rows: int
    file_size: int
    file_version: str
    job_digest: str
    idf: str
    summary: ScoreSummary
    seconds: float
    part_bytes: int

    @classmethod
    def of(
        cls,
        split: Split,
        *,
        job_digest: str,
        idf: str,
        summary: ScoreSummary,
        seconds: float,
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
            job_digest=job_digest,
            idf=idf,
            summary=summary,
            seconds=seconds,
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

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        fields = {"format": _RECORD_FORMAT, **asdict(self)}
        return json.dumps(fields, sort_keys=True, allow_nan=False).encode()


def record_from_json(data: bytes) -> PartRecord | None:
    """Read a record. None stands for one that is torn, foreign or of another format."""
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields.pop("format") != _RECORD_FORMAT:
            return None
        record = PartRecord(**{**fields, "summary": ScoreSummary(**fields["summary"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return record if _is_well_typed(record) else None


def _is_well_typed(record: PartRecord) -> bool:
    """Tell whether the fields that decide about a resume have their types."""
    words = (
        record.part_name,
        record.input_name,
        record.file_version,
        record.job_digest,
        record.idf,
    )
    numbers = (record.row_offset, record.num_rows, record.file_rows, record.file_size)
    return all(type(word) is str for word in words) and all(
        type(number) is int for number in (*numbers, record.part_bytes, record.summary.rows)
    )


def record_path(output: str, part_name: str) -> str:
    """Return where the record of a part lies."""
    return join(output, PARTS_FOLDER, part_name + _RECORD_SUFFIX)


def write_record(output: str, record: PartRecord) -> None:
    """Save the record of a part that has been written."""
    write_atomically(record_path(output, record.part_name), record.to_json())


def read_records(output: str) -> dict[str, PartRecord]:
    """Read all records of an output folder, by part name; what cannot be read is left out."""
    folder = join(output, PARTS_FOLDER)
    names = list(list_files(folder, suffix=_RECORD_SUFFIX))
    found = {
        name.removesuffix(_RECORD_SUFFIX): record_from_json(data)
        for name, data in zip(names, read_many([join(folder, n) for n in names]), strict=True)
        if data is not None
    }
    return {
        name: record
        for name, record in found.items()
        if record is not None and record.part_name == name
    }


def read_part_sizes(output: str) -> dict[str, int]:
    """Return the size in bytes of each part that is there, by part name."""
    return {
        name: size
        for name, size in list_files(output, suffix=".parquet").items()
        if not name.startswith(HIDDEN_PREFIXES)
    }


def is_done(
    split: Split,
    record: PartRecord | None,
    job_digest: str,
    idf: str | None,
    part_sizes: Mapping[str, int] | None = None,
) -> bool:
    """Tell whether the part of a split needs no more work.

    Args:
        split: What is to be done.
        record: What is known of its part.
        job_digest: Digest of the settings the scores should be made with.
        idf: Fingerprint of the idf table they should be weighed with, "" without one; None when
            the table has yet to be counted, so that no earlier score can be known to fit it.
        part_sizes: Sizes of the parts that are there; None leaves that unchecked.
    """
    if record is None or not record.covers(split):
        return False
    if (record.job_digest, record.idf) != (job_digest, idf):
        return False
    return part_sizes is None or part_sizes.get(record.part_name) == record.part_bytes


def pending_splits(
    plan: Plan,
    records: Mapping[str, PartRecord],
    job_digest: str,
    idf: str | None,
    part_sizes: Mapping[str, int] | None = None,
) -> list[Split]:
    """Return the splits of a plan that are still to be done, in the order of the plan."""
    return [
        split
        for split in plan.splits
        if not is_done(split, records.get(split.part_name), job_digest, idf, part_sizes)
    ]


def orphan_parts(plan: Plan, part_names: Iterable[str]) -> list[str]:
    """Return the parts of inputs that are not in the plan any more: gone, renamed or rejected.

    They are to be reported; whether to keep them is not for a plan to decide.
    """
    inputs = {split.input_name for split in plan.splits}
    return sorted(name for name in part_names if name.rpartition("/")[0] not in inputs)


def stale_parts(plan: Plan, part_names: Iterable[str]) -> list[str]:
    """Return the parts of inputs of the plan that it cuts elsewhere now.

    They hold rows that other parts hold as well (the size of splits or the file has changed), so
    they and their records must be deleted before the run ends. Files that are not named like a
    part are somebody else's and stay.
    """
    inputs = {split.input_name for split in plan.splits}
    expected = {split.part_name for split in plan.splits}
    found = ((name, *name.rpartition("/")[::2]) for name in part_names if name not in expected)
    return sorted(
        name for name, folder, file in found if folder in inputs and _PART_FILE.fullmatch(file)
    )


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


_CORPUS_HINT = (
    " (corpus@ stands for the input files by name, size, time and rows: with --idf corpus any "
    "change of them moves every score)"
)


def check_same_run(
    previous_run: Mapping[str, Any] | None, identity: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Check that scores in the output folder were made as this run would make them.

    Args:
        previous_run: What `read_run` returned.
        identity: Settings of this run that must be equal, by name.
        overwrite: Let other scores be replaced.

    Raises:
        SignatureError: If they were made otherwise; the message names what differs.
    """
    if previous_run is None or overwrite:
        return
    before = previous_run.get("identity")
    if not isinstance(before, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder does not say how its scores were made: got no "
            "identity; expected what an earlier run wrote. Choose another --output, or use "
            "--overwrite to start afresh."
        )
    names = sorted(before.keys() | identity.keys())
    lines = [
        f"  {name}: {before.get(name)!r} there, {identity.get(name)!r} now"
        + (_CORPUS_HINT if name == "idf" else "")
        for name in names
        if before.get(name) != identity.get(name)
    ]
    if lines:
        raise SignatureError(
            "the output folder holds scores made otherwise: got these differences\n"
            + "\n".join(lines)
            + "\nexpected none. Choose another --output, or use --overwrite to replace them."
        )
