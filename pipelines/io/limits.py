"""How long a path may be: a name that cannot be written is known before the work begins."""

import os

from fsspec.implementations.local import LocalFileSystem

from pipelines.io.files import PUT_IS_WHOLE, TEMPORARY_PREFIX, protocols, resolve

# Bytes of a path with its closing zero, on Linux; and of a key on S3, Google Cloud Storage, Azure.
_PATH_BYTES = 4096
_KEY_BYTES = 1024
# The longest names that are written below the name of an input: see `write_atomically`, `manifest`.
_TEMPORARY = TEMPORARY_PREFIX + 32 * "0"
_RECORD = "part-000000000000.parquet.json"


def too_long_to_read(path: str) -> str | None:
    """Say why the path of a file is too long to be opened; None if it is not."""
    fs, inner = resolve(path)
    size = len(os.fsencode(inner))
    if isinstance(fs, LocalFileSystem) and size >= _PATH_BYTES:
        return f"its path takes {size} bytes; expected less than {_PATH_BYTES}."
    return None


def too_long_to_write(records: str, input_name: str) -> str | None:
    """Say why the parts of an input cannot be written; None if they can, as far as can be told.

    Args:
        records: The folder of the parts' records, which have the longest paths of all.
        input_name: Name of the input below it.
    """
    fs, inner = resolve(records)
    if isinstance(fs, LocalFileSystem):
        return _too_long_for_disk(inner, input_name)
    key = f"{inner}/{input_name}/{_RECORD}".lstrip("/").partition("/")[2]
    size = len(key.encode())
    if protocols(fs) & PUT_IS_WHOLE - {"memory"} and size > _KEY_BYTES:
        return f"the record of its part has a key of {size} bytes; expected at most {_KEY_BYTES}."
    return None


def _too_long_for_disk(folder: str, input_name: str) -> str | None:
    size = len(os.fsencode(f"{folder}/{input_name}/{_TEMPORARY}"))
    if size >= _PATH_BYTES:
        return f"the path of its parts takes {size} bytes; expected less than {_PATH_BYTES}."
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    limit = os.pathconf(folder, "PC_NAME_MAX")
    longest = max(len(os.fsencode(name)) for name in input_name.split("/"))
    if longest > limit:
        return f"a folder for its parts has a name of {longest} bytes; expected at most {limit}."
    return None
