"""A file of text, and its bytes, decompressed, once from start to end: all of them, or an error.

A file of a web server is read with one request for the whole file, so its server need send neither
ranges of bytes nor a length.
"""

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from bertscore_beam.dump import inputs
from bertscore_beam.dump.formats import AUTO, HEAD_BYTES, Codec, Format, check_head, format_of
from bertscore_beam.dump.lines import PARSER
from bertscore_beam.dump.reading import with_memory
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import at
from bertscore_beam.files.reach import asking, is_web
from bertscore_beam.files.read import open_source, source_size
from bertscore_core.errors import LFS_BYTES, InputError, check_no_pointer

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes read at a time. An object store answers in about the time that it takes to send these."""
PACKED = 3
"""About how many times smaller compressed texts are."""
# Seconds in which a web server must send something.
_PATIENCE = 300

# What an import makes of a file of text:
#
#     OUT/_input/<key>.parquet              the rows of a file, until the run is a success
#     OUT/_manifest/imports/<key>.pq        the footer of that with a digest, from which it is read
#     OUT/_manifest/imports/<key>.json      why a file could not be turned into Parquet
#
# The key names the version of the file and everything that decides how it is read. So whatever is
# there is right, and an import is made again only if its file has changed.

IMPORTS_FOLDER = "_manifest/imports"
INPUT_FOLDER = "_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A file of text to be turned into Parquet.

    Attributes:
        path: Its path.
        size: Its size in bytes when it was found.
        version: Its version then, "" if it is not known.
        kind: Its format.
        codec: Its compression.
        columns: Columns that the run names: those of a JSON file without any row, and the only ones
            whose values can make a row of JSON bad.
        lists: Those of these whose values may be texts in some rows and lists in others.
        is_named: Whether the command names the format: then one object of JSON is one row.
        parser: Version of what reads it, as the command has it.
    """

    path: str
    size: int
    version: str
    kind: Format
    codec: Codec
    columns: tuple[str, ...]
    lists: tuple[str, ...] = ()
    is_named: bool = False
    parser: str = PARSER

    @classmethod
    def of(
        cls, file: inputs.InputFile, columns: Sequence[str], lists: Sequence[str]
    ) -> Self | None:
        """Return a file of text; None for Parquet, and for what is not a file."""
        kind, codec = format_of(file.path, file.input_format)
        if kind is Format.PARQUET or file.trouble is not None:
            return None
        return cls(
            path=file.path,
            size=file.size,
            version=file.version,
            kind=kind,
            codec=codec,
            columns=tuple(columns),
            lists=tuple(lists),
            is_named=file.input_format != AUTO,
        )

    @property
    def key(self) -> str:
        """Names its version and how it is read; 32 hexadecimal digits."""
        file = (self.path, self.size, self.version)
        how = (self.parser, self.kind, self.codec, self.columns, self.lists)
        named = ("named",) if self.is_named and self.kind is Format.JSONL else ()
        return digest_of(json.dumps([file, (*how, *named)]))

    @property
    def about_bytes(self) -> int:
        """About its size after decompression."""
        return self.size * (PACKED if self.codec else 1)

    @property
    def data(self) -> str:
        """The Parquet file, below the folder of the run."""
        return f"{INPUT_FOLDER}/{self.key}.parquet"


def footer_of(data: str) -> str:
    """Return the path of the copy of the footer of an import, from that of its rows."""
    folder, _, name = data.rpartition(f"{INPUT_FOLDER}/")
    return f"{folder}{IMPORTS_FOLDER}/{name.removesuffix('.parquet')}.pq"


def rejection_of(data: str) -> str:
    """Return the path of what says why there is no import, from that of its rows."""
    return f"{footer_of(data).removesuffix('.pq')}.json"


def texts_among(
    files: Iterable[inputs.InputFile], columns: Sequence[str], lists: Sequence[str]
) -> tuple[TextFile, ...]:
    """Return the files of text; see `TextFile`."""
    texts = (TextFile.of(file, columns, lists) for file in files)
    return tuple(text for text in texts if text is not None)


