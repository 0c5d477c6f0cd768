"""Totals merge in any order, and the verdict follows them."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump import Split
from bertscore_beam.records import FailedSplit, RunGoal, RunTotals, judge
from bertscore_core import ScoreSummary

CUT = "max_truncated_fraction"


def split(rows: int, offset: int = 0) -> Split:
    return Split(
        path="a.parquet",
        input_name="a.parquet",
        file_rows=100,
        file_size=1,
        file_version="",
        first_row_group=0,
        row_group_stop=1,
        row_offset=offset,
        num_rows=rows,
        skip_rows=0,
    )


def part(rows: int, scored: int, truncated: int = 0) -> RunTotals:
    summary = ScoreSummary(
        rows=rows,
        scored=scored,
        precision=0.5 * scored,
        recall=0.25 * scored,
        f1=0.375 * scored,
        truncated=truncated,
        reasons={"null_candidate": rows - scored} if rows > scored else {},
    )
    return RunTotals(parts=1, fresh_rows=rows, summary=summary, seconds=1.0)


def goal(**changes) -> RunGoal:
    values = {
        "parts": 2,
        "rows": 30,
        "files": 1,
        "num_rejected_files": 0,
        "num_unreachable_files": 0,
        "rejected_files": {},
        "min_rows": 1,
        "max_reject_fraction": 0.1,
        "max_truncated_fraction": None,
        "num_orphan_parts": 0,
        "orphan_parts": (),
        "started": time.time() - 10,
        "carried": RunTotals(),
    }
    return RunGoal(**(values | changes))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.randoms())
def test_totals_do_not_depend_on_order(counts, generator):
    totals = [part(rows + scored, scored) for rows, scored in counts]
    totals += [RunTotals.of(FailedSplit(split=split(n, n), reason="x")) for n in range(3)]
    expected = RunTotals.sum(totals)
    generator.shuffle(totals)
    middle = len(totals) // 2
    assert RunTotals.sum(totals[:middle]) + RunTotals.sum(totals[middle:]) == expected


@pytest.mark.parametrize(
    ("new", "changes", "complete", "success"),
    [
        (part(20, 20) + part(10, 10), {}, True, True),
        (part(20, 19) + part(10, 9), {}, True, True),
        (part(20, 18) + part(10, 9), {}, True, True),  # exactly the share that may be rejected
        (part(20, 20) + part(10, 10), {"max_reject_fraction": 0.0}, True, True),
        (part(20, 19) + part(10, 10), {"max_reject_fraction": 0.0}, True, False),
        (part(20, 16) + part(10, 10), {}, True, False),
        (part(20, 16) + part(10, 10), {"max_reject_fraction": 1.0}, True, True),
        (part(20, 20), {}, False, False),
        (part(20, 20), {"carried": part(10, 10)}, True, True),
        (part(20, 20) + part(10, 10), {"num_rejected_files": 1, "files": 2}, True, False),
        (part(20, 20) + part(10, 10), {"num_rejected_files": 1, "files": 20}, True, True),
        (part(20, 20) + part(10, 10), {"num_orphan_parts": 1}, True, False),
        (part(20, 20) + part(10, 10), {"num_unreachable_files": 1}, False, False),
        # Six rows of the input, with several candidates each.
        (replace(part(30, 30), parts=2, input_rows=6), {"rows": None, "min_rows": 6}, True, True),
        (replace(part(30, 30), parts=2, input_rows=6), {"rows": None, "min_rows": 7}, True, False),
        (replace(part(20, 20), input_rows=4), {"rows": None}, False, False),
    ],
)
def test_verdict(new, changes, complete, success):
    summary = judge(goal(**changes), new, "signature", missing=[], doubled=[])
    assert (summary["complete"], summary["success"]) == (complete, success)


@pytest.mark.parametrize("found", [{"missing": ["a"]}, {"doubled": ["a"]}])
def test_folder_has_the_last_word(found):
    """Workers reported everything, yet a part is gone or one is too many."""
    lists = {"missing": [], "doubled": []} | found
    summary = judge(goal(), part(20, 20) + part(10, 10), "signature", **lists)
    assert not summary["complete"]
    assert not summary["success"]


def test_clock_that_runs_behind_gives_no_negative_time():
    ahead = goal(started=time.time() + 3600)
    summary = judge(ahead, part(20, 20) + part(10, 10), "signature", missing=[], doubled=[])
    assert summary["seconds"] == 0.0
    assert summary["pairs_per_second"] is None


def test_summary_says_what_happened():
    failure = RunTotals.of(FailedSplit(split=split(10, 20), reason="InputError: torn"))
    summary = judge(goal(), part(20, 16) + failure, "signature", missing=["x"], doubled=[])
    assert summary["precision"] == 0.5
    assert summary["reasons"] == {"null_candidate": 4}
    assert summary["rejected"] == 14
    assert summary["failures"] == {"a.parquet/part-000000000020.parquet": "InputError: torn"}
    assert summary["pairs_per_second"] == pytest.approx(2.0, rel=0.2)


def test_run_without_scored_rows_has_no_means():
    nothing = goal(rows=0, parts=0, min_rows=0)
    summary = judge(nothing, RunTotals(), "signature", missing=[], doubled=[])
    assert summary["f1"] is None
    assert summary["truncated_fraction"] == 0.0
    assert summary["success"]


@pytest.mark.parametrize(
    ("new", "changes", "failed"),
    [
        (part(20, 20) + part(10, 10), {"min_rows": 30}, []),
        (part(20, 20) + part(10, 10), {"min_rows": 31}, ["min_rows"]),
        (part(20, 20, 3) + part(10, 10), {"max_truncated_fraction": 0.1}, []),
        (part(20, 20, 3) + part(10, 10, 1), {"max_truncated_fraction": 0.1}, [CUT]),
        (part(20, 20), {"max_truncated_fraction": 0.1, "carried": part(10, 10, 4)}, [CUT]),
        (part(20, 20, 20) + part(10, 10, 10), {}, []),
        (
            part(20, 10, 10) + part(10, 10),
            {"min_rows": 31, "max_truncated_fraction": 0.0, "num_orphan_parts": 1},
            ["parts_of_inputs_gone", "min_rows", "max_reject_fraction", CUT],
        ),
    ],
)
def test_every_gate_that_was_not_passed_is_named(new, changes, failed):
    summary = judge(goal(**changes), new, "signature", missing=[], doubled=[])
    assert summary["complete"]
    assert summary["failed_gates"] == failed
    assert summary["success"] is not bool(failed)
