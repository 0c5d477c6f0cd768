"""One run at a time on an output folder.

    OUT/_manifest/lock.json    the run that works on the folder
    OUT/_manifest/beat-RUN     its last heartbeat

A run that finds a lock is refused while the holder lives. A lock is stale at once if its process
ran on this machine and has ended. Otherwise it is stale if no heartbeat has come for
`STALE_SECONDS`, measured by the run that waits: clocks of two machines are never compared.

The command of a run writes the heartbeats. A detached job outlives its command. There, every worker
process writes them, too, unless another one has just done so. Before a heartbeat it looks whether
its run still holds the lock, and it never changes the lock itself. Workers may need minutes to
start. So the command beats as soon as it has the lock, and deletes its last heartbeat when they are
to start: without one such a job has `START_SECONDS`.

A stale lock can be taken over by mistake, if its holder was only suspended, and workers on other
machines may outlive the command that started them. So a worker checks before it writes that its run
still holds the lock, and a run that has lost the lock ends.

On a local disk a worker looks at the lock before each write. On an object store, where a look is a
request, it writes for `LOOK_SECONDS` after a look. So a run that takes over a lock there, or finds
one that an unfinished run has left, waits for longer than that before it reads or changes anything.
A write that was sent before may still arrive later, on any store: see `run.folder`.
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

from bertscore_beam.files.checked import typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_remote, join
from bertscore_beam.files.read import read_bytes
from bertscore_beam.files.write import (
    create_exclusively,
    delete,
    delete_if_empty,
    is_empty_folder,
    write_atomically,
)
from bertscore_beam.run.lease import LEASE_FILE, JobStillRunsError
from bertscore_core.errors import BertScoreError, ConfigError, load_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that works on a folder.

    Attributes:
        run: Identifies the run; "" if it has ended.
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
            holder = typed(cls, load_json(data))
        except (ValueError, AttributeError):
            return None
        return holder if holder.run.isalnum() or holder.is_draining else None

    @property
    def is_draining(self) -> bool:
        """Whether the run has ended, and workers of it may still write for a moment."""
        return not self.run

    def lives(self) -> bool | None:
        """Whether the process lives; None if that cannot be known here."""
        here = _place(os.getpid())
        if not self.place or not here or _container(self.place) != _container(here):
            return None
        place = _place(self.process)
        if place:
            return place == self.place
        return None if _exists(self.process) else False


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
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError) as error:
        return isinstance(error, PermissionError)
    return True


def _container(place: str) -> str:
    return place.rpartition("/")[0]


LOCK_FILE = "_manifest/lock.json"
BEAT_FILE = "_manifest/beat-"
"""Start of the name of the file of heartbeats; the run follows."""

BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""Six heartbeats, or three of a job with many workers: a run keeps its lock while the store is slow
for a moment."""

START_SECONDS = 900.0
"""How long a job that was submitted may be without a heartbeat until its workers begin. A machine
with a GPU on Dataflow takes up to some ten minutes until it has the image and its drivers."""

LOOK_SECONDS = 5.0
"""How long a worker may write to an object store after it has seen that its run holds the lock."""

LEASE_SECONDS = LOOK_SECONDS + 1.0
"""How long a run that takes over a lock there waits, so that no worker of the other still writes.
The clocks of two machines may run at different speeds, so it is a little more."""

_RENAME_SECONDS = 0.2
"""How long a file may be missing where it is replaced by a copy and not by a rename."""

_MOST_LOST_FOLDERS = 3
"""How often to try again after another run has removed the folder that was just made."""

