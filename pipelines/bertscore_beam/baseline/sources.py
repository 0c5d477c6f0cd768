"""The sources of a baseline run, its files, and what its folder records of them."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.crawl.crawl_files import list_crawl, list_files_of, seeded_order
from bertscore_beam.crawl.fetch import FetchError
from bertscore_beam.crawl.given_files import DOCUMENT_SUFFIXES, SUFFIXES, check_given
from bertscore_beam.crawl.languages import check_language, check_tag
from bertscore_beam.crawl.sampling import Overlap
from bertscore_beam.dump.parquet import open_kept
from bertscore_beam.files.checked import digest_of, to_json, to_line
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import file_version
from bertscore_beam.files.reach import is_web
from bertscore_beam.files.read import in_parallel
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.baseline import TABLE_SUFFIX
from bertscore_core.errors import BertScoreError, InputError

# Names of all files in the output folder of a baseline job.
#
#     OUT/<language>/<model>.tsv               LAYER,P,R,F: the layout of bert-score's own tables
#     OUT/<language>/<model>.json              how it was made, its errors
#     OUT/_sentences/<digest>.pq               sentences of a file, and its record; see `extract`
#     OUT/_pairs/<language>/<part>.parquet     random pairs of a sample; <language>.json: the record
#     OUT/_idf/<language>/<model>/<digest>.npz   document frequencies in the pairs, with --idf
#     OUT/_moments/<language>/<model>/<part>.npz   sums over the scores of a part, all layers
#     OUT/_failed/<file>.json                  a file that could not be read, and why; given
#                                              sentences have their language before the name
#     OUT/_run.json, _summary.json, _SUCCESS   as for every job, see `run.folder`
#
# Each file is a function of the settings and of the files before it in this list, and is written
# whole or not at all. A stage skips what is there, so a run that was killed continues where it
# stopped.
#
# The name of a model whose tables are of idf-weighted scores ends in `.idf`, so that a folder may
# hold both.

LAYOUT = "4"
"""Version of this layout. The third kept samples, and a record of each."""
SENTENCES_FOLDER = "_sentences"
PAIRS_FOLDER = "_pairs"
IDF_FOLDER = "_idf"
MOMENTS_FOLDER = "_moments"
FAILED_FOLDER = "_failed"
DATA_FOLDERS = (FAILED_FOLDER, SENTENCES_FOLDER, PAIRS_FOLDER, IDF_FOLDER, MOMENTS_FOLDER)
"""What others are made of first."""


def table_path(language: str, model: str) -> str:
    """Return the path of a table."""
    return f"{language}/{model}{TABLE_SUFFIX}"


def failed_path(name: str) -> str:
    """Return the path of the note that says why a file could not be read."""
    return f"{FAILED_FOLDER}/{name}.json"


def pairs_path(language: str, part: str) -> str:
    """Return the path of a part of a language's pairs."""
    return f"{PAIRS_FOLDER}/{language}/{part}.parquet"


def pairs_record_path(language: str) -> str:
    """Return the path of the record of a language's pairs."""
    return f"{PAIRS_FOLDER}/{language}.json"


def model_folder(below: str, language: str, model: str) -> str:
    """Return the folder of a model's idf tables, or of its moments."""
    return f"{below}/{language}/{model}"


