"""Fetch and read files of a crawl, or of given sentences, and write their sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

from bertscore_beam.baseline.blocks import BlockWriter, ReadFile
from bertscore_beam.baseline.sources import (
    FETCHED_FOLDER,
    FileBlock,
    SentenceFile,
    note_failed,
    raw_path,
    raw_record_path,
    record_path,
)
from bertscore_beam.crawl import (
    CrawlFileError,
    Fetched,
    FetchError,
    FetchPolicy,
    PageRules,
    check_records,
    extract_sentences,
    fetched,
    read_documents,
    read_pages,
    read_sentences,
)
from bertscore_beam.files import is_remote
from bertscore_beam.run import OutputFolder, counters

# Fetch files over http into the output folder, few at a time, for all workers to read.
#
# Servers ask for few requests at a time, and reading takes longer than fetching. So files are
# fetched in a few lanes, whatever the number of workers, and read in a stage of their own on all of
# them. Only names go from one stage to the other: a file of 60 MB is no element of a pipeline.

_ON_A_DISK = 128
"""Files that are fetched before they are read, if the output is on a disk: 8 GB of WET files."""
_IN_A_STORE = 1024
"""The same for an object store, 67 GB: a stage takes minutes to start on a cluster."""


def waves_of_files(files: Sequence[SentenceFile], output: str) -> list[list[SentenceFile]]:
    """Divide files into waves, to bound the space of fetched files; one if none is fetched."""
    size = len(files)
    if any(file.is_fetched for file in files):
        size = _IN_A_STORE if is_remote(output) else _ON_A_DISK
    return [list(files[start : start + size]) for start in range(0, len(files), max(size, 1))]


def lanes_of_files(files: Sequence[SentenceFile], downloads: int) -> list[tuple[SentenceFile, ...]]:
    """Divide files into lanes; the files of a lane are fetched one after the other."""
    count = min(len(files), downloads)
    return [tuple(files[start::count]) for start in range(count)]


def lane_name(lane: Sequence[SentenceFile]) -> str:
    """Return the name that people know a lane by."""
    more = f" and {len(lane) - 1:,} more" if len(lane) > 1 else ""
    return lane[0].label + more


def fetch_lane(
    lane: Sequence[SentenceFile], *, folder: OutputFolder, policy: FetchPolicy
) -> Iterator[str]:
    """Fetch the files of a lane one after the other, and yield the labels of those fetched."""
    for file in lane:
        if fetch_file(file, folder, policy):
            yield file.label


def fetch_file(file: SentenceFile, folder: OutputFolder, policy: FetchPolicy) -> bool:
    """Fetch a file into the output folder; False where that failed, with a note in `_failed`.

    A file that was fetched already is not fetched again: that would be a lane that is retried.
    """
    record = raw_record_path(file.label)
    if folder.exists(record):
        return True
    try:
        with fetched(file.path, policy) as got:
            folder.store(raw_path(file.label), got.file)
    except FetchError as error:
        note_failed(file, error, folder)
        return False
    folder.write_json(record, {"attempts": len(got.retries) + 1, "retries": list(got.retries)})
    return True


def labels_fetched(folder: OutputFolder) -> set[str]:
    """Return the labels of the files that are in the output folder, whole."""
    names = folder.files(FETCHED_FOLDER, suffix=".json")
    return {name.removesuffix(".json") for name in names}


def delete_all_fetched(folder: OutputFolder) -> None:
    """Delete what runs that were killed have left of fetched files."""
    left = [f"{FETCHED_FOLDER}/{name}" for name in folder.files(FETCHED_FOLDER)]
    folder.delete(*left)
    folder.delete_empty_folders(FETCHED_FOLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How sentences are taken from files; `policy` is for files that are copied from a store.

    `source` names the option that gave them.
    """

    folder: OutputFolder
    seed: int
    page_cap: int
    rules: PageRules
    policy: FetchPolicy
    source: str


def extract_block(block: FileBlock, settings: ExtractSettings) -> Iterator[str]:
    """Read the files of a block, write their sentences, and yield the names of those read.

    A file that cannot be read to its end leaves no sentence and a note in `_failed`. Copies of
    fetched files are deleted at the end, also of those that cannot be read: another run fetches
    them again.
    """
    folder = settings.folder
    record = record_path(block.name)
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
    fetched_labels = [file.label for file in block.files if file.is_fetched]
    folder.delete(*map(raw_record_path, fetched_labels))  # without which a copy does not count
    folder.delete(*map(raw_path, fetched_labels))


def _extract_file(
    file: SentenceFile, place: int, settings: ExtractSettings, writer: BlockWriter
) -> ReadFile:
    folder = settings.folder
    path = folder.path(raw_path(file.label)) if file.is_fetched else file.path
    record = folder.read_json(raw_record_path(file.label)) if file.is_fetched else {}
    counts: Counter[str] = Counter()
    with fetched(path, settings.policy) as got:
        extract = _extract_given if settings.source == "sentences" else _extract_pages
        rows_kept: Counter[str] = Counter()
        languages: dict[str, Counter[str]] = {}
        for language, rows, of_language in extract(got, file.languages, settings, counts):
            writer.add(language, place, rows)
            languages.setdefault(language, Counter()).update(of_language)
            rows_kept[language] += len(rows)
    counters.count(counters.CRAWL_FILES_READ)
    counters.count(counters.CRAWL_BYTES, got.num_bytes)
    counters.count(counters.SENTENCES_KEPT, rows_kept.total())
    return ReadFile(
        file=file.name,
        bytes=got.num_bytes,
        sha256=got.sha256,
        retries=record.get("retries", got.retries),
        counts=dict(sorted(counts.items())),
        languages={code: dict(sorted(count.items())) for code, count in languages.items()},
        rows=dict(rows_kept),
    )


_PAGES = 20_000
"""Documents whose sentences are in memory together: a file of them may have millions."""
_Extracted = Iterator[tuple[str, pa.Table, Mapping[str, int]]]
"""Languages, sentences in them, and what became of the others."""


def _extract_pages(
    got: Fetched, languages: Sequence[str], settings: ExtractSettings, counts: Counter[str]
) -> _Extracted:
    read, most = (read_documents, _PAGES) if settings.source == "documents" else (read_pages, None)
    with open(got.file, "rb") as stream:
        pages = read(stream, counts)
        for page in pages:
            extracted = extract_sentences(
                chain([page], islice(pages, most)),
                frozenset(languages),
                settings.seed,
                settings.page_cap,
                settings.rules,
            )
            for language in sorted(languages):
                yield language, extracted.rows[language], extracted.counts[language]
    check_records(counts)


def _extract_given(
    got: Fetched, languages: Sequence[str], settings: ExtractSettings, counts: Counter[str]
) -> _Extracted:
    (language,) = languages
    for rows in read_sentences(got.file, language, settings.seed, counts, settings.rules.words):
        yield language, rows, {}
