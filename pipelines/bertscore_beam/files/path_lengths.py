"""How long a path may be, so that a name that cannot be written is found before the work."""

import os
import posixpath
from collections.abc import Iterable

from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.paths import PUT_IS_WHOLE, TEMPORARY_PREFIX, protocols, resolve

# Bytes of a path with its closing zero, on Linux; and of a key on S3, Google Cloud Storage, Azure.
_PATH_BYTES = 4096
_KEY_BYTES = 1024
# The name of a local file until it is complete, in the same folder: see `write_atomically`.
_TEMPORARY = TEMPORARY_PREFIX + 32 * "0"


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
