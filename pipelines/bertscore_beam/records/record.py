"""The record of a part: from which rows and with which settings it was made.

    OUT/_manifest/parts/<digest>/part-000000020000.json   written after the part

A record vouches for its part. `records.records` reads those of a folder.
"""

import base64
import sys
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import footer_digest
from bertscore_beam.dump.splits import Split, note_name
from bertscore_beam.files.checked import digest_of, from_json, to_json, typed
from bertscore_core.stats.score_statistics import MEASURES
from bertscore_core.stats.scores import ScoreSummary
from bertscore_core.tokens import BoolArray
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRows:
    """The rows of one language in a table.

    Attributes:
        label: Label of the setting they were scored with; "" without one.
    """

    label: str
    summary: ScoreSummary


def packed_rows(chosen: BoolArray) -> str:
    """Return which rows are chosen: a bit each, compressed, as ASCII. "" for none or all.

    20,000 rows take at most 3.4 kB.
    """
    if chosen.all() or not chosen.any():
        return ""
    return base64.b85encode(zlib.compress(np.packbits(chosen).tobytes())).decode()


PARTS_FOLDER = "_manifest/parts"
_RECORD_SUFFIX = ".json"

_RECORD_FORMAT = 5

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
        seconds: Time spent on its scores, with waiting for the device; not on reading or writing.
        work: The work of the device for it.
        part_bytes: Size of the part in bytes.
        part_digest: Digest of its bytes.
        footer_digest: Digest of its footer, for those who read some of its columns.
        reading: `Split.reading`: how the rows were read. "" for plain Parquet.
        dropped: Fields of JSON that are not columns, with the number of rows that have them.
        reused: Rows that took the scores of an earlier run.
        reused_rows: Which rows these are, as `packed_rows` writes them; "" for none or all.
        reuse_failures: Damaged pieces and entries of that run, and look-ups of it that failed.
        replaced_damaged: Whether the part took the place of one that could not be read.
        languages: The rows of each language; empty if all rows are scored alike.
        other_scripts: As in `ScoredTable`.
        input_rows: Rows that were read, if each may have several candidates; None if one each.
        tokenized: As in `ScoredTable`.
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
    part_digest: str = ""
    footer_digest: str = ""
    reading: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
    reused: int = 0
    reused_rows: str = ""
    reuse_failures: int = 0
    replaced_damaged: bool = False
    languages: Mapping[str, LanguageRows] = field(default_factory=dict)
    other_scripts: int = 0
    input_rows: int | None = None
    tokenized: int = 0

    @classmethod
    def of(cls, split: Split, *, summary: ScoreSummary, **made: Any) -> "PartRecord":
        """Record that the part of a split has been written; `made` are the other fields."""
        return cls(
            **{name: getattr(split, name) for name in ("part_name", "input_name", "row_offset")},
            num_rows=summary.rows,
            summary=summary,
            **_file_fields(split),
            **made,
        )

    @property
    def is_reused(self) -> BoolArray | None:
        """Which rows took the scores of an earlier run; None if not known. Shape (num_rows,)."""
        if self.reused in (0, self.num_rows):
            return np.full(self.num_rows, self.reused > 0, dtype=np.bool_)
        if not self.reused_rows:
            return None
        try:
            bits = np.frombuffer(zlib.decompress(base64.b85decode(self.reused_rows)), np.uint8)
        except (ValueError, zlib.error):  # damaged
            return None
        chosen = np.unpackbits(bits, count=self.num_rows).astype(np.bool_)
        return chosen if chosen.sum() == self.reused else None

    @property
    def rows_read(self) -> int:
        """Rows of the input that the part was made of."""
        return self.num_rows if self.input_rows is None else self.input_rows

    def covers(self, split: Split) -> bool:
        """Tell whether the file of a split of these rows is of the same version, read alike."""
        return all(getattr(self, name) == value for name, value in _file_fields(split).items())

    def is_current(self, split: Split) -> bool:
        """Tell whether a part that `may_be_valid` is valid for certain, without reading rows."""
        return split.file_version != "" and self.covers(split)

    @property
    def offset(self) -> int:
        """Where the part begins in its file: `Split.row_offset` of its split."""
        return int(self.part_name.removesuffix(".parquet").rpartition("-")[2])

    @property
    def texts_digest(self) -> str:
        """Identifies the texts of the part and how they were scored."""
        labels = [f"-{name}:{rows.label}" for name, rows in sorted(self.languages.items())]
        texts = f"{self.digests.candidates}-{self.digests.references}"
        return f"{texts}-{self.job_digest}-{self.idf}{''.join(labels)}"

    def moved_to(self, split: Split) -> "PartRecord":
        """Return the record for the same rows in the present version of the file."""
        return replace(self, **_file_fields(split))

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return to_json({"format": _RECORD_FORMAT, **asdict(self)})


def facts_of_part(data: bytes) -> dict[str, Any]:
    """Return the fields of a record that tell the bytes of its part from others."""
    return {
        "part_bytes": len(data),
        "part_digest": digest_of(data),
        "footer_digest": footer_digest(data),
    }


def _file_fields(split: Split) -> dict[str, Any]:
    names = ("file_rows", "file_size", "file_version", "reading")
    return {name: getattr(split, name) for name in names}


_NAMES = {field.name for field in fields(PartRecord)}


def record_from_json(data: bytes) -> PartRecord | None:
    """Read a record; None if it is damaged or has another format."""
    try:
        content = from_json(data)
        if content.pop("format") != _RECORD_FORMAT or not content.keys() <= _NAMES:
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


def record_path(part_name: str) -> str:
    """Return the path of a part's record below the output folder."""
    return f"{PARTS_FOLDER}/{record_name(part_name)}"


def record_name(part_name: str) -> str:
    """Return the path of a part's record below the folder of records."""
    return note_name(part_name) + _RECORD_SUFFIX
