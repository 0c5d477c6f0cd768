"""Read single files, or ranges of remote ones, several at a time."""

import errno
import io
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import FLAT, GCS, IO_THREADS, S3, at, protocols, resolve
from bertscore_beam.files.reach import NoFileError, asking
from bertscore_core.errors import LFS_BYTES, check_no_pointer

# Do something with many items at a time, in order, without holding them all.

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING_PER_THREAD = 4
"""Items that wait for a thread: so many that no thread idles. Each takes about 2 kB."""


def in_parallel(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int = IO_THREADS,
    waiting: int = _WAITING_PER_THREAD,
) -> Iterator[Result]:
    """Call a function with each item in several threads; yield the results in order.

    Unlike `Executor.map`, this takes items only a little ahead of the results: a hundred thousand
    of them would take hundreds of megabytes.

    Args:
        function: What to call. An error of it is raised in the place of its result.
        items: Its arguments.
        threads: How many calls are made at the same time. At least 1.
        waiting: How many items, or results, wait for each thread: 0 where they are large.
    """
    with ThreadPoolExecutor(threads) as pool:
        started: deque[Future[Result]] = deque()
        try:
            for item in items:
                started.append(pool.submit(function, item))
                if len(started) > threads * (1 + waiting):
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()
        finally:
            for future in started:
                future.cancel()


# Read ranges of a remote file with few requests: what was fetched once is not fetched again.

KEPT_BYTES = 64 * 1024 * 1024
"""Most bytes of a file that are kept in memory, or fetched before they are asked for."""


class RemoteFile(io.RawIOBase):
    """A remote file for Arrow. It fetches the ranges that are asked for, and keeps the last ones.

    Attributes:
        size: Size of the file in bytes.
    """

    def __init__(
        self, path: str, read: Callable[[int, int], bytes], size: int, file: Any = None
    ) -> None:
        """Read a range, from its first byte to the one behind its last, by a function.

        `file` is closed with this one.
        """
        super().__init__()
        self._path = path
        self.size = size
        self._read = read
        self._file = file
        self._place = 0
        self._kept: deque[tuple[int, bytes]] = deque()

    def fetch(self, start: int, stop: int) -> None:
        """Fetch a range in one request, unless it is longer than `KEPT_BYTES` or kept already."""
        start, stop = max(0, start), min(stop, self.size)
        if start < stop <= start + KEPT_BYTES and self._found(start, stop) is None:
            self._fetch(start, stop)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, fewer only at the end."""
        start = self._place
        stop = self.size if size is None or size < 0 else min(self.size, start + size)
        if stop <= start:
            return b""
        found = self._found(start, stop)
        data = self._fetch(start, stop) if found is None else found
        self._place = start + len(data)
        return data

    def close(self) -> None:
        """Close the file, and let go of what was kept."""
        if not self.closed:
            self._kept.clear()
            if self._file is not None:
                self._file.close()
        super().close()

    def _found(self, start: int, stop: int) -> bytes | None:
        for first, data in self._kept:
            if first <= start and stop <= first + len(data):
                return data[start - first : stop - first]
        return None

    def _fetch(self, start: int, stop: int) -> bytes:
        with asking(self._path):
            data = self._read(start, stop)
        self._kept.append((start, data))
        while sum(len(content) for _, content in self._kept) > KEPT_BYTES:
            self._kept.popleft()
        return data


def _read_file(file: Any, start: int, stop: int) -> bytes:
    file.seek(start)
    return bytes(file.read(stop - start))


def _read_generation(path: str, generation: str, start: int, stop: int) -> bytes:
    """Read a range of one generation of an object; a file of gcsfs reads whichever is the last."""
    fs, inner = resolve(path)
    url, ranges = fs.url(inner, generation=generation), {"Range": f"bytes={start}-{stop - 1}"}
    try:
        return bytes(fs.call("GET", url, headers=ranges)[1])
    except FileNotFoundError as error:  # it names the address
        message = f"the file has been replaced or deleted since generation {generation} was found"
        raise FileNotFoundError(errno.ENOENT, message, path) from error


def fetch(source: "pa.NativeFile | RemoteFile", start: int, stop: int) -> None:
    """Fetch a range of an open file in advance; of a local file there is nothing to fetch."""
    if isinstance(source, RemoteFile):
        source.fetch(start, stop)


def reads_one_version(path: str) -> bool:
    """Tell whether reads of a file that was opened with its version fail once it has changed."""
    return bool(protocols(resolve(path)[0]) & FLAT)


def is_other_version(error: OSError, path: str) -> bool:
    """Tell whether a read has failed because the file has changed."""
    # The first of s3fs, which need not be installed. Of an old generation there is no object.
    is_old = type(error) is FileNotFoundError and protocols(resolve(path)[0]) & GCS
    return type(error.__cause__).__name__ == "FileExpired" or bool(is_old and exists(path))


_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_source(
    path: str, *, size: int | None = None, version: str = ""
) -> pa.NativeFile | RemoteFile:
    """Open a file for Arrow to read. The caller closes it; `source_size` returns its size.

    Args:
        path: Path of the file.
        size: Its size in bytes if it is known: a remote file is not asked for it again then.
        version: Its version if it is known. That of a file of S3 is its etag, in Cloud Storage its
            generation, which each read names: it fails if the file has another by then.

    Raises:
        InputError: If it is a pointer of Git LFS: there is no content to read.
        OSError: If it is not there or may not be read.
        NoFileError: If it is a FIFO, a device or a socket.
    """
    source = _open(path, size, version)
    try:
        if 0 < source_size(source) < LFS_BYTES:
            fetch(source, 0, LFS_BYTES)  # all of it, so that nothing is asked for twice
            check_no_pointer(mask_credentials(path), bytes(source.read(LFS_BYTES)))
            source.seek(0)
    except BaseException:
        source.close()
        raise
    return source


def _open(path: str, size: int | None, version: str) -> pa.NativeFile | RemoteFile:
    with at(path) as (fs, inner):
        if isinstance(fs, LocalFileSystem):
            check_is_regular(inner)
            if os.path.isdir(inner):
                message = "it is a folder; expected a file. Name the files in it"
                raise IsADirectoryError(errno.EISDIR, message, inner)
            return pa.OSFile(inner, "rb")
        # No cache of fsspec's: its read-ahead would fetch 50 MB around each range.
        if size is None or not version or not protocols(fs) & FLAT:
            file = fs.open(inner, "rb", cache_type="none")
            # Some web servers do not tell the size, and send a file from its beginning only.
            if file.size is None:
                return cast("RemoteFile", file)
            return RemoteFile(path, partial(_read_file, file), int(file.size), file)
        if protocols(fs) & GCS:
            return RemoteFile(path, partial(_read_generation, path, version), size)
        file = fs.open(inner, "rb", cache_type="none", size=size)
        etag = f'"{version}"'
        # Without these s3fs would ask for them.
        file.details = {"name": inner, "size": size, "type": "file", "ETag": etag}
        if not fs.local_expiry_check:  # else s3fs compares the etag of each answer itself
            file.read_kw = {**file.read_kw, "IfMatch": etag}
        return RemoteFile(path, partial(_read_file, file), size, file)


def source_size(source: pa.NativeFile | RemoteFile) -> int:
    """Return the size in bytes of an open file that `open_source` returned."""
    return int(source.size() if callable(source.size) else source.size or 0)


def check_is_regular(path: str) -> None:
    """Raise unless a local path is a file or a folder.

    Raises:
        NoFileError: If it is not.
        OSError: If it is not there or may not be examined.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        message = "it is a link that leads to itself; expected a file. Remove it"
        raise OSError(errno.ELOOP, message, path) from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = file_kind(mode)
        raise NoFileError(f"{path!r} is {kind}; expected a file. It was not opened.")


