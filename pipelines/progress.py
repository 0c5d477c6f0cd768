"""How far a run is: rows whose parts are recorded, read from the output folder.

Reading the folder works with every runner, since a part's record is the only thing that says it is
done. On a terminal this is a bar; in a log a plain line now and then.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from pipelines.io.files import join, list_files
from pipelines.manifest import PARTS_FOLDER
from pipelines.splits import Split

POLL_SECONDS = 1.0
LOG_SECONDS = 30.0


class RunProgress:
    """Counts the rows of parts that appear in an output folder.

    Attributes:
        planned: Rows to be scored by this run.
    """

    def __init__(self, output: str, pending: Sequence[Split], started: float) -> None:
        """Remember what is awaited.

        Args:
            output: Folder of the run.
            pending: Splits this run scores.
            started: When it began, in seconds since the epoch.
        """
        self._folder = join(output, PARTS_FOLDER)
        self._rows = {f"{split.part_name}.json": split.num_rows for split in pending}
        self._started = started
        self._first: tuple[float, int] | None = None
        self.planned = sum(self._rows.values())

    def rows_done(self) -> int:
        """Rows of the awaited parts that are recorded; none is at the start of a run."""
        recorded = list_files(self._folder, suffix=".json")
        return sum(self._rows.get(name, 0) for name in recorded)

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
        return f"{done:,} of {self.planned:,} rows, {rate:.1f} pairs/s, {left}"


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
        while not stop.wait(POLL_SECONDS):
            done = progress.rows_done()
            bar.update(task, completed=done, line=progress.line(done))


def _show_lines(progress: RunProgress, console: Console, stop: threading.Event) -> None:
    while not stop.wait(LOG_SECONDS):
        console.print(progress.line(progress.rows_done()), markup=False, highlight=False)
