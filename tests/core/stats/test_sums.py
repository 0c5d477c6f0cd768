"""Sums over disjoint sets of rows are those over all rows."""

import functools
import operator
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertscore_core.baseline import rescale
from bertscore_core.stats.score_statistics import (
    GroupedRows,
    ScoreStatistics,
    ScoreSummary,
    UnknownTokens,
    clipped_f1,
    is_clipped,
    summary_by_group,
)
from bertscore_core.sums import ExactSums, SumsByName, exact_sums

ROWS = st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), max_size=40)


def summary_of(rows: list[tuple[float, bool]]) -> ScoreSummary:
    scores = np.array([score for score, _ in rows], dtype=np.float32)
    cut = np.array([is_cut for _, is_cut in rows], dtype=np.bool_)
    added = GroupedRows(
        groups=np.zeros(len(rows), dtype=np.int64),
        number=1,
        scores=np.stack([scores, scores / 2, scores / 4], axis=-1),
        raw=None,
        truncated=cut,
        windowed=~cut,
        tokens=(np.full(len(rows), 9), np.where(cut, 9, 2)),
        reasons={row: f"reason {int(score > 0)}" for row, score in enumerate(scores)},
    )
    (summary,) = summary_by_group(added)
    return summary


@given(st.lists(ROWS, max_size=8))
def test_summaries_of_parts_add_up_to_that_of_all_rows(parts: list[list[tuple[float, bool]]]):
    rows = [row for part in parts for row in part]
    summaries = [summary_of(part) for part in parts]
    merged, whole = ScoreSummary.merge(summaries), summary_of(rows)
    assert merged == functools.reduce(operator.add, summaries, ScoreSummary())
    assert (merged.rows, merged.truncated) == (len(rows), whole.truncated)
    assert (merged.windowed, merged.clipped) == (whole.windowed, whole.clipped)
    assert merged.unknown == whole.unknown
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    total = sum(map(Fraction, scores.tolist()), Fraction(0))
    assert merged.sums == whole.sums
    assert merged.sums.over(1) == [float(total / by) for by in (1, 2, 4)]
    means = [float(total / by / len(rows)) if rows else np.nan for by in (1, 2, 4)]
    np.testing.assert_array_equal(whole.means, means)
    for name in ("reason 0", "reason 1"):
        expected = sum(f"reason {int(score > 0)}" == name for score, _ in rows)
        assert merged.reasons.get(name, 0) == expected


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50),
    st.floats(-0.5, 0.9375, width=32),
)
def test_means_take_f1_clipped_before_it_is_rescaled(raw, baseline):
    raw_f1 = np.array(raw, dtype=np.float32)
    final = rescale(raw_f1, np.float32(baseline))
    expected = (np.clip(raw_f1.astype(np.float64), -1, 1) - baseline) / (1 - baseline)
    beyond = is_clipped(raw_f1)
    np.testing.assert_array_equal(beyond, np.abs(raw_f1) > 1 + 1e-4)
    np.testing.assert_allclose(clipped_f1(final, raw_f1)[beyond], expected[beyond], rtol=2e-5)
    np.testing.assert_array_equal(clipped_f1(final, raw_f1)[~beyond], final[~beyond])
    np.testing.assert_allclose(clipped_f1(raw_f1, raw_f1), np.clip(raw_f1, -1, 1), atol=1.1e-4)


def test_an_f1_that_rounding_moves_beyond_1_is_not_clipped_and_an_infinite_one_is():
    f1 = np.float32([1 + 4e-7, -np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(is_clipped(f1), [False, True, True, False])
    np.testing.assert_array_equal(clipped_f1(f1, f1), [np.float32(1 + 4e-7), -1, 1, np.nan])


def test_sums_of_nothing_are_the_neutral_element():
    sums = ExactSums(steps=(0, 0, 1), places=1)
    some, nothing = ScoreSummary(rows=2, sums=sums, reasons={"empty": 1}), ScoreSummary()
    assert ScoreSummary.merge([]) == nothing
    assert some + nothing == ScoreSummary.merge([nothing, some]) == some
    assert ScoreStatistics.merge([]) == ScoreStatistics()


def test_sums_by_name_are_those_of_all_that_was_added_and_few_wait():
    sums = SumsByName[str, UnknownTokens]()
    for number in range(100):
        sums.add("ab"[number % 2], UnknownTokens(tokens=number))
    assert {name: own.tokens for name, own in sums.merged().items()} == {"a": 2450, "b": 2500}
    assert UnknownTokens.merge(sums.parts("bc")).tokens == 2500
    assert max(map(len, sums.values())) < 20


LARGEST = sys.float_info.max
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def sum_of(*values: float) -> ExactSums:
    (found,) = exact_sums(np.array(values)[:, None], np.zeros(len(values), np.int64), 1)
    return found


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([5e-324], 5e-324),
        ([5e-324] * 3, 5e-324),
        ([5e-324, 0.0], 0.0),  # a half of the least double is rounded to even
        ([1e-308, 3e-308], 2e-308),
        ([3.2e-20, 8.0e-21, 0.0, 0.0], 1e-20),
        ([1e308] * 5, 1e308),
        ([LARGEST] * 1000, LARGEST),
        ([LARGEST, LARGEST, -LARGEST, -LARGEST, 3e-5], 6e-6),
        ([1e300, 1.0, -1e300], 1 / 3),
        ([-0.0, -0.0], 0.0),
        ([2.0**53, 2.0**53 + 2, 2.0**53 + 4], 2.0**53 + 2),
        ([2.0**60, 1.0, -(2.0**60), 1.0], 0.5),
        ([1e200, *[1e-7] * 999], 1e197),
        ([0.1] * 10, 0.1),
    ],
)
def test_means_of_numbers_of_any_size_are_right_to_the_last_bit(values, mean):
    for order in (values, values[::-1]):
        assert sum_of(*order).over(len(order)) == [mean]
    assert ExactSums.merge([sum_of(value) for value in values]).over(len(values)) == [mean]


@given(st.lists(st.lists(st.tuples(DOUBLES, DOUBLES, st.integers(0, 2)), max_size=9), max_size=4))
def test_sums_have_no_rounding_in_any_order_and_any_parts(parts):
    rows = [row for part in parts for row in part]

    def added(rows):
        values = np.array([row[:2] for row in rows], np.float64).reshape(-1, 2)
        return exact_sums(values, np.array([row[2] for row in rows], np.int64), 3)

    for group, found in enumerate(added(rows)):
        for place, steps in enumerate(found.steps):
            expected = sum((Fraction(row[place]) for row in rows if row[2] == group), Fraction(0))
            assert Fraction(steps, 2**found.places) == expected
    for pieces in (parts, parts[::-1]):
        merged = [ExactSums.merge(own) for own in zip(added([]), *map(added, pieces), strict=True)]
        assert merged == added(rows) == added(rows[::-1])


def test_sums_of_many_rows_have_no_rounding():
    values = np.random.default_rng(0).uniform(0.5, 1, 2**20 + 5).astype(np.float32)
    (found,) = exact_sums(values[:, None].astype(np.float64), np.zeros(len(values), np.int64), 1)
    steps = (values.astype(np.float64) * 2**24).astype(np.int64)
    assert Fraction(found.steps[0], 2**found.places) == Fraction(int(steps.sum()), 2**24)
