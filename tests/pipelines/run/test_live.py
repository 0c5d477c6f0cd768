"""Workers report how far they are; the launcher reads it."""

import os

import pytest

from bertscore_beam.run import live
from bertscore_beam.run.live import FOLDER_VARIABLE, Live, live_folder, read_live
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(live, "_SECONDS", 0.01)


def test_reports_are_read_while_the_work_goes_on():
    shares = iter([0.25, 0.5])
    last = []

    def share():
        last.append(next(shares, 0.75))
        return last[-1]

    with live_folder(enabled=True) as folder:
        live.counted(30)
        live.counted(12)
        with live.doing("part", share):
            wait_until(lambda: read_live(folder) == Live(counted=42, doing={"part": 0.75}), 10)
        wait_until(lambda: read_live(folder) == Live(counted=42), 10)
    assert not folder.exists()
    assert FOLDER_VARIABLE not in os.environ
    assert last[:3] == [0.25, 0.5, 0.75]


def test_every_stage_counts_from_zero():
    for rows in (5, 7):
        with live_folder(enabled=True) as folder:
            live.counted(rows)
            wait_until(lambda: read_live(folder).counted, 10)
            assert read_live(folder).counted == rows


def test_workers_elsewhere_report_nothing_and_work():
    with live_folder(enabled=False) as folder:
        assert folder is None
        live.counted(3)
        with live.doing("part", lambda: 1 / 0):
            pass
        assert read_live(folder) == Live()


def test_reports_of_a_share_that_cannot_be_told_do_not_stop_the_others():
    with (
        live_folder(enabled=True) as folder,
        live.doing("bad", lambda: 1 / 0),
        live.doing("good", lambda: 0.5),
    ):
        wait_until(lambda: read_live(folder).doing, 10)
        assert read_live(folder).doing == {"good": 0.5}


def test_what_is_in_hand_is_known_at_once_and_after_the_end_of_a_process(monkeypatch):
    """A process may die of an element a moment after it has begun it."""
    monkeypatch.setattr(live, "_SECONDS", 3600)
    process = os.getpid()
    with live_folder(enabled=True):
        assert live.last_report(process) == live.LastReport()
        with live.doing("digest.json", lambda: 0.0, "part-3.parquet"), live.doing("b", lambda: 0.0):
            assert live.last_report(process).in_hand == ("b", "part-3.parquet")
            assert live.in_hand() == ("b", "part-3.parquet")
            live.leave_words("its GPU failed")
        assert live.in_hand() == ()
        left = live.LastReport(in_hand=("b", "part-3.parquet"), words="its GPU failed")
        assert live.last_report(process) == left
    assert live.in_hand() == ()
