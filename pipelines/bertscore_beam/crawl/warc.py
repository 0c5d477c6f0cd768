"""Read the pages of a WET file as a stream, strictly: to the end or with an error.

    WET file   records, by rule each in a gzip member of its own; the division does not matter
    record     WARC/1.0, headers, empty line, block, two line ends

Ready-made readers end without an error where a file is cut off, which would silently make a sample
smaller. This one raises for every cut but one: at the end of a member (or, without gzip, of a
record) a cut file looks whole. The code that fetches the file must compare its size.

Pages are yielded before the end of the file has been checked. When an error is raised, discard all
pages of the file.
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from bertscore_beam.crawl.fetch import CrawlFileError

RECORDS = "records"
"""Records of a file, whatever they are."""
MAX_PAGE_BYTES = 16 << 20
"""Longest page that is read. Common Crawl cuts what it fetches at 1 MiB (5 MiB is announced), and
the text of a page is shorter; but a few bytes of gzip can unpack to gigabytes."""
MAX_HEAD_BYTES = 64 << 10
"""Longest header section. The longest header by far is the URL, with a few KB at most."""

_GZIP = b"\x1f\x8b"
_CHUNK = 256 << 10
_LINE_ENDS = (b"\r\n", b"\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_LANGUAGE = re.compile(r"[a-z]{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one web page.

    Attributes:
        url: Where the page was found.
        languages: ISO 639-3 codes that Common Crawl's detector found, the main one first. Empty if
            the file does not say so.
        text: The text, in lines, without a byte order mark. Bytes that are not UTF-8 are U+FFFD.
    """

    url: str
    languages: tuple[str, ...]
    text: str


def read_pages(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    """Yield the pages of a WET file in order.

    A page is a `conversion` record of type text/plain. Other records, and pages of more than
    `MAX_PAGE_BYTES`, are passed over.

    Memory: some pieces of 256 KB and one page of at most `MAX_PAGE_BYTES`. The time is proportional
    to the size of the content.

    Args:
        file: At its start, compressed or not.
        counts: `RECORDS` is counted up, while pages are yielded.

    Raises:
        CrawlFileError: The file is not a WET file, cut off, damaged, or holds no page.
    """
    is_zipped = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    data: BinaryIO = gzip.GzipFile(fileobj=file) if is_zipped else file  # type: ignore[assignment]
    any_page = False
    try:
        while (fields := _read_head(data)) is not None:
            page = _read_page(fields, data)
            counts[RECORDS] += 1
            if page is not None:
                any_page = True
                yield page
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _unsound(f"got {error}") from error
    if not any_page:
        raise _unsound("it has no page")


def _unsound(problem: str) -> CrawlFileError:
    return CrawlFileError(
        f"a crawl file is not a whole WET file: {problem}; expected WARC records to its end, among "
        "them one of WARC-Type 'conversion' with text/plain. Fetch the file again or leave it out."
    )


def _read_head(data: BinaryIO) -> dict[str, str] | None:
    """Return the headers of the next record by name in lower case; None at the end of the file."""
    line = data.readline(MAX_HEAD_BYTES)
    if not line:
        return None
    if line.strip() not in (b"WARC/1.0", b"WARC/1.1"):
        raise _unsound("got something else where a record begins")
    fields: dict[str, str] = {}
    left = MAX_HEAD_BYTES
    while (line := data.readline(left)) not in _LINE_ENDS:
        left -= len(line)
        if fields and line.startswith((b" ", b"\t")):  # more of a header that no page needs
            continue
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if not colon or not line.endswith(b"\n"):
            raise _unsound(f"there are no headers, or they do not end in {MAX_HEAD_BYTES} bytes")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _read_page(fields: dict[str, str], data: BinaryIO) -> Page | None:
    """Read the block of a record and what ends it; None if it is no page or too long a one."""
    if not _LENGTH.fullmatch(fields.get("content-length", "")):
        raise _unsound("a record has no Content-Length, or one that is not a number")
    length = int(fields["content-length"])
    kind = fields.get("content-type", "").partition(";")[0].strip().lower()
    is_page = fields.get("warc-type", "").lower() == "conversion" and kind == "text/plain"
    is_page = is_page and length <= MAX_PAGE_BYTES
    pieces, left = [], length
    while left and (piece := data.read(min(left, _CHUNK))):
        left -= len(piece)
        if is_page:
            pieces.append(piece)
    if left or any(data.readline(2) not in _LINE_ENDS for _ in range(2)):
        raise _unsound("a record does not end after the number of bytes that it announces")
    if not is_page:
        return None
    codes = fields.get("warc-identified-content-language", "").lower().split(",")
    return Page(
        url=fields.get("warc-target-uri", "").strip("<>"),
        languages=tuple(code for raw in codes if _LANGUAGE.fullmatch(code := raw.strip())),
        text=b"".join(pieces).decode("utf-8", "replace").removeprefix("\ufeff"),
    )
