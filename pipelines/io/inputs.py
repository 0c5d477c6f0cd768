"""Find the input files that patterns, folders and plain paths stand for."""

import contextlib
import datetime
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_core.errors import InputError
from pipelines.io.files import absolute, mask_credentials, resolve, with_scheme
from pipelines.splits import HIDDEN_PREFIXES

PARQUET_SUFFIX = ".parquet"

_MAGIC = re.compile(r"[*?\[]")
# What file systems call the thing that changes with the content, best first.
_VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "content_md5", "mtime", "LastModified")
_DATE_KEYS = ("last_modified", "updated", "created")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file found, and enough of its identity to see later that it has changed.

    Attributes:
        path: Absolute path or URL.
        size: Size in bytes.
        version: Etag or modification time, on a local disk with more, or "" if the file system
            knows neither.
        root: The folder the search began in: names are counted from it, so that they do not depend
            on which other files happen to be there.
    """

    path: str
    size: int
    version: str = ""
    root: str = ""


def expand_inputs(globs: Sequence[str], *, exclude: str | None = None) -> list[InputFile]:
    """Find the files that patterns, folders and plain paths stand for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for all `*.parquet` files below it. Names below the place where the
    search began that start with "_" or "." are passed over, as every Parquet reader does, unless
    the pattern spells that character out.

    Args:
        globs: What to look for. Each may match many files; a file matched twice is returned once.
        exclude: A folder whose content is never an input (the output folder).

    Returns:
        The files, sorted by path.

    Raises:
        InputError: If an entry matches nothing.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    found: dict[str, InputFile] = {}
    for pattern in globs:
        matched = _expand(pattern)
        if not matched:
            raise InputError(
                f"no input: nothing matches {mask_credentials(pattern)!r}; expected a Parquet "
                "file, a folder with *.parquet files below it, or a glob such as "
                "'dumps/**/*.parquet'. Check the path, and quote the glob for the shell."
            )
        kept = [file for file in matched if not _is_below(file.path, exclude)]
        if not kept:
            raise InputError(
                f"no input: all {len(matched)} files that match {mask_credentials(pattern)!r} lie "
                f"in the output folder {mask_credentials(exclude or '')!r}, which is never read; "
                "expected files elsewhere. Choose another --output."
            )
        for file in kept:
            found.setdefault(file.path, file)
    if not found:
        raise InputError("no input: got no path at all; expected at least one --input.")
    return sorted(found.values(), key=lambda file: file.path)


def file_version(path: str) -> str:
    """Return what `InputFile.version` says of a file, asking afresh.

    Raises:
        OSError: If the file is not there or cannot be reached.
    """
    fs, inner = resolve(path)
    fs.invalidate_cache(inner)
    return _version(fs, inner, fs.info(inner))


def _is_below(path: str, folder: str | None) -> bool:
    """Tell whether a file lies in a folder."""
    return folder is not None and path.startswith(absolute(folder).rstrip("/") + "/")


def _expand(pattern: str) -> list[InputFile]:
    """Return the files of one entry."""
    fs, path = resolve(pattern)
    fs.invalidate_cache()
    info = _info(fs, path)
    if info is not None and info["type"] == "file":
        return [_input_file(fs, path, info, posixpath.dirname(path))]
    if info is not None and info["type"] == "directory":
        return _below(fs, path, path, "")
    magic = _MAGIC.search(path)
    if magic is None:
        return []
    root = posixpath.dirname(path[: magic.start()])
    files: list[InputFile] = []
    for name, details in sorted(fs.glob(path, detail=True).items()):
        if _is_hidden(name, root, path):
            continue
        if details["type"] == "directory":
            files += [] if path.endswith("**") else _below(fs, name, root, path)
        else:
            files.append(_input_file(fs, name, details, root))
    return files


def _below(fs: AbstractFileSystem, folder: str, root: str, pattern: str) -> list[InputFile]:
    """Return the Parquet files below a folder."""
    return [
        _input_file(fs, name, details, root)
        for name, details in fs.find(folder, detail=True).items()
        if name.endswith(PARQUET_SUFFIX) and not _is_hidden(name, folder, pattern)
    ]


def _is_hidden(path: str, root: str, pattern: str) -> bool:
    """Tell whether a name below the root starts with "_" or "." and the pattern does not say so."""
    spelled_out = tuple(
        prefix for prefix in HIDDEN_PREFIXES if f"/{prefix}" in pattern[len(root) :]
    )
    below = path[len(root) :].strip("/").split("/")
    return any(
        name.startswith(HIDDEN_PREFIXES) and not name.startswith(spelled_out or "\0")
        for name in below
    )


def _input_file(fs: AbstractFileSystem, path: str, info: Mapping[str, Any], root: str) -> InputFile:
    """Describe one file."""
    return InputFile(
        path=with_scheme(fs, path),
        size=int(info.get("size") or 0),
        version=_version(fs, path, info),
        root=with_scheme(fs, root),
    )


def _version(fs: AbstractFileSystem, path: str, info: Mapping[str, Any]) -> str:
    """Return what identifies the content of a file, written alike by listing and by stat.

    On a local disk that is the file itself and when it and its inode were last changed: tools that
    copy set the first of the two times as they like, and none sets the other.
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


def _info(fs: AbstractFileSystem, path: str) -> Mapping[str, Any] | None:
    """Return what the file system knows of a path, None if it is not there."""
    try:
        found: Mapping[str, Any] = fs.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # A glob is no valid name everywhere (http answers 4xx, some stores refuse "*").
        if _MAGIC.search(path):
            return None
        raise
    return found