class TextStream(io.RawIOBase):
    """The bytes of a text file as they are stored, counted; `blocks` decompresses them.

    `size` is None if a server does not say it.
    """

    def __init__(self, text: TextFile, file: Any, size: int | None) -> None:
        super().__init__()
        self.size = size
        self.count = 0
        self._text = text
        self._file = file
        self._error: Exception | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some of the next bytes, none only at the end."""
        try:
            data = self._next(len(buffer))
        except Exception as error:
            self._error = error
            raise
        buffer[: len(data)] = data
        return len(data)

    def _next(self, length: int) -> bytes:
        with asking(self._text.path):
            data = bytes(self._file.read(length))
        self.count += len(data)
        if self.size is not None and self.count > self.size:
            raise inputs.file_changed(
                self._text.path, f"more than {self.size} bytes", f"{self.size} bytes"
            )
        if not data and self.size not in (None, self.count):
            raise OSError(
                f"the file ends early: got {self.count} bytes; expected {self.size}. Has it been "
                "changed or cut off? Run the job again."
            )
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the text, block by block.

        Zeros behind a member of a gzip file are padding.
        """
        text = self._text
        stored = io.BufferedReader(self, max(BLOCK_BYTES, HEAD_BYTES))
        head = stored.peek(HEAD_BYTES)[:HEAD_BYTES]
        if self.size is None or self.size < LFS_BYTES:  # a web server may not tell it
            check_no_pointer(mask_credentials(text.path), head)
        check_head(text.path, head, text.kind, text.codec)
        stream: Any = stored
        if text.codec is Codec.GZIP:
            stream = gzip.GzipFile(fileobj=stored)
        elif text.codec is Codec.ZSTD:
            stream = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), text.codec.value)
        while True:
            try:
                # What comes before damage is read, and no more than is at hand.
                block = stream.read1(BLOCK_BYTES)
            except MemoryError:
                raise
            except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
                if self._error is not None:
                    raise self._error from self._error.__cause__
                raise InputError(
                    f"{mask_credentials(text.path)!r} cannot be decompressed: got "
                    f"{str(error).splitlines()[:1]}; expected whole {text.codec} data. Write it "
                    "again, or leave it out of the input."
                ) from error
            if not block:
                return
            yield block


@contextlib.contextmanager
def open_text(text: TextFile) -> Iterator[TextStream]:
    """Open a text file to be read once, and check at its end that it has not changed."""
    whole = inputs.check_one_version(text.path, text.version), with_memory(text.path)
    with whole[0], whole[1], contextlib.ExitStack() as stack:
        if is_web(text.path):
            file, size = stack.enter_context(_open_web(text))
        else:
            source = open_source(text.path, size=text.size, version=text.version)
            file = stack.enter_context(source)
            size = source_size(file)
        if text.size and size not in (None, text.size):
            raise inputs.file_changed(text.path, f"{size} bytes", f"{text.size} bytes")
        yield TextStream(text, file, size)


@contextlib.contextmanager
def _open_web(text: TextFile) -> Iterator[tuple[Any, int | None]]:
    """Ask a web server for a whole file; yield its stream, and its length if that is told."""
    import aiohttp  # an extra

    with at(text.path) as (fs, inner):
        file = fs.open(
            inner,
            "rb",
            block_size=0,  # a stream
            size=1,  # not asked for
            headers={**fs.kwargs.get("headers", {}), "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_read=_PATIENCE),
            # A server may call a file that is stored as gzip one that it has compressed itself.
            auto_decompress=not text.codec,
        )
    with file:
        headers = file.r.headers
        is_packed = not text.codec and headers.get("Content-Encoding", "identity") != "identity"
        length = None if is_packed else headers.get("Content-Length")
        yield file, None if length is None else int(length)
