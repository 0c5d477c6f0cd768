"""End a run at once when a worker process dies, or when the user interrupts it.

Beam 2.77 notices the death of a worker only in the threads that wait for the process or listen to
it. The error is lost there, and the job waits for the worker's answer forever.
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

from bertscore_beam.run.exit_status import BROKEN, interrupted, is_death
from bertscore_beam.run.live import LastReport, last_report
from bertscore_beam.run.printing import escape_text
from bertscore_beam.run.private_folder import remove_private_folders
from bertscore_beam.run.supervised import (
    Death,
    advice_for,
    note_death,
    status_of_a_death,
    supervisor_folder,
)

_INTERRUPTED = (-signal.SIGINT, interrupted(signal.SIGINT))
"""Return codes of an interrupted worker. Ctrl-C interrupts all processes of a terminal."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

WORKER_THREAD = "run_worker"
"""Name of the thread that waits for a worker process."""

_leaving = threading.Event()
"""Set when this process ends its workers: their deaths are no errors then."""

_LISTENING_THREAD = "beam_control_read"
"""Name of the thread in which Beam listens to a worker, local or not."""

WORKER_START_SECONDS = 180.0
"""How long a worker may take to connect. It imports its libraries in ten seconds, on a very busy
machine in a hundred."""

_RETURN_CODE_SECONDS = 2.0
"""How long to wait for the return code of a worker whose connection broke. A worker of a pool never
reports one."""

_NOTICE_SECONDS = 0.5
"""How much later the thread that listens to a worker may notice its death than the runner does."""

_CONNECTION_BROKE = "Channel closed prematurely"
"""What the runner's error says when the data of a worker ends too early."""

_LAST_CALL_SECONDS = 10.0
"""How long to wait for the last file operations of killed workers."""


class WorkerExitError(RuntimeError):
    """A worker process has ended with an error.

    Attributes:
        process: Its number.
        code: Its return code.
    """

    def __init__(self, process: int, code: int) -> None:
        """Keep both."""
        super().__init__(f"return code {code}")
        self.process = process
        self.code = code


@contextmanager
def end_when_a_worker_dies(terminal: TextIO, log: Path | None) -> Iterator[None]:
    """End this process with a message as soon as one of its worker processes has died.

    Parts are whole or missing, so the same command can continue. The other workers end when their
    connection to this process breaks. A supervisor is told, and prints the message itself.

    Args:
        terminal: Where to print the message.
        log: The log of the workers.
    """
    before = threading.excepthook
    dying = threading.Event()
    telling = threading.Lock()  # never released: the first who tells ends this process

    def end_with(error: BaseException | None) -> NoReturn:
        telling.acquire()
        _leave_after_a_death(error, terminal, log)

    def end(error: threading.ExceptHookArgs, /) -> None:
        thread = "" if error.thread is None else error.thread.name
        if _leaving.is_set():  # Beam's threads lose their workers; the reason has been said
            return
        if thread not in (WORKER_THREAD, _LISTENING_THREAD):
            before(error)
            return
        dying.set()
        if thread == _LISTENING_THREAD:
            time.sleep(_RETURN_CODE_SECONDS)
            end_with(None)
        if getattr(error.exc_value, "code", None) in _INTERRUPTED:
            _leave_interrupted(terminal, log, signal.SIGINT)
        end_with(error.exc_value)

    threading.excepthook = end
    try:
        yield
    except Exception as error:
        # The runner may fail on the broken connection first. The thread above knows the cause, and
        # ends this process when it has said so.
        if dying.wait(_NOTICE_SECONDS):
            time.sleep(_RETURN_CODE_SECONDS + _LAST_CALL_SECONDS)
        elif _CONNECTION_BROKE in str(error):  # on a busy machine the thread is late
            end_with(None)
        raise
    finally:
        threading.excepthook = before


def _leave_after_a_death(
    error: BaseException | None, terminal: TextIO, log: Path | None
) -> NoReturn:
    """End this process since a worker has died, and say why.

    Args:
        error: How it ended; None if its connection broke.
        terminal: Where to print the message.
        log: The log of the workers.
    """
    code, report = None, LastReport()
    cause = "its connection broke" if error is None else escape_text(str(error))
    if isinstance(error, WorkerExitError):
        code, report = error.code, last_report(error.process)
        if report.words:
            cause = escape_text(report.words)
    may_go_on = error is None or (code is not None and is_death(code))
    advice, where = advice_for(code), "" if log is None else str(log)
    if may_go_on and supervisor_folder() is not None:
        note_death(Death(cause=cause, advice=advice, in_hand=report.in_hand, log=where))
        leave(status_of_a_death())
    hands = f" It was at work on {', '.join(report.in_hand)}." if report.in_hand else ""
    restarts = " (with --restarts N by itself)" if may_go_on else ""
    terminal.write(
        f"bertscore-beam: a worker process died ({cause}). {advice}{hands} Finished parts are "
        f"kept; the same command continues from there{restarts}."
        f"{where and f' The log of the workers is {where}.'}\n"
    )
    terminal.flush()
    leave(BROKEN)


@contextmanager
def end_when_workers_do_not_come(
    expected: int, terminal: TextIO, status: int, seconds: float = WORKER_START_SECONDS
) -> Iterator[None]:
    """End this process with a message if not all workers have connected after a while.

    A worker of a pool that dies before it connects has no connection that could break.

    Args:
        expected: Workers that will connect; 0 if they are in this process.
        terminal: Where to print the message.
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
                    f"{seconds:.0f} s; expected all. Check the worker pool. Finished parts are "
                    "kept; the same command continues from there.\n"
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
    """End this process at once on SIGINT or SIGTERM, with the status that a shell gives.

    Finished parts are whole, so nothing needs to be undone.

    Args:
        terminal: Where to print the message.
        log: The log of the workers, which is deleted.
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
        f"\nbertscore-beam: interrupted ({number.name}). Finished parts are kept; the same "
        "command continues from there.\n"
        + (
            "The job itself may continue where it was submitted: stop it there if it should not.\n"
            if elsewhere
            else ""
        )
    )
    terminal.flush()
    if log is not None:
        log.unlink(missing_ok=True)
    leave(interrupted(number))


def leave(status: int) -> NoReturn:
    """End this process at once, from any thread, after its worker processes.

    A worker that has not connected yet would otherwise wait for two minutes and keep its memory. A
    killed worker still completes its last file operation, such as renaming a part. Waiting for
    that makes sure that a run that has ended no longer changes its folder.
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
    """Return all child processes of a process, direct and indirect, where there is a /proc."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in descendants(child)]


def _is_alive(process: int) -> bool:
    """Whether any thread of a process runs: the first may have ended while another still writes."""
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                # "id (name) state ...", where the name may contain anything.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    return True
    return False
