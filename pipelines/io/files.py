"""Every file of a run, local or in an object store, reached through fsspec.

A path is a local path or a URL with a scheme (`memory://`, `s3://`, `gs://`, `https://` for
reading). Paths are taken literally; a name with `*`, `?`, `[`, `::` or `#` in it is an ordinary
name (`io/inputs.py` is where patterns are understood). No error message holds credentials.
"""

import contextlib
import os
import posixpath
import stat
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile

from bertscore_core.errors import ConfigError
from pipelines.io.credentials import mask_credentials as mask_credentials

# Hidden from every reader; what a killed process leaves behind can be told by it.
TEMPORARY_PREFIX = ".bertscore-tmp-"
# Waiting for an object store, not computing: many more threads than cores.
IO_THREADS = 32
# Where an object appears only when all of it has arrived. Elsewhere a file grows as it is written.
PUT_IS_WHOLE = frozenset(
    {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"}
)

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


# Stores that are asked once for all below a prefix; fsspec raises what they answer.
FLAT = frozenset({"s3", "s3a", "gs", "gcs"})


class UnlistedError(OSError):
    """A folder is there and cannot be listed, so that nobody knows what is in it."""


class NoFileError(OSError):
    """Something named as a file is a FIFO, a device or a socket: opening it may hang."""


def resolve(path: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a path and the path as that file system writes it.

    Raises:
        ConfigError: If the scheme is not known, or the package for it is not installed.
    """
    scheme, separator, _ = path.partition("://")
    if not separator:
        return fsspec.filesystem("file"), os.path.abspath(os.path.expanduser(path))
    try:
        kind = fsspec.get_filesystem_class(scheme)
        fs = fsspec.filesystem(scheme, **kind._get_kwargs_from_urls(path))
    except (ValueError, ImportError) as error:
        raise ConfigError(
            f"no file system for {mask_credentials(path)!r}: got scheme {scheme!r} ({error}); "
            "expected a local path or one of memory, s3, gs, https. For s3 install the extra "
            "'s3', for gs the extra 'gcs'."
        ) from error
    return fs, str(kind._strip_protocol(path))


def absolute(path: str) -> str:
    """Return the path in the one way this module writes it."""
    fs, inner = resolve(path)
    return with_scheme(fs, inner)


def with_scheme(fs: AbstractFileSystem, path: str) -> str:
    """Put the scheme back in front of a path, except for a local one."""
    return path if isinstance(fs, LocalFileSystem) else str(fs.unstrip_protocol(path))


def join(root: str, *parts: str) -> str:
    """Append relative names to a folder.

    Raises:
        ConfigError: If a name is absolute or climbs out of the folder.
    """
    for part in parts:
        if not part or part.startswith("/") or ".." in part.split("/") or "://" in part:
            raise ConfigError(
                f"a name would leave its folder: got {part!r}; expected a relative path without "
                "'..'. Rename the input."
            )
    base = root if root.endswith("/") else root + "/"
    return base + "/".join(parts)


def open_source(path: str) -> pa.NativeFile | AbstractBufferedFile:
    """Open a file for reading by Arrow. Close it when done; it has a size, as `source_size` says.

    Raises:
        OSError: If it is not there or may not be read.
        NoFileError: If it is a FIFO, a device or a socket.
    """
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        check_is_regular(inner)
        return pa.OSFile(inner, "rb")
    # Arrow knows which ranges it wants; fsspec's read-ahead would fetch 50 MB around each of them.
    return fs.open(inner, "rb", cache_type="none")


def check_is_regular(path: str) -> None:
    """Check that a local path is a file or a folder.

    Raises:
        NoFileError: If it is not.
        OSError: If it is not there or may not be looked at.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise NoFileError(f"it is {kind_in_words(mode)}; expected a file. It was not opened.")


def kind_in_words(mode: int) -> str:
    """Say what something that is neither a file nor a folder is, by its mode."""
    return next((words for test, words in _KINDS if test(mode)), "neither a file nor a folder")


def source_size(source: pa.NativeFile | AbstractBufferedFile) -> int:
    """Return the size in bytes of what `open_source` opened."""
    return int(source.size() if callable(source.size) else source.size or 0)


def read_bytes(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: If it is not there.
    """
    fs, inner = resolve(path)
    return bytes(fs.cat_file(inner))


def read_many(paths: Sequence[str]) -> list[bytes | None]:
    """Read many small files at a time, in the order given; None for one that is not there."""
    with ThreadPoolExecutor(IO_THREADS) as pool:
        return list(pool.map(_read_if_there, paths))


def _read_if_there(path: str) -> bytes | None:
    """Return the content of a file, None if it is not there."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


def exists(path: str) -> bool:
    """Tell whether there is a file or folder at a path, asking afresh."""
    fs, inner = resolve(path)
    fs.invalidate_cache()
    return bool(fs.exists(inner))


def is_file(path: str) -> bool:
    """Tell whether there is a file at a path."""
    fs, inner = resolve(path)
    return bool(fs.isfile(inner))


def can_write_below(folder: str) -> bool:
    """Tell whether a folder is there or can be made, and files in it, as far as can be told.

    Only a local disk says so without being written to.
    """
    fs, inner = resolve(folder)
    if not isinstance(fs, LocalFileSystem):
        return True
    while not os.path.lexists(inner):
        inner = os.path.dirname(inner)
    return os.path.isdir(inner) and os.access(inner, os.W_OK | os.X_OK)


def list_files(root: str, *, suffix: str = "") -> dict[str, int]:
    """List all files below a folder: their path below it, and their size in bytes, sorted.

    Temporary files are left out. A folder that is not there is an empty one.

    Raises:
        UnlistedError: If a local folder cannot be listed.
        OSError: If a remote one cannot.
    """
    fs, inner = resolve(root)
    names = _sizes_local(inner) if isinstance(fs, LocalFileSystem) else _sizes(fs, inner)
    return {
        name: names[name]
        for name in sorted(names)
        if name.endswith(suffix) and not posixpath.basename(name).startswith(TEMPORARY_PREFIX)
    }


def _sizes(fs: AbstractFileSystem, root: str) -> dict[str, int]:
    """Return the size of each file below a folder, by its path below it."""
    fs.invalidate_cache()
    try:
        found = fs.find(root, detail=True) if protocols(fs) & FLAT else _find(fs, root)
    except FileNotFoundError:
        return {}
    start = len(root.rstrip("/")) + 1
    return {name[start:]: int(info.get("size") or 0) for name, info in found.items()}


def _find(fs: AbstractFileSystem, root: str) -> dict[str, Any]:
    """Find all files below a folder; `fs.find` may pass over folders that cannot be listed."""
    found, waiting = {}, [root.rstrip("/")]
    while waiting:
        folder = waiting.pop()
        try:
            listed = fs.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for info in listed:
            name = info["name"].rstrip("/")
            if name.startswith(f"{folder}/"):  # some stores list the folder itself
                if info["type"] == "directory":
                    waiting.append(name)
                else:
                    found[name] = info
    return found


def _sizes_local(root: str) -> dict[str, int]:
    """Do the same on the local disk, ten times as fast as fsspec does."""
    sizes = {}
    for folder, _, names in os.walk(root, onerror=_raise_unlisted):
        below = os.path.relpath(folder, root)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size = os.stat(os.path.join(folder, name)).st_size
                sizes[name if below == "." else f"{below}/{name}"] = size
    return sizes


def _raise_unlisted(error: OSError) -> None:
    """Take an error in listing a folder for what it is, unless the folder is not there."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise UnlistedError(
            f"folder {error.filename!r} cannot be listed: got {error.strerror!r}; expected what is "
            "in it, since a folder out of sight is no empty one."
        ) from error


def delete(path: str) -> None:
    """Remove one file; it is no error if it is missing already."""
    fs, inner = resolve(path)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(inner)


def delete_many(paths: Sequence[str]) -> None:
    """Remove many files at a time."""
    with ThreadPoolExecutor(IO_THREADS) as pool:
        list(pool.map(delete, paths))


def delete_empty_folders(root: str) -> None:
    """Remove the folders below a folder that hold nothing; object stores have none."""
    fs, inner = resolve(root)
    if isinstance(fs, LocalFileSystem):
        for folder, _, _ in os.walk(inner, topdown=False):
            with contextlib.suppress(OSError):  # it holds something, or is missing
                os.rmdir(folder)


def write_atomically(path: str, data: bytes | bytearray | memoryview) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part of it.

    Locally: a temporary file in the same folder, flushed to the disk, then renamed over the target.
    Permissions are those of any new file (the umask). In an object store: one put, which becomes
    visible only when it is complete. Elsewhere: a temporary file, then moved. Folders are made as
    needed.

    Raises:
        OSError: If the disk is full, the folder is read-only and so on; nothing is left behind.
    """
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        with _temporary_local(inner, data) as temporary:
            os.replace(temporary, inner)
        _sync_folder(os.path.dirname(inner))
    elif protocols(fs) & PUT_IS_WHOLE:
        fs.pipe_file(inner, bytes(data))
    else:
        _replace_remote(fs, inner, bytes(data))


def create_exclusively(path: str, data: bytes) -> None:
    """Write a file that must not be there yet; of several that try at once one succeeds.

    Locally, on S3 and on Google Cloud Storage the store sees to it. Others look first, and two that
    do so at once may both succeed: read the file again after a while.

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
            except OSError:  # the disk knows no hard links
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


def is_remote(path: str) -> bool:
    """Tell whether a path lies elsewhere than on a local disk."""
    return not isinstance(resolve(path)[0], LocalFileSystem)


def delete_temporary(root: str) -> None:
    """Remove the temporary files that killed processes left below a folder."""
    fs, inner = resolve(root)
    if isinstance(fs, LocalFileSystem):
        names = _sizes_local(inner)
    elif protocols(fs) & PUT_IS_WHOLE:
        return
    else:
        names = _sizes(fs, inner)
    left = [n for n in names if posixpath.basename(n).startswith(TEMPORARY_PREFIX)]
    delete_many([join(root, name) for name in left])


def protocols(fs: AbstractFileSystem) -> frozenset[str]:
    """Return the names of a file system."""
    return frozenset([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)


def _replace_remote(fs: AbstractFileSystem, path: str, data: bytes) -> None:
    """Write a file beside its place, then move it there."""
    folder = posixpath.dirname(path)
    fs.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        fs.pipe_file(temporary, data)
        fs.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.rm_file(temporary)
        raise


@contextlib.contextmanager
def _temporary_local(path: str, data: bytes | bytearray | memoryview) -> Iterator[str]:
    """Yield a file beside a path with its content to be, flushed to the disk; gone afterwards."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    """Make a rename outlive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
