"""Read the pages of a WET file as a stream, strictly: to the end or with an error.

    WET file   member  member  member ...           one gzip member a record, as published, or
    member     record [record ...]                  several records a member, or no gzip at all
    record     WARC/1.0, headers, empty line, block, two line ends

Ready-made readers end without an error where a file is cut off, which would make a sample smaller
without a word. This one raises for every cut but one: at the end of a member (or, without gzip, of
a record) a cut file looks like a whole one. Whoever fetches the file has to compare its size.

Pages come before the end of the file is known to be sound. When an error is raised, throw away what
the file gave so far.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from bertscore_core.errors import BertScoreError

PAGES = "pages"
"""Pages given."""
RECORDS_OTHER = "records_other"
"""Records that are no page: warcinfo, and conversions into something else than plain text."""
RECORDS_BROKEN = "records_broken"
"""Records that cannot be read, each alone in its gzip member, so that the next ones can."""
PAGES_NOT_UTF8 = "pages_not_utf8"
"""Pages dropped because their text is no valid UTF-8."""
PAGES_TOO_LONG = "pages_too_long"
"""Pages dropped because they are longer than `MAX_PAGE_BYTES`."""

MAX_PAGE_BYTES = 16 << 20
"""Longest page read. Common Crawl cuts what it fetches off at 1 MiB (a later limit of 5 MiB was
announced), and the text of a page is shorter; but a few bytes of gzip can unpack to gigabytes."""
MAX_HEAD_BYTES = 64 << 10
"""Longest header section. Addresses, the longest header by far, are a few KB at most."""

Reason = Literal["empty", "bad_start", "truncated", "corrupt", "broken_record", "no_pages"]

_PIECE = 256 << 10
"""Bytes read at a time."""
_SLICE = 8 << 10
"""Compressed bytes handed to zlib at a time. It copies what lies behind the end of a member, so
with whole pieces the work would grow with the number of members times the size of a piece. A member
of a WET file has 3 KB on average."""
_CHUNK = 256 << 10
"""Most bytes that zlib may return at a time, however well they were compressed."""
_MAX_LINE_ENDS = 8
"""Line ends between two records. Two are the rule."""

_GZIP_MAGIC = b"\x1f\x8b"
_VERSIONS = ("WARC/1.0", "WARC/1.1")
_RECORD_START = b"WARC/1."
_LATER_RECORD = b"\nWARC/1."
# WARC/1.0 lets a value go on in the next line.
_FOLD = re.compile(rb"\n[ \t]+")
_LANGUAGE = re.compile(r"[a-z]{3}")


class ByteStream(Protocol):
    """What `read_pages` needs of a file; it never seeks."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and none only at the end."""


class CrawlFileError(BertScoreError):
    """A crawl file cannot be read to its end.

    Attributes:
        reason: What is wrong, in one word, for counting.
    """

    def __init__(self, message: str, reason: Reason = "corrupt") -> None:
        super().__init__(message)
        self.reason: Reason = reason


class _BrokenRecordError(Exception):
    """A record cannot be read.

    Attributes:
        ended: The data ended too early.
        another: Another record begins in what was taken for a part of this one.
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
            the file does not say.
        text: The text, in lines, without a byte order mark.
    """

    url: str
    languages: tuple[str, ...]
    text: str


def read_pages(stream: ByteStream, counts: Counter[str]) -> Iterator[Page]:
    """Yield the pages of a WET file in order.

    A page is a `conversion` record of type text/plain; other records are counted. A broken record
    alone in its gzip member is counted too and the reader goes on behind it. Anywhere else nobody
    knows where the next record begins, and it is an error.

    Memory: two pieces of 256 KB and one page of at most `MAX_PAGE_BYTES`. Time grows with the size
    of the content.

    Args:
        stream: The file, compressed or not. It is neither sought in nor closed.
        counts: Is added to under the names of this module, as the pages come.

    Raises:
        CrawlFileError: The file is empty, no WET file, cut off, damaged, has something else behind
            its last gzip member, or holds not a single page.
    """
    source = _Source(stream)
    start = bytes(source.ahead(len(_RECORD_START)))
    compressed = start.startswith(_GZIP_MAGIC)
    if not start:
        raise CrawlFileError(
            "a crawl file is empty: got 0 bytes; expected a WET file. Fetch it again.", "empty"
        )
    if not compressed and start != _RECORD_START:
        raise CrawlFileError(
            f"a crawl file is no WET file: got the first bytes {start[:4].hex(' ')}; expected gzip "
            "(1f 8b) or 'WARC/1.'. Look whether it is an error page or another kind of file.",
            "bad_start",
        )
    given = 0
    while source.ahead(1):
        data = _Data(_inflate(source) if compressed else _as_it_is(source))
        for page in _read_member(data, source, counts, resume=compressed):
            given += 1
            yield page
    if not given:
        raise CrawlFileError(
            f"a crawl file has no page: got {dict(counts)} up to now; expected at least one record "
            "of WARC-Type 'conversion' with text/plain. Look whether it is a WET file.",
            "no_pages",
        )


