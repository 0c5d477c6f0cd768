"""The content of the gzip members of a WET file, each as a stream.

A member is read to its end, where its checksum is compared, or it is an error. This module does not
look at the content. A file without gzip counts as one member.
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

from bertscore_beam.crawl.errors import CrawlFileError

GZIP_MAGIC = b"\x1f\x8b"

_PIECE = 256 << 10
"""Bytes read at a time."""
_SLICE = 8 << 10
"""Compressed bytes handed to zlib at a time. It copies what follows the end of a member, so
with whole pieces the work would grow with the number of members times the size of a piece. A member
of a WET file has 3 KB on average."""
_CHUNK = 256 << 10
"""Most bytes that zlib may return at a time, however well they are compressed."""


class ByteStream(Protocol):
    """What a file must offer. No position is ever sought."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; no bytes only at the end."""


class Source:
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
        """Skip bytes that `ahead` has returned."""
        self._at += size

    def _read_on(self) -> None:
        """Append a full piece to the bytes that were not taken yet."""
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


def inflate(source: Source) -> Iterator[bytes]:
    """Yield the content of one gzip member, and compare its checksum at the end.

    Raises:
        CrawlFileError: It is cut off or damaged.
    """
    start = source.position
    if source.ahead(2) != GZIP_MAGIC:
        problem = "is cut off" if len(source.ahead(2)) < 2 else "continues with something else"
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
                f"compressed file: got {error}; expected intact data. Fetch the file again.",
                "corrupt",
            ) from error
        ended = inflater.eof
        # At the end of a member both may be set; `unused_data` is what follows it.
        left = inflater.unused_data if ended else inflater.unconsumed_tail
        source.take(len(given) - len(left))
        if content:
            yield content


def as_it_is(source: Source) -> Iterator[bytes]:
    """Yield the content of a file that is not compressed."""
    while piece := bytes(source.ahead(_CHUNK)):
        source.take(len(piece))
        yield piece


class Content:
    """The content of one member, read from its front."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._data = b""
        self._at = 0

    def ahead(self, wanted: int) -> bytes:
        """Return the next bytes without taking them: as many as wanted, fewer only at the end."""
        while len(self._data) - self._at < wanted and self._fill():
            pass
        return self._data[self._at : self._at + wanted]

    def take(self, size: int) -> None:
        """Skip bytes that `ahead` has returned."""
        self._at += size

    def take_paragraph(self, most: int) -> bytes | None:
        r"""Take bytes up to an empty line, and that line; return the bytes with \n for line ends.

        Args:
            most: Bytes in which the empty line must end.

        Returns:
            The bytes without the last line end; None, and nothing taken, if there is no empty line.
        """
        while True:
            limit = self._at + most
            dos = self._data.find(b"\n\r\n", self._at, limit)
            unix = self._data.find(b"\n\n", self._at, dos + 1 if dos >= 0 else limit)
            end = unix if unix >= 0 else dos
            if end >= 0:
                lines = self._data[self._at : end]
                self._at = end + (2 if unix >= 0 else 3)
                return lines.replace(b"\r\n", b"\n")
            if len(self._data) >= limit or not self._fill():
                return None

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

    def _fill(self) -> bool:
        """Append a chunk to the bytes that were not taken yet; return False at the end."""
        chunk = next(self._chunks, b"")
        if chunk:
            self._data, self._at = self._data[self._at :] + chunk, 0
        return bool(chunk)
