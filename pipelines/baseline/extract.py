"""Read files of a crawl, or of given sentences, and write their sentences by language."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import apache_beam as beam
import pyarrow as pa

from pipelines.baseline import layout
from pipelines.baseline.plan import BaselineJob
from pipelines.baseline.source import lanes_of_files
from pipelines.crawl.errors import CrawlFileError
from pipelines.crawl.extract import SentenceRows, extract_sentences
from pipelines.crawl.fetch import Fetched, FetchError, FetchPolicy, fetched
from pipelines.crawl.given import read_sentences
from pipelines.crawl.sentences import PageRules
from pipelines.crawl.warc import read_pages
from pipelines.dump.parts import write_part
from pipelines.files.credentials import mask_credentials
from pipelines.run import counters
from pipelines.run.folder import OutputFolder
from pipelines.run.stage import Stage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFile:
    """A file and what is wanted of it.

    Attributes:
        name: Identifies it, wherever it is.
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
        """Name of what is read of the file at once: given sentences are read by language."""
        return f"{self.languages[0]}/{self.name}" if self.given else self.name

    def of_languages(self, languages: Iterable[str]) -> "SentenceFile":
        """Return the file with the sentences of other languages wanted."""
        return replace(self, languages=tuple(languages))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How sentences are taken from files.

    Attributes:
        folder: Folder of the run.
        seed: Seed of the priorities.
        page_cap: Most sentences of a page.
        rules: Which sentences of a page are kept; also how many words a given one may have.
        policy: How files are fetched.
    """

    folder: OutputFolder
    seed: int
    page_cap: int
    rules: PageRules
    policy: FetchPolicy


def read_stage(
    job: BaselineJob, files: Sequence[SentenceFile] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that reads files.

    Args:
        job: The run.
        files: What to read.
        languages: Languages they are read for.
    """
    options = job.options
    lanes = lanes_of_files(files, options.downloads)
    settings = ExtractSettings(
        folder=job.folder,
        seed=options.seed,
        page_cap=options.sentences_per_page,
        rules=job.plan.source.rules,
        policy=job.plan.source.policy,
    )
    return Stage(
        name="read",
        runner=job.plan.runner,
        build=lambda root: root | beam.Create(lanes) | ExtractSentences(settings),
        words=f"Reading {len(files):,} files for {', '.join(languages)}",
        folder=layout.SENTENCES_FOLDER,
        # The language whose record is written last says that a file is done.
        amounts={f"{max(file.languages)}/{file.name}.json": 1 for file in files},
    )


@dataclass
class ExtractSentences(beam.PTransform):
    """Lanes of files -> names of the files that were read; the sentences go to the output folder.

    The files of a lane are read one after the other, so the number of lanes bounds the requests at
    a time, whatever the number of workers.
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
    """Read a file and write its sentences by language; False where that failed.

    Sentences that are there already are not extracted again. A file that cannot be read to its end
    leaves no record, without which its sentences do not count, and a note in `_failed`.

    Raises:
        OSError: The sentences cannot be written.
        FolderLostError: The folder belongs to another run by now.
    """
    folder = settings.folder
    wanted = [
        language
        for language in file.languages
        if not folder.exists(layout.record_path(language, file.name))
    ]
    if not wanted:
        return True
    failed = layout.failed_path(file.label)
    try:
        with fetched(file.path, settings.policy) as got:
            write = partial(_write, file=file, folder=folder, got=got)
            if file.given:
                _extract_given(got, wanted[0], settings, write)
            else:
                _extract_crawled(got, frozenset(wanted), settings, write)
    except (FetchError, CrawlFileError) as error:
        counters.count(counters.CRAWL_FILES_FAILED)
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning("not read: %s: %s", mask_credentials(file.name), reason)
        note = {"file": file.name, "path": mask_credentials(file.path), "reason": reason}
        folder.write(failed, json.dumps(note, ensure_ascii=False).encode())
        return False
    counters.count(counters.CRAWL_FILES_READ)
    counters.count(counters.CRAWL_BYTES, got.num_bytes)
    folder.delete(failed)
    return True


def _extract_crawled(
    got: Fetched, languages: frozenset[str], settings: ExtractSettings, write: Callable[..., None]
) -> None:
    seen: Counter[str] = Counter()
    with open(got.file, "rb") as stream:
        extracted = extract_sentences(
            read_pages(stream, seen), languages, settings.seed, settings.page_cap, settings.rules
        )
    for language in sorted(languages):
        counts = seen + extracted.counts[language]
        write(language=language, blocks=[extracted.rows[language]], counts=counts)


def _extract_given(
    got: Fetched, language: str, settings: ExtractSettings, write: Callable[..., None]
) -> None:
    counts: Counter[str] = Counter()
    blocks = read_sentences(got.file, language, settings.seed, counts, settings.rules.words)
    write(language=language, blocks=blocks, counts=counts)


def _write(
    *,
    language: str,
    blocks: Iterable[SentenceRows],
    counts: Mapping[str, int],
    file: SentenceFile,
    folder: OutputFolder,
    got: Fetched,
) -> None:
    """Write the sentences of a file and language in blocks, and their record last."""
    rows = number = 0
    for number, block in enumerate(blocks, 1):
        table = pa.table(
            {
                "text": pa.array(block.texts, pa.string()),
                "priority": pa.array(block.priorities),
                "host": pa.array(block.hosts),
            }
        )
        folder.write(layout.sentences_path(language, file.name, number - 1), write_part(table))
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
        # Counted while the blocks were read, so complete only now.
        "counts": dict(sorted(counts.items())),
    }
    text = json.dumps(record, ensure_ascii=False, indent=1)
    folder.write(layout.record_path(language, file.name), text.encode())
    counters.count(counters.SENTENCES_KEPT, rows)
