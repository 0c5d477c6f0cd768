"""Sentences that are given, and documents: web pages of other collections."""

import codecs
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.crawl.fetch import CrawlFileError
from bertscore_beam.crawl.filters import WordLimits, count_words
from bertscore_beam.crawl.sentences import normalize, sentences_table
from bertscore_beam.crawl.warc import MAX_PAGE_BYTES, MOST_BROKEN, RECORDS, RECORDS_BROKEN, Page
from bertscore_beam.dump.paths import column_of, is_text
from bertscore_beam.dump.text.parsers import parse_line
from bertscore_beam.dump.texts import texts_from_column
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_core.errors import InputError

_TEXT_COLUMN = "text"
SUFFIXES = (".txt", ".txt.gz", ".parquet")
"""Suffixes of the files of sentences that are read in a folder."""
DOCUMENT_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")
"""Suffixes of the files that are read in a folder of documents."""
MAX_LINE = 1 << 20
"""Most characters of a line. A longer line is not a sentence, and is left out."""
_URL_COLUMNS = ("url", "u")
"""Names of the column of addresses; the second is that of HPLT."""
# Most lines of a block, and most characters, which matter if lines are long.
_BLOCK = 200_000
_BLOCK_CHARACTERS = 1 << 25
_BATCH_ROWS = 8192
_PARQUET, _GZIP, _ZSTD = b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UNREADABLE = (OSError, EOFError, UnicodeDecodeError, KeyError, zlib.error, pa.ArrowException)


def check_given(path: str, *, has_pages: bool = False) -> None:
    """Check the columns of a file if it is Parquet. Everything else is checked while it is read.

    Raises:
        InputError: It has no column `text` that holds texts, or, for pages, none of addresses.
    """
    with suppress(OSError, pa.ArrowException), open_source(path) as source:
        if _begins_with(source, _PARQUET):
            try:
                _columns(pq.read_schema(source), has_pages=has_pages)
            except CrawlFileError as error:
                raise InputError(f"{mask_credentials(path)!r} cannot be used: {error}") from error


def read_sentences(
    file: BinaryIO, language: str, seed: int, words: WordLimits
) -> Iterator[pa.Table]:
    """Read sentences in blocks. Only white space and the Unicode form are normalized.

    The file is Parquet with a column `text`, or UTF-8 text, gzipped or not. Their hosts are not
    known.

    Raises:
        CrawlFileError: It is neither, is damaged, or holds no sentence of such a length.
    """
    any_kept = False
    try:
        for block in _blocks(_lines(file)):
            texts = {text for text in map(normalize, block) if text}
            if words:
                texts = {text for text in texts if words.allow(count_words(text, language))}
            any_kept = any_kept or bool(texts)
            yield sentences_table(seed, language, [(None, text) for text in sorted(texts)])
    except _UNREADABLE as error:
        raise CrawlFileError(
            f"the sentences cannot be read: got {type(error).__name__}; expected UTF-8 text with a "
            f"sentence a line, or Parquet with a column {_TEXT_COLUMN!r}. Correct the file."
        ) from error
    if not any_kept:
        raise CrawlFileError(
            "the file holds no sentence: got blank lines, lines of more than "
            f"{MAX_LINE} characters, "
            + (f"sentences that do not have {words.shown} words, " if words else "")
            + "or none; expected a sentence a line. Leave the file out."
        )


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    block: list[str] = []
    characters = 0
    for line in lines:
        if len(line) > MAX_LINE:
            continue
        block.append(line)
        characters += len(line)
        if len(block) >= _BLOCK or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    yield block


def _lines(file: BinaryIO) -> Iterator[str]:
    if _begins_with(file, _PARQUET):
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            columns = _columns(parquet.schema_arrow)
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
                texts = column_of(pa.Table.from_batches([batch]), _TEXT_COLUMN)
                yield from texts.cast(pa.string()).fill_null("").to_pylist()
        return
    with io.TextIOWrapper(_unpacked(file), encoding="utf-8") as lines:
        while line := lines.readline(MAX_LINE + 1):
            yield line.removesuffix("\n")
            while len(line) > MAX_LINE and not line.endswith("\n"):
                line = lines.readline(MAX_LINE + 1)  # skip the rest


