"""How far a run is, read from the files that appear in the output folder.

Reading the folder works with every runner, since the file is the only thing that says it is done.
On a terminal this is a bar; in a log a plain line now and then.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from pipelines.io.files import join, list_files
from pipelines.manifest import PARTS_FOLDER, record_name
from pipelines.splits import Split

POLL_SECONDS = 1.0
LOG_SECONDS = 30.0
_PAUSE_PER_LISTING = 10
"""Least pause, in times of what listing the folder took: of 100,000 files that is seconds."""


class RunProgress:
    """Counts what the files that appear in a folder stand for.

    Attributes:
        planned: What all of them stand for together.
    """

    def __init__(
        self, folder: str, amounts: Mapping[str, int], started: float, unit: str = "rows"
    ) -> None:
        """Remember what is awaited.

        Args:
            folder: Where the files appear.
            amounts: What each of them stands for, by its path below the folder.
            started: When the run began, in seconds since the epoch.
            unit: What is counted.
        """
        self._folder = folder
        self._amounts = amounts
        self._started = started
        self._unit = unit
        self._first: tuple[float, int] | None = None
        self.planned = sum(amounts.values())

    @classmethod
    def of_splits(cls, output: str, pending: Sequence[Split], started: float) -> "RunProgress":
        """Count the rows of parts as their records appear in an output folder."""
        rows = {record_name(split.part_name): split.num_rows for split in pending}
        return cls(join(output, PARTS_FOLDER), rows, started)

    def done(self) -> int:
        """Count what is there of the awaited; none is at the start of a run."""
        return sum(self._amounts.get(name, 0) for name in list_files(self._folder))

    def line(self, done: int) -> str:
        """Say how far the run is, in one plain line.

        The time left is worked out from the first part on, without the start of the workers.
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
    """Count what is there again and again, until told to stop.

    Args:
        progress: What counts.
        every: Seconds between two counts, or more where counting itself takes long.
        stop: Set when the run is over.
    """
    pause = every
    while not stop.wait(pause):
        started = time.monotonic()
        try:
            done = progress.done()
        except OSError:  # a bad moment of the disk or the store costs a line
            continue
        pause = max(every, _PAUSE_PER_LISTING * (time.monotonic() - started))
        yield done
