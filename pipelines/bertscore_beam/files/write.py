"""Write files so that nobody ever sees a part of one."""

import contextlib
import os
import posixpath
import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import BinaryIO

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import PUT_IS_WHOLE, TEMPORARY_PREFIX, protocols, resolve
from bertscore_beam.files.read import exists

_COPIED_BYTES = 1 << 20
"""Bytes of a file in memory at a time while it is copied."""


def write_atomically(
    path: str, data: bytes | bytearray | memoryview, *, temporary_in: str | None = None
) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part of it.

    Locally: a temporary file in the same folder, flushed to the disk, then renamed over the target.
    Permissions are those of any new file (the umask). In an object store: one put, which becomes
    visible only when it is complete. Elsewhere: a temporary file, then moved. Folders are made as
    needed.

    Args:
        path: The file.
        data: Its content.
        temporary_in: Folder of the same disk for the temporary file, where one that a killed
            process leaves is deleted by the next run; None for the folder of the file.

    Raises:
        OSError: If the disk is full, the folder is read-only and so on; nothing is left behind.
    """
    fs, inner = resolve(path)
    folder = None if temporary_in is None else resolve(temporary_in)[1]
    if isinstance(fs, LocalFileSystem):
        with _temporary_local(inner, data, folder) as temporary:
            os.replace(temporary, inner)
        _sync_folder(os.path.dirname(inner))
    elif protocols(fs) & PUT_IS_WHOLE:
        fs.pipe_file(inner, bytes(data))
    else:
        _replace_remote(fs, inner, lambda temporary: fs.pipe_file(temporary, bytes(data)), folder)


def copy_atomically(path: str, source: str | os.PathLike[str]) -> None:
    """Copy a local file to a path, as `write_atomically` writes; it may be larger than memory.

    Raises:
        OSError: If it cannot be written; nothing is left behind.
    """
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        with open(source, "rb") as file, _temporary_local(inner, file) as temporary:
            os.replace(temporary, inner)
        _sync_folder(os.path.dirname(inner))
    elif protocols(fs) & PUT_IS_WHOLE:
        fs.put_file(os.fspath(source), inner)
    else:
        _replace_remote(fs, inner, lambda temporary: fs.put_file(os.fspath(source), temporary))


def create_exclusively(path: str, data: bytes) -> None:
    """Write a file that must not be there yet. Of several writers at once, one succeeds.

    A local disk, S3 and Google Cloud Storage guarantee that. In other stores two writers may both
    succeed: read the file again after a while.

    Raises:
        FileExistsError: If it is there.
        OSError: If it cannot be written.
    """
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        with _temporary_local(inner, data) as temporary:
            try:
                os.link(temporary, inner)
            except FileExistsError:
                raise
            except OSError:  # this file system has no hard links
                with open(inner, "xb") as file:
                    file.write(data)
        return
    if exists(path):
        raise FileExistsError(f"{mask_credentials(path)!r} is there already")
    try:
        if not protocols(fs) & PUT_IS_WHOLE:
            fs.makedirs(posixpath.dirname(inner), exist_ok=True)
        fs.pipe_file(inner, data, mode="create")
    except OSError as error:
        if exists(path):
            raise FileExistsError(f"{mask_credentials(path)!r} is there already") from error
        raise


def can_write_below(folder: str) -> bool:
    """Tell whether files can be written below a folder, which need not be there yet.

    Only a local disk can tell without a write; for other stores the answer is always True.
    """
    fs, inner = resolve(folder)
    if not isinstance(fs, LocalFileSystem):
        return True
    while not os.path.lexists(inner):
        inner = os.path.dirname(inner)
    return os.path.isdir(inner) and os.access(inner, os.W_OK | os.X_OK)


def _replace_remote(
    fs: AbstractFileSystem, path: str, write: Callable[[str], object], folder: str | None = None
) -> None:
    """Write a temporary file in a folder, by default that of the path, then move it to its path."""
    fs.makedirs(posixpath.dirname(path), exist_ok=True)
    temporary = f"{folder or posixpath.dirname(path)}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        write(temporary)
        fs.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.rm_file(temporary)
        raise


@contextlib.contextmanager
def _temporary_local(
    path: str, data: bytes | bytearray | memoryview | BinaryIO, folder: str | None = None
) -> Iterator[str]:
    """Write the content to an fsynced temporary file in a folder; remove it on exit.

    The folder is by default that of `path`, which is made.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = os.path.join(
        folder or os.path.dirname(path), f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    )
    try:
        with open(temporary, "xb") as file:
            if isinstance(data, bytes | bytearray | memoryview):
                file.write(data)
            else:
                shutil.copyfileobj(data, file, _COPIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    """Make a rename survive a power cut, where the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