_WATCH_SECONDS = 1.0
"""How often to look whether the holder of a lock gives a sign of life."""

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
        run: Identifies the run; workers compare it with the lock in the folder.
    """

    output: str
    run: str

    @property
    def beat_path(self) -> str:
        """The file of the run's heartbeats."""
        return _beat_path(self.output, self.run)

    def check(self) -> None:
        """Check before a write that the run still holds the lock; see the head of this file."""
        if not is_remote(self.output):
            self.look()
        elif not _is_fresh(self):
            began = _clocks()
            self.look()
            _looked[self] = began

    def look(self) -> None:
        """Look whether the run still holds the lock."""
        path = join(self.output, LOCK_FILE)
        content = _read(path)
        if content is None:
            time.sleep(_RENAME_SECONDS)
            content = _read(path)
        holder = None if content is None else Holder.from_json(content)
        if holder is None or holder.run != self.run:
            raise FolderLostError(
                f"output {mask_credentials(self.output)!r} belongs to another run now: got "
                f"{describe(holder)}; expected this one. Let the other finish; nothing is lost."
            )

    def release(self, draining: Holder | None = None) -> None:
        """Give the lock up, which this run must still hold.

        Args:
            draining: The holder, if workers of the run may still write. On an object store
                a lock that says so stays then; on a local disk workers look before each write.
        """
        self.look()
        _looked.clear()
        path = join(self.output, LOCK_FILE)
        if draining is not None and is_remote(path):
            write_atomically(path, replace(draining, run="").to_json())
        else:
            delete(path)
        delete(self.beat_path)

    def keep(self) -> None:
        """Let this process, a worker of a detached job, write heartbeats until the job is over."""
        # A heartbeat may have been on its way while the lock was released.
        arguments = (self, threading.Event(), lambda _: delete(self.beat_path))
        threading.Thread(target=_beat, args=arguments, daemon=True).start()


_looked: dict[RunLock, tuple[float, float]] = {}
"""When this process last began to look at a lock and saw that its run holds it, by `_clocks`."""


def _clocks() -> tuple[float, float]:
    """Return the time by two clocks: one may stand still during a suspension, one may be set."""
    return time.monotonic(), time.time()


def _is_fresh(lock: RunLock) -> bool:
    began = _looked.get(lock)
    if began is None:
        return False
    passed = [now - then for now, then in zip(_clocks(), began, strict=True)]
    return all(0 <= seconds < LOOK_SECONDS for seconds in passed)


@contextmanager
def hold(
    output: str,
    *,
    say: Callable[[str], None],
    lost: Callable[[FolderLostError], None],
    detached: bool = False,
    workers_began: threading.Event | None = None,
    end_job: Callable[[], bool] = lambda: False,
) -> Iterator[RunLock]:
    """Hold the lock of an output folder while the body runs.

    Args:
        output: Folder of the run.
        say: Prints why the command waits, if it does.
        lost: Called in another thread when another run has taken the folder over.
        detached: Whether the body submits a job that goes on when this process has ended. If it
            does not fail, the lock is left to the workers, which release it at the end of the job.
        workers_began: Set by the body when workers begin. If it fails after that, some of them may
            still write for a moment, and the lock tells so to the next run.
        end_job: Ends the job of a run whose command is gone, and tells whether there was one.

    Raises:
        FolderInUseError: Another run is at work on the folder.
        JobStillRunsError: The detached job of another run is.
        OSError: The folder cannot be written.
    """
    holder = Holder.here(detached=detached)
    was_there = is_empty_folder(output)  # empty, and not to be deleted at the end
    _acquire(output, holder, say, end_job)
    lock = RunLock(output, holder.run)
    stop = threading.Event()
    beating = threading.Thread(target=_beat, args=(lock, stop, lost), daemon=True)
    beating.start()
    is_done = False
    try:
        if detached:  # killed without a heartbeat, it would seem to have submitted its job
            write_atomically(lock.beat_path, uuid.uuid4().hex.encode())
        end_job()
        yield lock
        is_done = True
    finally:
        stop.set()
        beating.join()
        with suppress(Exception):  # a lock that stays is stale, which does no harm
            if is_done and detached:
                delete(lock.beat_path)
            else:
                may_write = not is_done and workers_began is not None and workers_began.is_set()
                lock.release(holder if may_write else None)
                delete_if_empty(posixpath.dirname(join(output, LOCK_FILE)))
                if not was_there:
                    delete_if_empty(output)


