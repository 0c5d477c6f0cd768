"""Read the bytes of a text file, decompressed, from any offset on, in bounded memory."""

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from bertscore_beam.dump.formats import HEAD_BYTES, Codec
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.folders import is_web
from bertscore_beam.files.ranges import fetch
from bertscore_beam.files.read import open_source, source_size
from bertscore_core.errors import InputError

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes read at a time. An object store answers in about the time that it takes to send these."""


class TextSource:
    """The bytes of an open text file, decompressed.

    Attributes:
        size: Size of the file as it is stored, in bytes.
    """

    def __init__(self, stream: pa.NativeFile, codec: Codec, size: int) -> None:
        self.size = size
        self._plain = stream
        packed = pa.BufferedInputStream(stream, BLOCK_BYTES) if codec else None
        self._stream = stream if packed is None else pa.CompressedInputStream(packed, codec.value)
        self._is_packed = packed is not None

    def read(self, length: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        pieces: list[bytes] = []
        while length > 0 and (piece := self._stream.read(min(length, BLOCK_BYTES))):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip(self, length: int) -> None:
        """Pass over bytes from the start of the file: those of a compressed file are decoded."""
        if not self._is_packed:
            self._plain.seek(length)
            return
        while length > 0 and (piece := self._stream.read(min(length, BLOCK_BYTES))):
            length -= len(piece)

    def blocks(self) -> Iterator[bytes]:
        """Yield all that follows."""
        while piece := self._stream.read(BLOCK_BYTES):
            yield piece


@contextlib.contextmanager
def open_text(
    path: str,
    codec: Codec,
    *,
    size: int | None = None,
    version: str = "",
    span: tuple[int, int] = (0, 0),
) -> Iterator[TextSource]:
    """Open a text file; damaged compression raises `InputError`, also while the file is read.

    Args:
        path: Path of the file.
        codec: How it is compressed.
        size: As for `open_source`.
        version: As for `open_source`.
        span: First byte that is wanted, and one past the last; fetched at once.

    Raises:
        InputError: The compressed bytes are damaged.
        OSError: The file cannot be reached, or a range is needed and its server sends none.
    """
    with open_source(path, size=size, version=version) as source:
        stream = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
        try:
            fetch(source, *span)
            yield TextSource(stream, codec, source_size(source))
        except pa.ArrowException as error:
            raise _damaged(path, codec, error) from error
        except ValueError as error:
            if isinstance(error, InputError) or not is_web(path):
                raise
            # of fsspec, if the server sends no ranges
            raise OSError(
                "the file can only be read from its beginning: its server does not send ranges of "
                "bytes; expected a server that does. Download the file first, or write it as "
                "several smaller ones."
            ) from error
        except OSError as error:
            # Arrow reports damage as OSError without an errno; the operating system sets one.
            if not codec or error.errno is not None or type(error) is not OSError:
                raise
            raise _damaged(path, codec, error) from error


def read_head(path: str) -> bytes:
    """Return the first bytes of a file as they are stored."""
    with open_source(path) as source:
        return bytes(source.read(HEAD_BYTES))


def _damaged(path: str, codec: Codec, error: Exception) -> InputError:
    return InputError(
        f"{mask_credentials(path)!r} cannot be decompressed: got {str(error).splitlines()[:1]}; "
        f"expected whole {codec} data. Write it again, or leave it out of the input."
    )
