"""Delete files and empty folders."""

import contextlib
import errno
import os
from collections import deque
from collections.abc import Sequence

from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.listing import list_temporary
from bertscore_beam.files.parallel import in_parallel
from bertscore_beam.files.paths import PUT_IS_WHOLE, join, protocols, resolve
from bertscore_beam.files.ranges import S3

_AT_ONCE = 1000
"""Most objects that S3 deletes in a request."""


def delete(path: str) -> None:
    """Delete one file. A file that is not there is no error."""
    fs, inner = resolve(path)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(inner)


def delete_many(paths: Sequence[str]) -> None:
    """Delete many files: a thousand in a request where the store can, else in parallel.

    Raises:
        OSError: A file could not be deleted.
    """
    if len(paths) > 1 and all(protocols(resolve(path)[0]) & S3 for path in paths):
        for start in range(0, len(paths), _AT_ONCE):
            if not _delete_at_once(paths[start : start + _AT_ONCE]):
                _delete_in_parallel(paths[start:])
                return
    else:
        _delete_in_parallel(paths)


def _delete_in_parallel(paths: Sequence[str]) -> None:
    deque(in_parallel(delete, paths), maxlen=0)


def _delete_at_once(paths: Sequence[str]) -> bool:
    """Delete objects of one S3 bucket in one request; tell whether all are deleted now.

    They are not if the store does not know this request, or could not delete an object: to delete
    each by itself says why, or does it. `fs.rm` would take names for patterns.
    """
    fs, first = resolve(paths[0])
    bucket, _, _ = fs.split_path(first)
    keys = [{"Key": fs.split_path(resolve(path)[1])[1]} for path in paths]
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
    fs, inner = resolve(root)
    if isinstance(fs, LocalFileSystem):
        for folder, _, _ in os.walk(inner, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty, or not there
                os.rmdir(folder)


def delete_if_empty(folder: str) -> None:
    """Delete a folder if it is empty. Object stores have none."""
    fs, inner = resolve(folder)
    if isinstance(fs, LocalFileSystem):
        with contextlib.suppress(OSError):  # it is not empty, or not there
            os.rmdir(inner)


def is_empty_folder(folder: str) -> bool:
    """Tell whether a folder is there and empty. Object stores have none."""
    fs, inner = resolve(folder)
    with contextlib.suppress(OSError):
        return isinstance(fs, LocalFileSystem) and not os.listdir(inner)
    return False


def delete_temporary(root: str) -> None:
    """Delete the temporary files that killed processes left below a folder."""
    fs, _ = resolve(root)
    if not protocols(fs) & PUT_IS_WHOLE:  # elsewhere nothing is written under a temporary name
        delete_many([join(root, name) for name in list_temporary(root)])
