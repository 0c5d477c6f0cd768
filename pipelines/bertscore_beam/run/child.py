"""A child of the pool: runs steps, one element at a time, and knows no Beam.

    python -P -m bertscore_beam.run.child DESCRIPTOR LAUNCHER

The descriptor is that of the pipe to the launcher. When the launcher ends, so does the child.
"""

import ctypes
import gc
import logging
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from bertscore_beam.run import at_work, counters
from bertscore_beam.run.exit_status import DEVICE_LOST
from bertscore_beam.run.pool import Answer, Said
from bertscore_core.errors import DeviceLostError

_SECONDS = 1.0
"""How often a child says what it is at work on."""

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, launcher: int) -> NoReturn:
    """Work for the launcher until it ends.

    Args:
        descriptor: Of the pipe.
        launcher: Process number of the launcher.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher
    _end_with(launcher)
    _Child(Connection(descriptor)).run()


def _end_with(launcher: int) -> None:
    """Ask the kernel to end this process with the launcher: native code looks at no pipe."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:  # it has ended before that was asked
        os._exit(1)


class _Child:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._tasks: queue.SimpleQueue[tuple[int, str, bytes | None, bytes]] = queue.SimpleQueue()
        self._stage = 0
        self._opened: dict[str, Callable[[Any], Iterable[Any]]] = {}

    def run(self) -> NoReturn:
        counters.collect()
        logging.captureWarnings(capture=True)
        logging.getLogger().addHandler(_ToLauncher(self._send))
        threading.Thread(target=self._receive, name="receive", daemon=True).start()
        threading.Thread(target=self._say_often, name="say", daemon=True).start()
        while True:
            self._send(self._answer(*self._tasks.get()))

    def _receive(self) -> None:
        while True:
            try:
                task = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)  # the launcher has ended, and nobody waits for what is under way
            self._tasks.put(task)

    def _send(self, said: Answer | Said) -> None:
        try:
            with self._sending:
                self._pipe.send(said)
        except OSError:
            os._exit(1)

    def _say_often(self) -> None:
        pause, before = threading.Event(), at_work.AtWork()
        while not pause.wait(_SECONDS):
            state = at_work.now()
            if state != before:
                self._send(Said(state=state))
            before = state

    def _answer(self, stage: int, digest: str, step: bytes | None, element: bytes) -> Answer:
        counters.collect()
        try:
            function = self._function(stage, digest, step)
            # Questions of planning import what they need.
            with _unwatched() if stage == 0 else nullcontext():
                results = list(function(pickle.loads(element)))  # noqa: S301
            data = pickle.dumps(results, pickle.HIGHEST_PROTOCOL)
        except DeviceLostError as error:
            # Nothing else leaves a GPU that has failed.
            words = str(error.__cause__ or error).partition("\n")[0]
            self._send(Said(dying=f"its GPU failed: {words}"))
            os._exit(DEVICE_LOST)
        except BaseException as error:
            return Answer(None, error=_portable(error))
        return Answer(data, counted=counters.collect())

    def _function(
        self, stage: int, digest: str, step: bytes | None
    ) -> Callable[[Any], Iterable[Any]]:
        """Open a step when it is first sent; what another stage has loaded is dropped before."""
        if stage != self._stage:
            self._opened.clear()
            self._stage = stage
        if step is not None:
            with _unwatched():  # it imports what it needs
                self._opened[digest] = pickle.loads(step).open()  # noqa: S301
        return self._opened[digest]


@contextmanager
def _unwatched() -> Iterator[None]:
    """Keep the garbage collector away while libraries are imported.

    It would look at all of their objects again and again, which takes a fifth of the time, and find
    next to nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be sent, with the traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just pickled
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(trace)
    return error


class _ToLauncher(logging.Handler):
    """Sends log lines from warnings on to the launcher, which prints them."""

    def __init__(self, send: Callable[[Said], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        self._say(Said(log=(record.name, record.levelno, message)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
