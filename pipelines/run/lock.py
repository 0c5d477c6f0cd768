"""One run at a time on an output folder.

    OUT/_manifest/lock.json    the process that works on the folder, and its heartbeats so far

A run that finds a lock is refused while the holder lives. A lock is stale at once if its process
ran on this machine and has ended. Otherwise it is stale if the number of heartbeats has not changed
for `STALE_SECONDS`, measured by the run that waits: clocks of two machines are never compared.

A stale lock can be taken over by mistake, if its holder was only suspended. So a worker checks
before it writes that its run still holds the lock, and a run that has lost the lock ends.
"""

import json
import os
import posixpath
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
from pipelines.files.credentials import mask_credentials
from pipelines.files.delete import delete, delete_if_empty, is_empty_folder
from pipelines.files.paths import is_remote, join
from pipelines.files.read import read_bytes
from pipelines.files.write import create_exclusively, write_atomically

LOCK_FILE = "_manifest/lock.json"
BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""Six heartbeats: a run keeps its lock while the store is slow for a moment."""

_RENAME_SECONDS = 0.2
"""How long a file may be missing where it is replaced by a copy and not by a rename."""

_MOST_LOST_FOLDERS = 3
"""How often to try again after another run has removed the folder that was just made."""

_SETTLE_SECONDS = 1.0
"""How long to wait after writing a lock, before reading who wrote it last."""


class FolderInUseError(ConfigError):
    """Another run is at work on the output folder."""


class FolderLostError(BertScoreError):
    """Another run has taken the output folder over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that works on a folder.

    Attributes:
        run: Identifies the run.
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


@dataclass(frozen=True, slots=True)
class RunLock:
    """A lock that is held.

    Attributes:
        output: Folder of the run.
        run: Identifies the run; workers compare it with the lock in the folder.
    """

    output: str
    run: str

    def check(self) -> None:
        """Check that the run still holds the lock.

        Raises:
            FolderLostError: It does not.
            OSError: The folder cannot be reached.
        """
        path = join(self.output, LOCK_FILE)
        found = _read(path)
        if found is None:
            time.sleep(_RENAME_SECONDS)
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
            FolderLostError: It does not.
            OSError: The folder cannot be reached.
        """
        self.check()
        delete(join(self.output, LOCK_FILE))


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
        say: Prints why the command waits, if it does.
        lost: Called in another thread when another run has taken the folder over.
        handed_over: Set by the body when it leaves the lock to the workers of a detached job. The
            heartbeats end then, so another run can take the folder over. These workers write
            nothing after that.

    Raises:
        FolderInUseError: Another run is at work on the folder.
        OSError: The folder cannot be written.
    """
    holder = Holder.here()
    path = join(output, LOCK_FILE)
    is_somebodys = is_empty_folder(output)
    _acquire(path, holder, say)
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
            with suppress(Exception):  # a lock that stays is stale, which does no harm
                lock.release()
                delete_if_empty(posixpath.dirname(path))
                if not is_somebodys:
                    delete_if_empty(output)


def _acquire(path: str, holder: Holder, say: Callable[[str], None]) -> None:
    """Get the lock, taking it over from a run that is gone."""
    mine = holder.to_json()
    while True:
        try:
            _create(path, mine)
        except FileExistsError:
            there = _read(path)
            if there is None:
                continue
            # If the answer of the store is lost, the client repeats the request, and finds its own
            # file.
            if there != mine:
                _wait_until_stale(path, there, say)
                if _read(path) != there:
                    continue
                write_atomically(path, mine)
                time.sleep(_SETTLE_SECONDS)
        else:
            if is_remote(path):  # not every S3-compatible store can create a file exclusively
                time.sleep(_SETTLE_SECONDS)
        now = _read(path)
        if now == mine:
            return


def _create(path: str, data: bytes) -> None:
    """Write a new lock, even if another run removes the folder as it releases its own lock."""
    for _ in range(_MOST_LOST_FOLDERS):
        with suppress(FileNotFoundError):
            create_exclusively(path, data)
            return
    create_exclusively(path, data)


def _wait_until_stale(path: str, there: bytes, say: Callable[[str], None]) -> None:
    """Return when the lock is stale or released.

    Raises:
        FolderInUseError: Its holder lives.
    """
    holder = Holder.from_json(there)
    if holder is not None and holder.is_gone():
        say(
            f"An earlier run ({_describe(holder)}) ended without releasing the output. This one "
            "takes it over."
        )
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
    """Write heartbeats until `stop` is set."""
    while not stop.wait(BEAT_SECONDS):
        # A short failure of the disk or the store, of any kind, only skips a heartbeat. During a
        # long one no part can be written either.
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
