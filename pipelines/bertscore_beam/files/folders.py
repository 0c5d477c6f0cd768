"""List one folder, local or remote. An error is raised and never taken for an empty folder.

Local symbolic links are followed: an entry says what its link leads to, and the path without links.
"""

import errno
import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.listing import list_below, list_level
from bertscore_beam.files.paths import protocols, resolve

# Names that start with these are skipped by Parquet readers (Arrow, Spark, Hive, DuckDB).
HIDDEN_PREFIXES = ("_", ".")
DIRECTORY = "directory"
FILE = "file"
WEB = frozenset({"http", "https"})

_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_GONE = (404, 410)
_LEADS_NOWHERE = (errno.ENOENT, errno.ELOOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a listing.

    Attributes:
        path: As its file system writes it.
        kind: "file", "directory" or another word of the file system; "" if `error` is set.
        real: The path without symbolic links.
        info: What the file system knows of it; empty for a broken link.
        below: Its path below the folder in which the search began, "" for that folder.
        linked: Whether a symbolic link is on the way from that folder.
        error: Why it could not be examined.
    """

    path: str
    kind: str
    real: str
    info: Mapping[str, Any] = field(default_factory=dict)
    below: str = ""
    linked: bool = False
    error: OSError | None = None

    @property
    def name(self) -> str:
        """The last name of the path."""
        return posixpath.basename(self.path)


def look(fs: AbstractFileSystem, path: str) -> Entry | None:
    """Look at one path; None if nothing is there.

    Raises:
        OSError: If that cannot be told.
    """
    try:
        info = fs.info(path)
    except _NOT_THERE as error:
        # fsspec reports every failure of a web server as a missing file.
        status = getattr(error.__cause__, "status", None)
        if protocols(fs) & WEB and error.__cause__ is not None and status not in _GONE:
            raise ConnectionError(f"the server refused: got {error.__cause__!r}") from error
        return None
    return Entry(path=path, kind=info["type"], real=real_path(fs, path), info=info)


def is_web(path: str) -> bool:
    """Tell whether a path is the address of a file on a web server."""
    return bool(protocols(resolve(path)[0]) & WEB)


def real_path(fs: AbstractFileSystem, path: str) -> str:
    """Return a path without symbolic links; only a local one can have them."""
    return os.path.realpath(path) if isinstance(fs, LocalFileSystem) else path


def list_folder(fs: AbstractFileSystem, folder: Entry) -> list[Entry]:
    """Return what is in a folder; nothing if the folder no longer exists.

    Raises:
        OSError: If it cannot be listed.
        CutOffError: If the store lists only a part of it.
    """
    try:
        if isinstance(fs, LocalFileSystem):
            with os.scandir(folder.path) as listing:
                found = (_local_entry(fs, folder, entry) for entry in listing)
                return [entry for entry in found if entry is not None]
        listed = list_level(fs, folder.path)
    except _NOT_THERE:
        return []
    inside = folder.path.rstrip("/") + "/" if folder.path else ""
    return [
        Entry(
            path=name,
            kind=info["type"],
            real=name,
            info=info,
            below=posixpath.join(folder.below, posixpath.basename(name)),
        )
        for info in listed
        if (name := info["name"].rstrip("/")).startswith(inside) and name != folder.path
    ]


def list_tree(fs: AbstractFileSystem, folder: Entry) -> list[Entry]:
    """Return all files below a folder, for stores that list a whole tree in one request.

    Raises:
        OSError: If it cannot be listed.
        CutOffError: If the store lists only a part of it.
    """
    try:
        found = list_below(fs, folder.path)
    except _NOT_THERE:
        return []
    start = len(folder.path.rstrip("/")) + 1
    return [
        Entry(path=name, kind=info["type"], real=name, info=info, below=name[start:])
        for name, info in found.items()
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
            kind = FILE  # the error comes up when it is read
        elif error.errno == errno.ENOENT:
            return None
        else:
            trouble = error
    return Entry(
        path=entry.path,
        kind=kind,
        real=real,
        info=info,
        below=posixpath.join(folder.below, entry.name),
        linked=is_link or folder.linked,
        error=trouble,
    )
