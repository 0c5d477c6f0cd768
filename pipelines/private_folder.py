"""Folders for sockets that only this user can reach.

A socket in the file system accepts connections only from users who may enter its folder.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from bertscore_core import ConfigError

_PREFIX = "bertscore-beam-sockets-"

_LONGEST_PATH = 103
"""Bytes that the path of a socket may have on every system; Linux takes 107."""

_held: dict[Path, int] = {}
"""The folders of this process, and the descriptors that hold their locks."""


def make_private_folder(longest_name: int) -> Path:
    """Make an empty folder that only this user may enter.

    It is locked as long as this process lives. Those that killed processes left are removed first.

    Args:
        longest_name: Characters of the longest name that a socket in it will have.

    Raises:
        ConfigError: there is no place for one.
    """
    tried = {Path(tempfile.gettempdir()), Path("/tmp")}  # noqa: S108 - mkdtemp is safe there
    for parent in sorted(tried, key=lambda path: path != Path(tempfile.gettempdir())):
        if not _fits(parent, longest_name):
            continue
        with suppress(OSError):
            _sweep(parent)
            return _make(parent)
    raise ConfigError(
        "no folder for the sockets of worker processes can be made: got "
        f"{', '.join(map(repr, map(str, tried)))}; expected one that can be written, with a path "
        f"of at most {_room(longest_name)} bytes and no comma. Set TMPDIR, or use --workers 1."
    )


def remove_private_folder(folder: Path) -> None:
    """Remove a folder that `make_private_folder` made."""
    descriptor = _held.pop(folder, None)
    shutil.rmtree(folder, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def remove_private_folders() -> None:
    """Remove all that this process has made: for one that ends without cleaning up."""
    for folder in list(_held):
        remove_private_folder(folder)


def _room(longest_name: int) -> int:
    """Return the bytes that the path of the folder above may have."""
    return _LONGEST_PATH - longest_name - len(_PREFIX) - len("12345678//")


def _fits(parent: Path, longest_name: int) -> bool:
    """Whether a socket there has an address: in lists of them a comma separates."""
    return len(os.fsencode(parent)) <= _room(longest_name) and "," not in str(parent)


def _make(parent: Path) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 0700
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process took it for abandoned, since it was not locked
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():  # else the same has happened a moment later
            _held[folder] = descriptor
            return folder
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    """Remove the folders of killed processes, which hold no locks any more."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
