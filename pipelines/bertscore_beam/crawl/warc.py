"""Read the pages of a WET file as a stream, strictly: to the end or with an error.

    WET file   records, by rule each in a gzip member of its own; they may also share or cross them
    record     WARC/1.0, headers, empty line, block, two line ends

Ready-made readers end without an error where a file is cut off, which would silently make a sample
smaller. This one raises for every cut but one: at the end of a member (or, without gzip, of a
record) a cut file looks whole. The code that fetches the file must compare its size.

A broken record costs itself alone if each record is a gzip member: the next one begins with the
next member. It is counted, and more than 1% of them make the file broken. Any other fault raises.

Pages are yielded before the end of the file has been checked. When an error is raised, discard all
pages of the file.
"""

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from bertscore_beam.crawl.fetch import CrawlFileError

RECORDS = "records"
"""Records of a file, whatever they are."""
RECORDS_BROKEN = "records_broken"
"""Those that cannot be read; of other collections, documents without a text or an address."""
MOST_BROKEN = 0.01
"""Largest share of them in a file."""
MAX_PAGE_BYTES = 16 << 20
"""Longest page that is read. Common Crawl cuts what it fetches at 1 MiB (5 MiB is announced), and
the text of a page is shorter; but a few bytes of gzip can unpack to gigabytes."""
MAX_HEAD_BYTES = 64 << 10
"""Longest header section. The longest header by far is the URL, with a few KB at most."""

_GZIP = b"\x1f\x8b"
_MEMBER = _GZIP + b"\x08"
_HEAD_BYTES = 1 << 10
"""Packed bytes in which the first ones of a record are found."""
_WARC = b"WARC/"
_VERSIONS = (b"WARC/1.0", b"WARC/1.1")
_SHOWN_BYTES = 200
_TAG = re.compile(rb"<[!?]?[A-Za-z]{1,20}\b")
_VERSION = re.compile(rb"[A-Z]{2,8}/\d[\d.]{0,5}")
_CHUNK = 256 << 10
_PACKED_BYTES = 32 << 10
"""Packed bytes that are read at a time: what follows a member is read again with the next."""
_LINE_ENDS = (b"\r\n", b"\n")
_NO_END = "a record does not end after the number of bytes that it announces"
_LENGTH = re.compile(r"[0-9]{1,18}")
_LANGUAGE = re.compile(r"[a-z]{3}")


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


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
        counts: Empty. `RECORDS` and `RECORDS_BROKEN` are counted up, while pages are yielded.

    Raises:
        CrawlFileError: The file is not a WET file, cut off, damaged, or holds no page or too many
            broken records.
    """
    is_zipped = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    any_page = False
    for page in _zipped_pages(file, counts) if is_zipped else _plain_pages(file, counts):
        any_page = True
        yield page
    records, broken = counts[RECORDS], counts[RECORDS_BROKEN]
    if broken > MOST_BROKEN * records:
        raise _unsound(f"{broken:,} of its {records:,} records cannot be read")
    if not any_page:
        raise _unsound("it has no page")


def _plain_pages(file: "_Source", counts: Counter[str]) -> Iterator[Page]:
    while (fields := _read_head(file)) is not None:
        page = _read_page(fields, file)
        counts[RECORDS] += 1
        if page is not None:
            yield page


def _zipped_pages(file: BinaryIO, counts: Counter[str]) -> Iterator[Page]:
    problem: CrawlFileError | None = None
    are_shared, may_cross = False, True
    while _pass_padding(file):
        start = file.tell()
        page: Page | None = None
        try:
            source = _Member(file)
            member = io.BufferedReader(source)
            source.goes_on = may_cross and bool(member.peek(1))
            fields = _read_head(member)
            if fields is None:
                continue
            page = _read_page(fields, member)
            source.goes_on = may_cross = False
            # Only at the end of the member its checksum is known to be right.
            rest = member.read(len(_WARC))
            if rest == _WARC:
                are_shared = True
                if problem is not None:
                    raise problem
                file.seek(start)
                yield from _plain_pages(gzip.GzipFile(fileobj=file), counts)
                return
            if rest:
                raise _unsound(_NO_END)
        except (CrawlFileError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            problem = error if isinstance(error, CrawlFileError) else _unsound(f"got {error}")
            # Where records share a member, the one after a broken one cannot be found.
            if are_shared or not _skip(file, start):
                raise problem from None if problem is error else error
            page = None
            counts[RECORDS_BROKEN] += 1
        counts[RECORDS] += 1
        if page is not None:
            yield page


def _pass_padding(file: BinaryIO) -> bool:
    """Go to the next byte that is not zero; tell whether there is one."""
    while data := file.read(_PACKED_BYTES):
        if rest := data.lstrip(b"\0"):
            file.seek(-len(rest), io.SEEK_CUR)
            return True
    return False


class _Member(io.RawIOBase):
    """The bytes of the gzip member at which a file stands. At its end the file is behind it.

    Attributes:
        goes_on: Whether those of the next members follow.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.goes_on = False
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._packed = self._file.read(_PACKED_BYTES)
        if not self._packed.startswith(_GZIP):
            raise zlib.error(f"Not a gzipped file ({self._packed[:2]!r})")
        self._unzip: Any = zlib.decompressobj(31)  # mypy takes its `eof` for constant

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._unzip.eof:
                if not (self.goes_on and _pass_padding(self._file)):
                    break
                self._begin()
            packed = self._packed or self._file.read(_PACKED_BYTES)
            if not packed:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            data = self._unzip.decompress(packed, len(buffer))
            self._packed = self._unzip.unconsumed_tail
            if self._unzip.eof:
                self._file.seek(-len(self._unzip.unused_data), io.SEEK_CUR)
        buffer[: len(data)] = data
        return len(data)


