"""Read the pages of a WET file as a stream, strictly: to the end or with an error.

    WET file   member  member  member ...           one gzip member a record, as published, or
    member     record [record ...]                  several records a member, or no gzip at all
    record     WARC/1.0, headers, empty line, block, two line ends

Ready-made readers end without an error where a file is cut off, which would silently make a sample
smaller. This one raises for every cut but one: at the end of a member (or, without gzip, of a
record) a cut file looks whole. The code that fetches the file must compare its size.

Pages are yielded before the end of the file has been checked. When an error is raised, discard all
pages of the file.
"""

import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import BinaryIO

from bertscore_beam.crawl.fetch import CrawlFileError

PAGES = "pages"
"""Pages yielded."""
RECORDS_OTHER = "records_other"
"""Records that are not pages: warcinfo, and conversions to something other than plain text."""
RECORDS_BROKEN = "records_broken"
"""Records that cannot be read, each alone in its gzip member, so that the next can be found."""
PAGES_NOT_UTF8 = "pages_not_utf8"
"""Pages dropped because their text is not valid UTF-8."""
PAGES_TOO_LONG = "pages_too_long"
"""Pages dropped because they are longer than `MAX_PAGE_BYTES`."""

MOST_BROKEN = 0.01
"""Largest share of a file's records that may be unreadable. Common Crawl's own files have none, so
more of them say that the file was damaged, and that its other pages are no fair sample."""

MAX_PAGE_BYTES = 16 << 20
"""Longest page that is read. Common Crawl cuts what it fetches at 1 MiB (5 MiB is announced), and
the text of a page is shorter; but a few bytes of gzip can unpack to gigabytes."""
MAX_HEAD_BYTES = 64 << 10
"""Longest header section. The longest header by far is the URL, with a few KB at most."""

