"""List the files of a crawl, or those that the user names, and read given sentences."""

import gzip
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.crawl.fetch import CrawlFileError, FetchError, FetchPolicy, fetched
from bertscore_beam.crawl.filters import WordLimits, count_words
from bertscore_beam.crawl.sampling import host_hash
from bertscore_beam.crawl.sentences import REJECTED, normalize, sentences_table
from bertscore_beam.crawl.warc import MAX_PAGE_BYTES, PAGES, PAGES_TOO_LONG, RECORDS_BROKEN, Page
from bertscore_beam.dump import input_names, values_as_text
from bertscore_beam.files import (
    Trouble,
    absolute,
    mask_credentials,
    open_source,
    search,
    with_scheme,
)
from bertscore_core.errors import ConfigError, InputError

# List the files of a crawl, or those that the user names, in an order that makes a sample.
#
# A file has a path, which says where it is, and a name, which says which file of the crawl it is.
# Hashes, records and resumed runs use names, so a file has the same name whether it is fetched over
# HTTPS, from S3 or from a copy on a disk.

FIRST_SOUND_CRAWL = (2016, 50)
"""Before it, Common Crawl misread the character sets of many pages, and their text is garbled."""
MAX_LISTING_BYTES = 256 << 20
"""A listing of 100,000 files is 14 MB; one that unpacks to more is damaged or malicious."""

WET_SUFFIXES = (".wet.gz", ".wet")
"""Suffixes of WET files, as Common Crawl publishes them and unpacked."""

_CRAWL = re.compile(r"CC-MAIN-(20\d\d)-([0-5]\d)")
_NAME = re.compile(r"crawl-data/(?:[\w+=-][\w+=.-]*/)*[\w+=-][\w+=.-]*", re.ASCII)
_CRAWL_DATA = "/crawl-data/CC-MAIN-"
_WEB = ("http://", "https://")


def list_crawl(crawl: str, policy: FetchPolicy, root: str) -> dict[str, str]:
    """Return the path of each WET file of a crawl by name, sorted, as Common Crawl publishes them.

    `root` is where `crawl-data/` is: a URL, `s3://commoncrawl/` or a folder.

    Raises:
        ConfigError: The id has another form, is of a crawl with garbled texts, or there is no such
            crawl.
        FetchError: The list cannot be fetched.
        CrawlFileError: The list is damaged or empty.
    """
    _check_crawl(crawl)
    base = (root if root.lower().startswith(_WEB) else absolute(root)).rstrip("/") + "/"
    path = f"{base}crawl-data/{crawl}/wet.paths.gz"
    try:
        with fetched(path, policy) as listing:
            names = _read_names(listing.file, crawl)
    except FetchError as error:
        if not error.missing:
            raise
        raise ConfigError(
            f"no such crawl: got {crawl!r}, and there is no file {mask_credentials(path)!r}; "
            "expected a crawl with WET files. Common Crawl lists its crawls on "
            "https://commoncrawl.org/get-started; if you read from a copy, check its root."
        ) from error
    return {name: base + name for name in sorted(set(names))}


def list_files_of(
    patterns: Sequence[str], *, suffixes: tuple[str, ...] = WET_SUFFIXES
) -> dict[str, str]:
    """Return the path of each file that paths, globs, folders and URLs stand for by name, sorted.

    An existing file is taken literally even if its name holds glob characters. A folder stands for
    all files below it whose names end in one of the suffixes. Names that start with "_" or "." are
    skipped by folders and globs. A URL is one file; the server is not asked for it here.

    Files below a `crawl-data/CC-MAIN-...` folder are named from there, as the crawl's own list
    does. Others are named from the deepest folder that contains all of them.

    Raises:
        InputError: A pattern matches nothing, or a web address holds a `*`.
        OSError: A folder cannot be listed now, so its files are unknown.
        ConfigError: The scheme of a path is not known.
    """
    paths = sorted({path for pattern in patterns for path in _expand(pattern, suffixes)})
    if not paths:
        raise InputError(
            "no input: got no path at all; expected at least one file, glob or address."
        )
    return dict(sorted(_name_paths(paths).items()))


