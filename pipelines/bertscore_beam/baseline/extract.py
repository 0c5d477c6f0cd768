"""Read files of a crawl, or of given sentences, and write their sentences: one file of each.

    _sentences/<digest>.pq   row groups of one language each; its footer says what came of the file

So the number of objects does not grow with that of languages, one language can be read alone, and
there are no sentences without their record.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.sources import SENTENCES_FOLDER, SentenceFile, note_failed
from bertscore_beam.crawl.fetch import CrawlFileError, FetchError, fetched
from bertscore_beam.crawl.given_files import read_documents, read_sentences
from bertscore_beam.crawl.sentences import FILE_SCHEMA, extract_sentences
from bertscore_beam.crawl.warc import read_pages
from bertscore_beam.dump.parquet import open_kept, sealed_writer
from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_beam.files.reach import is_web
from bertscore_beam.files.read import in_parallel
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import load_json

_PAGES = 20_000
"""Documents whose sentences are in memory together: a file of them may have millions."""
_RECORD = b"bertscore_file"
"""Key of the record in the footer."""
_CURE = "Delete it and run the same command again: it reads that file once more."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """What came of one file.

    Attributes:
        retries: Failed attempts to fetch it, a line each.
        counts: Records of WET files, or documents, and how many of them were broken.
        rows: Sentences kept of each language that was wanted.
        groups: Languages of the row groups.
    """

    file: str
    bytes: int
    sha256: str
    retries: Sequence[str]
    counts: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int]
    groups: list[str] = field(default_factory=list)


def lanes_of_files(files: Sequence[SentenceFile], downloads: int) -> list[tuple[SentenceFile, ...]]:
    """Divide files into lanes, whose files are read one after the other.

    Servers ask for few requests at a time, so files of the web have no more lanes than downloads.
    Every other file is a lane of its own.
    """
    web = [file for file in files if is_web(file.path)]
    count = min(len(web), downloads)
    return [tuple(web[start::count]) for start in range(count)] + [
        (file,) for file in files if not is_web(file.path)
    ]


def lane_name(lane: Sequence[SentenceFile]) -> str:
    """Return the name that people know a lane by."""
    more = f" and {len(lane) - 1:,} more" if len(lane) > 1 else ""
    return lane[0].label + more


def read_lane(
    lane: Sequence[SentenceFile], options: BaselineOptions, folder: OutputFolder
) -> Iterator[str]:
    """Read files, write their sentences, and yield the labels of those read.

    A file that cannot be read to its end leaves no sentence and a note in `_failed`. What is there
    already is not read again: that would be a lane that is retried.
    """
    for file in lane:
        if folder.exists(file.sentences):
            continue
        try:
            _read_file(file, options, folder)
        except (FetchError, CrawlFileError) as error:
            note_failed(file, error, folder)
        else:
            yield file.label


def _read_file(file: SentenceFile, options: BaselineOptions, folder: OutputFolder) -> None:
    with (
        tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX) as place,
        fetched(file.path, options.policy) as got,
        open(got.file, "rb") as stream,
    ):
        record = ReadFile(
            file=file.name,
            bytes=got.num_bytes,
            sha256=got.sha256,
            retries=got.retries,
            rows=dict.fromkeys(file.languages, 0),
        )
        path = os.path.join(place, "sentences")
        write_sentences(path, record, _tables(stream, file.languages, options, record.counts))
        folder.store(file.sentences, path)
    counters.count(counters.CRAWL_FILES_READ)
    counters.count(counters.CRAWL_BYTES, record.bytes)
    counters.count(counters.SENTENCES_KEPT, sum(record.rows.values()))


def write_sentences(path: str, record: ReadFile, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """Write sentences of `FILE_SCHEMA` with their languages, and then the record, to a local file.

    Rows and row groups are added to the record as they are written.
    """
    with open(path, "w+b") as file, sealed_writer(file, FILE_SCHEMA) as writer:
        for language, table in tables:
            if len(table):
                writer.write_table(table, row_group_size=len(table))
                record.groups.append(language)
                record.rows[language] += len(table)
        content = {one.name: getattr(record, one.name) for one in fields(record)}
        writer.add_key_value_metadata({_RECORD: json.dumps(content)})


def _tables(
    stream: BinaryIO, languages: Sequence[str], options: BaselineOptions, counts: Counter[str]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the sentences of a file, with their languages, in pieces that fit in memory."""
    seed, words = options.seed, options.words
    if options.sentences:
        (language,) = languages
        yield from ((language, rows) for rows in read_sentences(stream, language, seed, words))
        return
    is_wet = not options.documents
    pages = (read_pages if is_wet else read_documents)(stream, counts)
    for page in pages:
        # All pages of a WET file at once: it has far fewer than a file of documents may have.
        together = chain([page], islice(pages, None if is_wet else _PAGES))
        yield from extract_sentences(
            together, frozenset(languages), seed, options.sentences_per_page, words
        ).items()


def read_rows(
    folder: OutputFolder, path: str, language: str, columns: Iterable[str]
) -> Iterator[pa.Table]:
    """Yield columns of the sentences of a language; only its row groups are read."""
    with open_kept(folder.path(path), _CURE) as file:
        for number, code in enumerate(_record_of(file).groups):
            if code == language:
                rows = file.read_row_group(number, columns=list(columns))
                if len(rows) != file.metadata.row_group(number).num_rows:
                    raise ValueError("rows are missing")
                yield rows


def _record_of(file: pq.ParquetFile) -> ReadFile:
    return ReadFile(**load_json(file.metadata.metadata[_RECORD]))


class SentenceIndex:
    """What the records of all files say; each record is read once a run."""

    def __init__(self, folder: OutputFolder) -> None:
        """Keep the folder; `refresh` reads it."""
        self._folder = folder
        self._records: dict[str, ReadFile] = {}
        self._places: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Read the records that have come since the last call."""
        names = self._folder.files(SENTENCES_FOLDER, suffix=".pq")
        paths = [f"{SENTENCES_FOLDER}/{name}" for name in names]
        new = [path for path in paths if path not in self._records]
        self._records |= zip(new, in_parallel(self._read, new), strict=True)
        # Of two reads of a file in one language, the one with the first path counts.
        self._places = {
            (language, self._records[path].file): path
            for path in reversed(paths)
            for language in self._records[path].rows
        }

    def _read(self, path: str) -> ReadFile:
        with open_kept(self._folder.path(path), _CURE) as file:
            return _record_of(file)

    def has(self, language: str, name: str) -> bool:
        """Tell whether a file was read for a language."""
        return (language, name) in self._places

    def files(self, language: str, names: Iterable[str]) -> dict[str, ReadFile]:
        """Return what came of those of some files that were read for a language, by path."""
        paths = [self._places[language, name] for name in sorted(names) if self.has(language, name)]
        return {path: self._records[path] for path in paths}
