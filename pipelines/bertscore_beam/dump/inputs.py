"""Find the input files that patterns, folders and plain paths stand for."""

import contextlib
import datetime
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.dump.formats import AUTO, suffixes
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.folders import real_path
from bertscore_beam.files.paths import resolve, with_scheme
from bertscore_beam.files.search import Found, Trouble, search
from bertscore_core.errors import InputError

# Names under which file systems give what changes with the content, best first.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "md5Hash",
    "generation",
    "content_md5",
    "mtime",
    "LastModified",
    "blob_id",
    "oid",
)
_DATE_KEYS = ("last_modified", "updated", "created")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that was found, and what shows later that it has changed.

    Attributes:
        path: Absolute path or URL.
        size: Size in bytes.
        version: Etag or modification time, on a local disk with more, or "" if the file system
            knows neither.
        root: The folder in which the search began. Names are relative to it, so that they do not
            depend on which other files are there.
        trouble: Why it cannot be read, None for a file. It may be a folder then.
        message: The trouble in words.
        input_format: Format of the file, a `formats.Format`; `auto` to go by its name.
    """

    path: str
    size: int
    version: str = ""
    root: str = ""
    trouble: Trouble | None = None
    message: str = ""
    input_format: str = AUTO


def expand_inputs(
    globs: Sequence[str], *, exclude: str | None = None, input_format: str = AUTO
) -> list[InputFile]:
    """Find the files that patterns, folders and plain paths stand for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for the files below it with a suffix of a known format. Names below the
    place where the search began that start with "_" or "." are skipped, as every Parquet reader
    does, unless the pattern spells that character out. Symbolic links are followed; a file that
    they lead to more than once is returned once.

    Args:
        globs: What to look for. Each may match many files; a file matched twice is returned once.
        exclude: A folder whose content is never an input (the output folder).
        input_format: Format of all files, a `formats.Format`; `auto` to go by their names.

    Returns:
        The files, sorted by path, including whatever cannot be read, such as a folder that cannot
        be listed.

    Raises:
        InputError: If an entry matches nothing.
        CutOffError: If a store lists only a part of a folder.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    found: dict[str, tuple[Found, InputFile]] = {}
    again: list[str] = []
    wanted = suffixes(input_format)
    for pattern in globs:
        result = search(pattern, wanted)
        if not result.found:
            raise InputError(
                f"no input: {result.nothing(pattern, _shown(wanted))}; expected a file, a folder "
                "with such files below it, or a glob such as 'dumps/**/*.parquet'. Check the path, "
                "and quote the glob for the shell."
            )
        kept = _outside(result.fs, result.found, exclude)
        if not kept:
            raise InputError(
                f"no input: all {len(result.found)} files that match "
                f"{mask_credentials(pattern)!r} are in the output folder "
                f"{mask_credentials(exclude or '')!r}, which is never read; expected files "
                "elsewhere. Choose another --output."
            )
        for one in kept:
            found.setdefault(
                with_scheme(result.fs, one.path), (one, _input_file(result.fs, one, input_format))
            )
        again += result.again
    if not found:
        raise InputError("no input: got no path at all; expected at least one --input.")
    return sorted(_once(found.values(), again), key=lambda file: file.path)


def _shown(wanted: Sequence[str]) -> list[str]:
    """Return suffixes without those of compressed files."""
    return [suffix for suffix in wanted if suffix.count(".") == 1]


def _outside(fs: AbstractFileSystem, found: Iterable[Found], folder: str | None) -> list[Found]:
    """Return what is not in that folder, also if a link leads into it."""
    if folder is None:
        return list(found)
    theirs, inner = resolve(folder)
    if type(theirs) is not type(fs):
        return list(found)
    real = real_path(fs, inner).rstrip("/") + "/"
    return [one for one in found if not f"{one.real}/".startswith(real)]


def _once(found: Iterable[tuple[Found, InputFile]], again: Sequence[str]) -> list[InputFile]:
    """Leave out files reached through a link that are also found without it, and log that."""
    kept: dict[str, InputFile] = {}
    links = list(again)
    hard: dict[object, str] = {}
    shared = []
    for one, file in sorted(found, key=lambda pair: (pair[0].real != pair[0].path, pair[1].path)):
        if kept.setdefault(file.path if one.real == one.path else one.real, file) is not file:
            links.append(file.path)
        elif int(one.info.get("nlink") or 1) > 1:
            inode = (one.info.get("ino"), one.info.get("size"), one.info.get("mtime"))
            shared += [file.path] if hard.setdefault(inode, file.path) != file.path else []
    _notice(links, "symbolic links lead to files that are inputs anyway", "is scored once")
    _notice(shared, "hard links are the same file as another input", "counts as a file of its own")
    return list(kept.values())


def _notice(paths: Sequence[str], what: str, outcome: str) -> None:
    if paths:
        shown = mask_credentials(paths[0])
        logger.warning("%d %s, such as %r: each %s", len(paths), what, shown, outcome)


def file_version(path: str) -> str:
    """Return the current version of a file, as in `InputFile.version`, without fsspec's cache.

    Raises:
        OSError: If the file is not there or cannot be reached.
    """
    fs, inner = resolve(path)
    fs.invalidate_cache(inner)
    return _version(fs, inner, fs.info(inner))


def _input_file(fs: AbstractFileSystem, found: Found, input_format: str) -> InputFile:
    """Describe one file."""
    return InputFile(
        path=with_scheme(fs, found.path),
        size=int(found.info.get("size") or 0),
        version=_version(fs, found.path, found.info),
        root=with_scheme(fs, found.root),
        trouble=found.trouble,
        message=found.message,
        input_format=input_format,
    )


def _version(fs: AbstractFileSystem, path: str, info: Mapping[str, Any]) -> str:
    """Return what identifies the content of a file, in the same form from a listing and a stat.

    On a local disk it is the inode, its change time and the file's modification time: copying
    tools set the modification time as they like, and no tool can set the change time.
    """
    if isinstance(fs, LocalFileSystem):
        with contextlib.suppress(OSError):
            found = os.stat(path)
            return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_ctime_ns}"
        return ""
    for key in (*_VERSION_KEYS, *_DATE_KEYS):
        value = info.get(key)
        if value:
            if isinstance(value, datetime.datetime):
                value = value.timestamp()
            return f"{value:.6f}" if isinstance(value, float) else str(value).strip('"')
    return ""
