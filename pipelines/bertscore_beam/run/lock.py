"""One run at a time on an output folder.

    OUT/_manifest/lock.json    the process that works on the folder, and its heartbeats so far

A run that finds a lock is refused while the holder lives. A lock is stale at once if its process
ran on this machine and has ended. Otherwise it is stale if the number of heartbeats has not changed
for `STALE_SECONDS`, measured by the run that waits: clocks of two machines are never compared.

A stale lock can be taken over by mistake, if its holder was only suspended, and workers on other
machines may outlive the command that started them. So a worker checks before it writes that its run
still holds the lock, and a run that has lost the lock ends.

On a local disk a worker looks at the lock before each write. On an object store, where a look is a
request, it writes for `LOOK_SECONDS` after a look. So a run that takes over a lock there, or finds
one that an unfinished run has left, waits for longer than that before it reads or changes anything.
A write that was sent before may still arrive later, on any store: see `run.success`.
"""

import posixpath
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.delete import delete, delete_if_empty, is_empty_folder
from bertscore_beam.files.paths import is_remote, join
from bertscore_beam.files.read import read_bytes
from bertscore_beam.files.write import create_exclusively, write_atomically
from bertscore_beam.run.holder import Holder, describe
from bertscore_core.errors import BertScoreError, ConfigError

LOCK_FILE = "_manifest/lock.json"
BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""Six heartbeats: a run keeps its lock while the store is slow for a moment."""

LOOK_SECONDS = 5.0
"""How long a worker may write to an object store after it has seen that its run holds the lock."""

LEASE_SECONDS = LOOK_SECONDS + 1.0
"""How long a run that takes over a lock there waits, so that no worker of the other still writes.
The clocks of two machines may run at different speeds, so it is a little more."""

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
        """Check before a write that the run still holds the lock; see the head of this file.

        Raises:
            FolderLostError: It does not.
            OSError: The folder cannot be reached.
        """
        if not is_remote(self.output):
            self.look()
        elif not _LOOKS.is_fresh(self):
            began = Moment.now()
            self.look()
            _LOOKS.note(self, began)

    def look(self) -> None:
        """Look whether the run still holds the lock.

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
                f"{describe(holder)}; expected this one. Let the other finish; nothing is lost."
            )

    def release(self) -> None:
        """Delete the lock, which this run must still hold.

        Raises:
            FolderLostError: It does not.
            OSError: The folder cannot be reached.
        """
        self.look()
        _LOOKS.forget()
        delete(join(self.output, LOCK_FILE))

    def leave(self, holder: Holder) -> None:
        """Give the lock up, which this run must still hold, while workers of it may still write.

        On an object store a lock stays that tells so; on a local disk workers look before each
        write, and it is deleted.

        Raises:
            FolderLostError: The run does not hold the lock.
            OSError: The folder cannot be reached.
        """
        if not is_remote(self.output):
            self.release()
            return
        self.look()
        _LOOKS.forget()
        write_atomically(join(self.output, LOCK_FILE), replace(holder, run="").to_json())


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by two clocks of this machine, in seconds.

    Attributes:
        running: By a clock that nobody sets; it may stand still while the machine is suspended.
        wall: The time of day, which may be set.
    """

    running: float
    wall: float

    @classmethod
    def now(cls) -> "Moment":
        """Return this moment."""
        return cls(running=time.monotonic(), wall=time.time())

    def is_within(self, seconds: float, now: "Moment") -> bool:
        """Tell whether less time has passed until now, by both clocks."""
        return all(
            0 <= passed < seconds for passed in (now.running - self.running, now.wall - self.wall)
        )


class _Looks:
    """When this process last began to look at a lock and saw that its run holds it."""

    def __init__(self) -> None:
        self._began: dict[RunLock, Moment] = {}

    def is_fresh(self, lock: RunLock) -> bool:
        began = self._began.get(lock)
        return began is not None and began.is_within(LOOK_SECONDS, Moment.now())

    def note(self, lock: RunLock, began: Moment) -> None:
        self._began = {lock: began}  # a process works for one run at a time

    def forget(self) -> None:
        self._began = {}


_LOOKS = _Looks()


@contextmanager
def hold(
    output: str,
    *,
    say: Callable[[str], None],
    lost: Callable[[FolderLostError], None],
    handed_over: threading.Event | None = None,
    at_work: threading.Event | None = None,
) -> Iterator[RunLock]:
    """Hold the lock of an output folder while the body runs.

    Args:
        output: Folder of the run.
        say: Prints why the command waits, if it does.
        lost: Called in another thread when another run has taken the folder over.
        handed_over: Set by the body when it leaves the lock to the workers of a detached job. The
            heartbeats end then, so another run can take the folder over. These workers write
            nothing after that.
        at_work: Set by the body when workers begin. If it fails after that, some of them may still
            write for a moment, and the lock tells so to the next run.

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
    is_done = False
    try:
        yield lock
        is_done = True
    finally:
        stop.set()
        beating.join()
        if handed_over is None or not handed_over.is_set():
            with suppress(Exception):  # a lock that stays is stale, which does no harm
                if is_done or at_work is None or not at_work.is_set():
                    lock.release()
                else:
                    lock.leave(holder)
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
                with suppress(FileNotFoundError):  # of a temporary file: another run cleans up
                    write_atomically(path, mine)
                time.sleep(LEASE_SECONDS if is_remote(path) else _SETTLE_SECONDS)
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
    if holder is not None and holder.has_left:
        return
    if holder is not None and holder.is_gone():
        say(
            f"An earlier run ({describe(holder)}) ended without releasing the output. This one "
            "takes it over."
        )
        return
    if holder is None or not holder.is_alive():
        say(
            f"The output is locked by {describe(holder)}; watching for {STALE_SECONDS:.0f} s "
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
        f"another run is at work on this output: got a lock of {describe(holder)}; expected none. "
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
                lock.look()
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
