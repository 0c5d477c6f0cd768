"""A file system for fsspec, in memory, in which some folders answer with an error."""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

SCHEME = "broken"


class BrokenFileSystem(MemoryFileSystem):
    """As `memory://`, but listing a folder in `broken` raises the error given there."""

    protocol = SCHEME
    store: dict[str, Any] = {}  # noqa: RUF012 - of the class, as that of the parent
    pseudo_dirs = [""]  # noqa: RUF012
    broken: dict[str, int] = {}  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix(f"{SCHEME}://"))

    def unstrip_protocol(self, name: str) -> str:
        return f"{SCHEME}://{name.lstrip('/')}"

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        number = self.broken.get(self._strip_protocol(path))
        if number is not None:
            raise OSError(number, os.strerror(number), path)
        return super().ls(path, detail=detail, **kwargs)


@contextlib.contextmanager
def broken_store(*folders: str, error: int = errno.EIO) -> Iterator[BrokenFileSystem]:
    """Offer `broken://`, empty; listing one of the folders, such as "/in/b", raises the error."""
    fsspec.register_implementation(SCHEME, BrokenFileSystem, clobber=True)
    store = BrokenFileSystem()
    store.store.clear()
    BrokenFileSystem.broken = dict.fromkeys(folders, error)
    try:
        yield store
    finally:
        store.store.clear()
        BrokenFileSystem.broken = {}
