"""What this process and its children are at work on is added up."""

import pytest

from bertscore_beam.run import at_work
from bertscore_beam.run.at_work import AtWork

pytestmark = pytest.mark.usefixtures("nothing_at_work")


def test_shares_are_asked_for_while_the_work_goes_on():
    shares = iter([0.25, 0.5])
    at_work.counted(30)
    at_work.counted(12)
    with at_work.report_fraction("part", lambda: next(shares)):
        assert at_work.snapshot() == AtWork(counted=42, doing={"part": 0.25})
        assert at_work.snapshot() == AtWork(counted=42, doing={"part": 0.5})
    assert at_work.snapshot() == AtWork(counted=42)
    # One that cannot be told does not hide the others.
    with (
        at_work.report_fraction("bad", lambda: 1 / 0),
        at_work.report_fraction("good", lambda: 0.5),
    ):
        assert at_work.snapshot().doing == {"good": 0.5}


def test_children_are_added_and_what_a_lost_one_had_in_hand_is_forgotten():
    at_work.counted(1)
    at_work.of_child(7, AtWork(counted=10, doing={"a": 0.5}, words="loading"))
    at_work.of_child(8, AtWork(counted=100, doing={"b": 0.25}))
    at_work.of_child(8, AtWork(counted=200, doing={"b": 0.75}))  # in the place of the one before
    both = AtWork(counted=211, doing={"a": 0.5, "b": 0.75}, words="loading")
    assert at_work.snapshot() == both
    with at_work.report_status("compiling"):
        assert at_work.snapshot().words == "compiling"
    at_work.drop_child(7)
    assert at_work.snapshot() == AtWork(counted=211, doing={"b": 0.75})
    at_work.forget()
    assert at_work.snapshot() == AtWork()
