"""What this process and its children are at work on is added up."""

import pytest

from bertscore_beam.run import activity
from bertscore_beam.run.activity import Activity

pytestmark = pytest.mark.usefixtures("nothing_at_work")


def test_shares_are_asked_for_while_the_work_goes_on():
    shares = iter([0.25, 0.5])
    activity.count_rows(30)
    activity.count_rows(12)
    with activity.report_fraction("part", lambda: next(shares)):
        assert activity.snapshot() == Activity(counted=42, fractions={"part": 0.25})
        assert activity.snapshot() == Activity(counted=42, fractions={"part": 0.5})
    assert activity.snapshot() == Activity(counted=42)
    # One that cannot be told does not hide the others.
    with (
        activity.report_fraction("bad", lambda: 1 / 0),
        activity.report_fraction("good", lambda: 0.5),
    ):
        assert activity.snapshot().fractions == {"good": 0.5}


def test_children_are_added_and_what_a_lost_one_had_in_hand_is_forgotten():
    activity.count_rows(1)
    activity.update_child(7, Activity(counted=10, fractions={"a": 0.5}, status="loading"))
    activity.update_child(8, Activity(counted=100, fractions={"b": 0.25}))
    activity.update_child(
        8, Activity(counted=200, fractions={"b": 0.75})
    )  # in the place of the one before
    both = Activity(counted=211, fractions={"a": 0.5, "b": 0.75}, status="loading")
    assert activity.snapshot() == both
    with activity.report_status("compiling"):
        assert activity.snapshot().status == "compiling"
    activity.drop_child(7)
    assert activity.snapshot() == Activity(counted=211, fractions={"b": 0.75})
    activity.reset()
    assert activity.snapshot() == Activity()
