"""One launcher at a time on a folder of a local disk, and one publication.

The system holds the lock on a file of the folder, and lets go of it when the process has ended, in
whatever way. A job that a service runs publishes in a worker, which may outlive its launcher: so a
publication has a lock of its own, and waits for it. In an object store nobody needs to be alone:
see `run.publication`.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote, join, resolve
from bertscore_core.errors import ConfigError


class FolderInUseError(ConfigError):
    """Another run is at work on the output folder."""


LOCK_FILE = "_work/lock"
PUBLISHING_FILE = "_work/publishing"
_WHO = 200
"""Most bytes that say who has the lock."""
_LOOK_SECONDS = 0.1
"""How often to look whether another process has ended its publication."""


@contextmanager
def alone(output: str) -> Iterator[None]:
    """Keep other launchers from a folder while the body runs.

    Raises:
        FolderInUseError: Another launcher has it.
        ConfigError: Its disk knows no locks.
    """
    if is_remote(output):
        yield
        return
    path, folder = resolve(join(output, LOCK_FILE))[1], resolve(output)[1]
    was_empty = os.path.isdir(folder) and not os.listdir(folder)
    descriptor = _locked(path, output)
    try:
        yield
    finally:
        _let_go(path, descriptor)
        with suppress(OSError):  # it is not empty
            if not was_empty:  # else it is left as it was
                os.rmdir(folder)


@contextmanager
def publishing(output: str) -> Iterator[None]:
    """Let no other process publish in a folder while the body runs.

    Raises:
        ConfigError: Its disk knows no locks.
    """
    if is_remote(output):
        yield
        return
    path, descriptor = resolve(join(output, PUBLISHING_FILE))[1], None
    while descriptor is None:
        try:
            descriptor = _locked(path, output)
        except FolderInUseError:
            time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        _let_go(path, descriptor)


def _let_go(path: str, descriptor: int) -> None:
    with suppress(OSError):  # what stays does no harm
        os.unlink(path)
    os.close(descriptor)
    with suppress(OSError):  # it is not empty
        os.rmdir(os.path.dirname(path))


def _locked(path: str, output: str) -> int:
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another launcher has just removed its folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            who = f"process {os.getpid()} on {socket.gethostname()}".encode()
            with suppress(OSError):  # the disk is full: the lock holds without words
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, who, 0)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
            os.close(descriptor)  # its last holder has removed it
        except BlockingIOError as error:
            who = os.pread(descriptor, _WHO, 0)
            os.close(descriptor)
            raise FolderInUseError(
                f"another run is at work on output {mask_credentials(output)!r}: got a lock of "
                f"{who.decode(errors='replace') or 'another process'}; expected none. Wait until "
                "it is done, stop it, or choose another --output."
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise ConfigError(
                f"output {mask_credentials(output)!r} cannot be locked: got {error}; expected a "
                "disk that knows locks (flock). Mount it with locks, or choose another --output."
            ) from error
