"""Find the files that a pattern, a folder or a plain path stands for.

A folder that cannot be listed is not taken for an empty one: it is returned with its error, and
the caller decides what that means. fsspec's own `find` and `glob` silently skip such folders, so
folders are listed here one by one.

Symbolic links are followed. Each folder is read once, if possible by its path without links, so
that loops end. No file is opened.
"""

import contextlib
import errno
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeAlias

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from bertscore_beam.files import listing
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import FLAT, at, protocols, resolve, with_scheme
from bertscore_beam.files.reach import UnreachedError, got_of, is_web
from bertscore_beam.files.read import file_kind, in_parallel
from bertscore_core.errors import InputError

PATH_TOO_LONG = "its path is too long for this system; expected a shorter one. Move it up."


class Trouble(StrEnum):
    """Why something that was found cannot be read as it is."""

    UNLISTED = "unreadable_folder"
    """It could not be listed or examined, so its content is unknown."""
    NO_FILE = "not_a_file"
    """A FIFO, a socket or a device: opening it may block forever."""
    BAD_NAME = "bad_file_name"
    """Its path is longer than the operating system accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that was found, and what shows later that it has changed.

    Attributes:
        path: Absolute path or URL.
        size: Size in bytes.
        version: Etag or modification time, on a local disk with more, or "" if the file system
            knows neither.
        root: The folder in which the search began. Names are relative to it, so that they do not
            depend on which other files are there.
        real: Its path without links.
        trouble: Why it cannot be read, None for a file. It may be a folder then.
        message: The trouble in words.
    """

    path: str
    size: int
    version: str = ""
    root: str = ""
    real: str = ""
    trouble: Trouble | None = None
    message: str = ""


def file_version(path: str) -> str:
    """Return the current version of a file, as in `FoundFile.version`, without fsspec's cache.

    Raises:
        OSError: If the file is not there or cannot be reached.
    """
    with at(path) as (fs, inner):
        fs.invalidate_cache(inner)
        return _version(fs, inner, fs.info(inner))


def _version(fs: AbstractFileSystem, path: str, info: Mapping[str, Any]) -> str:
    """Return what identifies the content of a file, in the same form from a listing and a stat.

    On a local disk it is the inode, its change time and the file's modification time: copying
    tools set the modification time as they like, and no tool can set the change time.
    """
    if isinstance(fs, LocalFileSystem):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}"
        return ""
    return listing.version_in(info)


_MAGIC = re.compile(r"[*?\[]")
_WEB_MAGIC = re.compile(r"\*")  # in a URL, "?" begins a query and "[" an IPv6 address