def _acquire(
    output: str, holder: Holder, say: Callable[[str], None], end_job: Callable[[], bool]
) -> None:
    path, content = join(output, LOCK_FILE), holder.to_json()
    former: Holder | None = None
    while True:
        try:
            _create(path, content)
        except FileExistsError:
            found = _read(path)
            if found is None:
                continue
            # If the answer of the store is lost, the client repeats the request, and finds its own
            # file.
            if found != content:
                former = Holder.from_json(found)
                _wait_for_folder(output, found, former, say, end_job)
                if _read(path) != found:
                    continue
                with suppress(FileNotFoundError):  # of a temporary file: another run cleans up
                    write_atomically(path, content)
                time.sleep(LEASE_SECONDS if is_remote(path) else _SETTLE_SECONDS)
        else:
            if is_remote(path):  # not every S3-like store can create a file exclusively
                time.sleep(_SETTLE_SECONDS)
        if _read(path) == content:
            if former is not None:
                with suppress(OSError):  # the file of a run that is gone harms nobody
                    delete(_beat_path(output, former.run))
            return


def _create(path: str, data: bytes) -> None:
    for _ in range(_MOST_LOST_FOLDERS):
        with suppress(FileNotFoundError):
            create_exclusively(path, data)
            return
    create_exclusively(path, data)


def _wait_for_folder(
    output: str,
    content: bytes,
    holder: Holder | None,
    say: Callable[[str], None],
    end_job: Callable[[], bool],
) -> None:
    """Wait until a run that has the folder is certainly gone, and its job has ended."""
    if holder is not None and holder.detached and end_job():
        return  # its workers were all that kept the folder
    _wait_until_stale(output, content, holder, say)
    end_job()


def _wait_until_stale(
    output: str, content: bytes, holder: Holder | None, say: Callable[[str], None]
) -> None:
    if holder is not None and holder.is_draining:
        return
    lives = None if holder is None else holder.lives()
    if lives is False:
        say(
            f"An earlier run ({describe(holder)}) was interrupted or has died. This one "
            "takes the output over."
        )
        return
    if lives is None:
        passed = _watch(output, content, holder, say)
        if passed is None:
            return
        if holder is not None and holder.detached:
            raise JobStillRunsError(
                f"{describe(holder)} is still running on this output: got a heartbeat {passed:.0f} "
                f"s after this command began to watch; expected none for {STALE_SECONDS:.0f} s. "
                "Wait until the job is done, cancel it, or choose another --output."
            )
    raise FolderInUseError(
        f"another run is at work on this output: got a lock of {describe(holder)}; expected none. "
        "Wait until it is done, stop it, or choose another --output."
    )


def _watch(
    output: str, content: bytes, holder: Holder | None, say: Callable[[str], None]
) -> float | None:
    path = join(output, LOCK_FILE)
    beat_path = None if holder is None else _beat_path(output, holder.run)
    before = None if beat_path is None else _read(beat_path)
    seconds, whether = STALE_SECONDS, "that run still lives"
    if holder is not None and holder.detached and before is None:
        seconds, whether = START_SECONDS, "its workers begin"
    say(
        f"The output is locked by {describe(holder)}; watching for {seconds:.0f} s whether "
        f"{whether}."
    )
    began = time.monotonic()
    while True:
        time.sleep(_WATCH_SECONDS)
        # In this order: a lock is given up before its heartbeat.
        beat = None if beat_path is None else _read(beat_path)
        lock = _read(path)
        passed = time.monotonic() - began
        if lock is None:
            return None
        if lock != content or beat != before:
            return passed
        if passed >= seconds:
            return None


def _beat(lock: RunLock, stop: threading.Event, lost: Callable[[FolderLostError], None]) -> None:
    """Write heartbeats until `stop` is set or the lock is lost; see the head of this file."""
    last: bytes | None = None
    while not stop.wait(BEAT_SECONDS):
        # A short failure of the disk or the store, of any kind, only skips a heartbeat. During a
        # long one no part can be written either.
        with suppress(Exception):
            try:
                lock.look()
            except FolderLostError as error:
                lost(error)
                return
            beat = _read(lock.beat_path)
            if beat in (last, None):  # no other worker has written one since
                beat = uuid.uuid4().hex.encode()
                write_atomically(lock.beat_path, beat)
            last = beat


def is_of_lock(name: str) -> bool:
    """Tell whether a file of an output folder, by its path below it, belongs to a lock."""
    return name in (LOCK_FILE, LEASE_FILE) or name.startswith(BEAT_FILE)


def _beat_path(output: str, run: str) -> str:
    return join(output, BEAT_FILE + run)


def _read(path: str) -> bytes | None:
    with suppress(FileNotFoundError):
        return read_bytes(path)
    return None