def seeded_order(names: Sequence[str], seed: int) -> list[str]:
    """Return the names in an order that depends only on the seed and the names.

    The first n names are a uniform random sample of all. The list of Common Crawl is grouped by
    segments, so its own first n files would not be one.
    """

    def priority(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest(), name

    return sorted(names, key=priority)


def _check_crawl(crawl: str) -> None:
    match = _CRAWL.fullmatch(crawl)
    if match is None:
        raise ConfigError(
            f"not the id of a crawl: got {crawl!r}; expected CC-MAIN- with year and week, such as "
            "CC-MAIN-2026-30. Common Crawl lists its crawls on https://commoncrawl.org/get-started."
        )
    if (int(match[1]), int(match[2])) < FIRST_SOUND_CRAWL:
        raise ConfigError(
            f"the texts of crawl {crawl!r} are garbled: until CC-MAIN-2016-44 Common Crawl misread "
            "the character sets of many pages; expected CC-MAIN-2016-50 or later. Choose a newer "
            "crawl."
        )


def _read_names(file: Path, crawl: str) -> list[str]:
    try:
        with gzip.open(file) as listing:
            content = listing.read(MAX_LISTING_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CrawlFileError(
            f"the list of WET files of {crawl} is damaged: got {error}; expected a whole gzip "
            "file. Fetch it again."
        ) from error
    names = content.decode("utf-8", "replace").split()
    if not names:
        raise CrawlFileError(
            f"the list of WET files of {crawl} is empty; expected one name a line. Choose another "
            "crawl, or look again when this one is complete."
        )
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or len(content) > MAX_LISTING_BYTES:
        raise CrawlFileError(
            f"the list of WET files of {crawl} holds something else: {len(wrong)} of {len(names)} "
            "lines are no path below crawl-data/; expected one a line and at most "
            f"{MAX_LISTING_BYTES} bytes. Fetch it again."
        )
    return names


def _name_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the path of each name. Names do not depend on where a copy is."""
    if all(_CRAWL_DATA in path for path in paths):
        # The last match: a copy may be below a folder of any name.
        below = {path[path.rindex(_CRAWL_DATA) + 1 :].partition("?")[0]: path for path in paths}
        # Such as "..", which would lead out of the output folder.
        if len(below) == len(paths) and all(map(_NAME.fullmatch, below)):
            return below
    return {name: path for path, name in input_names(paths).items()}


def _expand(pattern: str, suffixes: tuple[str, ...]) -> list[str]:
    if pattern.lower().startswith(_WEB):
        if "*" in pattern:
            raise InputError(
                f"no pattern can be used on the web: got {mask_credentials(pattern)!r}; expected "
                "the address of one file. Give each address, or the crawl's id instead."
            )
        return [pattern]
    result = search(pattern, suffixes)
    lost = [place for place in result.found if place.trouble is Trouble.UNLISTED]
    if lost:
        raise OSError(
            f"{len(lost)} places of {mask_credentials(pattern)!r} cannot be examined, such as "
            f"{mask_credentials(lost[0].path)!r}: {mask_credentials(lost[0].message)}"
        )
    if not result.found:
        raise InputError(
            f"no input: {result.nothing(pattern, suffixes)}; expected a file, a glob "
            f"such as 'folder/**/*{suffixes[0]}', or a folder with files below it that end in "
            f"{' or '.join(suffixes)}. Check the path, and quote the glob for the shell."
        )
    return [with_scheme(result.fs, place.path) for place in result.found]


NO_LIMITS = WordLimits()
TEXT_COLUMN = "text"
SUFFIXES = (".txt", ".txt.gz", ".parquet")
"""Suffixes of the files that are read in a folder."""
MAX_LINE = 1 << 20
"""Most characters of a line. A longer line is not a sentence; it is counted and left out."""
# Most lines of a block, and most characters, which matter if lines are long.
_BLOCK = 200_000
_BLOCK_CHARACTERS = 1 << 25
_BATCH_ROWS = 8192
_MAGIC = b"PAR1"
_TEXT_TYPES = frozenset({"string", "large_string", "string_view", "binary", "large_binary", "null"})
_GZIP = b"\x1f\x8b"


def check_given(path: str, *, has_pages: bool = False) -> None:
    """Check the columns of a file if it is Parquet. Everything else is checked while it is read.

    Raises:
        InputError: It has no column `text` that holds texts, or, for pages, none of addresses.
    """
    with suppress(OSError, pa.ArrowException), open_source(path) as source:
        if source.read(len(_MAGIC)) != _MAGIC:
            return
        source.seek(0)
        try:
            _check_columns(schema := pq.read_schema(source))
            if has_pages:
                _url_column(schema)
        except CrawlFileError as error:
            raise InputError(f"{mask_credentials(path)!r} cannot be used: {error}") from error


def read_sentences(
    path: Path,
    language: str,
    seed: int,
    counts: Counter[str],
    words: WordLimits = NO_LIMITS,
) -> Iterator[pa.Table]:
    """Read sentences in blocks. Only white space and the Unicode form are normalized.

    The file is Parquet with a column `text`, or UTF-8 text, gzipped or not. Lines are counted, and
    those left out by reason.

    Raises:
        CrawlFileError: It is neither, is damaged, or holds no sentence of such a length.
    """
    try:
        any_kept = False
        for block in _blocks(_lines(path), counts):
            normal = [normalize(line or "") for line in block]
            counts["lines_blank"] += normal.count("")
            texts = sorted(_of_length(set(normal) - {""}, language, counts, words))
            any_kept = any_kept or bool(texts)
            # Their hosts are not known: each sentence counts as a host of its own.
            yield sentences_table(seed, language, [(host_hash(text), text) for text in texts])
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise CrawlFileError(
            f"the sentences cannot be read: got {type(error).__name__}; expected UTF-8 text with a "
            f"sentence a line, or Parquet with a column {TEXT_COLUMN!r}. Correct the file."
        ) from error
    if not any_kept:
        raise CrawlFileError(
            "the file holds no sentence: got blank lines, lines of more than "
            f"{MAX_LINE} characters, "
            + (f"sentences that do not have {words.shown} words, " if words else "")
            + "or none; expected a sentence a line. Leave the file out."
        )


def _of_length(
    texts: set[str], language: str, counts: Counter[str], words: WordLimits
) -> Iterator[str]:
    for text in texts:
        reason = words.reason(count_words(text, language)) if words else None
        if reason is None:
            yield text
        else:
            counts[REJECTED + reason] += 1


def _blocks(lines: Iterator[str | None], counts: Counter[str]) -> Iterator[list[str | None]]:
    block: list[str | None] = []
    characters = 0
    for line in lines:
        counts["lines"] += 1
        if line is not None and len(line) > MAX_LINE:
            counts["lines_too_long"] += 1
            continue
        block.append(line)
        characters += len(line or "")
        if len(block) >= _BLOCK or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _lines(path: Path) -> Iterator[str | None]:
    with open(path, "rb") as stream:
        start = stream.read(4)
    if start == _MAGIC:
        return _rows(path)
    return _text(path, zipped=start.startswith(_GZIP))


def _rows(path: Path) -> Iterator[str | None]:
    with pq.ParquetFile(path) as file:
        _check_columns(file.schema_arrow)
        for batch in file.iter_batches(_BATCH_ROWS, columns=[TEXT_COLUMN]):
            yield from batch.column(0).cast(pa.string()).to_pylist()


def _check_columns(schema: pa.Schema) -> None:
    if TEXT_COLUMN not in schema.names:
        raise CrawlFileError(
            f"the Parquet file has no column {TEXT_COLUMN!r}: got "
            f"{', '.join(schema.names) or 'none'}; expected one of texts. Rename the column."
        )
    kind = schema.field(TEXT_COLUMN).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if str(kind) not in _TEXT_TYPES:
        raise CrawlFileError(
            f"the column {TEXT_COLUMN!r} of the Parquet file holds no texts: got {kind}; expected "
            "string. Cast the column."
        )


def _text(path: Path, *, zipped: bool) -> Iterator[str]:
    with open(path, "rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if zipped else raw
        with io.TextIOWrapper(stream, encoding="utf-8") as lines:
            while line := lines.readline(MAX_LINE + 1):
                yield line.removesuffix("\n")
                while len(line) > MAX_LINE and not line.endswith("\n"):
                    line = lines.readline(MAX_LINE + 1)  # skip the rest


# Documents: web pages of other collections, as Parquet or JSON lines.

DOCUMENT_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")
"""Suffixes of the files that are read in a folder of documents."""
_URL_COLUMNS = ("url", "u")
"""Names of the column of addresses; the second is that of HPLT."""
_ZSTD = b"\x28\xb5\x2f\xfd"


def read_documents(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    """Yield the documents of a file in order, as `read_pages` does with those of a WET file.

    The file is Parquet, or JSON lines, also compressed. A document without a text or an address is
    a broken record.

    Raises:
        CrawlFileError: It is neither, is damaged, or holds no document.
    """
    try:
        for text, url in _documents(file):
            if not isinstance(text, str) or not isinstance(url, str):
                counts[RECORDS_BROKEN] += 1
            elif len(text) > MAX_PAGE_BYTES:
                counts[PAGES_TOO_LONG] += 1
            else:
                counts[PAGES] += 1
                yield Page(url=url, languages=(), text=text)
    except (OSError, EOFError, KeyError, zlib.error, pa.ArrowException) as error:
        raise CrawlFileError(
            f"the documents cannot be read: got {type(error).__name__}; expected Parquet, or JSON "
            "lines, whole. Fetch the file again or leave it out."
        ) from error
    if not counts[PAGES]:
        raise CrawlFileError(
            f"the file holds no document: got {dict(counts)}; expected rows of Parquet, or lines "
            f"of JSON, with {TEXT_COLUMN!r} and {_URL_COLUMNS[0]!r}. Rename the columns."
        )


def _documents(file: BinaryIO) -> Iterator[tuple[object, object]]:
    magic = file.read(len(_MAGIC))
    file.seek(0)
    if magic == _MAGIC:
        with pq.ParquetFile(file) as parquet:
            _check_columns(parquet.schema_arrow)
            columns = [TEXT_COLUMN, _url_column(parquet.schema_arrow)]
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
                texts, urls = (values_as_text(pa.chunked_array([batch[name]])) for name in columns)
                yield from zip(texts, urls, strict=True)
        return
    stream: Any = gzip.GzipFile(fileobj=file) if magic.startswith(_GZIP) else file
    if magic == _ZSTD:
        stream = io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
    while line := stream.readline(2 * MAX_PAGE_BYTES):  # of a longer one no piece is JSON
        if line.isspace():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        row = row if isinstance(row, dict) else {}
        yield row.get(TEXT_COLUMN), next((row[name] for name in _URL_COLUMNS if name in row), None)


def _url_column(schema: pa.Schema) -> str:
    name = next((name for name in _URL_COLUMNS if name in schema.names), None)
    if name is None:
        raise CrawlFileError(
            f"the Parquet file has no column {_URL_COLUMNS[0]!r}: got {', '.join(schema.names)}; "
            "expected the address of each document, whose host counts. Rename the column."
        )
    return name
