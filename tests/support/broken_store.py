"""A file system for fsspec, in memory, in which some folders answer with an error."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


@contextlib.contextmanager
def broken_store(*folders: str, error: int) -> Iterator[MemoryFileSystem]:
    """Offer `memory://`, empty; listing one of the folders, such as "/in/b", raises the error."""
    original = MemoryFileSystem.ls

    def ls(self: MemoryFileSystem, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        if self._strip_protocol(path) in folders:
            raise OSError(error, os.strerror(error), path)
        return original(self, path, detail=detail, **kwargs)

    store = fsspec.filesystem("memory")
    store.store.clear()
    with mock.patch.object(MemoryFileSystem, "ls", ls):
        yield store
