"""Sentences that the user gives: a text file with one a line, or a Parquet file."""

import gzip
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.crawl.errors import CrawlFileError
from bertscore_beam.crawl.extract import SentenceRows
from bertscore_beam.crawl.sampling import host_hash
from bertscore_beam.crawl.sentences import REJECTED, normalize
from bertscore_beam.crawl.words import WordLimits, count_words
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_core.errors import InputError

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


def check_given(path: str) -> None:
    """Check the column of a file if it is Parquet. Everything else is checked while it is read.

    Args:
        path: A local path, or one in an object store.

    Raises:
        InputError: It has no column `text` that holds texts.
    """
    with suppress(OSError, pa.ArrowException), open_source(path) as source:
        if source.read(len(_MAGIC)) != _MAGIC:
            return
        source.seek(0)
        try:
            _check_columns(pq.read_schema(source))
        except CrawlFileError as error:
            raise InputError(f"{mask_credentials(path)!r} holds no sentences: {error}") from error


def read_sentences(
    path: Path,
    language: str,
    seed: int,
    counts: Counter[str],
    words: WordLimits = NO_LIMITS,
) -> Iterator[SentenceRows]:
    """Read sentences in blocks. Only white space and the Unicode form are normalized.

    Args:
        path: A local file: Parquet with a column `text`, or UTF-8 text, gzipped or not.
        language: The language they are in.
        seed: Seed of the ranks.
        counts: Is added to: `lines`, and `lines_blank`, `lines_too_long`, `sentence_too_short` and
            `sentence_too_long` for those left out.
        words: How many words a sentence may have.

    Raises:
        CrawlFileError: it is neither, is damaged, or holds no sentence of such a length.
    """
    try:
        found = False
        for block in _blocks(_lines(path), counts):
            normal = [normalize(line or "") for line in block]
            counts["lines_blank"] += normal.count("")
            texts = sorted(_of_length(set(normal) - {""}, language, counts, words))
            found = found or bool(texts)
            # Their hosts are not known: each sentence counts as a host of its own.
            yield SentenceRows.of(seed, language, [(host_hash(text), text) for text in texts])
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise CrawlFileError(
            f"the sentences cannot be read: got {type(error).__name__}; expected UTF-8 text with a "
            f"sentence a line, or Parquet with a column {TEXT_COLUMN!r}. Correct the file."
        ) from error
    if not found:
        raise CrawlFileError(
            "the file holds no sentence: got blank lines, lines of more than "
            f"{MAX_LINE} characters, "
            + (f"sentences that do not have {words.shown} words, " if words else "")
            + "or none; expected a sentence a line. Leave the file out."
        )


def _of_length(
    texts: set[str], language: str, counts: Counter[str], words: WordLimits
) -> Iterator[str]:
    """Yield the texts with an allowed number of words, and count the others."""
    for text in texts:
        reason = words.reason(count_words(text, language)) if words else None
        if reason is None:
            yield text
        else:
            counts[REJECTED + reason] += 1


def _blocks(lines: Iterator[str | None], counts: Counter[str]) -> Iterator[list[str | None]]:
    """Collect lines in blocks that fit in memory, without lines that are too long."""
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
    """Raise unless there is a column of texts with the expected name."""
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
    """Yield the lines of a text. A line that is too long is cut one character after the limit."""
    with open(path, "rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if zipped else raw
        with io.TextIOWrapper(stream, encoding="utf-8") as lines:
            while line := lines.readline(MAX_LINE + 1):
                yield line.removesuffix("\n")
                while len(line) > MAX_LINE and not line.endswith("\n"):
                    line = lines.readline(MAX_LINE + 1)  # skip the rest
