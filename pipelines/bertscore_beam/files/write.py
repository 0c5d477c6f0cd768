"""Write files so that nobody ever sees a part of one, and delete them."""

import contextlib
import errno
import os
import posixpath
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files import paths
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_temporary
from bertscore_beam.files.read import exists, in_parallel
from bertscore_core.errors import ConfigError

_COPIED_BYTES = 1 << 20
"""Bytes of a file in memory at a time while it is copied."""


def write_atomically(path: str, data: bytes | bytearray | memoryview) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part of it.

    Locally: a temporary file in the same folder, flushed to the disk, then renamed over the target.
    Permissions are those of any new file (the umask). In an object store: one put, which becomes
    visible only when it is complete. Elsewhere: a temporary file, then moved. Folders are made as
    needed.

    Args:
        path: The file.
        data: Its content.

    Raises:
        OSError: If the disk is full, the folder is read-only and so on; nothing is left behind.
    """
    _write(path, [data], lambda fs, inner: fs.pipe_file(inner, bytes(data)))


def copy_atomically(path: str, source: str | os.PathLike[str]) -> None:
    """Copy a local file to a path, as `write_atomically` writes; it may be larger than memory.

    Raises:
        OSError: If it cannot be written; nothing is left behind.
    """
    with open(source, "rb") as file:
        blocks = iter(partial(file.read, _COPIED_BYTES), b"")
        _write(path, blocks, lambda fs, inner: fs.put_file(os.fspath(source), inner))


def _write(
    path: str,
    content: Iterable[bytes | bytearray | memoryview],
    put: Callable[[AbstractFileSystem, str], object],
) -> None:
    with paths.at(path) as (fs, inner):
        if isinstance(fs, LocalFileSystem):
            with _temporary_local(inner, content) as temporary:
                os.replace(temporary, inner)
            sync_folder(os.path.dirname(inner))
        elif paths.protocols(fs) & paths.PUT_IS_WHOLE:
            put(fs, inner)
        else:
            below = posixpath.dirname(inner)
            fs.makedirs(below, exist_ok=True)
            temporary = f"{below}/{paths.TEMPORARY_PREFIX}{uuid.uuid4().hex}"
            try:
                put(fs, temporary)
                fs.mv(temporary, inner)
            except BaseException:
                with contextlib.suppress(OSError):
                    fs.rm_file(temporary)
                raise


def create_exclusively(path: str, data: bytes) -> None:
    """Write a file that must not be there yet. Of several writers at once, one succeeds.

    A local disk, S3 and Google Cloud Storage guarantee that. In other stores two writers may both
    succeed: read the file again after a while.

    Raises:
        FileExistsError: If it is there.
        OSError: If it cannot be written.
    """
    with paths.at(path) as (fs, inner):
        if isinstance(fs, LocalFileSystem):
            with _temporary_local(inner, [data]) as temporary:
                try:
                    os.link(temporary, inner)
                except FileExistsError:
                    raise
                except OSError:  # this file system has no hard links
                    with open(inner, "xb") as file:
                        file.write(data)
            sync_folder(os.path.dirname(inner))
            return
        if exists(path):
            raise FileExistsError(f"{mask_credentials(path)!r} is there already")
        try:
            if not paths.protocols(fs) & paths.PUT_IS_WHOLE:
                fs.makedirs(posixpath.dirname(inner), exist_ok=True)
            fs.pipe_file(inner, data, mode="create")
        except OSError as error:
            if exists(path):
                raise FileExistsError(f"{mask_credentials(path)!r} is there already") from error
            raise


def check_can_write(path: str) -> None:
    """Check that a file can be written, before the work for it.

    Raises:
        ConfigError: It cannot: a folder of it may not be changed, or is a file.
    """
    if not can_write_below(os.path.dirname(path)):
        raise ConfigError(
            f"--output {mask_credentials(path)!r} cannot be written: got a folder that takes no "
            "new file; expected one that does. Choose another --output."
        )


def can_write_below(folder: str) -> bool:
    """Tell whether files can be written below a folder, which need not be there yet.

    Only a local disk can tell without a write; for other stores the answer is always True.
    """
    fs, inner = paths.resolve(folder)
    if not isinstance(fs, LocalFileSystem):
        return True
    while not os.path.lexists(inner):
        inner = os.path.dirname(inner)
    return os.path.isdir(inner) and os.access(inner, os.W_OK | os.X_OK)


@contextlib.contextmanager
def _temporary_local(path: str, content: Iterable[bytes | bytearray | memoryview]) -> Iterator[str]:
    """Write the content to an fsynced temporary file in the folder of a path; remove it on exit.

    The folder is made. Errors name the path.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f"{paths.TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    except OSError as error:
        if error.errno is not None and error.filename in (None, temporary):
            error.filename = path
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sync_folder(folder: str) -> None:
    """Let changes of a local folder outlive a loss of power, where its disk can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Delete files and empty folders.

_AT_ONCE = 1000
"""Most objects that S3 deletes in a request."""


def delete(path: str) -> None:
    """Delete one file. A missing file is not an error."""
    with paths.at(path) as (fs, inner), contextlib.suppress(FileNotFoundError):
        fs.rm_file(inner)


def delete_many(files: Sequence[str]) -> None:
    """Delete many files: a thousand in a request where the store can, else in parallel.

    Raises:
        OSError: A file could not be deleted.
    """
    systems = (paths.resolve(path)[0] for path in files)
    can_many = len(files) > 1 and all(paths.protocols(fs) & paths.S3 for fs in systems)
    while can_many and files and _delete_at_once(files[:_AT_ONCE]):
        files = files[_AT_ONCE:]
    deque(in_parallel(delete, files), maxlen=0)


def _delete_at_once(files: Sequence[str]) -> bool:
    """Delete objects of one S3 bucket in one request; tell whether all are deleted now.

    They are not if the store does not know this request, or could not delete an object: to delete
    each by itself says why, or does it. `fs.rm` would take names for patterns.
    """
    with paths.at(files[0]) as (fs, first):
        bucket, _, _ = fs.split_path(first)
        keys = [{"Key": fs.split_path(paths.resolve(path)[1])[1]} for path in files]
        wanted = {"Objects": keys, "Quiet": True}
        try:
            answer = fs.call_s3("delete_objects", Bucket=bucket, Delete=wanted)
        except (FileNotFoundError, PermissionError, TimeoutError):
            raise
        except OSError as error:
            if error.errno == errno.EBUSY:  # it asked for fewer requests, not for a thousand
                raise
            return False
        return not answer.get("Errors")


def delete_empty_folders(root: str) -> None:
    """Delete the empty folders below a folder, and itself if empty. Object stores have none."""
    fs, inner = paths.resolve(root)
    if isinstance(fs, LocalFileSystem):
        for folder, _, _ in os.walk(inner, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty, or not there
                os.rmdir(folder)


def delete_temporary(root: str) -> None:
    """Delete the temporary files that killed processes left below a folder."""
    fs, _ = paths.resolve(root)
    # Elsewhere nothing is written under a temporary name.
    if not paths.protocols(fs) & paths.PUT_IS_WHOLE:
        delete_many([paths.join(root, name) for name in list_temporary(root)])
