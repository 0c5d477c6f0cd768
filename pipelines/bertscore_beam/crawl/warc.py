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

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bertscore_beam.crawl.errors import CrawlFileError
from bertscore_beam.crawl.members import (
    GZIP_MAGIC,
    ByteStream,
    Content,
    Source,
    as_it_is,
    inflate,
)

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

_BROKEN = (RECORDS_BROKEN, PAGES_NOT_UTF8)
_RECORDS = (PAGES, RECORDS_OTHER, PAGES_TOO_LONG, *_BROKEN)
"""What a record can count as: one of these."""
_MAX_LINE_ENDS = 8
"""Most line ends between two records. Usually there are two."""
_VERSIONS = ("WARC/1.0", "WARC/1.1")
_RECORD_START = b"WARC/1."
_LATER_RECORD = b"\nWARC/1."
# WARC/1.0 lets a value continue in the next line.
_FOLD = re.compile(rb"\n[ \t]+")
_LANGUAGE = re.compile(r"[a-z]{3}")


class _BrokenRecordError(Exception):
    """A record cannot be read.

    Attributes:
        ended: The data ended too early.
        another: Another record begins in what seemed to be a part of this one.
    """

    def __init__(self, problem: str, *, ended: bool = False, another: bool = False) -> None:
        super().__init__(problem)
        self.ended = ended
        self.another = another


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


def read_pages(stream: ByteStream, counts: Counter[str]) -> Iterator[Page]:
    """Yield the pages of a WET file in order.

    A page is a `conversion` record of type text/plain; other records are counted. A broken record
    alone in its gzip member is counted too, and reading continues after it. Elsewhere nobody knows
    where the next record begins, and a broken record is an error.

    Memory: two pieces of 256 KB and one page of at most `MAX_PAGE_BYTES`. The time is proportional
    to the size of the content.

    Args:
        stream: The file, compressed or not. It is only read, and not closed.
        counts: Is added to under the names of this module, while pages are yielded.

    Raises:
        CrawlFileError: The file is empty, not a WET file, cut off, damaged, has something else
            after its last gzip member, or holds no page.
    """
    source = Source(stream)
    start = bytes(source.ahead(len(_RECORD_START)))
    compressed = start.startswith(GZIP_MAGIC)
    if not start:
        raise CrawlFileError(
            "a crawl file is empty: got 0 bytes; expected a WET file. Fetch it again.", "empty"
        )
    if not compressed and start != _RECORD_START:
        raise CrawlFileError(
            f"a crawl file is not a WET file: got the bytes {start[:4].hex(' ')} first; expected "
            "gzip (1f 8b) or 'WARC/1.'. Check whether it is an error page or another kind of file.",
            "bad_start",
        )
    given = 0
    while source.ahead(1):
        data = Content(inflate(source) if compressed else as_it_is(source))
        for page in _read_member(data, source, counts, resume=compressed):
            given += 1
            yield page
    if not given:
        raise CrawlFileError(
            f"a crawl file has no page: got {dict(counts)} so far; expected at least one record "
            "of WARC-Type 'conversion' with text/plain. Check whether it is a WET file.",
            "no_pages",
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
            "again or leave it out.",
            "broken_records",
        )


def _read_member(
    data: Content, source: Source, counts: Counter[str], *, resume: bool
) -> Iterator[Page]:
    """Yield the pages of one member.

    Args:
        data: Its content.
        source: The file, for the position in messages.
        counts: Is added to.
        resume: Whether reading can continue after the member if its only record is broken.
    """
    alone = True
    while data.ahead(1):
        try:
            page = _read_record(data, counts)
        except _BrokenRecordError as broken:
            if not (resume and alone) or broken.another or _holds_record(data):
                raise CrawlFileError(
                    f"a crawl file has a broken record before byte {source.position} of the file: "
                    f"{broken}; expected whole records, or each in a gzip member of its own, so "
                    "that the next one can be found. Fetch the file again or leave it out.",
                    "truncated" if broken.ended and not resume else "broken_record",
                ) from broken
            counts[RECORDS_BROKEN] += 1
            return
        alone = False
        if page is not None:
            counts[PAGES] += 1
            yield page


def _holds_record(data: Content) -> bool:
    """Read the rest of a member and tell whether a record seems to begin in it."""
    search = _RecordSearch()
    for piece in data.pieces(None):
        search.look_at(piece)
    return search.found


