"""A disk on which one write or deletion goes wrong, the k-th below a folder.

    with faulty_disk(root, Fault(at=7, way="before")) as disk:
        ...
    disk.changes    # how many writes and deletions there were

The project writes and deletes by few functions of `os` (see `bertscore_beam.files`). Each call is
counted here if it changes something below the folder. Calls wait for each other, so that the number
of changes is the same in every run.
"""

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import mock

Way = Literal["before", "after", "killed"]

WAYS: tuple[Way, ...] = ("before", "after", "killed")
"""An error before the change is made, an error after it, and the death of the process before it."""

KILLED = 137
"""Status of a process that dies here, as that of one that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong.

    Attributes:
        at: The number of the change, from 1 on.
        way: How it goes wrong.
    """

    at: int
    way: Way


@dataclass(slots=True)
class Disk:
    """What happened below the folder.

    Attributes:
        root: The folder.
        fault: What goes wrong; None for nothing.
        notes: File outside of it to which the rest is written; None for none.
        changes: Writes and deletions so far.
        happened: What went wrong, by the name of the function and the path; "" for nothing yet.
    """

    root: str
    fault: Fault | None = None
    notes: Path | None = None
    changes: int = 0
    happened: str = ""
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def change(self, name: str, path: str, do: Callable[[], Any]) -> Any:
        """Make a change, or let it go wrong."""
        with self._turn:
            if not path.startswith(self.root) or not _changes(name, path):
                return do()
            self.changes += 1
            if self.fault is None or self.changes != self.fault.at:
                return do()
            self.happened = f"{name} {path[len(self.root) :]}"
            if self.fault.way == "killed":
                self.tell()
                os._exit(KILLED)
            if self.fault.way == "after":
                do()
            raise OSError(errno.EIO, "made up by a test")

    def tell(self) -> None:
        """Write down what happened."""
        if self.notes is not None:
            told = {"changes": self.changes, "happened": self.happened}
            self.notes.write_text(json.dumps(told))


def _changes(name: str, path: str) -> bool:
    """Tell whether a call can have an effect. To `replace` and `link` the path is the new one."""
    if name in ("mkdir", "link"):
        return not os.path.lexists(path)
    if name == "rmdir":
        return os.path.isdir(path) and not os.listdir(path)
    return name == "replace" or os.path.lexists(path)


@contextmanager
def faulty_disk(root: str, fault: Fault | None = None, notes: Path | None = None) -> Iterator[Disk]:
    """Count the changes below a folder while the body runs, in all threads of this process."""
    disk = Disk(root, fault, notes)
    with mock.patch.multiple(os, **{name: _watched(disk, name) for name in _FUNCTIONS}):
        yield disk


_FUNCTIONS = ("mkdir", "link", "replace", "remove", "rmdir", "unlink")


def _watched(disk: Disk, name: str) -> Callable[..., Any]:
    original: Callable[..., Any] = getattr(os, name)
    place = 1 if name in ("link", "replace") else 0

    def call(*args: Any, **kwargs: Any) -> Any:
        return disk.change(name, os.fspath(args[place]), lambda: original(*args, **kwargs))

    return call
