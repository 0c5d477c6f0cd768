"""How a run ends before its work is done: by a signal, a lost folder, or an error of the work."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from bertscore_beam.run import pool
from bertscore_beam.run.exit_status import BROKEN, interrupted
from bertscore_beam.run.lock import FolderLostError
from bertscore_beam.run.printing import escape_text
from bertscore_core import BertScoreError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def worker_errors() -> Iterator[None]:
    """Turn errors of the work into `RuntimeError`s.

    Before the work, errors of these classes mean that the command cannot work as given, which has
    another exit status.
    """
    try:
        yield
    except BertScoreError as error:
        raise RuntimeError(f"a worker failed: {error}") from error
    except OSError as error:
        raise RuntimeError(f"a worker failed: {type(error).__name__}: {error}") from error


@contextmanager
def end_when_interrupted(*, elsewhere: bool = False) -> Iterator[None]:
    """End this process at once on SIGINT or SIGTERM, with the status that a shell gives.

    Finished parts are whole, so nothing needs to be undone. An exception would not do: Beam turns
    it into others.

    Args:
        elsewhere: Whether the job runs on machines that do not end with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_IGN)  # it is ending already
        words = (
            f"\nbertscore-beam: interrupted ({signal.Signals(number).name}). Finished parts are "
            "kept; the same command continues from there.\n"
        )
        if elsewhere:
            words += (
                "The job itself may continue where it was submitted: stop it there if it should "
                "not.\n"
            )
        _leave(words, interrupted(number))

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_for(error: FolderLostError) -> NoReturn:
    """End the process from any thread: the runner cannot be stopped in another way."""
    _leave(f"bertscore-beam: {escape_text(str(error))}\n", BROKEN)


def _leave(words: str, status: int) -> NoReturn:
    """Say why, and end this process after its children."""
    with suppress(OSError):  # the reader may have closed the pipe
        os.write(2, words.encode())
    pool.kill_opened()
    os._exit(status)