def file_kind(mode: int) -> str:
    """Name what a mode stands for that is neither a file nor a folder, such as a socket."""
    return next((kind for test, kind in _KINDS if test(mode)), "neither a file nor a folder")


def read_bytes(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        InputError: If it is a pointer of Git LFS.
        FileNotFoundError: If it is not there.
        NoFileError: If it is a FIFO, a device or a socket, which may have no end.
    """
    with at(path) as (fs, inner):
        if isinstance(fs, LocalFileSystem):
            check_is_regular(inner)
        # s3fs would ask for the size first, to read a large file in several requests at once.
        one_request = {"max_concurrency": 1} if protocols(fs) & S3 else {}
        data = bytes(fs.cat_file(inner, **one_request))
    if len(data) < LFS_BYTES:
        check_no_pointer(mask_credentials(path), data)
    return data


def read_if_there(path: str) -> bytes | None:
    """Return the content of a file; None if it is not there. See `read_bytes`."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


def exists(path: str) -> bool:
    """Tell whether there is a file or folder at a path, without fsspec's cache."""
    return bool(_kind(path))


def is_file(path: str) -> bool:
    """Tell whether there is a file at a path that one may look at."""
    try:
        return _kind(path) == "file"
    except PermissionError:
        return False


def _kind(path: str) -> str:
    """Return what is at a path, such as "file"; "" for nothing.

    A client's own answer to that may be no where it could not ask.
    """
    try:
        with at(path) as (fs, inner):
            fs.invalidate_cache()
            return str(fs.info(inner)["type"])
    except (FileNotFoundError, NotADirectoryError):
        return ""
