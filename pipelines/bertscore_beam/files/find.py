"""Find the files that a pattern, a folder or a plain path stands for.

A folder that cannot be listed is not taken for an empty one: it is returned with its error, and
the caller decides what that means. fsspec's own `find` and `glob` silently skip such folders, so
folders are listed here one by one.

Symbolic links are followed. Each folder is read once, if possible by its path without links, so
that loops end. No file is opened.
"""

import errno
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fsspec import AbstractFileSystem
from fsspec.utils import glob_translate

from bertscore_beam.files.listing import (
    DIRECTORY,
    HIDDEN_PREFIXES,
    WEB,
    Entry,
    Trouble,
    list_folder,
    list_tree,
    look,
    real_path,
)
from bertscore_beam.files.paths import FLAT, mask_credentials, protocols, resolve
from bertscore_beam.files.reach import lacks_setting
from bertscore_beam.files.read import in_parallel, kind_in_words
from bertscore_core.errors import InputError

_MAGIC = re.compile(r"[*?\[]")
_WEB_MAGIC = re.compile(r"\*")  # in a URL, "?" begins a query and "[" an IPv6 address


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a search.

    Attributes:
        exists: Whether the path itself is there; False for a pattern.
        passed_over: How many files with other suffixes the folders hold, by suffix.
        again: Folders that a link led to after they had been read.
    """

    fs: AbstractFileSystem
    found: tuple[Entry, ...]
    exists: bool
    passed_over: Mapping[str, int]
    again: tuple[str, ...]

    def nothing(self, pattern: str, suffixes: Sequence[str]) -> str:
        """Return why nothing was found, for an error message."""
        shown = repr(mask_credentials(pattern))
        if self.exists or self.passed_over:
            others = ", ".join(f"{n} {name}" for name, n in sorted(self.passed_over.items()))
            wanted = " or ".join(f"*{suffix}" for suffix in suffixes)
            return f"{shown} exists and holds no {wanted} ({others or 'no file at all'})"
        return f"nothing matches {shown}" if _MAGIC.search(pattern) else f"{shown} does not exist"


def search(pattern: str, suffixes: tuple[str, ...]) -> Search:
    """Find the files that a pattern, folder or path stands for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for the files below it whose names end in one of the suffixes. Names
    below the place where the search began that start with "_" or "." are skipped, unless the
    pattern spells that character out.

    Raises:
        InputError: If the pattern is not valid: a `**` that is not a whole name.
        CutOffError: If a store lists only a part of a folder.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    fs, path = resolve(pattern)
    fs.invalidate_cache()
    magic = (_WEB_MAGIC if protocols(fs) & WEB else _MAGIC).search(path)
    try:
        entry = look(fs, path)
    except OSError as error:
        # Some stores do not accept a pattern as a name: they refuse "*".
        entry = None if magic else Entry(path=path, kind="", real=path, error=error)
    root, names = path, ""
    if entry is None and magic:
        root = posixpath.dirname(path[: magic.start()])
        names = path[len(root) :].strip("/")
    elif entry is not None and entry.kind not in (DIRECTORY, ""):
        root = posixpath.dirname(path)
    walk = _Walk(fs, root, suffixes, names)
    if names:
        walk.look_below(Entry(path=root, kind=DIRECTORY, real=real_path(fs, root)))
    elif entry is not None:
        walk.take(entry)
    return Search(
        fs=fs,
        found=tuple(sorted(walk.found, key=lambda match: match.path)),
        exists=entry is not None,
        passed_over=walk.passed_over,
        again=tuple(walk.again),
    )


_State: TypeAlias = tuple[frozenset[int], bool]
"""Of a folder: which names of the pattern the next name may match, by number; and whether the
folder is a match, or below one, and stands for its files."""


class _Walk:
    """Lists folders and collects what is found. Without a pattern the root is a match."""

    def __init__(
        self, fs: AbstractFileSystem, root: str, suffixes: tuple[str, ...], pattern: str
    ) -> None:
        self.found: list[Entry] = []
        self.passed_over: Counter[str] = Counter()
        self.again: list[str] = []
        self._fs = fs
        self._root = root
        self._suffixes = suffixes
        self._parts = pattern.split("/") if pattern else []
        try:
            self._names = [re.compile(glob_translate(part)) for part in self._parts]
        except ValueError as error:
            raise InputError(
                f"{mask_credentials(pattern)!r} is not a valid pattern: got '**' next to other "
                "characters; expected it as a whole name, such as 'dumps/**/*.parquet'. Correct it."
            ) from error
        prefixes = (prefix for prefix in HIDDEN_PREFIXES if f"/{prefix}" in f"/{pattern}")
        self._spelled_out = tuple(prefixes)

    def take(self, entry: Entry) -> None:
        if entry.error is not None:
            self._fail(entry, entry.error)
        elif entry.kind == DIRECTORY:
            self.look_below(entry)
        else:
            self._keep(entry)

    def look_below(self, start: Entry) -> None:
        """Find what matches below a folder; each folder is read once.

        Folders that no link leads to come first, then the others one by one, so that a folder
        that is reached in both ways is read by its own path.
        """
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

    def _listed(self, item: tuple[Entry, _State]) -> list[Entry] | OSError:
        folder, (places, is_inside) = item
        wants_all = is_inside or any(self._parts[place] == "**" for place in places)
        try:
            if wants_all and protocols(self._fs) & FLAT:
                return list_tree(self._fs, folder)
            return list_folder(self._fs, folder)
        except OSError as error:
            return error

    def _reached(self, folder: Entry, state: _State, entry: Entry) -> tuple[Entry, _State] | None:
        """Keep a file below a folder if it is wanted; return a folder to look into."""
        is_match = was_inside = False
        for name in entry.path[len(folder.path) :].strip("/").split("/"):
            places, was_inside = state
            spelled_out = self._spelled_out if places else ()
            if name.startswith(HIDDEN_PREFIXES) and not name.startswith(spelled_out):
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
        elif entry.kind == DIRECTORY:
            return entry, state
        elif is_match or (was_inside and entry.path.endswith(self._suffixes)):
            self._keep(entry)
        elif was_inside:
            self.passed_over[posixpath.splitext(entry.name)[1] or "without a suffix"] += 1
        return None

    def _keep(self, entry: Entry) -> None:
        if entry.kind == "other":
            kind = kind_in_words(int(entry.info.get("mode") or 0))
            message = f"it is {kind}; expected a file. It was not opened."
            entry = replace(entry, trouble=Trouble.NO_FILE, message=message)
        self.found.append(replace(entry, root=self._root))

    def _fail(self, entry: Entry, error: OSError) -> None:
        if lacks_setting(error):
            raise error
        if error.errno == errno.ENAMETOOLONG:
            trouble = Trouble.BAD_NAME
            message = "its path is too long for this system; expected a shorter one. Move it up."
        else:
            trouble = Trouble.UNLISTED
            may_not = isinstance(error, PermissionError)
            message = (
                f"it {'may not be read' if may_not else 'cannot be listed now'}, so its content is "
                f"not known: got {type(error).__name__}: {error}; expected a listing. Fix that, "
                "and run the same command again."
            )
        self.found.append(
            replace(entry, root=self._root, info={}, trouble=trouble, message=message)
        )
