"""Encoders that were converted for OpenVINO before, kept on this machine as two files each.

Converting one takes most of the seconds that a small run takes.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "BERTSCORE_CACHE"
"""Environment variable that names another folder; if it is empty, nothing is kept."""

MOST_BYTES = 2 << 30
"""Bytes of all encoders together, and of what killed processes have left of others. Those that were
not used for longest are deleted."""

_NAMES = "encoder.xml", "encoder.bin"
_DIGESTS = "sha256"


def _cache_folder() -> Path | None:
    stated = os.environ.get(CACHE_VARIABLE)
    if stated is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "bertscore-beam" / "encoders"
    return Path(stated) / "encoders" if stated else None


def cache_key(**facts: object) -> str:
    """Return the name of an encoder by all that decides what it computes, and where."""
    stated = json.dumps(facts, sort_keys=True, default=bytes.hex)
    return hashlib.sha256(stated.encode()).hexdigest()[:32]


def find_encoder(key: str, read: Callable[[Path], Any]) -> Any | None:
    """Read a kept encoder; None if there is none, or if its bytes are not those written."""
    folder = _cache_folder()
    if folder is None or not _is_ours(folder):
        return None
    entry = folder / key
    if not entry.is_dir():
        return None
    try:
        if not all((entry / name).is_file() for name in (*_NAMES, _DIGESTS)):  # such as FIFOs
            raise ValueError("some of its files are missing")
        if (entry / _DIGESTS).read_text() != _digests(entry):
            raise ValueError("its bytes have changed")
        model = read(entry / _NAMES[0])
        os.utime(entry)
    except Exception as error:
        logger.warning("The encoder kept in %s cannot be used and is made anew: %s", entry, error)
        shutil.rmtree(entry, ignore_errors=True)
        return None
    return model


@contextmanager
def new_encoder(key: str | None, size: int) -> Iterator[Path | None]:
    """Yield where to write an encoder of `size` bytes; None if it is too large to be written.

    The block writes it, reads it back and uses what it read. So the first process gets the bits
    that later ones get: reading some architectures back moves them by rounding. If the block ends
    without an error, the encoder is kept under its key, if it has one and there is a place.
    """
    if size > MOST_BYTES // 4:
        yield None
        return
    folder = None if key is None else _usable_folder()
    with tempfile.TemporaryDirectory(prefix="new-", dir=folder, ignore_cleanup_errors=True) as name:
        made = Path(name) / "encoder"
        made.mkdir()
        yield made / _NAMES[0]
        if folder is not None and key is not None:
            try:
                (made / _DIGESTS).write_text(_digests(made))
                made.rename(folder / key)
                _make_room(folder)
            except OSError as error:  # another process was faster, or the disk is full
                logger.info("The converted encoder is not kept in %s: %s", folder, error)


def _usable_folder() -> Path | None:
    folder = _cache_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        has_room = shutil.disk_usage(folder).free > MOST_BYTES
    except OSError:
        return None
    return folder if has_room and _is_ours(folder) else None


def _is_ours(folder: Path) -> bool:
    """Tell whether nobody else can write there: what is read decides scores."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o22)


def _digests(entry: Path) -> str:
    digests = []
    for name in _NAMES:
        with (entry / name).open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return "\n".join(digests)


def _make_room(folder: Path) -> None:
    entries = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    total = 0
    for entry in entries:
        total += sum(path.stat().st_size for path in entry.rglob("*"))
        if total > MOST_BYTES:
            shutil.rmtree(entry, ignore_errors=True)
