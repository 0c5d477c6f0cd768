"""End a local run at once when a worker process died, or when the user interrupts it.

Beam 2.77 notices the death only in the thread that started the process, where the error is lost,
while the job goes on waiting for the worker's answer. A worker killed for memory thus looks like a
run without end.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TextIO

_INTERRUPTED = (f"return code -{signal.SIGINT.value}", f"return code {128 + signal.SIGINT.value}")
"""How Beam says that a worker was interrupted, as all processes of a terminal are by Ctrl-C."""

INTERRUPTED_STATUS = 130

_WORKER_THREAD = "run_worker"
"""Name of the thread in which Beam waits for a worker process."""


@contextmanager
def end_when_a_worker_dies(terminal: TextIO, log: Path | None, status: int) -> Iterator[None]:
    """End this process with a message as soon as one of its worker processes has died.

    Parts are whole or not there, so the same command goes on afterwards. The other workers end by
    themselves when their connection to this process breaks.

    Args:
        terminal: Where to say what happened.
        log: What the workers wrote.
        status: Exit status.
    """
    before = threading.excepthook

    def end(error: threading.ExceptHookArgs, /) -> None:
        if error.thread is None or error.thread.name != _WORKER_THREAD:
            before(error)
            return
        if str(error.exc_value).endswith(_INTERRUPTED):
            _leave_interrupted(terminal, log)
        terminal.write(
            f"bertscore-beam: a worker process died ({error.exc_value}). A return code of 137 or "
            "-9 means that it was killed, most often for lack of memory: try fewer --workers or a "
            "smaller --split-bytes. What was committed is kept; the same command goes on from "
            f"there. What the workers said is in {log}.\n"
        )
        terminal.flush()
        os._exit(status)

    threading.excepthook = end
    try:
        yield
    finally:
        threading.excepthook = before


@contextmanager
def end_when_interrupted(terminal: TextIO, log: Path | None) -> Iterator[None]:
    """End this process at once on SIGINT; what is committed is whole, so nothing need be undone.

    Args:
        terminal: Where to say so.
        log: What the workers wrote; of no use then, and deleted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: _leave_interrupted(terminal, log))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave_interrupted(terminal: TextIO, log: Path | None) -> NoReturn:
    terminal.write(
        "\nbertscore-beam: interrupted. What was committed is kept; the same command goes on from "
        "there.\n"
    )
    terminal.flush()
    if log is not None:
        log.unlink(missing_ok=True)
    os._exit(INTERRUPTED_STATUS)
