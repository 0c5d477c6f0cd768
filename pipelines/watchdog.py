"""End a run at once when a worker process died, or when the user interrupts it.

Beam 2.77 notices the death only in the threads that wait for the process and listen to it, where
the error is lost, while the job keeps waiting for the worker's answer. A worker killed for memory
thus looks like a run without end.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from pipelines.exit_status import interrupted
from pipelines.printing import escape_text
from pipelines.private_folder import remove_private_folders

_INTERRUPTED = (f"return code -{signal.SIGINT.value}", f"return code {128 + signal.SIGINT.value}")
"""How Beam says that a worker was interrupted, as all processes of a terminal are by Ctrl-C."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

WORKER_THREAD = "run_worker"
"""Name of the thread in which a worker process is waited for."""

_leaving = threading.Event()
"""Set when this process ends itself: workers that die from then on were ended by it."""

_LISTENING_THREAD = "beam_control_read"
"""Name of the thread in which Beam listens to a worker, wherever that runs."""

WORKER_START_SECONDS = 180.0
"""A worker imports its libraries in ten seconds, or in a hundred on a machine that is very busy."""

_RETURN_CODE_SECONDS = 2.0
"""How long to wait for the return code of a worker whose connection broke. One in a worker pool has
none that we could learn."""

_LAST_CALL_SECONDS = 10.0
"""How long to wait for what killed workers last asked of the file system."""


@contextmanager
def end_when_a_worker_dies(terminal: TextIO, log: Path | None, status: int) -> Iterator[None]:
    """End this process with a message as soon as one of its worker processes has died.

    Parts are whole or missing, so the same command continues afterwards. The other workers end by
    themselves when their connection to this process breaks.

    Args:
        terminal: Where to say what happened.
        log: What the workers wrote.
        status: Exit status.
    """
    before = threading.excepthook

    def end(error: threading.ExceptHookArgs, /) -> None:
        thread = "" if error.thread is None else error.thread.name
        if _leaving.is_set() and thread in (WORKER_THREAD, _LISTENING_THREAD):
            return
        if thread == _LISTENING_THREAD:
            time.sleep(_RETURN_CODE_SECONDS)
            said = "its connection broke"
        elif thread == WORKER_THREAD:
            said = escape_text(str(error.exc_value))
        else:
            before(error)
            return
        if said.endswith(_INTERRUPTED):
            _leave_interrupted(terminal, log, signal.SIGINT)
        terminal.write(
            f"bertscore-beam: a worker process died ({said}). A return code of 137 or -9 means "
            "that it was killed, most often for lack of memory: try fewer --workers or a smaller "
            "--split-rows. What was committed is kept; the same command goes on from there."
            f"{'' if log is None else f' What the workers said is in {log}.'}\n"
        )
        terminal.flush()
        leave(status)

    threading.excepthook = end
    try:
        yield
    finally:
        threading.excepthook = before


@contextmanager
def end_when_workers_do_not_come(
    expected: int, terminal: TextIO, status: int, seconds: float = WORKER_START_SECONDS
) -> Iterator[None]:
    """End this process with a message if not all workers have connected after a while.

    One that a pool started, and that died before it connected, has no connection that could break.

    Args:
        expected: Workers that will connect; 0 when they are in this process.
        terminal: Where to say what happened.
        status: Exit status.
        seconds: How long to wait.
    """
    stop = threading.Event()

    def watch() -> None:
        end = time.monotonic() + seconds
        while not stop.wait(1.0):
            connected = sum(thread.name == _LISTENING_THREAD for thread in threading.enumerate())
            if connected >= expected:
                return
            if time.monotonic() > end:
                terminal.write(
                    f"bertscore-beam: {connected} of {expected} workers connected within "
                    f"{seconds:.0f} s; expected all. Look after the worker pool. What was "
                    "committed is kept; the same command goes on from there.\n"
                )
                terminal.flush()
                leave(status)

    watching = threading.Thread(target=watch, daemon=True)
    if expected:
        watching.start()
    try:
        yield
    finally:
        stop.set()


@contextmanager
def end_when_interrupted(
    terminal: TextIO, log: Path | None, *, elsewhere: bool = False
) -> Iterator[None]:
    """End this process at once on SIGINT or SIGTERM, with the status a shell gives such an end.

    What is committed is whole, so nothing need be undone.

    Args:
        terminal: Where to say so.
        log: What the workers wrote; of no use then, and deleted.
        elsewhere: Whether the job runs on machines that do not end with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        _leave_interrupted(terminal, log, signal.Signals(number), elsewhere=elsewhere)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_interrupted(
    terminal: TextIO, log: Path | None, number: signal.Signals, *, elsewhere: bool = False
) -> NoReturn:
    terminal.write(
        f"\nbertscore-beam: interrupted ({number.name}). What was committed is kept; the same "
        "command goes on from there.\n"
        + (
            "The job itself may go on where it was submitted: stop it there if it should not.\n"
            if elsewhere
            else ""
        )
    )
    terminal.flush()
    if log is not None:
        log.unlink(missing_ok=True)
    leave(interrupted(number))


def leave(status: int) -> NoReturn:
    """End this process at once, from any thread, after the worker processes that it started.

    A worker that has not connected yet would wait for two minutes and keep its memory. One that is
    killed first ends what it asked of the file system, such as to rename a part; it is waited for,
    so that an ended run no longer changes its folder.
    """
    _leaving.set()
    workers = descendants(os.getpid())
    for process in workers:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    end = time.monotonic() + _LAST_CALL_SECONDS
    while any(map(_is_alive, workers)) and time.monotonic() < end:
        time.sleep(0.01)
    remove_private_folders()
    os._exit(status)


def descendants(process: int) -> list[int]:
    """Return the processes that a process started, and theirs, where /proc tells of them."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in descendants(child)]


def _is_alive(process: int) -> bool:
    """Whether a thread of a process runs: the first may be dead while another still writes."""
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                # "id (name) state ...", where a name may hold anything.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    return True
    return False
