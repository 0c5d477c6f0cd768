"""One run at a time on an output folder.

    OUT/_manifest/lock.json    who works on the folder, and how often it has shown a sign of life

A run that meets a lock is refused while the other lives. A lock is stale at once when its process
ran on this machine and is gone, and otherwise when the count of heartbeats has stood still for
`STALE_SECONDS` on the watch of the one who looks: clocks of two machines are never compared.

Whoever takes a stale lock over may be wrong: the other was only asleep. So a worker makes sure that
its run still owns the folder before it writes, and a run that has lost it ends.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bertscore_core.errors import BertScoreError, ConfigError
from pipelines.io.files import (
    create_exclusively,
    delete,
    is_remote,
    join,
    mask_credentials,
    read_bytes,
    write_atomically,
)

LOCK_FILE = "_manifest/lock.json"
BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""Six heartbeats: a store that answers slowly for a while costs no run its lock."""

_MOMENT_SECONDS = 0.2
_SETTLE_SECONDS = 1.0
"""Time in which two who take the same lock over at once see who came last."""


class FolderInUseError(ConfigError):
    """Another run is at work on the output folder."""


class FolderLostError(BertScoreError):
    """Another run has taken the output folder over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who works on a folder.

    Attributes:
        run: Identifies the run.
        machine: Name of its host.
        process: Process number there.
        place: What tells processes of equal number apart: the machine's start, the container, and
            when the process began; "" where the system does not say.
        beats: Signs of life so far.
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
        """Read a lock's content, None if that is nothing of ours."""
        try:
            fields: dict[str, Any] = json.loads(data)
            holder = cls(**fields)
        except (ValueError, TypeError):
            return None
        right = type(holder.process) is int and type(holder.place) is str
        return holder if right else None

    def is_gone(self) -> bool:
        """Tell for certain that the process is gone; False where that cannot be known."""
        mine = _place(os.getpid())
        if not self.place or not mine or _container(self.place) != _container(mine):
            return False
        there = _place(self.process)
        return there != self.place if there else not _exists(self.process)

    def is_alive(self) -> bool:
        """Tell for certain that the process lives; False where that cannot be known."""
        return bool(self.place) and _place(self.process) == self.place


@dataclass(frozen=True, slots=True)
class RunLock:
    """A lock that is held.

    Attributes:
        output: Folder of the run.
        run: Identifies the run; what workers compare.
    """

    output: str
    run: str

    def check(self) -> None:
        """Make sure that the run still owns the folder.

        Raises:
            FolderLostError: it does not.
            OSError: the folder cannot be reached.
        """
        path = join(self.output, LOCK_FILE)
        found = _read(path)
        if found is None:  # where files are moved by copying, one may be away for a moment
            time.sleep(_MOMENT_SECONDS)
            found = _read(path)
        holder = None if found is None else Holder.from_json(found)
        if holder is None or holder.run != self.run:
            raise FolderLostError(
                f"output {mask_credentials(self.output)!r} belongs to another run now: got "
                f"{_describe(holder)}; expected this one. Let the other finish; nothing is lost."
            )

    def release(self) -> None:
        """Delete the lock, which this run must still hold.

        Raises:
            FolderLostError: it does not.
            OSError: the folder cannot be reached.
        """
        self.check()
        delete(join(self.output, LOCK_FILE))


def check_held(lock: RunLock | None) -> None:
    """Make sure that a run still owns its folder, as `RunLock.check` does; None is not checked."""
    if lock is not None:
        lock.check()


