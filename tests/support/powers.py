"""Let permissions count for root too: a folder that may not be read is one in every test."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_VERSION = 0x20080522
_CAP_DAC = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@contextlib.contextmanager
def shut(*folders: Path) -> Iterator[None]:
    """Take all permissions of some folders away, and root's power to do without them.

    The power is that of this thread and of those that it starts.
    """
    modes = [folder.stat().st_mode for folder in folders]
    for folder in folders:
        folder.chmod(0)
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", _VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _check(libc.capget(header, data))
    words = list(struct.unpack("6I", data.raw))
    words[0] &= ~_CAP_DAC  # the effective ones of the first 32
    try:
        _check(libc.capset(header, struct.pack("6I", *words)))
        yield
    finally:
        _check(libc.capset(header, data.raw))
        for folder, mode in zip(folders, modes, strict=True):
            folder.chmod(mode)


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
