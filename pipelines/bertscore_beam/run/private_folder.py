"""Folders that only this user can reach, for the sockets and the progress of workers.

A socket in the file system accepts connections only from users who may enter its folder.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from bertscore_core import ConfigError

_PREFIX = "bertscore-beam-workers-"

_LONGEST_PATH = 103
"""Most bytes of a socket's path on every system; Linux allows 107."""

_held: dict[Path, int] = {}
"""The folders of this process, with the descriptors that hold their locks."""


def make_private_folder(longest_name: int) -> Path:
    """Make an empty folder that only this user may enter.

    It is locked while this process lives. Folders of killed processes are removed first.

    Args:
        longest_name: Characters of the longest name of a socket in it; 0 for no socket.

    Raises:
        ConfigError: No folder can be made.
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
    # Under another name a process that still writes there does not find it any more.
    gone = folder.with_name(f"{folder.name}-gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def remove_private_folders() -> None:
    """Remove all folders of this process, before it ends without other clean-up."""
    for folder in list(_held):
        remove_private_folder(folder)


def _room(longest_name: int) -> int:
    """Return the most bytes of the parent folder's path."""
    return _LONGEST_PATH - longest_name - len(_PREFIX) - len("12345678//")


def _fits(parent: Path, longest_name: int) -> bool:
    """Whether a socket there has a valid address: a comma separates addresses in a list."""
    return len(os.fsencode(parent)) <= _room(longest_name) and "," not in str(parent)


def _make(parent: Path) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 0700
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process removed it, since it was not locked yet
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():  # else another process removed it a moment later
            _held[folder] = descriptor
            return folder
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    """Remove the folders of killed processes: they are not locked."""
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
