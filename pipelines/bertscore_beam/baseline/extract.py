"""Read files of a crawl, or of given sentences, and write their sentences by language."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.blocks import BlockWriter, ReadFile
from bertscore_beam.baseline.fetch import delete_fetched, retries_of
from bertscore_beam.baseline.inputs import FileBlock, SentenceFile, note_failed
from bertscore_beam.crawl.errors import CrawlFileError
from bertscore_beam.crawl.extract import SentenceRows, extract_sentences
from bertscore_beam.crawl.fetch import Fetched, FetchError, FetchPolicy, fetched
from bertscore_beam.crawl.given import read_sentences
from bertscore_beam.crawl.sentences import PageRules
from bertscore_beam.crawl.warc import check_records, read_pages
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How sentences are taken from files.

    Attributes:
        folder: Folder of the run.
        seed: Seed of the ranks.
        page_cap: Most sentences of a page.
        rules: Which sentences of a page are kept; also how many words a given one may have.
        policy: How files are copied to a worker from a store.
    """

    folder: OutputFolder
    seed: int
    page_cap: int
    rules: PageRules
    policy: FetchPolicy


def extract_block(block: FileBlock, settings: ExtractSettings) -> Iterator[str]:
    """Read the files of a block, write their sentences, and yield the names of those read.

    A file that cannot be read to its end leaves no sentence and a note in `_failed`. Copies of
    fetched files are deleted at the end, also of those that cannot be read: another run fetches
    them again.

    Raises:
        OSError: The sentences cannot be written.
        FolderLostError: The folder belongs to another run by now.
    """
    folder = settings.folder
    record = layout.record_path(block.name)
    if not folder.exists(record):
        writer = BlockWriter(folder, block.name)
        read: list[ReadFile] = []
        for file in block.files:
            try:
                read.append(_extract_file(file, len(read), settings, writer))
            except (FetchError, CrawlFileError) as error:
                if folder.exists(record):  # another attempt was faster, and deleted the copies
                    return
                note_failed(file, error, folder)
        if read:
            writer.close(read)
        yield from (file.file for file in read)
    delete_fetched(folder, [file.label for file in block.files if file.is_fetched])


def _extract_file(
    file: SentenceFile, place: int, settings: ExtractSettings, writer: BlockWriter
) -> ReadFile:
    """Read a file and add its sentences, those of pages once it was read to its end.

    Raises:
        FetchError: It cannot be copied to this machine.
        CrawlFileError: It cannot be read to its end, or is damaged.
    """
    folder = settings.folder
    path = folder.path(layout.raw_path(file.label)) if file.is_fetched else file.path
    counts: Counter[str] = Counter()
    with fetched(path, settings.policy) as got:
        extract = _extract_given if file.given else _extract_crawled
        kept: Counter[str] = Counter()
        languages: dict[str, Mapping[str, int]] = {}
        for language, rows, of_language in extract(got, file.languages, settings, counts):
            writer.add(language, place, _as_table(rows))
            languages[language] = dict(sorted(of_language.items()))
            kept[language] += len(rows)
    counters.count(counters.CRAWL_FILES_READ)
    counters.count(counters.CRAWL_BYTES, got.num_bytes)
    counters.count(counters.SENTENCES_KEPT, kept.total())
    return ReadFile(
        file=file.name,
        bytes=got.num_bytes,
        sha256=got.sha256,
        retries=retries_of(file, folder) if file.is_fetched else got.retries,
        counts=dict(sorted(counts.items())),
        languages=languages,
        rows=dict(kept),
    )


_Extracted = Iterator[tuple[str, SentenceRows, Mapping[str, int]]]
"""Languages, sentences in them, and what became of the others."""


def _extract_crawled(
    got: Fetched, languages: Sequence[str], settings: ExtractSettings, counts: Counter[str]
) -> _Extracted:
    """Yield each language once, when the file was read to its end."""
    with open(got.file, "rb") as stream:
        extracted = extract_sentences(
            read_pages(stream, counts),
            frozenset(languages),
            settings.seed,
            settings.page_cap,
            settings.rules,
        )
    check_records(counts)
    for language in sorted(languages):
        yield language, extracted.rows[language], extracted.counts[language]


def _extract_given(
    got: Fetched, languages: Sequence[str], settings: ExtractSettings, counts: Counter[str]
) -> _Extracted:
    """Yield the sentences in blocks, while they are read."""
    (language,) = languages
    for rows in read_sentences(got.file, language, settings.seed, counts, settings.rules.words):
        yield language, rows, {}


def _as_table(rows: SentenceRows) -> pa.Table:
    return pa.table(
        {
            "text": pa.array(rows.texts, pa.string()),
            "priority": pa.array(rows.hashes.priorities),
            "host_order": pa.array(rows.hashes.orders),
            "host": pa.array(rows.hashes.hosts),
        }
    )