@contextmanager
def hold(
    output: str,
    *,
    say: Callable[[str], None],
    lost: Callable[[FolderLostError], None],
    handed_over: threading.Event | None = None,
) -> Iterator[RunLock]:
    """Hold the lock of an output folder while the body runs.

    Args:
        output: Folder of the run.
        say: Told why it takes a while, when it does.
        lost: Called in another thread when another run has taken the folder over.
        handed_over: Set by the body when it leaves the lock to the workers of a job that goes on
            without this process. It shows no sign of life from then on, so that another run may
            take it over, after which these workers write nothing more.

    Raises:
        FolderInUseError: another run is at work on the folder.
        OSError: the folder cannot be written.
    """
    holder = Holder.here()
    _acquire(join(output, LOCK_FILE), holder, say)
    lock = RunLock(output, holder.run)
    stop = threading.Event()
    beating = threading.Thread(target=_beat, args=(lock, holder, stop, lost), daemon=True)
    beating.start()
    try:
        yield lock
    finally:
        stop.set()
        beating.join()
        if handed_over is None or not handed_over.is_set():
            with suppress(Exception):  # a lock that stays is stale, and no harm
                lock.release()


def _acquire(path: str, holder: Holder, say: Callable[[str], None]) -> None:
    """Get the lock, taking it over from a run that is gone."""
    mine = holder.to_json()
    while True:
        try:
            create_exclusively(path, mine)
        except FileExistsError:
            there = _read(path)
            if there is None:
                continue
            # An answer that got lost is asked for again, and then finds what it wrote itself.
            if there != mine:
                _wait_until_stale(path, there, say)
                if _read(path) != there:
                    continue
                write_atomically(path, mine)
                time.sleep(_SETTLE_SECONDS)
        else:
            if is_remote(path):  # not every store that speaks S3 knows how to write exclusively
                time.sleep(_SETTLE_SECONDS)
        now = _read(path)
        if now == mine:
            return


def _wait_until_stale(path: str, there: bytes, say: Callable[[str], None]) -> None:
    """Return when the lock is stale or released.

    Raises:
        FolderInUseError: its holder lives.
    """
    holder = Holder.from_json(there)
    if holder is not None and holder.is_gone():
        say(f"An earlier run ({_describe(holder)}) ended without releasing the output; going on.")
        return
    if holder is None or not holder.is_alive():
        say(
            f"The output is locked by {_describe(holder)}; watching for {STALE_SECONDS:.0f} s "
            "whether that run still lives."
        )
        end = time.monotonic() + STALE_SECONDS
        now: bytes | None = there
        while now == there and time.monotonic() < end:
            time.sleep(1.0)
            now = _read(path)
        if now in (there, None):
            return
    raise FolderInUseError(
        f"another run is at work on this output: got a lock of {_describe(holder)}; expected none. "
        "Wait until it is done, stop it, or choose another --output."
    )


def _beat(
    lock: RunLock,
    holder: Holder,
    stop: threading.Event,
    lost: Callable[[FolderLostError], None],
) -> None:
    """Show signs of life until told to stop."""
    while not stop.wait(BEAT_SECONDS):
        # A bad moment of the disk or the store, whatever it raises, costs a beat; if it lasts,
        # no part can be written either.
        with suppress(Exception):
            started = time.monotonic()
            try:
                lock.check()
                holder = replace(holder, beats=holder.beats + 1)
                write_atomically(join(lock.output, LOCK_FILE), holder.to_json())
                if time.monotonic() - started > STALE_SECONDS:
                    raise FolderLostError(
                        f"output {mask_credentials(lock.output)!r} took too long for a heartbeat: "
                        f"got more than {STALE_SECONDS:.0f} s, in which another run may have taken "
                        "it over; expected less. Run the same command again; nothing is lost."
                    )
            except FolderLostError as error:
                lost(error)
                return


def _read(path: str) -> bytes | None:
    with suppress(FileNotFoundError):
        return read_bytes(path)
    return None


def _describe(holder: Holder | None) -> str:
    return "nobody known" if holder is None else f"process {holder.process} on {holder.machine}"


def _place(process: int) -> str:
    """Say where a process lives and since when: "boot/container/start", "" if that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        container = os.readlink("/proc/self/ns/pid")
        # The name of the program, in parentheses, may hold blanks; the start is field 22.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A dead process whose parent has not asked for its status yet is still listed, as Z.
    return f"{boot}/{container}/{'gone' if fields[0] == 'Z' else fields[19]}"


def _exists(process: int) -> bool:
    """Tell whether there is a process of that number, even one that we may not look at."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _container(place: str) -> str:
    return place.rpartition("/")[0]
