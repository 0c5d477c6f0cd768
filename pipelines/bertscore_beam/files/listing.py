"""List the files below a folder, and the names in one folder.

Every listing of a store is requested here: page by page, or checked, since one that the store's
client has cut off does not count as whole.
"""

import contextlib
import errno
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files import paths
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import GCS, S3
from bertscore_core.errors import BertScoreError

GCSFS_STOPS_AT = 10_000_000
"""Number of names after which gcsfs ends a listing without an error (gcsfs 2026.10, `core.py`)."""


class CutOffError(BertScoreError):
    """A listing ends before the folder does. A retry does not help."""


def list_files(root: str, *, suffix: str = "") -> dict[str, int]:
    """List all files below a folder: their path below it, and their size in bytes, sorted.

    Temporary files are left out. A folder that is not there is an empty one.

    Raises:
        OSError: If a folder is there and cannot be listed, so that its content is unknown.
    """
    return dict(sorted(file for file in each_file(root) if file[0].endswith(suffix)))


def each_file(root: str) -> Iterator[tuple[str, int]]:
    """Yield what `list_files` returns as it comes: there may be millions of files."""
    return (file for file in _sizes(root) if not _is_temporary(file[0]))


def list_temporary(root: str) -> list[str]:
    """List the temporary files below a folder: their paths below it."""
    return [name for name, _ in _sizes(root) if _is_temporary(name)]


def _check_whole(fs: AbstractFileSystem, folder: str, listed: Sized) -> None:
    # One name fewer: if a folder holds an object of the folder's own name, gcsfs may leave it out.
    if paths.protocols(fs) & GCS and len(listed) >= GCSFS_STOPS_AT - 1:
        raise CutOffError(
            f"the listing of {mask_credentials(paths.with_scheme(fs, folder))!r} may be cut "
            f"off: got {len(listed):,} names, and gcsfs lists no more than {GCSFS_STOPS_AT:,}; "
            "expected fewer, so that all are known. Name several folders or globs below it."
        )


def _is_temporary(name: str) -> bool:
    return posixpath.basename(name).startswith(paths.TEMPORARY_PREFIX)


def _sizes(root: str) -> Iterator[tuple[str, int]]:
    fs, inner = paths.resolve(root)
    if isinstance(fs, LocalFileSystem):
        return _local_sizes(inner)
    page = _page_of(fs)
    return _remote_sizes(fs, inner) if page is None else _sizes_by_page(fs, inner, page)


_Page: TypeAlias = tuple[list[tuple[str, int]], str]
"""Some objects, each with its size, and what to ask for the next ones with: "" for no more."""


def _page_of(fs: AbstractFileSystem) -> Callable[[Any, str, str, str], _Page] | None:
    pages = ((S3, _s3_page), (GCS, _gcs_page))
    return next((page for schemes, page in pages if paths.protocols(fs) & schemes), None)


def is_folder(fs: AbstractFileSystem, path: str) -> bool:
    """Tell whether a path is a folder; of a store that knows only objects, with one request.

    Its client would ask for an object of that name before.
    """
    if (page := _page_of(fs)) is None:
        entry = look(fs, path)
        return entry is not None and entry.kind == DIRECTORY
    return next(_sizes_by_page(fs, path, page), None) is not None


def _sizes_by_page(
    fs: AbstractFileSystem, root: str, page: Callable[[Any, str, str, str], _Page]
) -> Iterator[tuple[str, int]]:
    """Yield the objects below a folder page by page.

    The clients' own listings hold two kilobytes for each object, and that of gcsfs may end early.
    """
    fs.invalidate_cache()
    bucket, key, _ = fs.split_path(root)
    prefix = f"{key.rstrip('/')}/" if key else ""
    token = ""
    while True:
        try:
            objects, following = page(fs, bucket, prefix, token)
        except FileNotFoundError:
            if token:
                raise
            return  # there is no such bucket
        for name, size in objects:
            if not name.endswith("/"):  # what consoles make for a folder
                yield name.removeprefix(prefix), size
        if not following:
            return
        token = following


def _s3_page(fs: Any, bucket: str, prefix: str, token: str) -> _Page:
    more = {"ContinuationToken": token} if token else {}
    page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **fs.req_kw, **more)
    objects = [(item["Key"], item["Size"]) for item in page.get("Contents", ())]
    return objects, page["NextContinuationToken"] if page.get("IsTruncated") else ""


def _gcs_page(fs: Any, bucket: str, prefix: str, token: str) -> _Page:
    more = {"pageToken": token} if token else {}
    wanted = {"prefix": prefix, "maxResults": 1000, "fields": "items(name,size),nextPageToken"}
    page = fs.call("GET", "b/{}/o", bucket, json_out=True, **wanted, **more)
    objects = [(item["name"], int(item["size"])) for item in page.get("items", ())]
    return objects, page.get("nextPageToken", "")


