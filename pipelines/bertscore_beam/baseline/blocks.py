"""Blocks of files: their sentences in Parquet, and the record that says what came of which file.

    <block>.0.pq, <block>.1.pq, ...   parts; a row group for each language, in it file after file
    <block>.json                      the files, and the rows of each in every row group

So the number of objects does not grow with that of languages; one language, and in it one file, can
be read alone; and one small record says what is there.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.baseline.sources import SENTENCES_FOLDER, record_path, sentences_path
from bertscore_beam.dump import write_row_groups
from bertscore_beam.files import open_source
from bertscore_beam.run import OutputFolder
from bertscore_core.errors import load_json

_PART_ROWS = 1 << 18
"""Most sentences of a part: with texts of 100 bytes, 30 MB in memory."""
_RECORD = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceBlock:
    """Sentences of one language in a row group of a Parquet file.

    `ranges` are the wanted rows, as (first, one after the last), None for all; `rows` their number.
    """

    language: str
    path: str
    row_group: int = 0
    ranges: tuple[tuple[int, int], ...] | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """What came of one file.

    Attributes:
        retries: Failed attempts to fetch it, a line each.
        counts: What was counted in the whole file, such as its records.
        languages: What became of the sentences of each language that was wanted.
        rows: Sentences kept of each of these languages.
    """

    file: str
    bytes: int
    sha256: str
    retries: Sequence[str]
    counts: Mapping[str, int]
    languages: Mapping[str, Mapping[str, int]]
    rows: Mapping[str, int]

    def counts_of(self, language: str) -> dict[str, int]:
        """Return the counts of the file and of a language."""
        return {**self.counts, **self.languages[language]}


RowGroup = tuple[str, Sequence[tuple[int, int]]]
"""A row group: the language of its sentences; their files one after the other, as (place in the
block, number of rows)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """The files of a block that were read to their end, and the row groups of each part."""

    files: Sequence[ReadFile]
    parts: Sequence[Sequence[RowGroup]]

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "BlockRecord":
        """Read what `to_json` wrote."""
        plain = load_json(data)
        return cls(files=[ReadFile(**file) for file in plain["files"]], parts=plain["parts"])


class BlockWriter:
    """Writes the sentences of a block in parts that fit in memory, and its record last."""

    def __init__(self, folder: OutputFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._parts: list[list[RowGroup]] = []
        self._waiting: dict[str, list[tuple[int, pa.Table]]] = {}
        self._rows = 0

    def add(self, language: str, file: int, sentences: pa.Table) -> None:
        """Add sentences of a file, given by its place among those that are recorded, in order."""
        while len(sentences):
            taken = sentences.slice(0, _PART_ROWS - self._rows)
            sentences = sentences.slice(len(taken))
            self._waiting.setdefault(language, []).append((file, taken))
            self._rows += len(taken)
            if self._rows == _PART_ROWS:
                self._write_part()

    def close(self, files: Sequence[ReadFile]) -> None:
        """Write what is left, and the record."""
        if self._rows:
            self._write_part()
        record = BlockRecord(files=files, parts=self._parts)
        self._folder.write(record_path(self._name), record.to_json())

    def _write_part(self) -> None:
        waiting = sorted(self._waiting.items())
        groups = [pa.concat_tables(table for _, table in tables) for _, tables in waiting]
        path = sentences_path(self._name, len(self._parts))
        self._folder.write(path, write_row_groups(groups))
        self._parts.append(
            [(code, [(file, len(table)) for file, table in tables]) for code, tables in waiting]
        )
        self._waiting, self._rows = {}, 0


def read_block(folder: OutputFolder, block: SentenceBlock, columns: Sequence[str]) -> pa.Table:
    """Read columns of the wanted sentences; only their row group is read."""
    with open_source(folder.path(block.path)) as source, pq.ParquetFile(source) as file:
        table = file.read_row_group(block.row_group, columns=list(columns))
    if block.ranges is None:
        return table
    return pa.concat_tables([table.slice(start, end - start) for start, end in block.ranges])


def gathered(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Put tables together until they have so many rows or more."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= rows:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


class SentenceIndex:
    """What the records of all blocks say; each record is read once a run."""

    def __init__(self, folder: OutputFolder) -> None:
        """Keep the folder; `refresh` reads it."""
        self._folder = folder
        self._records: dict[str, BlockRecord] = {}
        self._places: dict[tuple[str, str], tuple[str, int]] = {}

    def refresh(self) -> None:
        """Read the records that have come since the last call, and forget those that are gone."""
        files = self._folder.files(SENTENCES_FOLDER, suffix=_RECORD)
        names = [name.removesuffix(_RECORD) for name in files]
        new = [name for name in names if name not in self._records]
        read = dict(zip(new, self._folder.read_if_there(*map(record_path, new)), strict=True))
        known = self._records | {
            name: BlockRecord.from_json(data) for name, data in read.items() if data is not None
        }
        self._records = {name: known[name] for name in names if name in known}
        # Of two blocks with the same sentences of a file, the one with the first name counts.
        self._places = {
            (language, file.file): (name, place)
            for name, record in reversed(self._records.items())
            for place, file in enumerate(record.files)
            for language in file.languages
        }

    def has(self, language: str, name: str) -> bool:
        """Tell whether a file was read for a language."""
        return (language, name) in self._places

    def files(self, language: str, names: Iterable[str]) -> list[ReadFile]:
        """Return what came of those of some files that were read for a language, by name."""
        places = (self._places.get((language, name)) for name in sorted(names))
        return [self._records[place[0]].files[place[1]] for place in places if place is not None]

    def blocks(self, language: str, names: Iterable[str]) -> list[SentenceBlock]:
        """Return the sentences of some files in a language; a file that was not read has none."""
        places: dict[str, set[int]] = {}
        for name in names:
            if (place := self._places.get((language, name))) is not None:
                places.setdefault(place[0], set()).add(place[1])
        return [
            block
            for name in sorted(places)
            for part, groups in enumerate(self._records[name].parts)
            for number, (code, files) in enumerate(groups)
            if code == language
            and (block := _block(code, sentences_path(name, part), number, files, places[name]))
        ]

    def unrecorded(self) -> list[str]:
        """Return the parts without a record, which a run that was killed has left."""
        return [
            f"{SENTENCES_FOLDER}/{name}"
            for name in self._folder.files(SENTENCES_FOLDER)
            if not name.endswith(_RECORD) and name.split(".")[0] not in self._records
        ]


def _block(
    language: str, path: str, number: int, files: Sequence[tuple[int, int]], places: set[int]
) -> SentenceBlock | None:
    ends = list(accumulate(rows for _, rows in files))
    ranges = tuple(
        (end - rows, end) for (file, rows), end in zip(files, ends, strict=True) if file in places
    )
    if not ranges:
        return None
    return SentenceBlock(
        language=language,
        path=path,
        row_group=number,
        ranges=None if len(ranges) == len(files) else ranges,
        rows=sum(end - first for first, end in ranges),
    )
