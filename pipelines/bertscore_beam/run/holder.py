"""Which process holds the lock of an output folder, and whether it still lives."""

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass, fields
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
            the start of the process; "" where the system does not tell, and for a detached run.
        detached: Whether the run goes on when its process has ended.
    """

    run: str
    machine: str
    process: int
    place: str
    detached: bool = False

    @classmethod
    def here(cls, *, detached: bool = False) -> "Holder":
        """Return this process as the holder of a new run."""
        process = os.getpid()
        return cls(
            run=uuid.uuid4().hex,
            machine=socket.gethostname(),
            process=process,
            place="" if detached else _place(process),
            detached=detached,
        )

    def to_json(self) -> bytes:
        """Return the lock's content."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Holder | None":
        """Read a lock's content; None if it is not a lock of this program."""
        try:
            read: dict[str, Any] = json.loads(data)
            # Locks of earlier versions have a field more.
            holder = cls(**{one.name: read[one.name] for one in fields(cls) if one.name in read})
        except (ValueError, TypeError):
            return None
        is_valid = type(holder.process) is int and type(holder.place) is str
        is_named = type(holder.run) is str and (holder.run.isalnum() or holder.has_left)
        return holder if is_valid and is_named else None

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
    if holder is None:
        return "an unknown process"
    of = "the detached job submitted by " if holder.detached else ""
    return f"{of}process {holder.process} on {holder.machine}"


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