def search(pattern: str, suffixes: tuple[str, ...]) -> "Search":
    """Find the files that a pattern, folder or path stands for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for the files below it whose names end in one of the suffixes. Names
    below the place where the search began that start with "_" or "." are skipped, unless the
    pattern spells that character out.

    Raises:
        InputError: If the pattern is not valid: a `**` that is not a whole name.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    fs, path = resolve(pattern)
    fs.invalidate_cache()
    magic = (_WEB_MAGIC if protocols(fs) & listing.WEB else _MAGIC).search(path)
    try:
        entry = listing.look(fs, path)
    except OSError as error:
        failed = listing.Entry(path=path, kind="", real=path, error=error)
        entry = None if magic and _may_be_refusal(fs, error) else failed
    root, names = path, ""
    if entry is None and magic:
        root = posixpath.dirname(path[: magic.start()])
        names = path[len(root) :].strip("/")
    elif entry is not None and entry.kind not in (listing.DIRECTORY, ""):
        root = posixpath.dirname(path)
    found = Search(fs, root, suffixes, names, exists=entry is not None)
    if names:
        found.look_below(
            listing.Entry(path=root, kind=listing.DIRECTORY, real=listing.real_path(fs, root))
        )
    elif entry is not None:
        found.take(entry)
    found.found.sort(key=attrgetter("path"))
    return found


def _may_be_refusal(fs: AbstractFileSystem, error: Exception) -> bool:
    """Tell whether a store may always answer so, and not just now: some refuse a "*" in a name.

    S3 and Google Cloud Storage take any name, and say if one may not look.
    """
    return isinstance(error, PermissionError) or not protocols(fs) & FLAT


# A table is a folder of files and of a log, which says what of them counts. Its other files hold
# rows that were changed or deleted.

_LOG = re.compile(
    r"(?P<folder>(?:.*/)?)"
    r"(?:(?P<Delta>_delta_log/)|(?P<Iceberg>metadata/)|(?P<Hudi>\.hoodie(?:/|_partition_metadata)))"
)
"""What makes a folder one of a table. Hudi has a mark in every folder that has files."""
_LOGS_ABOVE = ("_delta_log", "metadata")
"""Logs that may be above a folder with files, and not in it."""
_ICEBERG = re.compile(r"(v\d|\d+-)[^/]*\.metadata\.json")
"""Names of the files that make a folder of such a name the log of a table."""
_CURRENT = {
    "Delta": "Give the folder of the table itself as --input.",
    "Hudi": "Write a snapshot as Parquet: `spark.read.format('hudi').load(FOLDER)`.",
    "Iceberg": "Give those of pyiceberg's `StaticTable.from_metadata(FILE).scan().plan_files()` as "
    "--input.",
}
_MOST_ABOVE = 20
"""Most folders above the one where a search begins that are looked at."""


def is_pattern(path: str) -> bool:
    """Tell whether a path that is not there may be meant as a glob."""
    return _MAGIC.search(path) is not None


_State: TypeAlias = tuple[frozenset[int], bool]
"""Of a folder: which names of the pattern the next name may match, by number; and whether the
folder is a match, or below one, and stands for its files."""


class Search:
    """Lists folders and collects what is found. Without a pattern the root is a match.

    Attributes:
        fs: The file system.
        found: What was found.
        exists: Whether the path itself is there; False for a pattern.
        passed_over: How many files with other suffixes the folders hold, by suffix.
        again: Folders that a link led to after they had been read.
    """

    def __init__(
        self,
        fs: AbstractFileSystem,
        root: str,
        suffixes: tuple[str, ...],
        pattern: str,
        *,
        exists: bool,
    ) -> None:
        self.fs = fs
        self.found: list[FoundFile] = []
        self.exists = exists
        self.passed_over: Counter[str] = Counter()
        self.again: list[str] = []
        self._logs: set[tuple[str, str]] = set()  # folders that have a log, and of which kind
        self._root = with_scheme(fs, root)
        self._suffixes = suffixes
        self._parts = pattern.split("/") if pattern else []
        try:
            self._names = [re.compile(glob_translate(part)) for part in self._parts]
        except ValueError as error:
            raise InputError(
                f"{mask_credentials(pattern)!r} is not a valid pattern: got '**' next to other "
                "characters; expected it as a whole name, such as 'dumps/**/*.parquet'. Correct it."
            ) from error
        prefixes = (prefix for prefix in listing.HIDDEN_PREFIXES if f"/{prefix}" in f"/{pattern}")
        self._spelled_out = tuple(prefixes)

    def nothing(self, pattern: str, suffixes: Sequence[str]) -> str:
        """Return why nothing was found, for an error message."""
        shown = repr(mask_credentials(pattern))
        if self.exists or self.passed_over:
            others = ", ".join(f"{n} {name}" for name, n in sorted(self.passed_over.items()))
            wanted = " or ".join(f"*{suffix}" for suffix in suffixes)
            return f"{shown} exists and holds no {wanted} ({others or 'no file at all'})"
        return f"nothing matches {shown}" if is_pattern(pattern) else f"{shown} does not exist"

    def take(self, entry: listing.Entry) -> None:
        """Keep a file, or what is below a folder."""
        if entry.error is not None:
            self._fail(entry, entry.error)
        elif entry.kind == listing.DIRECTORY:
            self.look_below(entry)
        elif (
            protocols(self.fs) & FLAT
            and not entry.info.get("size")
            and listing.is_folder(self.fs, entry.path)
        ):
            message = (
                "it is an empty object, and a folder has its name, too: got 0 bytes; expected "
                f"a file. Give the folder: {mask_credentials(with_scheme(self.fs, entry.path))}/"
            )
            self._note(entry, Trouble.NO_FILE, message)
        else:
            self._keep(entry)

    def look_below(self, start: listing.Entry) -> None:
        """Find what matches below a folder; each folder is read once.

        Folders that no link leads to come first, then the others one by one, so that a folder
        that is reached in both ways is read by its own path.
        """
        self._look_above(start.path)
        waiting, seen = [(start, self._after([0]))], set[tuple[str, _State]]()
        while waiting:
            level = [item for item in waiting if not item[0].linked]
            waiting = sorted((i for i in waiting if i[0].linked), key=lambda item: item[0].path)
            if not level:
                level, waiting = waiting[:1], waiting[1:]
            self.again += [folder.path for folder, state in level if (folder.real, state) in seen]
            level = [item for item in level if (item[0].real, item[1]) not in seen]
            seen.update((folder.real, state) for folder, state in level)
            listings = in_parallel(self._listed, level)
            for (folder, state), entries in zip(level, listings, strict=True):
                if isinstance(entries, OSError):
                    self._fail(folder, entries)
                    continue
                reached = (self._reached(folder, state, entry) for entry in entries)
                waiting += [item for item in reached if item is not None]

    def _after(self, places: Iterable[int]) -> _State:
        """Return the numbers that may follow, also where "**" stands for no name; see `_State`."""
        reached = set()
        for place in places:
            reached.add(place)
            while place < len(self._parts) and self._parts[place] == "**":
                place += 1
                reached.add(place)
        return frozenset(reached - {len(self._parts)}), len(self._parts) in reached

    def _listed(self, item: tuple[listing.Entry, _State]) -> list[listing.Entry] | OSError:
        folder, (places, is_inside) = item
        wants_all = is_inside or any(self._parts[place] == "**" for place in places)
        list_below = listing.each_below if wants_all else listing.list_folder
        try:
            entries = list(list_below(self.fs, folder))
        except OSError as error:
            return error
        for entry in entries:
            below = entry.path[len(folder.path) :].lstrip("/")
            self._note_log(folder.path, below + "/" * (entry.kind == listing.DIRECTORY))
        return entries

    def _note_log(self, folder: str, name: str) -> None:
        """Note the folder whose log a name below another one is, or is in, if it is one."""
        if (found := _LOG.match(name)) is not None:
            self._logs.add((f"{folder.rstrip('/')}/{found['folder']}", str(found.lastgroup)))

    def _look_above(self, start: str) -> None:
        """Find the logs of tables that the folder where the search begins may be a part of."""
        above, path = list[str](), posixpath.dirname(start.rstrip("/")).rstrip("/")
        while path and len(above) < _MOST_ABOVE and not protocols(self.fs) & listing.WEB:
            above.append(path)
            path = posixpath.dirname(path).rstrip("/")
        places = [(folder, log) for folder in above for log in _LOGS_ABOVE]
        seen = in_parallel(self._sees_folder, [f"{folder}/{log}" for folder, log in places])
        for (folder, log), is_there in zip(places, seen, strict=True):
            if is_there:
                self._note_log(folder, f"{log}/")

    def _sees_folder(self, path: str) -> bool:
        try:
            return listing.is_folder(self.fs, path)
        except Exception as error:  # that one may not look there is not the file's fault
            if not _may_be_refusal(self.fs, error):
                raise
            return False

    def _is_table(self, folder: str, kind: str) -> bool:
        if kind != "Iceberg":
            return True
        log = f"{folder}metadata"
        with contextlib.suppress(PermissionError):
            entry = listing.Entry(path=log, kind=listing.DIRECTORY, real=log)
            return any(_ICEBERG.fullmatch(one.name) for one in listing.list_folder(self.fs, entry))
        return False

    def delta_table(self) -> str | None:
        """Return the folder if it is that of a Delta table; None if no file belongs to a table.

        Raises:
            InputError: If a file belongs to another table.
        """
        for folder, kind in sorted(self._logs):
            table = with_scheme(self.fs, folder)
            is_root = not self._parts and table.rstrip("/") == self._root.rstrip("/")
            within = is_root or any(file.path.startswith(table) for file in self.found)
            if within and self._is_table(folder, kind):
                if is_root and kind == "Delta":
                    return table
                raise InputError(
                    f"{mask_credentials(table)!r} is of a {kind} table: got a folder, which also "
                    "holds files that are no longer part of the table; expected its current files. "
                    f"{_CURRENT[kind]}"
                )
        return None

    def _reached(
        self, folder: listing.Entry, state: _State, entry: listing.Entry
    ) -> tuple[listing.Entry, _State] | None:
        """Keep a file below a folder if it is wanted; return a folder to look into."""
        is_match = was_inside = False
        for name in entry.path[len(folder.path) :].strip("/").split("/"):
            places, was_inside = state
            spelled_out = self._spelled_out if places else ()
            if name.startswith(listing.HIDDEN_PREFIXES) and not name.startswith(spelled_out):
                return None
            fitting = [place for place in places if self._names[place].match(name)]
            after, is_match = self._after(
                place if self._parts[place] == "**" else place + 1 for place in fitting
            )
            state = after, was_inside or is_match
        if not any(state):
            return None
        if entry.error is not None:
            self._fail(entry, entry.error)
        elif entry.kind == listing.DIRECTORY:
            return entry, state
        elif is_match or (was_inside and entry.path.endswith(self._suffixes)):
            self._keep(entry)
        elif was_inside:
            self.passed_over[posixpath.splitext(entry.name)[1] or "without a suffix"] += 1
        return None

    def _keep(self, entry: listing.Entry) -> None:
        if entry.kind != "other":
            self._note(entry)
            return
        kind = file_kind(int(entry.info.get("mode") or 0))
        message = f"it is {kind}; expected a file. It was not opened."
        self._note(entry, Trouble.NO_FILE, message)

    def _fail(self, entry: listing.Entry, error: OSError) -> None:
        may_not = isinstance(error, PermissionError)
        is_partial = may_not and not is_web(entry.path)  # of a server, all that is read is named
        if isinstance(error, UnreachedError) and error.lacks_setting and not is_partial:
            raise error
        if error.errno == errno.ENAMETOOLONG:
            trouble, message = Trouble.BAD_NAME, PATH_TOO_LONG
        else:
            trouble = Trouble.UNLISTED
            message = (
                f"it {'may not be read' if may_not else 'cannot be listed now'}, so its content is "
                f"not known: got {got_of(error)}; expected a listing. Fix that, and run the same "
                "command again."
            )
        self._note(replace(entry, info={}), trouble, message)

    def _note(
        self, entry: listing.Entry, trouble: Trouble | None = None, message: str = ""
    ) -> None:
        path = with_scheme(self.fs, entry.path)
        found = FoundFile(
            path=path,
            size=int(entry.info.get("size") or 0),
            version=_version(self.fs, entry.path, entry.info),
            root=self._root,
            real=path if entry.real == entry.path else with_scheme(self.fs, entry.real),
            trouble=trouble,
            message=message,
        )
        self.found.append(found)
