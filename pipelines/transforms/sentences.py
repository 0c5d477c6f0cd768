"""Files of a crawl, or of given sentences, to sentences by language: one file, one unit of work."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
import pyarrow as pa

from pipelines import metrics
from pipelines.baseline import layout
from pipelines.commoncrawl.errors import CrawlFileError
from pipelines.commoncrawl.extract import SentenceRows, extract_sentences
from pipelines.commoncrawl.fetch import Fetched, FetchError, FetchPolicy, fetched
from pipelines.commoncrawl.given import read_sentences
from pipelines.commoncrawl.warc import read_pages
from pipelines.io.files import delete, exists, join, mask_credentials, write_atomically
from pipelines.io.parquet import write_part
from pipelines.lock import RunLock, check_held

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFile:
    """A file and what is wanted of it.

    Attributes:
        name: Tells it from the others, wherever they lie.
        path: Where it is.
        languages: Whose sentences are wanted. For a file of given sentences: the one they are in.
        given: Whether it holds sentences and not pages.
    """

    name: str
    path: str
    languages: tuple[str, ...]
    given: bool = False

    @property
    def label(self) -> str:
        """Name of the file and what is read of it at once: given sentences by language."""
        return f"{self.languages[0]}/{self.name}" if self.given else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How sentences are taken from files.

    Attributes:
        output: Folder of the run.
        seed: Seed of the priorities.
        page_cap: Most sentences of a page.
        policy: How files are fetched.
        lock: What must be held to write; None leaves that unchecked.
    """

    output: str
    seed: int
    page_cap: int
    policy: FetchPolicy
    lock: RunLock | None = None


@dataclass
class ExtractSentences(beam.PTransform):
    """Lanes of files -> names of the files that were read; the sentences go to the output folder.

    The files of a lane are read one after the other, so that the number of lanes bounds the
    requests at a time, whatever the number of workers.
    """

    settings: ExtractSettings

    def expand(self, lanes: beam.PCollection[tuple[SentenceFile, ...]]) -> beam.PCollection[str]:
        """Spread the lanes over the workers."""
        return (
            lanes
            | "Spread" >> beam.Reshuffle()
            | "ExtractLane" >> beam.FlatMap(partial(_extract_lane, settings=self.settings))
        )


def _extract_lane(lane: tuple[SentenceFile, ...], *, settings: ExtractSettings) -> Iterator[str]:
    for file in lane:
        if extract_file(file, settings):
            yield file.name


def extract_file(file: SentenceFile, settings: ExtractSettings) -> bool:
    """Read a file and write its sentences, by language; False where that failed.

    What is there already is not made again. A file that cannot be read to its end leaves no record,
    without which its sentences do not count, and a note in `_failed`.

    Raises:
        OSError: the sentences cannot be written.
        FolderLostError: the folder belongs to another run by now.
    """
    output = settings.output
    wanted = [
        language
        for language in file.languages
        if not exists(join(output, layout.record_path(language, file.name)))
    ]
    if not wanted:
        return True
    failed = join(output, layout.failed_path(file.label))
    try:
        with fetched(file.path, settings.policy) as got:
            write = partial(_write, file=file, settings=settings)
            if file.given:
                _extract_given(got, wanted[0], settings, write)
            else:
                _extract_crawled(got, frozenset(wanted), settings, write)
    except (FetchError, CrawlFileError) as error:
        metrics.count(metrics.CRAWL_FILES_FAILED)
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning("not read: %s: %s", mask_credentials(file.name), reason)
        note = {"file": file.name, "path": mask_credentials(file.path), "reason": reason}
        check_held(settings.lock)
        write_atomically(failed, json.dumps(note, ensure_ascii=False).encode())
        return False
    metrics.count(metrics.CRAWL_FILES_READ)
    metrics.count(metrics.CRAWL_BYTES, got.num_bytes)
    delete(failed)
    return True


def _extract_crawled(
    got: Fetched, languages: frozenset[str], settings: ExtractSettings, write: Callable[..., None]
) -> None:
    seen: Counter[str] = Counter()
    with open(got.file, "rb") as stream:
        extracted = extract_sentences(
            read_pages(stream, seen), languages, settings.seed, settings.page_cap
        )
    for language in sorted(languages):
        counts = seen + extracted.counts[language]
        write(got=got, language=language, blocks=[extracted.rows[language]], counts=counts)


def _extract_given(
    got: Fetched, language: str, settings: ExtractSettings, write: Callable[..., None]
) -> None:
    counts: Counter[str] = Counter()
    blocks = read_sentences(got.file, language, settings.seed, counts)
    write(got=got, language=language, blocks=blocks, counts=counts)


def _write(
    *,
    got: Fetched,
    language: str,
    blocks: Iterable[SentenceRows],
    counts: Mapping[str, int],
    file: SentenceFile,
    settings: ExtractSettings,
) -> None:
    """Write the sentences of a file and language, in blocks, and last their record."""
    rows = number = 0
    for number, block in enumerate(blocks, 1):
        check_held(settings.lock)
        table = pa.table(
            {
                "text": pa.array(block.texts, pa.string()),
                "priority": pa.array(block.priorities),
                "host": pa.array(block.hosts),
            }
        )
        path = layout.sentences_path(language, file.name, number - 1)
        write_atomically(join(settings.output, path), write_part(table))
        rows += len(table)
    record = {
        "file": file.name,
        "language": language,
        "bytes": got.num_bytes,
        "sha256": got.sha256,
        "attempts": got.attempts,
        "retries": list(got.retries),
        "blocks": number,
        "rows": rows,
        "counts": dict(sorted(counts.items())),
    }
    text = json.dumps(record, ensure_ascii=False, indent=1)
    path = join(settings.output, layout.record_path(language, file.name))
    write_atomically(path, text.encode())
    metrics.count(metrics.SENTENCES_KEPT, rows)
