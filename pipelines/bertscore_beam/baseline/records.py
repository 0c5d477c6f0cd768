"""What the output folder records of samples and pairs, so that a later run knows what is done."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bertscore_beam.crawl.overlap import Overlap
from bertscore_beam.options.baseline import BaselineOptions


def digest_of(text: str) -> str:
    """Return the digest of a text. 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What was taken from one file for one language.

    Attributes:
        file: Its name.
        bytes: Its size as it was fetched.
        sha256: Digest of its content.
        rows: Sentences kept.
    """

    file: str
    bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """The sample of one language.

    Attributes:
        language: Its language.
        wanted: Sentences that were wanted.
        found: Sentences that it has.
        host_cap: Most sentences of a host.
        first_files: Files that were read first.
        max_files: Most files that might be read.
        listed: Files of the source.
        listing: Digest of their names.
        digest: Digest of the sample.
        files: What was read.
        failed: What could not be read, and why.
        counts: What became of pages and sentences in all files.
        records: Records in these files; none in given sentences.
        records_broken: Those that cannot be read, see `crawl.warc.MOST_BROKEN`.
        retries: Failed attempts to fetch a file that was read in the end.
    """

    language: str
    wanted: int
    found: int
    host_cap: int
    first_files: int
    max_files: int
    listed: int
    listing: str
    digest: str
    files: tuple[FileRecord, ...]
    failed: tuple[Mapping[str, str], ...]
    counts: Mapping[str, int]
    records: int
    records_broken: int
    retries: int

    @classmethod
    def from_json(cls, data: bytes) -> "SampleRecord":
        """Read what `to_json` wrote."""
        fields = json.loads(data)
        fields["files"] = tuple(FileRecord(**file) for file in fields["files"])
        fields["failed"] = tuple(fields["failed"])
        return cls(**fields)

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1).encode()

    def fits(self, options: BaselineOptions) -> bool:
        """Tell whether a run would take the same sample; files that failed are tried again."""
        same = (self.wanted, self.host_cap, self.first_files) == (
            2 * options.pairs,
            options.sentences_per_host,
            options.first_files,
        )
        read = len(self.files)
        enough = self.found == self.wanted or read == self.listed
        bounded = bool(options.sentences) or read <= options.max_files
        return (
            same and not self.failed and bounded and (enough or self.max_files == options.max_files)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPart:
    """Pairs of one language in one Parquet file.

    Attributes:
        language: Their language.
        name: Name of the file, without its suffix.
        rows: Number of pairs.
        same_host: How many of them have both sentences from one host.
        words: Number of sentences by number of words, as blanks separate them.
        characters: Number of sentences by tens of characters.
        overlap: How much the sentences of a pair have in common.
    """

    language: str
    name: str
    rows: int
    same_host: int
    words: Mapping[int, int]
    characters: Mapping[int, int]
    overlap: Overlap

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> "PairPart":
        """Make it from plain values; JSON turns the keys of counts into texts."""
        counts = {
            name: {int(key): value for key, value in fields[name].items()}
            for name in ("words", "characters")
        }
        overlap = fields["overlap"]
        ngrams = {name: tuple(overlap[name]) for name in ("common", "all")}
        return cls(**fields | counts | {"overlap": Overlap(**overlap | ngrams)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRecord:
    """The pairs of one language.

    Attributes:
        language: Their language.
        sample: Digest of the sample they are made of.
        parts: Files that hold them.
    """

    language: str
    sample: str
    parts: tuple[PairPart, ...]

    @classmethod
    def from_json(cls, data: bytes) -> "PairsRecord":
        """Read what `to_json` wrote."""
        fields = json.loads(data)
        fields["parts"] = tuple(PairPart.from_plain(part) for part in fields["parts"])
        return cls(**fields)

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self), indent=1).encode()

    @property
    def digest(self) -> str:
        """Digest of what the pairs are made of. 16 hexadecimal digits."""
        return digest_of(f"{self.sample} {[(part.name, part.rows) for part in self.parts]}")

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return sum(part.rows for part in self.parts)
