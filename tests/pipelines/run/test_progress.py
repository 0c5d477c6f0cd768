"""Progress counts the rows of parts as they appear."""

import io
import threading
import time

import pytest
from rich.console import Console

from bertscore_beam.files.paths import join
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run import activity, progress as shown
from bertscore_beam.run.activity import Activity
from bertscore_beam.run.output import format_duration
from tests.pipelines.records.test_summary import split
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_at_work")


def progress_of(output, splits, **more):
    rows = {split.part_name: split.num_rows for split in splits}
    return shown.RunProgress(expected(rows, **more), output)


def expected(amounts, **more):
    return shown.Expected(amounts=amounts, unit="rows", **more)


def look(progress):
    progress.look()
    return progress.line()


def finish(output, split):
    write_atomically(join(output, split.part_name), b"{}")


def report(child, counted=0, words="", **doing):
    activity.update_child(child, Activity(counted=counted, status=words, fractions=doing))


def test_expected_parts_count(tmp_path):
    output = str(tmp_path)
    splits = [split(10, 0), split(20, 10), split(30, 30)]
    progress = progress_of(output, splits)
    assert look(progress) == "0 of 60 rows, time left unknown"
    finish(output, splits[2])
    write_atomically(join(output, "other.parquet/part-000000000000.parquet"), b"{}")
    assert look(progress) == "30 of 60 rows, time left unknown"
    finish(output, splits[0])
    assert look(progress).startswith("40 of 60 rows, ")
    assert progress.line().endswith(" s left")
    finish(output, splits[1])
    assert look(progress) == "60 of 60 rows, finishing"


def test_a_pace_counts_neither_an_earlier_run_nor_what_comes_before_the_first_rows(
    tmp_path, monkeypatch
):
    """An import and a model that is loaded had made 35 hours of 8."""
    output = str(tmp_path)
    splits = [split(1000, 0), split(20, 1000), split(20, 1020), split(20, 1040)]
    finish(output, splits[0])
    progress = progress_of(output, splits)
    assert look(progress) == "1,000 of 1,060 rows, time left unknown"
    now = time.time()
    monkeypatch.setattr(shown.time, "time", lambda: now + 3600)
    finish(output, splits[1])
    assert look(progress) == "1,020 of 1,060 rows, time left unknown"
    monkeypatch.setattr(shown.time, "time", lambda: now + 3610)
    finish(output, splits[2])
    assert look(progress) == "1,040 of 1,060 rows, 2.0/s, 10 s left"


def test_of_a_pace_three_looks_are_kept_however_long_the_run_is(monkeypatch):
    pace, now = shown._Pace(), 0
    monkeypatch.setattr(shown.time, "time", lambda: now)
    for now in range(1000):
        pace.note(2 * now)
    assert pace.line(3000, "rows") == "1,998 of 3,000 rows, 2.0/s, 8 min left"
    assert len(pace._seen) == 3


def test_the_line_says_when_nothing_has_come_for_long(tmp_path, monkeypatch):
    output = str(tmp_path)
    splits = [split(10, 0), split(20, 10), split(30, 30)]
    progress = progress_of(output, splits)
    progress.look()
    finish(output, splits[0])
    assert "nothing new" not in look(progress)
    now = time.time()
    monkeypatch.setattr(shown.time, "time", lambda: now + 720)
    assert look(progress) == "10 of 60 rows, time left unknown, nothing new for 12 min"
    finish(output, splits[1])
    assert "nothing new" not in look(progress)
    monkeypatch.setattr(shown.time, "time", lambda: now + 1440)
    assert look(progress).endswith(" left, nothing new for 12 min")


def test_rows_inside_a_part_count_as_workers_report_them(tmp_path):
    output = str(tmp_path / "out")
    splits = [split(100, 0), split(100, 100)]
    first, second = (split.part_name for split in splits)
    progress = progress_of(output, splits)
    report(1, words="loading the model")
    assert look(progress) == "0 of 200 rows, loading the model"
    report(1, **{first: 0.5, "unknown": 1.0})
    report(2, **{second: 0.25})
    assert look(progress).startswith("75 of 200 rows")
    report(1)
    assert look(progress).startswith("75 of 200 rows"), "done, and its record is not there yet"
    finish(output, splits[0])
    assert look(progress).startswith("125 of 200 rows")
    finish(output, splits[1])
    assert look(progress) == "200 of 200 rows, finishing", "a finished part counts once"


def test_what_idf_counts_is_shown_until_the_first_row_is_scored(tmp_path):
    output = str(tmp_path / "out")
    counting = (40, "rows counted for idf")
    progress = progress_of(output, [split(40)], first=counting)
    assert look(progress) == "0 of 40 rows, time left unknown"
    report(1, counted=10)
    assert look(progress).startswith("10 of 40 rows counted for idf, ")
    report(1, counted=50)
    assert look(progress) == "40 of 40 rows counted for idf, finishing", "a split was read twice"
    report(1, counted=50, **{split(40).part_name: 0.5})
    assert look(progress).startswith("20 of 40 rows, ")


class NotedPauses(threading.Event):
    """Tells which pauses were asked for, without waiting, and is set after some."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return len(self.pauses) > self.number


def test_a_folder_that_is_long_to_list_is_listed_less_often(tmp_path):
    (tmp_path / "7.json").touch()
    progress = shown.RunProgress(expected({"7.json": 3}), str(tmp_path))
    stop = NotedPauses(3)
    for look in shown._looks(progress, [0.0, 5.0], stop):
        assert look.done == 3
        look.look_seconds = 1.0 if len(stop.pauses) < 3 else 0.0
    assert stop.pauses == [0.0, 10.0, 10.0, 5.0]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_log_gets_plain_lines_and_a_terminal_a_bar(tmp_path, monkeypatch, is_terminal):
    monkeypatch.setattr(shown, "LOG_SECONDS", (0.01,))
    monkeypatch.setattr(shown, "POLL_SECONDS", 0.01)
    written = io.StringIO()
    progress = progress_of(str(tmp_path), [split(10)])
    console = Console(file=written, force_terminal=is_terminal, width=120)
    with shown.show_progress(progress, console):
        wait_until(lambda: "0 of 10 rows" in written.getvalue())
    assert ("\x1b" in written.getvalue()) == is_terminal


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (11, "15 s"),
        (700, "12 min"),
        (5399, "1 h 30 min"),
        (7200, "2 h"),
        (190_000, "2 days 5 h"),
    ],
)
def test_durations_are_rounded_to_what_is_known(seconds, words):
    assert format_duration(seconds) == words
