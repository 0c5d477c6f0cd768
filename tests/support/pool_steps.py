"""Steps for the tests of the pool; its children import this module, so it imports little."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscore_beam.run import activity
from bertscore_beam.run.pool import Pool
from bertscore_core import ConfigError, DeviceLostError


@dataclass(frozen=True, slots=True)
class Work:
    """What a child does with an element, by the word it begins with.

    Attributes:
        folder: Where the calls are noted.
    """

    folder: str

    def open(self) -> Callable[[str], Iterator[Any]]:
        """Note that the step was opened."""
        note(self.folder, "opened")
        return self._work

    def name(self, element: str, /) -> str:
        """Return the element in words."""
        return f"element {element}"

    def _work(self, element: str) -> Iterator[Any]:
        note(self.folder, f"begun {element}")
        word, _, rest = element.partition(" ")
        yield from globals()[word.replace("-", "_")](self, rest)
        note(self.folder, f"done {element}")


def note(folder: str, words: str) -> None:
    """Note something with the number of this process."""
    with (Path(folder) / "notes").open("a") as file:
        file.write(f"{os.getpid()} {words}\n")


def notes(folder: Path) -> list[tuple[int, str]]:
    """Return what was noted: process numbers and words."""
    file = folder / "notes"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]


# What a child does. An element begins with the name of one of these functions, as `die-once x`.


def echo(_: Work, rest: str) -> Iterator[Any]:
    yield rest
    yield os.getpid()


def die_once(work: Work, rest: str) -> Iterator[Any]:
    flag = Path(work.folder) / f"died-{rest}"
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield rest


def die_after(work: Work, rest: str) -> Iterator[Any]:
    """Die once, when the launcher has had time to take some of the results."""
    flag = Path(work.folder) / f"died-{rest}"
    for number in range(6):
        if number == int(rest) and not flag.exists():
            flag.touch()
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        yield number


def die(_: Work, rest: str) -> Iterator[Any]:
    os.kill(os.getpid(), getattr(signal, rest or "SIGKILL"))
    yield rest


def lose(_: Work, rest: str) -> Iterator[Any]:
    raise DeviceLostError("the GPU does not answer") from RuntimeError("CUDA error: unspecified")


_meeting = threading.Barrier(3)


def meet(_: Work, rest: str) -> Iterator[Any]:
    _meeting.wait(60)  # for two others in this process
    yield rest
    yield os.getpid()


def meet_and_die(work: Work, rest: str) -> Iterator[Any]:
    flag = Path(work.folder) / "met-and-died"
    if _meeting.wait(60) == 0 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if not flag.exists():
        time.sleep(600)
    yield rest


def refuse(_: Work, rest: str) -> Iterator[Any]:
    yield rest  # a result before the error is no excuse
    raise ConfigError(f"got {rest}")


def local_error(_: Work, rest: str) -> Iterator[Any]:
    class Local(Exception):
        pass

    raise Local(rest)
    yield


def wait(_: Work, rest: str) -> Iterator[Any]:
    with activity.report_fraction(f"wait {rest}", lambda: 0.25):
        time.sleep(600)
    yield rest


def hold(_: Work, rest: str) -> Iterator[Any]:
    ctypes.PyDLL(None).sleep(600)  # with the lock of the interpreter, as native code may
    yield rest


def exit(_: Work, rest: str) -> Iterator[Any]:
    sys.exit(rest)
    yield


def leave(work: Work, rest: str) -> Iterator[Any]:
    """Die, and leave a process behind that has all that was open."""
    flag = Path(work.folder) / "left"
    if not flag.exists():
        left = os.fork()
        if left == 0:
            time.sleep(30)
            os._exit(0)
        flag.write_text(str(left))
        os.kill(os.getpid(), signal.SIGKILL)
    yield rest


def log(_: Work, rest: str) -> Iterator[Any]:
    logging.getLogger("library").warning("%d rows", rest)
    yield rest


def say(_: Work, rest: str) -> Iterator[Any]:
    warnings.warn(rest, stacklevel=1)
    print("what a library prints")
    yield rest


def tell(_: Work, rest: str) -> Iterator[Any]:
    child = subprocess.run([sys.executable, "-c", "pass"], check=True)
    yield {
        "modules": sorted(name for name in sys.modules if "." not in name),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "leads": os.getpgrp() == os.getpid(),
        "child": child.returncode,
    }


def start(_: Work, rest: str) -> Iterator[Any]:
    """Start a process that does not end, as the code of others may."""
    yield subprocess.Popen(["sleep", "600"]).pid


def start_below(_: Work, rest: str) -> Iterator[Any]:
    """Let a child of this child do so, as metrics of one's own do beside the encoder."""
    yield Pool(1, restarts=0).ask(_start)


def _start() -> int:
    return subprocess.Popen(["sleep", "600"]).pid


# Functions that a child is asked to call.


def be_killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lack_memory(*_: Any) -> None:
    raise MemoryError
