"""Progress counts the rows of parts as their records appear."""

import io
import threading
import time

from rich.console import Console

from pipelines.files.paths import join
from pipelines.files.write import write_atomically
from pipelines.run import progress as progress_module
from pipelines.run.progress import RunProgress, show_progress
from pipelines.score.records import PARTS_FOLDER, record_name, record_path
from tests.pipelines.score.test_summary import split


def progress_of(output, splits, started):
    rows = {record_name(split.part_name): split.num_rows for split in splits}
    return RunProgress(join(output, PARTS_FOLDER), rows, started, "rows")


def test_records_of_expected_parts_count(tmp_path):
    output = str(tmp_path)
    splits = [split(10, 0), split(20, 10), split(30, 30)]
    progress = progress_of(output, splits, time.time() - 2)
    assert (progress.planned, progress.done()) == (60, 0)
    write_atomically(join(output, record_path(splits[2].part_name)), b"{}")
    write_atomically(join(output, record_path("other.parquet/part-000000000000.parquet")), b"{}")
    assert progress.done() == 30
    assert progress.line(30).startswith("30 of 60 rows, 1")
    assert "time left unknown" in progress.line(0)


class NotedPauses(threading.Event):
    """Tells which pauses were asked for, without waiting, and is set after some."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return len(self.pauses) > self.number


class TimedListing(RunProgress):
    """Notes what each listing took."""

    took = ()

    def done(self):
        started = time.monotonic()
        done = super().done()
        self.took = (*self.took, time.monotonic() - started)
        return done


def test_a_folder_that_is_long_to_list_is_listed_less_often(tmp_path):
    for number in range(200):
        (tmp_path / f"{number}.json").touch()
    progress = TimedListing(str(tmp_path), {"7.json": 3, "missing.json": 4}, time.time(), "rows")
    stop = NotedPauses(3)
    assert list(progress_module._counts(progress, 0.0, stop)) == [3, 3, 3]
    assert stop.pauses[0] == 0.0
    for pause, took in zip(stop.pauses[1:], progress.took, strict=True):
        assert pause >= 10 * took
    stop = NotedPauses(3)
    assert list(progress_module._counts(progress, 1e6, stop)) == [3, 3, 3]
    assert stop.pauses == [1e6] * 4


def test_log_gets_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_module, "LOG_SECONDS", 0.01)
    written = io.StringIO()
    progress = progress_of(str(tmp_path), [split(10)], time.time())
    with show_progress(progress, Console(file=written)):
        while "rows" not in written.getvalue():
            time.sleep(0.01)
    assert "0 of 10 rows" in written.getvalue()
    assert "\x1b" not in written.getvalue()


def test_terminal_gets_a_bar(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_module, "POLL_SECONDS", 0.01)
    written = io.StringIO()
    progress = progress_of(str(tmp_path), [split(10)], time.time())
    console = Console(file=written, force_terminal=True, width=120)
    with show_progress(progress, console):
        while "0 of 10 rows" not in written.getvalue():
            time.sleep(0.01)
    assert "\x1b" in written.getvalue()
