"""What this machine's processes are at work on, for the progress of a run.

A step says how far it is with `report_fraction`, `count_rows` and `report_status`. A child of the
pool sends that to the launcher, which adds it up. Workers elsewhere do not send it: only the files
that they write show progress.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What processes are at work on.

    Attributes:
        counted: Rows that a step before the main one has read, such as counting for idf.
        fractions: Share that is done, from 0 to 1, of each element that is being worked on.
        status: What they do before there is anything to count; "" for nothing to say.
    """

    counted: int = 0
    fractions: Mapping[str, float] = field(default_factory=dict)
    status: str = ""


# Of the process, like the counters: readers want to know what the whole process does.
_counted = 0
_counting = threading.Lock()
# Whatever threads do with these is one operation, which no other can see half done.
_fractions: dict[str, Callable[[], float]] = {}
_statuses: list[str] = []
_children: dict[int, Activity] = {}


@contextmanager
def report_fraction(name: str, share: Callable[[], float]) -> Iterator[None]:
    """Say, while the body runs, how much of an element is done.

    Args:
        name: Name of the file that will show that the element is done, as in `Expected.amounts`.
        share: Returns the share that is done, from 0 to 1. It is called from another thread.
    """
    _fractions[name] = share
    try:
        yield
    finally:
        _fractions.pop(name, None)


@contextmanager
def report_status(status: str) -> Iterator[None]:
    """Say, while the body runs, what is done before there is anything to count."""
    _statuses.append(status)
    try:
        yield
    finally:
        _statuses.remove(status)


def count_rows(rows: int) -> None:
    """Say that a step before the main one has read rows."""
    global _counted
    with _counting:
        _counted += rows


def update_child(process: int, state: Activity) -> None:
    """Take note of what a child is at work on."""
    _children[process] = state


def drop_child(process: int) -> None:
    """Take note that a child has died: what it had in hand is not being worked on."""
    _children[process] = Activity(counted=_children.get(process, Activity()).counted)


def snapshot() -> Activity:
    """Return what this process and its children are at work on."""
    counted, statuses, done = _counted, _statuses[-1:], {}
    for name, share in list(_fractions.items()):
        with suppress(Exception):  # progress must not fail a run
            done[name] = share()
    for child in list(_children.values()):
        counted += child.counted
        done.update(child.fractions)
        statuses.append(child.status)
    return Activity(counted=counted, fractions=done, status=next(filter(None, statuses), ""))


def reset() -> None:
    """Forget what was counted and what children have sent, at the start of a stage."""
    global _counted
    _counted = 0
    _children.clear()