def _read_record(data: Content, counts: Counter[str]) -> Page | None:
    """Read one record and what separates it from the next; None if it is not a page.

    Raises:
        _BrokenRecordError: It cannot be read.
    """
    fields = _parse_head(_take_head(data))
    length = _content_length(fields)
    is_page = fields.get("warc-type", "").lower() == "conversion" and _is_plain(fields)
    kept = is_page and length <= MAX_PAGE_BYTES
    block = _read_block(data, length, keep=kept)
    _end_record(data)
    if not is_page:
        counts[RECORDS_OTHER] += 1
        return None
    if not kept:
        counts[PAGES_TOO_LONG] += 1
        return None
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        counts[PAGES_NOT_UTF8] += 1
        return None
    codes = fields.get("warc-identified-content-language", "").lower().split(",")
    return Page(
        url=fields.get("warc-target-uri", "").strip("<>"),
        languages=tuple(code for raw in codes if _LANGUAGE.fullmatch(code := raw.strip())),
        text=text.removeprefix("\ufeff"),
    )


def _take_head(data: Content) -> bytes:
    """Take the headers of a record and the empty line after them; return the headers.

    Raises:
        _BrokenRecordError: There is no empty line in the next `MAX_HEAD_BYTES` bytes.
    """
    head = data.take_paragraph(MAX_HEAD_BYTES)
    if head is not None:
        return head
    if len(data.ahead(MAX_HEAD_BYTES)) < MAX_HEAD_BYTES:
        raise _BrokenRecordError("it ends inside its headers", ended=True)
    raise _BrokenRecordError(f"its headers do not end within {MAX_HEAD_BYTES} bytes")


def _parse_head(head: bytes) -> dict[str, str]:
    """Return the headers of a record, names in lower case.

    Raises:
        _BrokenRecordError: It is not the head of a record.
    """
    version, *lines = _FOLD.sub(b" ", head).decode("utf-8", "replace").split("\n")
    if version not in _VERSIONS:
        raise _BrokenRecordError("it does not begin with 'WARC/1.0' or 'WARC/1.1'")
    fields: dict[str, str] = {}
    for line in lines:
        raw, colon, value = line.partition(":")
        if not colon:
            raise _BrokenRecordError("a header line has no colon")
        name, value = raw.strip().lower(), value.strip()
        if fields.setdefault(name, value) != value and name == "content-length":
            raise _BrokenRecordError("it has two different Content-Length headers")
    return fields


def _content_length(fields: dict[str, str]) -> int:
    """Return the bytes of the block.

    Raises:
        _BrokenRecordError: The header is missing or is not a number.
    """
    value = fields.get("content-length", "")
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise _BrokenRecordError("it has no Content-Length, or one that is not a number")
    return int(value)


def _is_plain(fields: dict[str, str]) -> bool:
    """Tell whether a record holds plain text."""
    return fields.get("content-type", "").partition(";")[0].strip().lower() == "text/plain"


def _read_block(data: Content, length: int, *, keep: bool) -> bytes:
    """Read a block to its end, and return it if it is to be kept.

    Raises:
        _BrokenRecordError: The data ends before the block does.
    """
    kept: list[bytes] = []
    missing = length
    search = _RecordSearch()
    for piece in data.pieces(length):
        missing -= len(piece)
        search.look_at(piece)
        if keep:
            kept.append(piece)
    if missing:
        raise _BrokenRecordError(
            f"its block ends after {length - missing} of {length} bytes",
            ended=True,
            another=search.found,
        )
    return b"".join(kept)


def _end_record(data: Content) -> None:
    """Take the two or more line ends after a block, up to the next record or the end.

    Raises:
        _BrokenRecordError: Something else is there: the Content-Length is wrong.
    """
    lines = 0
    while lines < _MAX_LINE_ENDS:
        following = data.ahead(2)
        size = 1 if following.startswith(b"\n") else 2 if following == b"\r\n" else 0
        if not size:
            break
        data.take(size)
        lines += 1
    following = data.ahead(len(_RECORD_START))
    if lines < 2 or following not in (b"", _RECORD_START):
        raise _BrokenRecordError(
            "its block is not followed by two line ends and the next record",
            ended=len(following) < len(_RECORD_START),
            another=following == _RECORD_START,
        )


class _RecordSearch:
    """Looks for a line that begins a record, in a text that arrives in pieces."""

    def __init__(self) -> None:
        self.found = False
        self._end = b""

    def look_at(self, piece: bytes) -> None:
        """Search the next piece, and the line that it may share with the piece before."""
        size = len(_LATER_RECORD)
        self.found = (
            self.found or _LATER_RECORD in piece or _LATER_RECORD in self._end + piece[:size]
        )
        self._end = (self._end + piece[-size:])[-size:]
