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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

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
from bertscore_beam.files.paths import FLAT, IO_THREADS, mask_credentials, protocols, resolve
from bertscore_beam.files.reach import lacks_setting
from bertscore_beam.files.read import kind_in_words
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
    if entry is None and magic:
        root = posixpath.dirname(path[: magic.start()])
        walk = _Walk(fs, root, suffixes)
        _match(walk, path[len(root) :].strip("/"))
    else:
        is_folder = entry is None or entry.kind in (DIRECTORY, "")
        root = path if is_folder else posixpath.dirname(path)
        walk = _Walk(fs, root, suffixes)
        walk.take([entry] if entry else [])
    return Search(
        fs=fs,
        found=tuple(sorted(walk.found, key=lambda match: match.path)),
        exists=entry is not None,
        passed_over=walk.passed_over,
        again=tuple(walk.again),
    )


def _match(walk: "_Walk", pattern: str) -> None:
    parts = pattern.split("/")
    try:
        names = [re.compile(glob_translate(part)) for part in parts]
    except ValueError as error:
        raise InputError(
            f"{mask_credentials(pattern)!r} is not a valid pattern: got '**' next to other "
            "characters; expected it as a whole name, such as 'dumps/**/*.parquet'. Correct it."
        ) from error
    walk.spelled_out = tuple(prefix for prefix in HIDDEN_PREFIXES if f"/{prefix}" in f"/{pattern}")
    level = [Entry(path=walk.root, kind=DIRECTORY, real=real_path(walk.fs, walk.root))]
    for index, part in enumerate(parts):
        if part == "**":
            rest = re.compile(glob_translate("/".join(parts[index:])))
            walk.take_matching(level, rest, folders=parts[-1] != "**")
            return
        entries = [entry for entry in walk.in_all(level) if names[index].match(entry.name)]
        if index == len(parts) - 1:
            walk.take(entries)
        level = [entry for entry in walk.without_errors(entries) if entry.kind == DIRECTORY]


class _Walk:
    """Lists folders and collects what is found; `spelled_out` are hidden names asked for."""

    def __init__(self, fs: AbstractFileSystem, root: str, suffixes: tuple[str, ...]) -> None:
        self.fs = fs
        self.root = root
        self.found: list[Entry] = []
        self.passed_over: Counter[str] = Counter()
        self.again: list[str] = []
        self.spelled_out: tuple[str, ...] = ()
        self._suffixes = suffixes

    def take(self, entries: Iterable[Entry]) -> None:
        fine = self.without_errors(entries)
        for entry in fine:
            if entry.kind != DIRECTORY:
                self._keep(entry)
        self.spelled_out = ()  # hidden names are skipped again below a match
        for entry in self._below([entry for entry in fine if entry.kind == DIRECTORY]):
            if entry.path.endswith(self._suffixes):
                self._keep(entry)
            else:
                self.passed_over[posixpath.splitext(entry.name)[1] or "without a suffix"] += 1

    def take_matching(
        self, starts: Sequence[Entry], pattern: re.Pattern[str], *, folders: bool
    ) -> None:
        for entry in self._below([replace(start, below="") for start in starts]):
            steps = [i for i, letter in enumerate(entry.below) if letter == "/"] if folders else []
            inside = any(pattern.match(entry.below[:step]) for step in steps)
            if pattern.match(entry.below) or (inside and entry.path.endswith(self._suffixes)):
                self._keep(entry)

    def in_all(
        self,
        folders: Sequence[Entry],
        list_one: Callable[[AbstractFileSystem, Entry], list[Entry]] = list_folder,
    ) -> list[Entry]:
        """Return what is in some folders, without hidden names. Folders are listed in parallel."""

        def answer(folder: Entry) -> list[Entry] | OSError:
            try:
                return list_one(self.fs, folder)
            except OSError as error:
                return error

        entries: list[Entry] = []
        with ThreadPoolExecutor(IO_THREADS) as pool:
            for folder, got in zip(folders, pool.map(answer, folders), strict=True):
                if isinstance(got, OSError):
                    self._fail(folder, got)
                else:
                    entries += [e for e in got if not self._is_hidden(e.path[len(folder.path) :])]
        return entries

    def without_errors(self, entries: Iterable[Entry]) -> list[Entry]:
        fine = []
        for entry in entries:
            if entry.error is None:
                fine.append(entry)
            else:
                self._fail(entry, entry.error)
        return fine

    def _below(self, starts: Sequence[Entry]) -> Iterator[Entry]:
        """Yield everything below some folders except folders; each folder is read once.

        Folders that no link leads to come first, then the others one by one, so that a folder
        that is reached in both ways is read by its own path.
        """
        if protocols(self.fs) & FLAT:
            yield from self.in_all(starts, list_tree)
            return
        waiting, seen = list(starts), set[str]()
        while waiting:
            level = [folder for folder in waiting if not folder.linked]
            linked = sorted((f for f in waiting if f.linked), key=lambda folder: folder.path)
            if not level:
                level, linked = linked[:1], linked[1:]
            self.again += [folder.path for folder in level if folder.real in seen]
            level = [folder for folder in level if folder.real not in seen]
            seen.update(folder.real for folder in level)
            entries = self.without_errors(self.in_all(level))
            yield from (entry for entry in entries if entry.kind != DIRECTORY)
            waiting = [*linked, *(entry for entry in entries if entry.kind == DIRECTORY)]

    def _is_hidden(self, below: str) -> bool:
        return any(
            name.startswith(HIDDEN_PREFIXES) and not name.startswith(self.spelled_out or "\0")
            for name in below.strip("/").split("/")
        )

    def _keep(self, entry: Entry) -> None:
        if entry.kind == "other":
            kind = kind_in_words(int(entry.info.get("mode") or 0))
            message = f"it is {kind}; expected a file. It was not opened."
            entry = replace(entry, trouble=Trouble.NO_FILE, message=message)
        self.found.append(replace(entry, root=self.root))

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
        self.found.append(replace(entry, root=self.root, info={}, trouble=trouble, message=message))
