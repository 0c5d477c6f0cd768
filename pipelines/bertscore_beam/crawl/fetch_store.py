"""Read a whole file once, from a store that fsspec knows or from a disk."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.crawl.errors import AttemptError, describe
from bertscore_beam.files.paths import resolve
from bertscore_beam.files.read import NoFileError, check_is_regular

_BLOCK = 1 << 20
_STORE_BLOCK = 8 << 20
_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_NOT_ALLOWED = (IsADirectoryError, NoFileError, PermissionError)
# Errors of botocore, by name, since it is not always installed.
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError"})


def local_file(path: str) -> Path | None:
    """Return the path of a local file, None if the file is not local.

    Raises:
        ConfigError: The scheme is not known.
    """
    fs, inner = resolve(path)
    return Path(inner) if isinstance(fs, LocalFileSystem) else None


def store_blocks(path: str) -> Generator[bytes, None, None]:
    """Read a file once and yield it in blocks.

    Raises:
        AttemptError: It did not arrive.
    """
    fs, inner = resolve(path)
    try:
        fs.invalidate_cache()
        size = fs.info(inner)["size"]
        received = 0
        with _open(fs, inner) as file:
            while block := file.read(_BLOCK):
                received += len(block)
                yield block
    except _NOT_THERE as error:
        raise AttemptError("no such file", permanent=True, missing=True) from error
    except _NOT_ALLOWED as error:
        raise AttemptError(describe(error), permanent=True) from error
    except Exception as error:  # each store has errors of its own
        permanent = type(error).__name__ in _NO_CREDENTIALS
        raise AttemptError(describe(error), permanent=permanent) from error
    if received != size:
        raise AttemptError(f"a file of {received} of {size} bytes")


def _open(fs: AbstractFileSystem, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open a file for reading from its start to its end."""
    if isinstance(fs, LocalFileSystem):
        check_is_regular(path)
        return open(path, "rb")
    opened: contextlib.AbstractContextManager[BinaryIO] = fs.open(
        path, "rb", block_size=_STORE_BLOCK, cache_type="readahead"
    )
    return opened
