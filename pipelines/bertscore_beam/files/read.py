"""Read single files, and tell whether they are there."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.parallel import in_parallel
from bertscore_beam.files.paths import IO_THREADS, protocols, resolve
from bertscore_beam.files.ranges import S3, RemoteFile, open_remote

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NoFileError(OSError):
    """A path names a FIFO, a device or a socket, which may block forever when it is opened."""


def open_source(
    path: str, *, size: int | None = None, version: str = ""
) -> pa.NativeFile | RemoteFile:
    """Open a file for Arrow to read. The caller closes it; `source_size` returns its size.

    Args:
        path: Path of the file.
        size: Its size in bytes if it is known: a remote file is not asked for it again then.
        version: Its version if it is known, as `ranges.open_remote` takes it.

    Raises:
        OSError: If it is not there or may not be read.
        NoFileError: If it is a FIFO, a device or a socket.
    """
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        check_is_regular(inner)
        return pa.OSFile(inner, "rb")
    remote: RemoteFile = open_remote(fs, inner, size, version)
    return remote


def source_size(source: pa.NativeFile | RemoteFile) -> int:
    """Return the size in bytes of an open file that `open_source` returned."""
    return int(source.size() if callable(source.size) else source.size or 0)


def check_is_regular(path: str) -> None:
    """Raise unless a local path is a file or a folder.

    Raises:
        NoFileError: If it is not.
        OSError: If it is not there or may not be examined.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise NoFileError(f"it is {kind_in_words(mode)}; expected a file. It was not opened.")


def kind_in_words(mode: int) -> str:
    """Name what a mode stands for that is neither a file nor a folder, such as a socket."""
    return next((words for test, words in _KINDS if test(mode)), "neither a file nor a folder")


def read_bytes(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: If it is not there.
    """
    fs, inner = resolve(path)
    # s3fs would ask for the size first, to read a large file in several requests at once.
    one_request = {"max_concurrency": 1} if protocols(fs) & S3 else {}
    return bytes(fs.cat_file(inner, **one_request))


def read_many(paths: Sequence[str]) -> list[bytes | None]:
    """Read many small files in parallel, in the order given; None for one that is not there."""
    return list(read_each(paths))


def read_each(paths: Iterable[str], threads: int = IO_THREADS) -> Iterator[bytes | None]:
    """Read files as `read_many` does, one after the other as they are taken."""
    return in_parallel(_read_if_there, paths, threads)


def _read_if_there(path: str) -> bytes | None:
    """Return the content of a file, None if it is not there."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


def read_ranges(path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Read ranges of a file of an object store, with one request for each, at the same time.

    Args:
        path: Path of the file.
        ranges: The first byte of each, and the one after the last.

    Raises:
        OSError: If one of them cannot be read.
    """
    fs, inner = resolve(path)
    starts, stops = ([one[end] for one in ranges] for end in (0, 1))  # tuples would not do
    return list(map(bytes, fs.cat_ranges([inner] * len(ranges), starts, stops, on_error="raise")))


def exists(path: str) -> bool:
    """Tell whether there is a file or folder at a path, without fsspec's cache."""
    fs, inner = resolve(path)
    fs.invalidate_cache()
    return bool(fs.exists(inner))


def is_file(path: str) -> bool:
    """Tell whether there is a file at a path."""
    fs, inner = resolve(path)
    return bool(fs.isfile(inner))
