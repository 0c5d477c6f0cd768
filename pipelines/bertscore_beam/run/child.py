"""A child of the pool: runs steps, and knows no Beam.

    python -P -m bertscore_beam.run.child DESCRIPTOR LAUNCHER THREADS

The descriptor is that of the pipe to the launcher. When the launcher ends, so does the child. Each
thread works on one element at a time.
"""

import ctypes
import gc
import itertools
import logging
import logging.handlers
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeAlias

from bertscore_beam.run import activity
from bertscore_beam.run.activity import Activity
from bertscore_beam.run.output import DEVICE_LOST, EscapedRecord
from bertscore_beam.run.pool import Answer
from bertscore_core.errors import DeviceLostError

_BETWEEN_SECONDS = 0.05
"""Results that come faster are sent together."""

_SECONDS = 1.0
"""How often a child says what it is at work on."""

SWITCH_SECONDS = 0.0005
"""How long a thread may wait for Python's lock before its owner must give it up. A thread that
queues work of a GPU gives the lock up at many operations: beside three threads that read and write,
a pass of 17 layers took 62 ms with Python's own 5 ms, and 17 with this."""

_PR_SET_PDEATHSIG = 1

_ALLOCATIONS = 50_000
"""Between collections of garbage: imports make many objects, and nearly no garbage."""

_KNOWN = ("builtins", "bertscore_core", "bertscore_beam")
"""Packages whose classes of errors the launcher can import."""

_Task: TypeAlias = tuple[int, bytes, bytes, int]
"""Its number, the step and the element as they were pickled, and how many results have come."""


def main(descriptor: int, launcher: int, threads: int) -> NoReturn:
    """Work for the launcher until it ends."""
    gc.set_threshold(_ALLOCATIONS)
    if threads > 1:
        sys.setswitchinterval(SWITCH_SECONDS)
    os.set_inheritable(descriptor, False)
    _end_with(launcher)
    _Worker(Connection(descriptor)).run(threads)


def _end_with(launcher: int) -> None:
    """Ask the kernel to end this process with the launcher: native code looks at no pipe."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:  # it has ended before that was asked
        os._exit(1)


class _Worker:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        # Pickled. A destructor may log in the middle of `put`, and `put` be called again there.
        self._to_send: queue.SimpleQueue[bytes | int] = queue.SimpleQueue()
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._opened: dict[bytes, Callable[[Any], Iterable[Any]]] = {}
        self._opening = threading.Lock()

    def run(self, threads: int) -> NoReturn:
        logging.setLogRecordFactory(EscapedRecord)
        logging.captureWarnings(capture=True)
        to_launcher = _ToLauncher(self._to_send)
        to_launcher.setLevel(logging.WARNING)
        logging.getLogger().addHandler(to_launcher)
        for work in (self._receive, self._send, self._report_often, *[self._work] * (threads - 1)):
            threading.Thread(target=work, daemon=True).start()
        self._work()

    def _work(self) -> NoReturn:
        while True:
            self._answer(*self._tasks.get())

    def _receive(self) -> None:
        try:
            while True:
                self._tasks.put(self._pipe.recv())
        finally:
            os._exit(1)  # the launcher has ended, and nobody waits for what is under way

    def _send(self) -> None:
        try:
            while not isinstance(message := self._to_send.get(), int):
                self._pipe.send_bytes(message)
            os._exit(message)
        finally:
            os._exit(1)

    def _report_often(self) -> None:
        while True:
            time.sleep(_SECONDS)
            self._report(activity.snapshot())

    def _report(self, message: Answer | Activity | str) -> None:
        self._to_send.put(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def _answer(self, number: int, step: bytes, element: bytes, received: int) -> None:
        """Work on an element; the results that the launcher has received are not sent again."""
        try:
            results = iter(self._function(step)(pickle.loads(element)))  # noqa: S301
            for together in _as_they_come(itertools.islice(results, received, None)):
                self._report(Answer(number, together, is_last=False))
            self._report(Answer(number))
        except DeviceLostError as error:
            # Only a new process can use the GPU again.
            reason = str(error.__cause__ or error).partition("\n")[0]
            self._report(f"its GPU failed: {reason}")
            self._to_send.put(DEVICE_LOST)
            while True:  # until that is sent
                time.sleep(_SECONDS)
        except BaseException as error:
            self._report(Answer(number, error=_portable(error)))

    def _function(self, step: bytes) -> Callable[[Any], Iterable[Any]]:
        with self._opening:
            if step not in self._opened:
                self._opened[step] = pickle.loads(step).open()  # noqa: S301
            return self._opened[step]


def _portable(error: BaseException) -> BaseException:
    """Return an error that arrives as it is, with the traceback as a note.

    Classes of libraries would have to be imported by the launcher, and may not survive the way.
    """
    trace = "".join(traceback.format_exception(error))
    is_known = type(error).__module__.partition(".")[0] in _KNOWN and isinstance(error, Exception)
    if not is_known or not _arrives(error):
        error = RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": "))
    error.__cause__ = error.__context__ = None
    error.add_note(trace)
    return error


def _arrives(error: BaseException) -> bool:
    try:
        arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just pickled
    except Exception:
        return False
    return str(arrived) == str(error)


def _as_they_come(results: Iterable[Any]) -> Iterator[list[Any]]:
    together: list[Any] = []
    sent = 0.0
    for result in results:
        together.append(result)
        if time.monotonic() - sent >= _BETWEEN_SECONDS:
            yield together
            together, sent = [], time.monotonic()
    if together:
        yield together


class _ToLauncher(logging.handlers.QueueHandler):
    """Takes finished lines, tracebacks included; a malformed one is not the step's fault."""

    def enqueue(self, record: logging.LogRecord) -> None:
        line = (record.name, record.levelno, record.getMessage())
        self.queue.put_nowait(pickle.dumps(line))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
