"""Paths of files, local or in an object store.

A path is a local path or a URL with a scheme (`memory://`, `s3://`, `gs://`, `https://` for
reading). Paths are taken literally: a name with `*`, `?`, `[`, `::` or `#` in it is an ordinary
name. Only `find.py` knows patterns. No error message holds credentials.
"""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import fsspec.config
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import asking, is_web
from bertscore_core.errors import ConfigError
from bertscore_core.tokens import is_encodable

# Every reader skips such names, and they show what a killed process has left behind.
TEMPORARY_PREFIX = ".bertscore-tmp-"
# Threads that wait for an object store do not compute: there may be many more of them than cores.
IO_THREADS = 32
FILES_IN_FLIGHT = 32
"""Files of the input that are looked at in parallel: a store that answers in 30 ms is
kept waiting for less than the client computes."""
MOST_IN_FLIGHT = 256
"""Most requests that this process has under way at a store."""
# Stores in which an object appears only when it is complete. Elsewhere a file grows visibly.
PUT_IS_WHOLE = frozenset(
    {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"}
)
# Stores that list everything below a prefix in one request; their errors reach us through fsspec.
S3, GCS = frozenset({"s3", "s3a"}), frozenset({"gs", "gcs"})
FLAT = S3 | GCS


_HF_KINDS = frozenset({"datasets", "spaces", "models", "buckets"})


def resolve(path: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a path and the path as that file system writes it.

    Raises:
        ConfigError: If the scheme is not known, the package for it is not installed, the path is
            not valid UTF-8 or holds a NUL, or a bucket's name holds credentials or a port.
    """
    scheme, separator, _ = path.partition("://")
    _check_no_nul(path)
    inner = path if separator else os.path.abspath(os.path.expanduser(path))
    if not is_encodable(inner):
        raise ConfigError(
            f"path {mask_credentials(inner)!a} cannot be used: it is not valid UTF-8; expected "
            "UTF-8, since Parquet readers and the records of a run accept nothing else. Rename the "
            "file or folder, or give a symbolic link to it."
        )
    if not separator:
        return fsspec.filesystem("file"), inner
    bucket, _, below = path.partition("://")[2].partition("/")
    owner, _, name = (below if bucket in _HF_KINDS else f"{bucket}/{below}").partition("/")
    if scheme == "hf" and not (owner and name.strip("/")):  # the client's errors blame the network
        raise ConfigError(
            f"{mask_credentials(path)!r} names no repository of the hub: got no owner and name; "
            "expected hf://datasets/OWNER/NAME/FILE. Write both, as in the address of its page."
        )
    if scheme in FLAT and re.search(r"@|^(?!arn:).*:", bucket):  # the client's error would name it
        raise ConfigError(
            f"{mask_credentials(path)!r} cannot be used: got credentials or a port before the "
            f"path; expected {scheme}://BUCKET/PATH. Give them in the environment, such as "
            "AWS_PROFILE, AWS_ENDPOINT_URL or GOOGLE_APPLICATION_CREDENTIALS."
        )
    try:
        kind = fsspec.get_filesystem_class(scheme)
        with asking(path):
            fs = fsspec.filesystem(scheme, **_settings(scheme), **kind._get_kwargs_from_urls(path))
    except (ValueError, ImportError) as error:
        raise ConfigError(
            f"no file system for {mask_credentials(path)!r}: got scheme {scheme!r} ({error}); "
            "expected a local path or one of memory, s3, gs, https. For s3 install the extra "
            "'s3', for gs the extra 'gcs'."
        ) from error
    return fs, str(kind._strip_protocol(path))


@contextmanager
def at(path: str) -> Iterator[tuple[AbstractFileSystem, str]]:
    """Resolve a path for requests about it; see `resolve`, and `asking` for their errors."""
    with asking(path):
        yield resolve(path)


def real_place(path: str) -> str:
    """Return a path without symbolic links; a remote one as it is. No store is opened for that.

    Raises:
        ConfigError: The path holds a NUL.
    """
    _check_no_nul(path)
    path = re.sub("^(file|local)://", "", path)
    return path if "://" in path else os.path.realpath(os.path.expanduser(path))


def _check_no_nul(path: str) -> None:
    if "\0" in path:
        raise ConfigError(
            f"path {mask_credentials(path)!r} cannot be used: got a NUL character in it; expected "
            "none, since no file system has such names. Check what wrote the path."
        )


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


def names_host(path: str) -> bool:
    """Tell whether a path may lead to another machine: its name alone says so, nobody is asked."""
    return "://" in path


def without_query(path: str) -> str:
    """Return a path, that of a web server without its query, which may hold a key."""
    return path.partition("?")[0] if is_web(path) else path


def is_missing(path: str) -> bool:
    """Tell whether a path of this machine, or a glob, has no file now."""
    is_there = "://" in path or os.path.lexists(path)
    return not is_there and next(glob.iglob(path, recursive=True), None) is None


def protocols(fs: AbstractFileSystem) -> frozenset[str]:
    """Return the schemes that a file system goes by."""
    return frozenset([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
