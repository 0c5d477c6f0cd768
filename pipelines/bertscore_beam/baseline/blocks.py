"""Blocks of files: their sentences in Parquet, and the record that says what came of which file.

    <block>.0.pq, <block>.1.pq, ...   parts; a row group for each language, in it file after file
    <block>.json                      the files, and the rows of each in every row group

So the number of objects does not grow with that of languages; one language, and in it one file, can
be read alone; and one small record says what is there.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.baseline import layout
from bertscore_beam.dump.parts import write_row_groups
from bertscore_beam.files.read import open_source
from bertscore_beam.run.folder import OutputFolder

_PART_ROWS = 1 << 18
"""Most sentences of a part: with texts of 100 bytes, 30 MB in memory."""
_RECORD = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceBlock:
    """Sentences of one language in one Parquet file.

    Attributes:
        language: Their language.
        path: Path of the file below the output folder.
        row_group: The row group that holds them.
        ranges: Rows of it that are wanted, as (first, one after the last); None for all of them.
        rows: How many they are.
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
        file: Its name.
        bytes: Its size as it was fetched.
        sha256: Digest of its content.
        retries: Failed attempts to fetch it, a line each.
        counts: What was counted in the whole file, such as its records.
        languages: What became of the sentences of each language that was wanted.
        rows: Sentences kept of each of these languages.
    """

    file: str
    bytes: int
    sha256: str
    retries: tuple[str, ...]
    counts: Mapping[str, int]
    languages: Mapping[str, Mapping[str, int]]
    rows: Mapping[str, int]

    def counts_of(self, language: str) -> dict[str, int]:
        """Return the counts of the file and of a language."""
        return {**self.counts, **self.languages[language]}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of a part.

    Attributes:
        language: Language of its sentences.
        rows: Their files one after the other: (place in the block, number of rows).
    """

    language: str
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """What came of the files of a block.

    Attributes:
        files: Those that were read to their end.
        parts: The row groups of each part.
    """

    files: tuple[ReadFile, ...]
    parts: tuple[tuple[RowGroup, ...], ...]

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        plain = {
            "files": [asdict(file) for file in self.files],
            "parts": [[[group.language, group.rows] for group in part] for part in self.parts],
        }
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "BlockRecord":
        """Read what `to_json` wrote."""
        plain = json.loads(data)
        return cls(
            files=tuple(
                ReadFile(**{**file, "retries": tuple(file["retries"])}) for file in plain["files"]
            ),
            parts=tuple(
                tuple(
                    RowGroup(language=language, rows=tuple((file, rows) for file, rows in found))
                    for language, found in part
                )
                for part in plain["parts"]
            ),
        )


@dataclass(slots=True)
class BlockWriter:
    """Writes the sentences of a block in parts that fit in memory, and its record last.

    Attributes:
        folder: Folder of the run.
        name: Name of the block.
    """

    folder: OutputFolder
    name: str
    _parts: list[tuple[RowGroup, ...]] = field(default_factory=list, init=False)
    _waiting: dict[str, list[tuple[int, pa.Table]]] = field(default_factory=dict, init=False)
    _rows: int = field(default=0, init=False)

    def add(self, language: str, file: int, sentences: pa.Table) -> None:
        """Add sentences of a file; files come in order.

        Args:
            language: Their language.
            file: Place of the file among those that are recorded.
            sentences: With the same columns in every call.
        """
        while len(sentences):
            taken = sentences.slice(0, _PART_ROWS - self._rows)
            sentences = sentences.slice(len(taken))
            self._waiting.setdefault(language, []).append((file, taken))
            self._rows += len(taken)
            if self._rows == _PART_ROWS:
                self._write_part()

    def close(self, files: Sequence[ReadFile]) -> None:
        """Write what is left, and the record.

        Raises:
            FolderLostError: The folder belongs to another run by now.
        """
        if self._rows:
            self._write_part()
        record = BlockRecord(files=tuple(files), parts=tuple(self._parts))
        self.folder.write(layout.record_path(self.name), record.to_json())

    def _write_part(self) -> None:
        waiting = sorted(self._waiting.items())
        groups = [pa.concat_tables(table for _, table in tables) for _, tables in waiting]
        path = layout.sentences_path(self.name, len(self._parts))
        self.folder.write(path, write_row_groups(groups))
        self._parts.append(
            tuple(
                RowGroup(language=code, rows=tuple((file, len(table)) for file, table in tables))
                for code, tables in waiting
            )
        )
        self._waiting, self._rows = {}, 0


def read_block(folder: OutputFolder, block: SentenceBlock, columns: Sequence[str]) -> pa.Table:
    """Read columns of the wanted sentences; only their row group is read."""
    with open_source(folder.path(block.path)) as source, pq.ParquetFile(source) as file:
        table = file.read_row_group(block.row_group, columns=list(columns))
    if block.ranges is None:
        return table
    return pa.concat_tables([table.slice(start, end - start) for start, end in block.ranges])


class SentenceIndex:
    """What the records of all blocks say; each record is read once a run."""

    def __init__(self, folder: OutputFolder) -> None:
        """Keep the folder; `refresh` reads it."""
        self._folder = folder
        self._records: dict[str, BlockRecord] = {}
        self._places: dict[tuple[str, str], tuple[str, int]] = {}

    def refresh(self) -> None:
        """Read the records that have come since the last call, and forget those that are gone."""
        there = self._folder.files(layout.SENTENCES_FOLDER, suffix=_RECORD)
        names = [name.removesuffix(_RECORD) for name in there]
        new = [name for name in names if name not in self._records]
        read = dict(
            zip(new, self._folder.read_if_there(*map(layout.record_path, new)), strict=True)
        )
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
        wanted: dict[str, set[int]] = {}
        for name in names:
            if (place := self._places.get((language, name))) is not None:
                wanted.setdefault(place[0], set()).add(place[1])
        return [
            found
            for name in sorted(wanted)
            for part, groups in enumerate(self._records[name].parts)
            for number, group in enumerate(groups)
            if group.language == language
            and (
                found := _wanted_of(group, wanted[name], layout.sentences_path(name, part), number)
            )
        ]

    def unrecorded(self) -> list[str]:
        """Return the parts without a record, which a run that was killed has left."""
        return [
            f"{layout.SENTENCES_FOLDER}/{name}"
            for name in self._folder.files(layout.SENTENCES_FOLDER)
            if not name.endswith(_RECORD) and name.split(".")[0] not in self._records
        ]


def _wanted_of(group: RowGroup, wanted: set[int], path: str, number: int) -> SentenceBlock | None:
    """Return the sentences of the wanted files in a row group, None if it has none."""
    ranges: list[tuple[int, int]] = []
    start = 0
    for file, rows in group.rows:
        if file in wanted:
            ranges.append((start, start + rows))
        start += rows
    if not ranges:
        return None
    return SentenceBlock(
        language=group.language,
        path=path,
        row_group=number,
        ranges=None if len(ranges) == len(group.rows) else tuple(ranges),
        rows=sum(end - first for first, end in ranges),
    )
