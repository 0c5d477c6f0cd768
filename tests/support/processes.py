"""Processes on this machine, read from /proc."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.support.waiting import wait_until

_CHILD = b"bertscore_beam.run.child"
_BEAM = b"import SdkHarness"
"""In the words of a worker: of one that a command starts itself, and of one of Beam's pool."""


def children(process: int) -> list[int]:
    """Return the processes below one that run steps for it."""
    return workers_among(descendants(process))


def descendants(process: int) -> list[int]:
    """Return all living processes below one."""
    below = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():  # the child of any of its threads
            with contextlib.suppress(OSError):
                below += [int(word) for word in (task / "children").read_text().split()]
    return below + [found for child in below for found in descendants(child)]


def workers_among(processes: Iterable[int]) -> list[int]:
    """Return those that are workers, of the command itself or of Beam's pool."""
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if _CHILD in command or _BEAM in command:
                found.append(process)
    return found


def session_members(leader: int) -> list[int]:
    """Return all living processes of a session, also when its leader is gone.

    A command started with `start_new_session=True` leads a session; whatever it starts stays in it.
    """
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # "pid (name) state parent group session ..."; a name may hold anything.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(folder.name))
    return found


def send(process: int, number: signal.Signals) -> bool:
    """Send a signal to one process; False if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
        return True
    return False


def kill_session(leader: int) -> None:
    """Kill all processes of a session and wait until they are gone."""

    def are_gone() -> bool:
        return not [send(process, signal.SIGKILL) for process in session_members(leader)]

    wait_until(are_gone, 30)


@contextlib.contextmanager
def launched(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a session of its own, with what it says at the end of a file."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "bertscore_beam", *words],
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.wait()


def wait_until_gone(leader: int, seconds: float) -> list[int]:
    """Wait until no process of a session is left; return those that still are."""
    deadline = time.monotonic() + seconds
    while (members := session_members(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return members


def listening(processes: Iterable[int]) -> tuple[set[str], set[str]]:
    """Return where processes listen: TCP as /proc has it (address:port, in hex), Unix sockets."""
    own = {inode for process in processes for inode in _sockets(process)}
    ports, paths = set(), set()
    for family in ("tcp", "tcp6"):
        for line in _table(family):
            if line[9] in own and line[3] == "0A":  # LISTEN
                ports.add(line[1])
    for line in _table("unix"):
        if line[6] in own and line[3] == "00010000" and len(line) > 7:  # accepts connections
            paths.add(line[7])
    return ports, paths


def _table(name: str) -> Iterator[list[str]]:
    """Yield the lines of a table of sockets."""
    for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        yield line.split(maxsplit=7) if name == "unix" else line.split()


def _sockets(process: int) -> Iterator[str]:
    """Yield the inodes of a process's sockets."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                kind, _, inode = str(descriptor.readlink()).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")