def _read_member(
    data: "_Data", source: "_Source", counts: Counter[str], *, resume: bool
) -> Iterator[Page]:
    """Yield the pages of one member.

    Args:
        data: Its content.
        source: The file, for the position in messages.
        counts: Is added to.
        resume: Whether the reader can go on behind the member if its only record is broken.
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


def _holds_record(data: "_Data") -> bool:
    """Read the rest of a member and tell whether a record seems to begin in it."""
    search = _RecordSearch()
    for piece in data.pieces(None):
        search.look_at(piece)
    return search.found


def _read_record(data: "_Data", counts: Counter[str]) -> Page | None:
    """Read one record and what separates it from the next; None if it is no page.

    Raises:
        _BrokenRecordError: It cannot be read.
    """
    fields = _parse_head(data.head())
    length = _content_length(fields)
    is_page = fields.get("warc-type", "").lower() == "conversion" and _is_plain(fields)
    kept = is_page and length <= MAX_PAGE_BYTES
    block = _read_block(data, length, keep=kept)
    data.end_record()
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


def _parse_head(head: bytes) -> dict[str, str]:
    """Return the headers of a record, names in lower case.

    Raises:
        _BrokenRecordError: It is no head of a record.
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
        _BrokenRecordError: The header is not there or holds no number.
    """
    value = fields.get("content-length", "")
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise _BrokenRecordError("it has no Content-Length, or one that is no number")
    return int(value)


def _is_plain(fields: dict[str, str]) -> bool:
    """Tell whether a record holds plain text."""
    return fields.get("content-type", "").partition(";")[0].strip().lower() == "text/plain"


def _read_block(data: "_Data", length: int, *, keep: bool) -> bytes:
    """Read a block to its end and return it, or nothing if it is not to be kept.

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


class _RecordSearch:
    """Looks for a line that begins a record in a text that comes in pieces."""

    def __init__(self) -> None:
        self.found = False
        self._end = b""

    def look_at(self, piece: bytes) -> None:
        """Look at the next piece, and at the line that it may share with the one before."""
        size = len(_LATER_RECORD)
        self.found = (
            self.found or _LATER_RECORD in piece or _LATER_RECORD in self._end + piece[:size]
        )
        self._end = (self._end + piece[-size:])[-size:]


