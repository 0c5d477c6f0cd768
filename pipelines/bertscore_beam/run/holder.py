"""Which process holds the lock of an output folder, and whether it still lives."""

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that works on a folder.

    Attributes:
        run: Identifies the run; "" if it has ended.
        machine: Name of its host.
        process: Process number there.
        place: Distinguishes processes of equal number: the boot of the machine, the container, and
            the start of the process; "" where the system does not tell.
        beats: Heartbeats so far.
    """

    run: str
    machine: str
    process: int
    place: str
    beats: int = 0

    @classmethod
    def here(cls) -> "Holder":
        """Return this process as the holder of a new run."""
        process = os.getpid()
        return cls(
            run=uuid.uuid4().hex,
            machine=socket.gethostname(),
            process=process,
            place=_place(process),
        )

    def to_json(self) -> bytes:
        """Return the lock's content."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Holder | None":
        """Read a lock's content; None if it is not a lock of this program."""
        try:
            fields: dict[str, Any] = json.loads(data)
            holder = cls(**fields)
        except (ValueError, TypeError):
            return None
        is_valid = type(holder.process) is int and type(holder.place) is str
        return holder if is_valid else None

    @property
    def has_left(self) -> bool:
        """Whether the run has ended, and workers of it may still write for a moment."""
        return not self.run

    def is_gone(self) -> bool:
        """Whether the process has certainly ended; False if that cannot be known."""
        mine = _place(os.getpid())
        if not self.place or not mine or _container(self.place) != _container(mine):
            return False
        there = _place(self.process)
        return there != self.place if there else not _exists(self.process)

    def is_alive(self) -> bool:
        """Whether the process is certainly alive; False if that cannot be known."""
        return bool(self.place) and _place(self.process) == self.place


def describe(holder: Holder | None) -> str:
    """Name the process in words."""
    return (
        "an unknown process" if holder is None else f"process {holder.process} on {holder.machine}"
    )


def _place(process: int) -> str:
    """Return where and since when a process runs: "boot/container/start", "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        container = os.readlink("/proc/self/ns/pid")
        # The name of the program, in parentheses, may contain blanks; the start is field 22.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # An ended process is listed as Z until its parent reads its status.
    return f"{boot}/{container}/{'gone' if fields[0] == 'Z' else fields[19]}"


def _exists(process: int) -> bool:
    """Tell whether there is a process of that number, even another user's."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _container(place: str) -> str:
    return place.rpartition("/")[0]
