"""Totals merge in any order, and the verdict follows them."""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.splits import Split
from bertscore_beam.records.summary import Gates, RunStart, Totals, summarize
from bertscore_core.stats.score_statistics import ScoreSummary, UnknownTokens
from bertscore_core.sums import ExactSums
from tests.pipelines.records.test_records import splits_of

CUT = "max_truncated_fraction"


def split(rows: int, offset: int = 0) -> Split:
    (whole,) = splits_of("a.parquet", rows, rows)
    return replace(whole, row_offset=offset)


def part(rows: int, scored: int, truncated: int = 0) -> Totals:
    summary = ScoreSummary(
        rows=rows,
        scored=scored,
        sums=ExactSums(steps=(4 * scored, 2 * scored, 3 * scored), places=3),
        truncated=truncated,
        reasons={"null_candidate": rows - scored} if rows > scored else {},
    )
    return Totals(parts=1, fresh_rows=rows, summary=summary, seconds=1.0)


def run_start(**changes) -> RunStart:
    limits = {"min_rows": 1, "max_reject_fraction": 0.1}
    limits |= {name: changes.pop(name) for name in Gates.__dataclass_fields__ if name in changes}
    values = {"parts": 2, "rows": 30, "files": 1, "gates": Gates(**limits)}
    return RunStart(**({"started": time.time() - 10} | values | changes))


def judged(new: Totals, *, missing=0, **changes) -> dict[str, Any]:
    return summarize(run_start(**changes), new, "signature", missing=missing)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.randoms())
def test_totals_do_not_depend_on_order(counts, generator):
    totals = [part(rows + scored, scored) for rows, scored in counts]
    totals += [Totals.of_failed(split(n, n), "x") for n in range(3)]
    expected = Totals.merge(totals)
    generator.shuffle(totals)
    middle = len(totals) // 2
    assert Totals.merge(totals[:middle]) + Totals.merge(totals[middle:]) == expected


def unknown(rows: int, unknown: int, **languages: tuple[int, int]) -> Totals:
    """Rows of ten tokens each, and unknown tokens among them; of languages (rows, unknown)."""

    def summary(rows: int, unknown: int) -> ScoreSummary:
        tokens = UnknownTokens(tokens=10 * rows, unknown=unknown)
        return ScoreSummary(rows=rows, scored=rows, unknown=tokens)

    return replace(
        part(rows, rows),
        summary=summary(rows, unknown),
        languages={name: summary(*counts) for name, counts in languages.items()},
    )


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        (unknown(3, 30), {"all rows": 1.0}),
        (unknown(30, 150), {}),  # exactly the share that may be unknown
        (unknown(30, 151), {"all rows": 151 / 300}),
        (unknown(60, 290, th=(20, 200), en=(40, 90)), {"th": 1.0}),
        (unknown(60, 240, th=(19, 190), en=(41, 50)), {}),
        (unknown(0, 0), {}),
    ],
)
def test_all_rows_and_each_language_with_twenty_are_judged_by_their_unknown_tokens(
    totals, expected
):
    rows = totals.summary.rows
    found = judged(totals, parts=1, rows=rows, min_rows=0, max_unknown_fraction=0.5)
    assert found["mostly_unknown"] == expected
    assert found["failed_gates"] == (["max_unknown_fraction"] if expected else [])
    assert not judged(totals, parts=1, rows=rows, min_rows=0, max_unknown_fraction=1.0)[
        "failed_gates"
    ]


BOTH, SOME, BROKEN = part(20, 20) + part(10, 10), ["max_reject_fraction"], None
SEVERAL = replace(part(30, 30), parts=2, input_rows=6)
"""Six rows of the input, with several candidates each."""


@pytest.mark.parametrize(
    ("new", "changes", "failed"),
    [
        (BOTH, {}, []),
        (part(20, 19) + part(10, 9), {}, []),
        (part(20, 18) + part(10, 9), {}, []),  # exactly the share that may be rejected
        (BOTH, {"max_reject_fraction": 0.0}, []),
        (part(20, 19) + part(10, 10), {"max_reject_fraction": 0.0}, SOME),
        (part(20, 16) + part(10, 10), {}, SOME),
        (part(20, 16) + part(10, 10), {"max_reject_fraction": 1.0}, []),
        (part(20, 20), {}, BROKEN),
        (part(20, 20), {"carried": part(10, 10)}, []),
        (BOTH, {"num_rejected_files": 1, "files": 2}, SOME),
        (BOTH, {"num_rejected_files": 1, "files": 20}, []),
        (BOTH, {"num_parts_gone": 1}, ["parts_of_inputs_gone"]),
        (BOTH, {"num_unreachable_files": 1}, BROKEN),
        # Workers reported everything, yet a part is gone or one is too many.
        (BOTH, {"missing": ["a"]}, BROKEN),
        (SEVERAL, {"rows": None, "min_rows": 6}, []),
        (SEVERAL, {"rows": None, "min_rows": 7}, ["min_rows"]),
        (replace(part(20, 20), input_rows=4), {"rows": None}, BROKEN),
        (BOTH, {"min_rows": 30}, []),
        (BOTH, {"min_rows": 31}, ["min_rows"]),
        (part(20, 20, 3) + part(10, 10), {"max_truncated_fraction": 0.1}, []),
        (part(20, 20, 3) + part(10, 10, 1), {"max_truncated_fraction": 0.1}, [CUT]),
        (part(20, 20), {"max_truncated_fraction": 0.1, "carried": part(10, 10, 4)}, [CUT]),
        (part(20, 20, 20) + part(10, 10, 10), {}, []),
        (
            part(20, 10, 10) + part(10, 10),
            {"min_rows": 31, "max_truncated_fraction": 0.0, "num_parts_gone": 1},
            ["parts_of_inputs_gone", "min_rows", *SOME, CUT],
        ),
    ],
)
def test_a_run_succeeds_if_it_is_complete_and_passes_every_gate(new, changes, failed):
    summary = judged(new, **changes)
    assert summary["complete"] is (failed is not BROKEN)
    assert summary["success"] is (failed == [])
    assert failed is BROKEN or summary["failed_gates"] == failed


def test_clock_that_runs_behind_gives_no_negative_time():
    summary = judged(BOTH, started=time.time() + 3600)
    assert (summary["seconds"], summary["pairs_per_second"]) == (0.0, None)


def test_summary_says_what_happened():
    failure = Totals.of_failed(split(10, 20), "InputError: torn")
    summary = judged(part(20, 16) + failure, missing=1)
    assert (summary["precision"], summary["rejected"]) == (0.5, 14)
    assert summary["reasons"] == {"null_candidate": 4}
    assert summary["failures"] == {"a.parquet/part-000000000020.parquet": "InputError: torn"}
    assert summary["pairs_per_second"] == pytest.approx(2.0, rel=0.2)


def test_run_without_scored_rows_has_no_means():
    summary = judged(Totals(), rows=0, parts=0, min_rows=0)
    assert (summary["f1"], summary["truncated_fraction"], summary["success"]) == (None, 0.0, True)