# What the output folder records of pairs, so that a later run knows what is done.


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPart:
    """Pairs of one language in one Parquet file.

    `same_host` counts the pairs whose sentences are from one host; `overlap` see `count_overlap`.
    `seal` is that of the file: see `open_parquet`.
    """

    language: str
    name: str
    rows: int
    same_host: int
    seal: str
    overlap: Overlap = ()

    @property
    def path(self) -> str:
        """Path of the file."""
        return pairs_path(self.language, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRecord:
    """The sample of one language, how it was taken, its pairs, and what became of the files.

    Attributes:
        wanted: Sentences asked for.
        listing: Digest of the names of the source's files.
        files: What the description says of the files: how many there were, which failed, and of
            those read name, size, digest and sentences.
        is_last: Whether no more files would be read: else a sample that is too small has no pairs.
        found: Sentences of the sample.
        sample: Digest of the sample.
    """

    language: str
    wanted: int
    host_cap: int
    listing: str
    files: Mapping[str, Any]
    is_last: bool
    found: int = 0
    sample: str = ""
    parts: tuple[PairPart, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the sample has its pairs."""
        return self.is_last or self.found == self.wanted

    @property
    def digest(self) -> str:
        """Digest of what the pairs are made of. 16 hexadecimal digits."""
        made = {"sample": self.sample, "parts": [(part.name, part.rows) for part in self.parts]}
        return digest_of(to_line(made), 16)

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return sum(part.rows for part in self.parts)

    def fits(self, options: BaselineOptions) -> bool:
        """Tell whether a run would take the same sample; files that failed are tried again."""
        files, read = self.files, len(self.files["files"])
        same = (self.wanted, self.host_cap, files["first_files"]) == (
            2 * options.pairs,
            options.sentences_per_host,
            options.first_files,
        )
        enough = self.found == self.wanted or read == files["files_listed"]
        bounded = bool(options.sentences) or read <= options.max_files
        ends_alike = enough or files["max_files"] == options.max_files
        return same and self.is_done and not files["failed"] and bounded and ends_alike


def write_record(folder: OutputFolder, record: PairsRecord) -> None:
    """Write a record as JSON, with a digest of it."""
    folder.write_json(pairs_record_path(record.language), asdict(record))


def read_record(folder: OutputFolder, language: str) -> PairsRecord | None:
    """Return the record of a language's pairs; None if there is none, or if it is damaged."""
    fields = folder.read_json(pairs_record_path(language))
    if not fields:
        return None
    return PairsRecord(**{**fields, "parts": tuple(PairPart(**part) for part in fields["parts"])})


def read_pairs(folder: OutputFolder, path: str, seal: str) -> pa.Table:
    """Read a part of a language's pairs.

    Raises:
        InputError: It is damaged, or another one than was written.
    """
    record = pairs_record_path(PurePath(path).parent.name)
    cure = f"Delete {record!r} and run the same command again: it pairs the sentences once more."
    with open_kept(folder.path(path), cure, seal=seal) as file:
        return file.read()


# The files that sentences are read from, as they travel to the workers.

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFile:
    """A file and what is wanted of it.

    Its name identifies it, wherever it is. A file that is given with a language is of that one.
    """

    name: str
    path: str
    languages: tuple[str, ...]
    given: bool = False

    @property
    def label(self) -> str:
        """Name of what is read of the file at once; of each language there may be one so named."""
        return f"{self.languages[0]}/{self.name}" if self.given else self.name

    @property
    def sentences(self) -> str:
        """Path of what is read of it at once. Globs for Parquet do not match it."""
        return f"{SENTENCES_FOLDER}/{digest_of(json.dumps([self.label, self.languages]), 16)}.pq"


def note_failed(file: SentenceFile, error: BertScoreError, folder: OutputFolder) -> None:
    """Count, log and write down that a file could not be read."""
    counters.count(counters.CRAWL_FILES_FAILED)
    reason = mask_credentials(f"{type(error).__name__}: {error}")
    logger.warning("not read: %s: %s", mask_credentials(file.name), reason)
    note = {"file": file.name, "path": mask_credentials(file.path), "reason": reason}
    folder.write(failed_path(file.label), to_json(note))


# The source of the sentences: a crawl, WET files, documents, or sentences that are given.


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files of one language, in the order in which they are read.

    The digest is of all names, and of the versions where files may change.
    """

    names: tuple[str, ...]
    paths: Mapping[str, str]
    digest: str


def languages_of(options: BaselineOptions) -> tuple[str, ...]:
    """Return the languages of a run; no file is looked at.

    Raises:
        ConfigError: A language is not known.
    """
    return (*dict.fromkeys([*map(check_language, options.languages), *_given_paths(options)]),)


def list_files(options: BaselineOptions, languages: Sequence[str]) -> dict[str, SourceFiles]:
    """List the files of every language; a crawl's are the same for all.

    Raises:
        ConfigError: There are none.
        FetchError: The listing cannot be fetched, now or later.
        OSError: The listing cannot be fetched now.
    """
    if options.given:
        paths_by_language = _given_paths(options)
        suffixes = SUFFIXES if options.sentences else DOCUMENT_SUFFIXES
        return {
            code: _in_order(options, list_files_of(paths, suffixes=suffixes))
            for code, paths in paths_by_language.items()
        }
    if options.crawl is not None:
        listing = _list_crawl(options, options.crawl)
    else:
        listing = list_files_of(options.wet)
    return dict.fromkeys(languages, _in_order(options, listing))


def check_files(options: BaselineOptions, languages: Sequence[str]) -> None:
    """Check the paths of files, and the columns of given Parquet files; a crawl is not listed.

    Raises:
        InputError: A file is not there, or a Parquet file has no column of texts.
    """
    listed = {} if options.crawl else list_files(options, languages)
    if options.given:
        paths = {path for files in listed.values() for path in files.paths.values()}
        check = partial(check_given, has_pages=not options.sentences)
        list(in_parallel(check, sorted(path for path in paths if not is_web(path))))


def _list_crawl(options: BaselineOptions, name: str) -> dict[str, str]:
    try:
        return list_crawl(name, options.policy, options.crawl_root)
    except FetchError as error:
        if error.permanent:
            raise
        # A server that does not answer is not the command's fault: later it may work.
        raise ConnectionError(f"the list of files cannot be fetched now: {error}") from error


def _in_order(options: BaselineOptions, paths: Mapping[str, str]) -> SourceFiles:
    content = "".join(f"{name}\n" for name in paths)
    if not options.crawl:  # whose files never change
        versions = in_parallel(_version, paths.values())
        content = "\n".join(f"{n} {v}" for n, v in zip(paths, versions, strict=True))
    return SourceFiles(
        names=tuple(seeded_order(list(paths), options.seed)),
        paths=paths,
        digest=digest_of(content, 16),
    )


def _given_paths(options: BaselineOptions) -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {}
    check = check_tag if options.sentences else check_language  # which can be detected
    for text in options.given:
        code, _, path = text.partition("=")
        language = check(code)
        paths[language] = (*paths.get(language, ()), path)
    return paths


def _version(path: str) -> str:
    try:
        return "" if is_web(path) else file_version(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{mask_credentials(path)!r} cannot be opened: got a name without a file, such as a "
            "link that leads nowhere; expected a file. Repair the link, or remove it."
        ) from error