def _begins_with(file: Any, magic: bytes) -> bool:
    start = file.read(len(magic))
    file.seek(0)
    return bool(start == magic)


def _unpacked(file: BinaryIO) -> Any:
    if _begins_with(file, _GZIP):
        return gzip.GzipFile(fileobj=file)
    if _begins_with(file, _ZSTD):
        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
    return file


def _columns(schema: pa.Schema, *, has_pages: bool = False) -> list[str]:
    """Return the names of the columns of texts and of addresses of a Parquet file."""
    names = {_TEXT_COLUMN: (_TEXT_COLUMN,)} | ({"url": _URL_COLUMNS} if has_pages else {})
    found = {shown: [name for name in names[shown] if name in schema.names] for shown in names}
    missing = [shown for shown, columns in found.items() if not columns]
    if missing:
        raise CrawlFileError(
            f"the Parquet file has no column {missing[0]!r}: got "
            f"{', '.join(schema.names) or 'none'}; expected texts in {_TEXT_COLUMN!r}, and the "
            "address of each document in 'url', whose host counts. Rename the column."
        )
    kind = schema.field(_TEXT_COLUMN).type
    if not is_text(column_of(pa.schema([(_TEXT_COLUMN, kind)]).empty_table(), _TEXT_COLUMN).type):
        raise CrawlFileError(
            f"the column {_TEXT_COLUMN!r} of the Parquet file holds no texts: got {kind}; expected "
            "string. Cast the column."
        )
    return [columns[0] for columns in found.values()]


def read_documents(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    """Yield the documents of a file in order, as `read_pages` does with those of a WET file.

    The file is Parquet, or JSON lines, also compressed. A document without a text or an address is
    a broken record.

    Raises:
        CrawlFileError: It is neither, is damaged, holds no document, or too many broken records.
    """
    any_page = False
    try:
        for text, url in _documents(file):
            counts[RECORDS] += 1
            if not isinstance(text, str) or not isinstance(url, str):
                counts[RECORDS_BROKEN] += 1
            elif len(text) <= MAX_PAGE_BYTES:
                any_page = True
                yield Page(url=url, languages=(), text=text)
    except _UNREADABLE as error:
        raise CrawlFileError(
            f"the documents cannot be read: got {type(error).__name__}; expected Parquet, or JSON "
            "lines, whole. Fetch the file again or leave it out."
        ) from error
    records, broken = counts[RECORDS], counts[RECORDS_BROKEN]
    if broken > MOST_BROKEN * records or not any_page:
        raise CrawlFileError(
            f"the file holds too few documents: got {broken:,} of {records:,} rows or lines "
            f"without a text or an address; expected {_TEXT_COLUMN!r} and 'url' in all but at most "
            f"{MOST_BROKEN:.0%} of them. Rename the columns, or leave the file out."
        )


def _documents(file: BinaryIO) -> Iterator[tuple[object, object]]:
    if _begins_with(file, _PARQUET):
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            columns = _columns(parquet.schema_arrow, has_pages=True)
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
                rows = pa.Table.from_batches([batch])
                texts, urls = (texts_from_column(column_of(rows, name)) for name in columns)
                yield from zip(texts, urls, strict=True)
        return
    stream = _unpacked(file)
    while line := stream.readline(2 * MAX_PAGE_BYTES):  # of a longer one no piece is JSON
        if line.isspace():
            continue
        row = parse_line(line.removeprefix(codecs.BOM_UTF8))
        row = row if isinstance(row, dict) else {}
        yield row.get(_TEXT_COLUMN), next((row[name] for name in _URL_COLUMNS if name in row), None)
