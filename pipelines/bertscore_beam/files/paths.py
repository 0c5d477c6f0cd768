"""Paths of files, local or in an object store, and how they are shown without credentials.

A path is a local path or a URL with a scheme (`memory://`, `s3://`, `gs://`, `https://` for
reading). Paths are taken literally: a name with `*`, `?`, `[`, `::` or `#` in it is an ordinary
name. Only `find.py` knows patterns. No error message holds credentials.
"""

import glob
import os
import posixpath
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import fsspec
import fsspec.config
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_core.errors import ConfigError

# Keep credentials out of everything that is shown, logged or written: names, records, messages.

_MASK = "***"
# The authority of a URL ends at the first of "/", "?" and "#"; its last "@" ends the user info. A
# secret of an object store may hold "/", and its URLs have no port. Only what has "@" behind it is
# searched, so that no place is looked at again from each URL before it.
_TO_LAST_AT = re.compile(r"(?<!\S)\S*@")
_USER_INFO = re.compile(
    r"(\w://)[^/?#\s]*@|\b((?:s3a?|gs|gcs|abfss?|az|oss|oci|r2)://)[^/\s:]*:\S*@"
)
# key=value, also percent-encoded inside another value; and key: value, as headers have it.
_BETWEEN = re.compile(r"=|%3D|:[^\S\n]*(?!//)", re.I)
_VALUE = re.compile(r"[^&;,\s\"'<>(){}\[\]]+")
# In a folder /key=value/, as in Hive: what is shorter is hardly a secret.
_FOLDER_VALUE = re.compile(r"[^/&;,\s\"'<>(){}\[\]]{16,}")
_MOST_KEY = 64
_KEY = re.compile(rf"[\w.%~-]{{1,{_MOST_KEY}}}\Z")
_HEADER_KEY = re.compile(r"(?:.*[-_.])?(?:api-?key|token|secret|password|passwd|pwd)", re.I)
# 'key': 'value', as JSON and Python write it.
_QUOTED_PAIR = re.compile(
    r"(?P<start>(?P<quote>[\"'])(?P<key>[\w.-]+)(?P=quote)\s*:\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
)
_HEADER = re.compile(r"(\bBearer|\bAuthorization[\"']?\s*[:=]\s*[\"']?\w+)\s+[\w.~+/=-]+", re.I)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"o?auth|authorization|bearer|code|jwt|keys|pass|passcode|passphrase|sas|session|\w*sessionid|sig"
    r"|.*(?:key|passwd|pwd|token)|.*(?:credential|password|secret|signature).*"
)


def mask_credentials(text: str) -> str:
    """Replace what may be a secret in a path, flag, message or JSON text with "***".

    That is the user info of every URL, the values of all parameters, options, headers and JSON keys
    with a name such as password, token or sig, of folders (`/key=value/`) from 16 characters on,
    and what follows Bearer or Authorization.
    """
    text = _TO_LAST_AT.sub(lambda match: _USER_INFO.sub(rf"\1\2{_MASK}@", match[0]), text)
    text = _HEADER.sub(rf"\1 {_MASK}", text)
    text = _QUOTED_PAIR.sub(_mask_quoted, text)
    return _mask_pairs(text)


def _names_secret(name: str) -> bool:
    """Tell whether a parameter, option or key of this name may hold a secret."""
    return any(_SECRET_WORD.fullmatch(word.lower()) for word in _WORD.findall(unquote(name)))


def _mask_pairs(text: str) -> str:
    shown, end = [], 0
    for between in _BETWEEN.finditer(text):
        at = between.start()
        key = _KEY.search(text, max(end, at - _MOST_KEY), at)
        is_secret = _HEADER_KEY.fullmatch if between[0][0] == ":" else _names_secret
        if key is None or not is_secret(key[0]):
            continue
        is_folder = text[max(key.start() - 1, 0)] == "/" and between[0] == "="
        # Masked to its end or not at all: looking at values of other keys would be quadratic.
        value = (_FOLDER_VALUE if is_folder else _VALUE).match(text, between.end())
        if value is not None:
            shown += [text[end : between.end()], _MASK]
            end = value.end()
    return "".join([*shown, text[end:]])


def _mask_quoted(match: re.Match[str]) -> str:
    if not _names_secret(match["key"]):
        return match[0]
    quote = match["value"][0]
    return f"{match['start']}{quote}{_MASK}{quote}"


