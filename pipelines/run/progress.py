"""The progress of a run, read from the files that appear in the output folder.

This works with every runner. On a terminal it is a bar, in a log a plain line now and then.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from pipelines.files.listing import list_files

POLL_SECONDS = 1.0
LOG_SECONDS = 30.0
_PAUSE_PER_LISTING = 10
"""The pause is at least this many times as long as listing the folder took, which takes seconds for
100,000 files."""


class RunProgress:
    """Adds up the amounts of the files that appear in a folder.

    Attributes:
        planned: The sum of all expected amounts.
    """

    def __init__(self, folder: str, amounts: Mapping[str, int], started: float, unit: str) -> None:
        """Keep the expected amounts.

        Args:
            folder: Where the files appear.
            amounts: The amount of each expected file, such as its rows, by its path below the
                folder.
            started: When the run began, in seconds since the epoch.
            unit: Unit of the amounts.
        """
        self._folder = folder
        self._amounts = amounts
        self._started = started
        self._unit = unit
        self._first: tuple[float, int] | None = None
        self.planned = sum(amounts.values())

    def done(self) -> int:
        """Return the sum of the amounts of the files that are there."""
        return sum(self._amounts.get(name, 0) for name in list_files(self._folder))

    def line(self, done: int) -> str:
        """Return the progress as one line.

        The time left is estimated from the pace since the first file, so the time that the workers
        take to start does not count.
        """
        now = time.time()
        if done and self._first is None:
            self._first = (now, done)
        rate = done / max(now - self._started, 1e-9)
        left = "time left unknown"
        if self._first is not None and done > self._first[1]:
            pace = (done - self._first[1]) / max(now - self._first[0], 1e-9)
            left = f"{(self.planned - done) / pace:.0f} s left"
        return f"{done:,} of {self.planned:,} {self._unit}, {rate:.1f}/s, {left}"


@contextmanager
def show_progress(progress: RunProgress, console: Console) -> Iterator[None]:
    """Show a run's progress while the body runs."""
    stop = threading.Event()
    show = _show_bar if console.is_terminal else _show_lines
    thread = threading.Thread(target=show, args=(progress, console, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show_bar(progress: RunProgress, console: Console, stop: threading.Event) -> None:
    columns = (BarColumn(), TextColumn("{task.fields[line]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task: TaskID = bar.add_task("", total=progress.planned, line="starting")
        for done in _counts(progress, POLL_SECONDS, stop):
            bar.update(task, completed=done, line=progress.line(done))


def _show_lines(progress: RunProgress, console: Console, stop: threading.Event) -> None:
    for done in _counts(progress, LOG_SECONDS, stop):
        console.print(progress.line(done), markup=False, highlight=False)


def _counts(progress: RunProgress, every: float, stop: threading.Event) -> Iterator[int]:
    """Yield the amount that is done again and again, until `stop` is set.

    Args:
        progress: Counts.
        every: Seconds between two counts, more if counting itself takes long.
        stop: Set when the run has ended.
    """
    pause = every
    while not stop.wait(pause):
        started = time.monotonic()
        try:
            done = progress.done()
        except OSError:  # a short failure of the disk or the store only skips a line
            continue
        pause = max(every, _PAUSE_PER_LISTING * (time.monotonic() - started))
        yield done
