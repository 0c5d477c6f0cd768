"""Read ranges of a remote file with few requests: what was fetched once is not fetched again."""

import io
from collections import deque
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem

from bertscore_beam.files.paths import protocols, resolve

S3 = frozenset({"s3", "s3a"})
KEPT_BYTES = 64 * 1024 * 1024
"""Most bytes of a file that are kept in memory, or fetched before they are asked for."""


class RemoteFile(io.RawIOBase):
    """A remote file for Arrow. It fetches the ranges that are asked for, and keeps the last ones.

    Attributes:
        size: Size of the file in bytes.
    """

    def __init__(self, file: Any, size: int) -> None:
        """Take over a file of fsspec that is opened without a cache."""
        super().__init__()
        self.size = size
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
            self._file.close()
        super().close()

    def _found(self, start: int, stop: int) -> bytes | None:
        for first, data in self._kept:
            if first <= start and stop <= first + len(data):
                return data[start - first : stop - first]
        return None

    def _fetch(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        data = bytes(self._file.read(stop - start))
        self._kept.append((start, data))
        while sum(len(kept) for _, kept in self._kept) > KEPT_BYTES:
            self._kept.popleft()
        return data


def open_remote(
    fs: AbstractFileSystem, path: str, size: int | None = None, version: str = ""
) -> Any:
    """Open a remote file, as a `RemoteFile` if its size is known.

    Args:
        fs: Its file system.
        path: Its path there.
        size: Its size in bytes; None to ask for it, which takes a request.
        version: Its version, as `dump.inputs` reads it from a listing; "" if it is not known. Of
            S3 it is the etag, which each read names: it fails if the file has another by then.
    """
    # No cache of fsspec's: its read-ahead would fetch 50 MB around each range.
    if size is None or not version or not protocols(fs) & S3:
        file = fs.open(path, "rb", cache_type="none")
        # Some web servers do not tell the size, and send a file from its beginning only.
        return file if file.size is None else RemoteFile(file, int(file.size))
    file = fs.open(path, "rb", cache_type="none", size=size)
    etag = f'"{version}"'
    # Without these s3fs would ask for them.
    file.details = {"name": path, "size": size, "type": "file", "ETag": etag}
    if not fs.local_expiry_check:  # else s3fs compares the etag of each answer itself
        file.read_kw = {**file.read_kw, "IfMatch": etag}
    return RemoteFile(file, size)


def fetch(source: "pa.NativeFile | RemoteFile", start: int, stop: int) -> None:
    """Fetch a range of an open file in advance; of a local file there is nothing to fetch."""
    if isinstance(source, RemoteFile):
        source.fetch(start, stop)


def reads_one_version(path: str) -> bool:
    """Tell whether reads of a file that was opened with its version fail once it has changed."""
    return bool(protocols(resolve(path)[0]) & S3)


def is_other_version(error: OSError) -> bool:
    """Tell whether a read has failed because the file has changed."""
    return type(error).__name__ == "FileExpired"  # of s3fs, which need not be installed