class _Source:
    """The bytes of the file, read in large pieces."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._piece = memoryview(b"")
        self._at = 0
        self._ended = False
        self._before = 0

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._before + self._at

    def ahead(self, wanted: int) -> memoryview:
        """Return the next bytes without taking them: as many as wanted, fewer only at the end."""
        if len(self._piece) - self._at < wanted and not self._ended:
            self._read_on()
        return self._piece[self._at : self._at + wanted]

    def take(self, size: int) -> None:
        """Pass over bytes that `ahead` has shown."""
        self._at += size

    def _read_on(self) -> None:
        """Put a full piece behind the bytes not taken yet."""
        parts = [bytes(self._piece[self._at :])]
        missing = _PIECE
        while missing:
            part = self._stream.read(missing)
            if not part:
                self._ended = True
                break
            parts.append(part)
            missing -= len(part)
        self._before += self._at
        self._piece, self._at = memoryview(b"".join(parts)), 0


def _inflate(source: _Source) -> Iterator[bytes]:
    """Yield the content of one gzip member; at its end its checksum has been compared.

    Raises:
        CrawlFileError: It is cut off or damaged.
    """
    start = source.position
    if source.ahead(2) != _GZIP_MAGIC:
        problem = "is cut off" if len(source.ahead(2)) < 2 else "goes on with something else"
        raise CrawlFileError(
            f"a crawl file {problem} after a whole gzip member, at byte {start} of the compressed "
            "file; expected its end or another member. Fetch the file again.",
            "corrupt",
        )
    inflater = zlib.decompressobj(wbits=31)
    ended = False
    while not ended:
        given = source.ahead(_SLICE)
        if not given:
            raise CrawlFileError(
                f"a crawl file ends inside a gzip member, at byte {source.position} of the "
                f"compressed file; expected the end of the member that begins at byte {start}. "
                "The file was cut off: fetch it again.",
                "truncated",
            )
        try:
            content = inflater.decompress(given, _CHUNK)
        except zlib.error as error:
            raise CrawlFileError(
                f"a crawl file is damaged in the gzip member that begins at byte {start} of the "
                f"compressed file: got {error}; expected sound data. Fetch the file again.",
                "corrupt",
            ) from error
        ended = inflater.eof
        # At the end both of them may hold what is left over.
        left = inflater.unused_data if ended else inflater.unconsumed_tail
        source.take(len(given) - len(left))
        if content:
            yield content


def _as_it_is(source: _Source) -> Iterator[bytes]:
    """Yield the content of a file that is not compressed."""
    while piece := bytes(source.ahead(_CHUNK)):
        source.take(len(piece))
        yield piece


class _Data:
    """The content of one member, taken from its front."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._data = b""
        self._at = 0

    def ahead(self, wanted: int) -> bytes:
        """Return the next bytes without taking them: as many as wanted, fewer only at the end."""
        while len(self._data) - self._at < wanted and self._fill():
            pass
        return self._data[self._at : self._at + wanted]

    def head(self) -> bytes:
        """Take the head of a record and the empty line behind it; return it without that line.

        Raises:
            _BrokenRecordError: There is no empty line in the next `MAX_HEAD_BYTES` bytes.
        """
        while True:
            limit = self._at + MAX_HEAD_BYTES
            dos = self._data.find(b"\n\r\n", self._at, limit)
            unix = self._data.find(b"\n\n", self._at, dos + 1 if dos >= 0 else limit)
            end = unix if unix >= 0 else dos
            if end >= 0:
                head = self._data[self._at : end]
                self._at = end + (2 if unix >= 0 else 3)
                return head.replace(b"\r\n", b"\n")
            if len(self._data) >= limit:
                raise _BrokenRecordError(f"its headers do not end within {MAX_HEAD_BYTES} bytes")
            if not self._fill():
                raise _BrokenRecordError("it ends inside its headers", ended=True)

    def pieces(self, length: int | None) -> Iterator[bytes]:
        """Take bytes, at most `length` or all there are, in pieces."""
        missing = length
        while missing is None or missing > 0:
            end = len(self._data) if missing is None else self._at + missing
            piece = self._data[self._at : end]
            self._at += len(piece)
            if missing is not None:
                missing -= len(piece)
            if piece:
                yield piece
            elif not self._fill():
                return

    def end_record(self) -> None:
        """Take the line ends behind a block, two or more, up to the next record or the end.

        Raises:
            _BrokenRecordError: Something else is there: the Content-Length is wrong.
        """
        lines = 0
        while lines < _MAX_LINE_ENDS:
            following = self.ahead(2)
            size = 1 if following.startswith(b"\n") else 2 if following == b"\r\n" else 0
            if not size:
                break
            self._at += size
            lines += 1
        following = self.ahead(len(_RECORD_START))
        if lines < 2 or following not in (b"", _RECORD_START):
            raise _BrokenRecordError(
                "its block is not followed by two line ends and the next record",
                ended=len(following) < len(_RECORD_START),
                another=following == _RECORD_START,
            )

    def _fill(self) -> bool:
        """Put a chunk behind the bytes not taken yet; False at the end."""
        chunk = next(self._chunks, b"")
        if chunk:
            self._data, self._at = self._data[self._at :] + chunk, 0
        return bool(chunk)
