"""The files that sentences are read from, as they travel to the workers."""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.records import digest_of
from bertscore_beam.crawl.fetch_http import is_http
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import BertScoreError

logger = logging.getLogger(__name__)

_FEWEST_BLOCKS = 64
"""Blocks that a wave of files is divided into if it has as many files, so that many workers get
some and little is lost with a worker."""
_MOST_FILES = 16
"""Files of a block at most: some minutes of work on one core."""


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

    @property
    def is_fetched(self) -> bool:
        """Whether a copy of it is made in the output folder before it is read."""
        return is_http(self.path)

    def of_languages(self, languages: Iterable[str]) -> "SentenceFile":
        """Return the file with the sentences of other languages wanted."""
        return replace(self, languages=tuple(languages))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBlock:
    """Files whose sentences are written together. A worker reads all of them.

    Attributes:
        files: One file of given sentences, whose number has no bound; or several with pages.
    """

    files: tuple[SentenceFile, ...]

    @property
    def name(self) -> str:
        """What tells it from every other block: its files and what is wanted of them."""
        return digest_of(json.dumps([(file.label, file.languages) for file in self.files]))


def blocks_of_files(files: Sequence[SentenceFile]) -> list[FileBlock]:
    """Divide files into blocks: few enough for the folder, and enough for the workers."""
    size = min(max(len(files) // _FEWEST_BLOCKS, 1), _MOST_FILES)
    given = [file for file in files if file.given]
    crawled = [file for file in files if not file.given]
    return [FileBlock(files=(file,)) for file in given] + [
        FileBlock(files=tuple(crawled[start : start + size]))
        for start in range(0, len(crawled), size)
    ]


def note_failed(file: SentenceFile, error: BertScoreError, folder: OutputFolder) -> None:
    """Count, log and write down that a file could not be read.

    Raises:
        FolderLostError: The folder belongs to another run by now.
    """
    counters.count(counters.CRAWL_FILES_FAILED)
    reason = mask_credentials(f"{type(error).__name__}: {error}")
    logger.warning("not read: %s: %s", mask_credentials(file.name), reason)
    note = {"file": file.name, "path": mask_credentials(file.path), "reason": reason}
    folder.write(layout.failed_path(file.label), json.dumps(note, ensure_ascii=False).encode())
