"""The bytes of a text file, decompressed, once from its start to its end: all of them, or an error.

A file of a web server is read with one request for the whole file, so its server need send neither
ranges of bytes nor a length.
"""

import contextlib
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bertscore_beam.dump.formats import HEAD_BYTES, Codec, Format, check_head
from bertscore_beam.dump.inputs import file_version
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.folders import is_web
from bertscore_beam.files.paths import resolve
from bertscore_beam.files.ranges import is_other_version, reads_one_version
from bertscore_beam.files.read import open_source, source_size
from bertscore_core.errors import InputError

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes read at a time. An object store answers in about the time that it takes to send these."""
# Seconds in which a web server must send something.
_PATIENCE = 300
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStream:
    """An open text file.

    Attributes:
        size: Size of the file as it is stored, in bytes; None if its server does not say.
        blocks: Its bytes, decompressed, block by block.
        place: Returns how many of the stored bytes have been read.
    """

    size: int | None
    blocks: Iterator[bytes]
    place: Callable[[], int]


@contextlib.contextmanager
def open_text(
    path: str, kind: Format, codec: Codec, *, size: int | None = None, version: str = ""
) -> Iterator[TextStream]:
    """Open a text file to be read once.

    The blocks raise as this does.

    Args:
        path: Path of the file.
        kind: Its format.
        codec: Its compression.
        size: Size of the file when it was planned, None if it is not known.
        version: Its version when it was planned, "" if it is not known.

    Raises:
        InputError: It is damaged, not of this format, or has changed since it was planned.
        OSError: It cannot be reached.
    """
    try:
        with _open(path, codec, size, version) as stored:
            if size is not None and stored.size is not None and stored.size != size:
                raise file_changed(path, f"{stored.size} bytes", f"{size} bytes")
            stored.head = stored.read(HEAD_BYTES)
            check_head(path, stored.head, kind, codec)
            unpack = {Codec.GZIP: _gunzip, Codec.ZSTD: _unzstd}.get(codec, _plain)
            yield TextStream(size=stored.size, blocks=unpack(stored, path), place=stored.tell)
    except OSError as error:
        if not is_other_version(error):
            raise
        raise file_changed(path, "another version", f"version {version}") from error


def check_version(path: str, version: str) -> None:
    """Raise if a file that was read to its end is another one than was planned.

    Args:
        path: Path of the file.
        version: Its version when it was planned, "" if it is not known.

    Raises:
        InputError: It has changed.
        OSError: It cannot be reached.
    """
    if version and not reads_one_version(path) and (got := file_version(path)) != version:
        raise file_changed(path, f"version {got}", f"version {version}")


def file_changed(path: str, got: str, expected: str) -> InputError:
    """Return the error for a file that has changed since it was planned."""
    return InputError(
        f"{mask_credentials(path)!r} has changed since it was planned: got {got}; expected "
        f"{expected}. Run the job again: it scores what has changed."
    )


class _Stored(io.RawIOBase):
    """The bytes of a file as they are stored, counted.

    Attributes:
        size: How many they are; None if nobody says.
        head: First bytes, which have been read and are to be read again.
        error: What a read has raised.
    """

    def __init__(self, path: str, file: Any, size: int | None) -> None:
        super().__init__()
        self.size = size
        self.head = b""
        self.error: Exception | None = None
        self._path = path
        self._file = file
        self._count = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes have been read."""
        return self._count

    def read(self, length: int = -1) -> bytes:
        """Return some of the next bytes, none only at the end."""
        if self.head:
            data, self.head = self.head, b""
            return data
        try:
            data = self._next(length)
        except Exception as error:
            self.error = error
            raise
        self._count += len(data)
        return data

    def _next(self, length: int) -> bytes:
        try:
            data = bytes(self._file.read(length))
        except Exception as error:
            if not type(error).__module__.startswith("aiohttp"):
                raise
            raise _unreachable(error) from error
        if self.size is not None and self._count > self.size:
            raise file_changed(self._path, f"more than {self.size} bytes", f"{self.size} bytes")
        if not data and self.size not in (None, self._count):
            raise OSError(
                f"the file ends early: got {self._count} bytes; expected {self.size}. Has it been "
                "changed or cut off? Run the job again."
            )
        return data


@contextlib.contextmanager
def _open(path: str, codec: Codec, size: int | None, version: str) -> Iterator[_Stored]:
    if is_web(path):
        with _open_web(path, codec) as (file, length):
            yield _Stored(path, file, length)
        return
    with open_source(path, size=size, version=version) as source:
        yield _Stored(path, source, source_size(source))


@contextlib.contextmanager
def _open_web(path: str, codec: Codec) -> Iterator[tuple[Any, int | None]]:
    """Ask a web server for a whole file; yield its stream, and its length if that is told."""
    import aiohttp  # an extra

    fs, inner = resolve(path)
    try:
        file = fs.open(
            inner,
            "rb",
            block_size=0,  # a stream
            size=1,  # not asked for
            headers={**fs.kwargs.get("headers", {}), "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_read=_PATIENCE),
            # A server may call a file that is stored as gzip one that it has compressed itself.
            auto_decompress=not codec,
        )
    except aiohttp.ClientError as error:
        if isinstance(error, OSError):
            raise
        raise _unreachable(error) from error
    with file:
        told = file.r.headers
        is_packed = not codec and told.get("Content-Encoding", "identity") != "identity"
        length = None if is_packed else told.get("Content-Length")
        yield file, None if length is None else int(length)


def _unreachable(error: Exception) -> OSError:
    words = " ".join(mask_credentials(str(error)).split())
    return OSError(f"its server does not send all of it: got {words or type(error).__name__}")


def _plain(stored: _Stored, path: str) -> Iterator[bytes]:
    while block := stored.read(BLOCK_BYTES):
        yield block


def _gunzip(stored: _Stored, path: str) -> Iterator[bytes]:
    """Yield what the members of a gzip file hold; zeros behind one are padding, as for `gzip`."""
    member = None
    while block := stored.read(BLOCK_BYTES):
        while block or member:
            if member is None:
                block = block.lstrip(b"\0")
                if not block:
                    break
                member = zlib.decompressobj(_GZIP)
            try:
                data = member.decompress(block, BLOCK_BYTES)
            except zlib.error as error:
                raise _damaged(path, Codec.GZIP, str(error)) from error
            if data:
                yield data
            if member.eof:
                block, member = member.unused_data, None
            else:
                block = member.unconsumed_tail
                if not block and len(data) < BLOCK_BYTES:
                    break
    if member is not None:
        raise _damaged(path, Codec.GZIP, "the end of the file before the end of the data")


def _unzstd(stored: _Stored, path: str) -> Iterator[bytes]:
    packed = pa.BufferedInputStream(pa.PythonFile(stored, mode="r"), BLOCK_BYTES)
    with pa.CompressedInputStream(packed, Codec.ZSTD.value) as stream:
        while True:
            try:
                block = stream.read(BLOCK_BYTES)
            except (OSError, pa.ArrowException) as error:
                if stored.error is not None:
                    raise stored.error from None
                raise _damaged(path, Codec.ZSTD, str(error)) from error
            if not block:
                return
            yield block


def _damaged(path: str, codec: Codec, got: str) -> InputError:
    return InputError(
        f"{mask_credentials(path)!r} cannot be decompressed: got {got.splitlines()[:1]}; "
        f"expected whole {codec} data. Write it again, or leave it out of the input."
    )