_GZIP = b"\x1f\x8b"
_RECORD = b"WARC/1."
_SLICE = 8 << 10
"""Compressed bytes handed to zlib at a time. It copies what follows the end of a member, and a
member has 3 KB on average."""
_CHUNK = 256 << 10
"""Most bytes that are unpacked or held at a time, however well they are compressed."""
_BROKEN = (RECORDS_BROKEN, PAGES_NOT_UTF8)
_RECORDS = (PAGES, RECORDS_OTHER, PAGES_TOO_LONG, *_BROKEN)
"""What a record can count as: one of these."""
_MAX_LINE_ENDS = 8
"""Most line ends between two records. Usually there are two."""
_LINE_ENDS = (b"\r\n", b"\n")
# WARC/1.0 lets a value continue in the next line.
_FOLD = re.compile(r"\n[ \t]+")
_LANGUAGE = re.compile(r"[a-z]{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one web page.

    Attributes:
        url: Where the page was found.
        languages: ISO 639-3 codes that Common Crawl's detector found, the main one first. Empty if
            the file does not say so.
        text: The text, in lines, without a byte order mark.
    """

    url: str
    languages: tuple[str, ...]
    text: str


def read_pages(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    """Yield the pages of a WET file in order.

    A page is a `conversion` record of type text/plain; other records are counted. A broken record
    alone in its gzip member is counted too, and reading continues after it. Elsewhere nobody knows
    where the next record begins, and a broken record is an error.

    Memory: some pieces of 256 KB and one page of at most `MAX_PAGE_BYTES`. The time is proportional
    to the size of the content.

    Args:
        file: At its start, compressed or not.
        counts: Is added to under the names of this module, while pages are yielded.

    Raises:
        CrawlFileError: The file is empty, not a WET file, cut off, damaged, has something else
            after its last gzip member, or holds no page.
    """
    start = file.read(len(_RECORD))
    file.seek(0)
    if not start:
        raise CrawlFileError(
            "a crawl file is empty: got 0 bytes; expected a WET file. Fetch it again."
        )
    if start.startswith(_GZIP):
        pages = _compressed_pages(file, counts)
    elif start == _RECORD:
        pages = _plain_pages(file, counts)
    else:
        raise CrawlFileError(
            f"a crawl file is not a WET file: got the bytes {start[:4].hex(' ')} first; expected "
            "gzip (1f 8b) or 'WARC/1.'. Check whether it is an error page or another kind of file."
        )
    yield from pages
    if not counts[PAGES]:
        raise CrawlFileError(
            f"a crawl file has no page: got {dict(counts)} so far; expected at least one record "
            "of WARC-Type 'conversion' with text/plain. Check whether it is a WET file."
        )


def records_of(counts: Mapping[str, int]) -> int:
    """Return the number of records among the counts of `read_pages`, broken ones included."""
    return sum(counts.get(name, 0) for name in _RECORDS)


def broken_records_of(counts: Mapping[str, int]) -> int:
    """Return how many of these records cannot be read."""
    return sum(counts.get(name, 0) for name in _BROKEN)


def check_records(counts: Mapping[str, int]) -> None:
    """Check that few enough records of a file were broken.

    Args:
        counts: What `read_pages` counted over the whole file.

    Raises:
        CrawlFileError: Their share is larger than `MOST_BROKEN`.
    """
    records, broken = records_of(counts), broken_records_of(counts)
    if broken > MOST_BROKEN * records:
        raise CrawlFileError(
            f"a crawl file has too many broken records: got {broken:,} of {records:,} that cannot "
            f"be read ({broken / records:.1%}); expected at most {MOST_BROKEN:.0%}. Fetch the file "
            "again or leave it out."
        )


class _BrokenRecordError(Exception):
    """A record cannot be read."""


class _Member(io.RawIOBase):
    """The content of one gzip member, whose checksum is compared at its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = file.tell()
        self._inflater = zlib.decompressobj(wbits=31)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = b""
        while not content and not self._inflater.eof:
            content = self._inflate(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _inflate(self, most: int) -> bytes:
        piece = self._inflater.unconsumed_tail or self._file.read(_SLICE)
        if not piece:
            raise CrawlFileError(
                f"a crawl file ends inside a gzip member, at byte {self._file.tell()} of the "
                f"compressed file; expected the end of the member that begins at byte "
                f"{self._start}. The file was cut off: fetch it again."
            )
        try:
            content = self._inflater.decompress(piece, most)
        except zlib.error as error:
            raise CrawlFileError(
                f"a crawl file is damaged in the gzip member that begins at byte {self._start} of "
                f"the compressed file: got {error}; expected intact data. Fetch the file again."
            ) from error
        if self._inflater.eof:
            self._file.seek(-len(self._inflater.unused_data), os.SEEK_CUR)
        return content


def _compressed_pages(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    while start := file.read(len(_GZIP)):
        at = file.seek(-len(start), os.SEEK_CUR)
        if start != _GZIP:
            problem = "is cut off" if len(start) < len(_GZIP) else "continues with something else"
            raise CrawlFileError(
                f"a crawl file {problem} after a whole gzip member, at byte {at} of the compressed "
                "file; expected its end or another member. Fetch the file again."
            )
        try:
            yield from _read_records(io.BufferedReader(_Member(file), _CHUNK), counts)
        except _BrokenRecordError as broken:
            # To the end of the member, where the next one begins; does it hold another record?
            file.seek(at)
            member = io.BufferedReader(_Member(file), _CHUNK)
            lines = iter(partial(member.readline, _CHUNK), b"")
            if any(line.startswith(_RECORD) for line in islice(lines, 1, None)):
                raise _broken_record(file, broken) from broken
            counts[RECORDS_BROKEN] += 1


def _plain_pages(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    try:
        yield from _read_records(file, counts)
    except _BrokenRecordError as broken:
        raise _broken_record(file, broken) from broken


def _broken_record(file: BinaryIO, broken: _BrokenRecordError) -> CrawlFileError:
    return CrawlFileError(
        f"a crawl file has a broken record before byte {file.tell()} of the file: {broken}; "
        "expected whole records, or each in a gzip member of its own, so that the next one can be "
        "found. Fetch the file again or leave it out."
    )


def _read_records(data: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    line = data.readline(MAX_HEAD_BYTES)
    while line:
        page, kind = _read_record(line, data)
        line = _read_line_ends(data)
        counts[kind] += 1
        if page is not None:
            yield page


def _read_record(line: bytes, data: BinaryIO) -> tuple[Page | None, str]:
    fields = _read_head(line, data)
    length = fields.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 19):
        raise _BrokenRecordError("it has no Content-Length, or one that is not a number")
    kind = fields.get("content-type", "").partition(";")[0].strip().lower()
    if fields.get("warc-type", "").lower() != "conversion" or kind != "text/plain":
        _skip(data, int(length))
        return None, RECORDS_OTHER
    if int(length) > MAX_PAGE_BYTES:
        _skip(data, int(length))
        return None, PAGES_TOO_LONG
    block = data.read(int(length))
    _check_length(len(block), int(length))
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        return None, PAGES_NOT_UTF8
    codes = fields.get("warc-identified-content-language", "").lower().split(",")
    page = Page(
        url=fields.get("warc-target-uri", "").strip("<>"),
        languages=tuple(code for raw in codes if _LANGUAGE.fullmatch(code := raw.strip())),
        text=text.removeprefix("\ufeff"),
    )
    return page, PAGES


def _read_head(line: bytes, data: BinaryIO) -> dict[str, str]:
    lines = []
    left = MAX_HEAD_BYTES
    while line not in _LINE_ENDS:
        left -= len(line)
        if not line.endswith(b"\n"):
            raise _BrokenRecordError(f"its headers do not end within {MAX_HEAD_BYTES} bytes")
        lines.append(line.rstrip(b"\r\n"))
        line = data.readline(left)
    head = _FOLD.sub(" ", b"\n".join(lines).decode("utf-8", "replace"))
    version, *headers = head.split("\n")
    if version not in ("WARC/1.0", "WARC/1.1"):
        raise _BrokenRecordError("it does not begin with 'WARC/1.0' or 'WARC/1.1'")
    fields: dict[str, str] = {}
    for header in headers:
        raw, colon, value = header.partition(":")
        if not colon:
            raise _BrokenRecordError("a header line has no colon")
        name, value = raw.strip().lower(), value.strip()
        if fields.setdefault(name, value) != value and name == "content-length":
            raise _BrokenRecordError("it has two different Content-Length headers")
    return fields


def _skip(data: BinaryIO, length: int) -> None:
    left = length
    while left and (piece := data.read(min(left, _CHUNK))):
        left -= len(piece)
    _check_length(length - left, length)


def _check_length(got: int, length: int) -> None:
    if got < length:
        raise _BrokenRecordError(f"its block ends after {got} of {length} bytes")


def _read_line_ends(data: BinaryIO) -> bytes:
    number = 0
    while (line := data.readline(len(_RECORD) + 3)) in _LINE_ENDS and number < _MAX_LINE_ENDS:
        number += 1
    if number < 2 or not (line == b"" or line.startswith(_RECORD)):
        raise _BrokenRecordError("its block is not followed by two line ends and the next record")
    return line