def _remote_sizes(fs: AbstractFileSystem, root: str) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder. `fs.find` may silently skip what cannot be listed."""
    fs.invalidate_cache()
    waiting = [Entry(path=root.rstrip("/"), kind=DIRECTORY, real=root)]
    start = f"{waiting[0].path}/"
    while waiting:
        for entry in list_folder(fs, waiting.pop()):
            if entry.kind == DIRECTORY:
                waiting.append(entry)
            else:
                yield entry.path[len(start) :], int(entry.info.get("size") or 0)


def _local_sizes(root: str) -> Iterator[tuple[str, int]]:
    """Yield the files of a local disk: ten times as fast as fsspec's own listing."""
    for folder, _, names in os.walk(root, onerror=_raise_unlisted):
        below = os.path.relpath(folder, root)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size = os.stat(os.path.join(folder, name)).st_size
                yield (name if below == "." else f"{below}/{name}"), size


def _raise_unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise OSError(
            f"folder {error.filename!r} cannot be listed: got {error.strerror!r}; expected its "
            "content. A folder that cannot be listed is not taken for an empty one."
        ) from error


# List one folder, local or remote. An error is raised and never taken for an empty folder.
#
# Local symbolic links are followed: an entry says what its link leads to, and the path without
# links.

# Names that start with these are skipped by Parquet readers (Arrow, Spark, Hive, DuckDB).
HIDDEN_PREFIXES = ("_", ".")
DIRECTORY = "directory"
_FILE = "file"
WEB = frozenset({"http", "https"})

_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_GONE = (404, 410)
_LEADS_NOWHERE = (errno.ENOENT, errno.ELOOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a listing: a file, a folder, or what cannot be read as either.

    Attributes:
        path: Its path, as its file system writes it.
        kind: "file", "directory" or another word of the file system; "" if `error` is set.
        real: Its path without links.
        info: What the file system knows of it.
        linked: Whether a link leads to it or to a folder above it.
        error: Why it cannot be examined.
    """

    path: str
    kind: str
    real: str
    info: Mapping[str, Any] = field(default_factory=dict)
    linked: bool = False
    error: OSError | None = None

    @property
    def name(self) -> str:
        """The last name of the path."""
        return posixpath.basename(self.path)


def look(fs: AbstractFileSystem, path: str) -> Entry | None:
    """Look at one path; None if nothing is there."""
    try:
        info = fs.info(path)
    except _NOT_THERE as error:
        # fsspec reports every failure of a web server as a missing file.
        status = getattr(error.__cause__, "status", None)
        if paths.protocols(fs) & WEB and error.__cause__ is not None and status not in _GONE:
            raise ConnectionError(f"the server refused: got {error.__cause__!r}") from error
        return None
    return Entry(path=path, kind=info["type"], real=real_path(fs, path), info=info)


def real_path(fs: AbstractFileSystem, path: str) -> str:
    """Return a path without symbolic links; only a local one can have them."""
    return os.path.realpath(path) if isinstance(fs, LocalFileSystem) else path


def list_folder(fs: AbstractFileSystem, folder: Entry) -> list[Entry]:
    """Return what is in a folder; nothing if the folder no longer exists."""
    try:
        if isinstance(fs, LocalFileSystem):
            with os.scandir(folder.path) as listing:
                entries = (_local_entry(fs, folder, entry) for entry in listing)
                return [entry for entry in entries if entry is not None]
        listed: list[dict[str, Any]] = fs.ls(folder.path, detail=True)
        _check_whole(fs, folder.path, listed)
    except _NOT_THERE:
        return []
    inside = folder.path.rstrip("/") + "/" if folder.path else ""
    return [
        Entry(path=name, kind=info["type"], real=name, info=info)
        for info in listed
        if (name := info["name"].rstrip("/")).startswith(inside) and name != folder.path
    ]


def list_tree(fs: AbstractFileSystem, folder: Entry) -> list[Entry]:
    """Return all files below a folder, for stores that list a whole tree in one request."""
    try:
        listed: dict[str, dict[str, Any]] = fs.find(folder.path, detail=True)
    except _NOT_THERE:
        return []
    _check_whole(fs, folder.path, listed)
    return [
        Entry(path=name, kind=info["type"], real=name, info=info)
        for name, info in listed.items()
        if info["type"] != DIRECTORY
    ]


def _local_entry(fs: LocalFileSystem, folder: Entry, entry: "os.DirEntry[str]") -> Entry | None:
    """Describe an entry of a local folder; None for one that no longer exists."""
    is_link = entry.is_symlink()
    real = os.path.realpath(entry.path) if is_link else os.path.join(folder.real, entry.name)
    kind, info, trouble = "", {}, None
    try:
        info = fs.info(entry.path)
        kind = info["type"]
    except OSError as error:
        if entry.is_dir(follow_symlinks=False):
            kind = DIRECTORY  # the error comes up when it is listed
        elif is_link and error.errno not in _LEADS_NOWHERE:
            trouble = error
        elif is_link or entry.is_file(follow_symlinks=False):
            kind = _FILE  # the error comes up when it is read
        elif error.errno == errno.ENOENT:
            return None
        else:
            trouble = error
    return Entry(
        path=entry.path,
        kind=kind,
        real=real,
        info=info,
        linked=is_link or folder.linked,
        error=trouble,
    )
