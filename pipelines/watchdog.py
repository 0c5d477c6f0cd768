"""End a local run whose worker process died; Beam itself would wait for it for ever.

Beam 2.77 notices the death only in the thread that started the process, where the error is lost,
while the job goes on waiting for the worker's answer. A worker killed for memory thus looks like a
run without end.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

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