# Every reader skips such names, and they show what a killed process has left behind.
TEMPORARY_PREFIX = ".bertscore-tmp-"
# Threads that wait for an object store do not compute: there may be many more of them than cores.
IO_THREADS = 32
FILES_IN_FLIGHT = 32
"""Files of the input that are looked at in parallel, by default: a store that answers in 30 ms is
kept waiting for less than the client computes."""
MOST_IN_FLIGHT = 256
"""Most requests that this process has under way at a store."""
# Stores in which an object appears only when it is complete. Elsewhere a file grows visibly.
PUT_IS_WHOLE = frozenset(
    {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"}
)
# Stores that list everything below a prefix in one request; their errors reach us through fsspec.
FLAT = frozenset({"s3", "s3a", "gs", "gcs"})


def resolve(path: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a path and the path as that file system writes it.

    Raises:
        ConfigError: If the scheme is not known, the package for it is not installed, the path is
            not valid UTF-8, or a bucket's name holds credentials or a port.
    """
    scheme, separator, _ = path.partition("://")
    inner = path if separator else os.path.abspath(os.path.expanduser(path))
    if not is_utf8(inner):
        raise ConfigError(
            f"path {mask_credentials(inner)!a} cannot be used: it is not valid UTF-8; expected "
            "UTF-8, since Parquet readers and the records of a run accept nothing else. Rename the "
            "file or folder, or give a symbolic link to it."
        )
    if not separator:
        return fsspec.filesystem("file"), inner
    bucket = path.partition("://")[2].partition("/")[0]
    if scheme in FLAT and re.search(r"@|^(?!arn:).*:", bucket):  # the client's error would name it
        raise ConfigError(
            f"{mask_credentials(path)!r} cannot be used: got credentials or a port before the "
            f"path; expected {scheme}://BUCKET/PATH. Give them in the environment, such as "
            "AWS_PROFILE, AWS_ENDPOINT_URL or GOOGLE_APPLICATION_CREDENTIALS."
        )
    try:
        kind = fsspec.get_filesystem_class(scheme)
        fs = fsspec.filesystem(scheme, **_settings(scheme), **kind._get_kwargs_from_urls(path))
    except (ValueError, ImportError) as error:
        raise ConfigError(
            f"no file system for {mask_credentials(path)!r}: got scheme {scheme!r} ({error}); "
            "expected a local path or one of memory, s3, gs, https. For s3 install the extra "
            "'s3', for gs the extra 'gcs'."
        ) from error
    return fs, str(kind._strip_protocol(path))


def is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: names of local files may hold any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _settings(scheme: str) -> dict[str, Any]:
    if scheme not in ("s3", "s3a"):
        return {}
    # The default of 10 connections would be the bound on all requests, whatever waits for them.
    own = fsspec.config.conf.get(scheme, {}).get("config_kwargs", {})
    return {"config_kwargs": {"max_pool_connections": MOST_IN_FLIGHT, **own}}


def absolute(path: str) -> str:
    """Return the path in its one normal form."""
    fs, inner = resolve(path)
    return with_scheme(fs, inner)


def with_scheme(fs: AbstractFileSystem, path: str) -> str:
    """Put the scheme back in front of a path, except for a local one."""
    return path if isinstance(fs, LocalFileSystem) else str(fs.unstrip_protocol(path))


def join(root: str, *parts: str) -> str:
    """Append relative names to a folder.

    Raises:
        ConfigError: If a name is absolute or leads out of the folder.
    """
    for part in parts:
        if not part or part.startswith("/") or ".." in part.split("/") or "://" in part:
            raise ConfigError(
                f"a name would leave its folder: got {part!r}; expected a relative path without "
                "'..'. Rename the input."
            )
    base = root if root.endswith("/") else root + "/"
    return base + "/".join(parts)


def is_remote(path: str) -> bool:
    """Tell whether a path is not on a local disk."""
    return not isinstance(resolve(path)[0], LocalFileSystem)


def is_missing(path: str) -> bool:
    """Tell whether a path of this machine, or a glob, has no file now."""
    is_there = "://" in path or os.path.lexists(path)
    return not is_there and next(glob.iglob(path, recursive=True), None) is None


def protocols(fs: AbstractFileSystem) -> frozenset[str]:
    """Return the schemes that a file system goes by."""
    return frozenset([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)


# How long a path may be, so that a name that cannot be written is found before the work.

# Bytes of a path with its closing zero, on Linux; and of a key on S3, Google Cloud Storage, Azure.
_PATH_BYTES = 4096
_KEY_BYTES = 1024
# The name of a local file until it is complete, in the same folder: see `write_atomically`.
_TEMPORARY = TEMPORARY_PREFIX + 32 * "0"


def too_long_to_read(path: str) -> str | None:
    """Return why the path of a file is too long to be opened; None if it is not."""
    fs, inner = resolve(path)
    size = len(os.fsencode(inner))
    if isinstance(fs, LocalFileSystem) and size >= _PATH_BYTES:
        return f"its path takes {size} bytes; expected less than {_PATH_BYTES}."
    return None


def too_long_to_write(paths: Iterable[str]) -> str | None:
    """Return why one of some files cannot be written; None if none is known to be too long."""
    reasons = map(_too_long, paths)
    return next((reason for reason in reasons if reason is not None), None)


def _too_long(path: str) -> str | None:
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        return _too_long_for_disk(inner)
    key = inner.lstrip("/").partition("/")[2]
    size = len(key.encode())
    if protocols(fs) & PUT_IS_WHOLE - {"memory"} and size > _KEY_BYTES:
        name = posixpath.basename(key)
        return f"its {name} has a key of {size} bytes; expected at most {_KEY_BYTES}."
    return None


def _too_long_for_disk(path: str) -> str | None:
    folder, name = os.path.split(path)
    longest = max(name, _TEMPORARY, key=lambda name: len(os.fsencode(name)))
    size = len(os.fsencode(f"{folder}/{longest}"))
    if size >= _PATH_BYTES:
        return f"the path of its {name} takes {size} bytes; expected less than {_PATH_BYTES}."
    names = [longest]
    while not os.path.exists(folder):
        folder, name = os.path.split(folder)
        names.append(name)
    limit = os.pathconf(folder, "PC_NAME_MAX")
    size = max(len(os.fsencode(name)) for name in names)
    if size > limit:
        return f"a folder for its parts has a name of {size} bytes; expected at most {limit}."
    return None
