"""The progress of a job: from files that appear, and from local workers.

Files work with every runner. Workers of this machine also report how far they are in a file. On a
terminal the progress is a bar, in a log a plain line now and then.
"""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bertscore_beam.files.listing import each_stored
from bertscore_beam.run import activity
from bertscore_beam.run.output import format_duration

POLL_SECONDS = 1.0
LOG_SECONDS = (2.0, 3.0, 5.0, 10.0, 20.0, 30.0)
QUIET_SECONDS = 600.0
"""After how long without anything new the line says so. Some engines do not notice that a worker
died, and wait for it without an end."""
_PAUSE_PER_LISTING = 10
"""The pause is at least this many times as long as listing the folder took, which takes seconds for
100,000 files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What phases that run together will have done when they end.

    Attributes:
        message: What to tell people at their start; "" for nothing.
        folder: Where their files appear, below the output folder.
        has_stems: Whether their names are known up to the first full stop.
        amounts: The amount of each expected file, such as its rows, by its path below that folder.
        before: What was done before, in the same unit. Without this and any amount, no progress is
            shown.
        first: How much is read before the first file can appear, and its unit.
    """

    message: str = ""
    folder: str = ""
    has_stems: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)
    before: int = 0
    unit: str = "files"
    first: tuple[int, str] = (0, "")


class RunProgress:
    """Adds up the amounts of the expected files that appear, and what workers report."""

    def __init__(self, expected: Expected, folder: str) -> None:
        self._expected = expected
        self._folder = folder
        self._words = ""
        self._main = _Pace()
        self._before = _Pace()
        self.planned = expected.before + sum(expected.amounts.values())
        self.look_seconds = 0.0

    def look(self) -> None:
        """Look at the files and the reports."""
        began = time.monotonic()
        state = activity.snapshot()
        names = (name for name, _ in each_stored(self._folder))
        if self._expected.has_stems:
            names = (name.partition(".")[0] for name in names)
        there = dict.fromkeys(names, 1.0)
        shares = {**state.fractions, **there}
        amounts = self._expected.amounts
        done = int(sum(share * amounts.get(name, 0) for name, share in shares.items()))
        self.look_seconds = time.monotonic() - began
        self._words = state.status
        self._before.note(min(state.counted, self._expected.first[0]))
        self._main.note(self._expected.before + done)

    @property
    def done(self) -> int:
        """The amount that is done. It never falls."""
        return self._main.done

    def line(self) -> str:
        """Return the progress as one line."""
        if self._before.done and not self._main.has_grown:
            return self._before.line(*self._expected.first)
        return self._main.line(self.planned, self._expected.unit, self._words)


class _Pace:
    """An amount that grows, and how fast, counted from the first growth.

    So neither the start of the workers nor what an earlier run did is in it, and one growth says
    nothing of a pace.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []  # at the first look, the first growth and the last

    @property
    def done(self) -> int:
        return self._seen[-1][1] if self._seen else 0

    @property
    def has_grown(self) -> bool:
        return len(self._seen) > 1

    def note(self, amount: int) -> None:
        if not self._seen or amount > self.done:
            self._seen.append((time.time(), amount))
            del self._seen[2:-1]

    def line(self, planned: int, unit: str, words: str = "") -> str:
        shown = f"{self.done:,} of {planned:,} {unit}"
        if self.done >= planned:
            return f"{shown}, finishing"
        pace = words or "time left unknown"
        if len(self._seen) > 2:
            since, then = self._seen[1]
            rate = (self.done - then) / max(time.time() - since, 1e-9)
            pace = f"{rate:.1f}/s, {format_duration((planned - self.done) / rate)} left"
        quiet = time.time() - self._seen[-1][0] if self.has_grown else 0.0
        nothing = f", nothing new for {format_duration(quiet)}" if quiet >= QUIET_SECONDS else ""
        return f"{shown}, {pace}{nothing}"


@contextmanager
def show_progress(progress: RunProgress, console: Console) -> Iterator[None]:
    """Show a run's progress while the body runs."""
    stop = threading.Event()
    thread = threading.Thread(target=_show, args=(progress, console, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show(progress: RunProgress, console: Console, stop: threading.Event) -> None:
    if not console.is_terminal:
        for _ in _looks(progress, LOG_SECONDS, stop):
            console.print(progress.line(), markup=False, highlight=False)
        return
    columns = (BarColumn(), TextColumn("{task.fields[line]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=progress.planned, line="starting")
        for _ in _looks(progress, (POLL_SECONDS,), stop):
            bar.update(task, completed=progress.done, line=progress.line())


def _looks(
    progress: RunProgress, pauses: Sequence[float], stop: threading.Event
) -> Iterator[RunProgress]:
    for pause in itertools.chain(pauses, itertools.repeat(pauses[-1])):
        if stop.wait(max(pause, _PAUSE_PER_LISTING * progress.look_seconds)):
            return
        # A short failure of the disk or the store only skips a line.
        with suppress(OSError):
            progress.look()
            yield progress