def _skip(file: BinaryIO, start: int) -> bool:
    """Go to the first member behind a place that begins with a record, if there is one."""
    place = start + 1
    file.seek(place)
    while data := file.read(_CHUNK):
        for found in re.finditer(re.escape(_MEMBER), data):
            file.seek(place + found.start())
            with suppress(zlib.error):
                begin = zlib.decompressobj(31).decompress(file.read(_HEAD_BYTES), 8)
                if begin.startswith(_VERSIONS):
                    file.seek(place + found.start())
                    return True
        place += max(1, len(data) - len(_MEMBER) + 1)
        file.seek(place)
    return False


def _unsound(problem: str) -> CrawlFileError:
    return CrawlFileError(
        f"a crawl file is not a whole WET file: {problem}; expected WARC records to its end, among "
        "them one of WARC-Type 'conversion' with text/plain. Fetch the file again or leave it out."
    )


def _describe(data: bytes) -> str:
    """Name what some bytes are, by their tags or a version; letters of a text are masked."""
    data = data[:_SHOWN_BYTES]
    if tags := _TAG.findall(data):
        return " ".join(tag.decode() for tag in tags)
    version = _VERSION.match(data)
    return ascii(version[0] if version else re.sub(rb"\w", b"x", data[:16]))[1:]


def _read_head(data: "_Source") -> dict[str, str] | None:
    """Return the headers of the next record by name in lower case; None at the end of the file."""
    line = data.readline(MAX_HEAD_BYTES)
    if not line:
        return None
    if line.strip() not in _VERSIONS:
        raise _unsound(f"got {_describe(line + data.read(_SHOWN_BYTES))} where a record begins")
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


def _read_page(fields: dict[str, str], data: "_Source") -> Page | None:
    """Read the block of a record and what ends it; None if it is not a page or too long a one."""
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
        raise _unsound(_NO_END)
    if not is_page:
        return None
    codes = fields.get("warc-identified-content-language", "").lower().split(",")
    return Page(
        url=fields.get("warc-target-uri", "").strip("<>"),
        languages=tuple(code for raw in codes if _LANGUAGE.fullmatch(code := raw.strip())),
        text=b"".join(pieces).decode("utf-8", "replace").removeprefix("\ufeff"),
    )
