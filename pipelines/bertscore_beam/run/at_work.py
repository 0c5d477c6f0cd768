"""What this machine's processes are at work on, for the progress of a run.

A step says how far it is with `report_fraction`, `counted` and `report_status`. A child of the pool
sends that to the launcher, which adds it up. Workers elsewhere do not send it: only the files that
they write show progress.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """What processes are at work on.

    Attributes:
        counted: Rows that a step before the main one has read, such as counting for idf.
        doing: Share that is done, from 0 to 1, of each element that is being worked on.
        words: What they do before there is anything to count; "" for nothing to say.
    """

    counted: int = 0
    doing: Mapping[str, float] = field(default_factory=dict)
    words: str = ""


_counted = 0
_counting = threading.Lock()
# Whatever threads do with these is one operation, which no other can see half done.
_doing: dict[str, Callable[[], float]] = {}
_words: list[str] = []
_children: dict[int, AtWork] = {}


@contextmanager
def report_fraction(name: str, share: Callable[[], float]) -> Iterator[None]:
    """Say, while the body runs, how much of an element is done.

    Args:
        name: Name of the file that will show that the element is done, as in `Stage.amounts`.
        share: Returns the share that is done, from 0 to 1. It is called from another thread.
    """
    _doing[name] = share
    try:
        yield
    finally:
        _doing.pop(name, None)


@contextmanager
def report_status(words: str) -> Iterator[None]:
    """Say in words, while the body runs, what is done before there is anything to count."""
    _words.append(words)
    try:
        yield
    finally:
        _words.remove(words)


def counted(rows: int) -> None:
    """Say that a step before the main one has read rows."""
    global _counted
    with _counting:
        _counted += rows


def of_child(process: int, state: AtWork) -> None:
    """Take note of what a child is at work on."""
    _children[process] = state


def drop_child(process: int) -> None:
    """Take note that a child has died: what it had in hand is not being worked on."""
    _children[process] = AtWork(counted=_children.get(process, AtWork()).counted)


def snapshot() -> AtWork:
    """Return what this process and its children are at work on."""
    counted, said, done = _counted, _words[-1:], {}
    for name, share in list(_doing.items()):
        with suppress(Exception):  # progress must not fail a run
            done[name] = share()
    for child in list(_children.values()):
        counted += child.counted
        done.update(child.doing)
        said.append(child.words)
    return AtWork(counted=counted, doing=done, words=next(filter(None, said), ""))


def forget() -> None:
    """Forget what was counted and what children have sent, at the start of a stage."""
    global _counted
    _counted = 0
    _children.clear()
