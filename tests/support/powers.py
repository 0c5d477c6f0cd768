"""Let permissions count for root too, and disks be full: for the time of a test."""

import contextlib
import ctypes
import os
import resource
import signal
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


@contextlib.contextmanager
def small_files(most: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes.

    It stands for a full disk: the same call fails, with another number.
    """
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
