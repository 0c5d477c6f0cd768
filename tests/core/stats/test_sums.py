"""Sums over disjoint sets of rows are those over all rows."""

import functools
import operator

import numpy as np
from hypothesis import given, strategies as st

from bertscore_core import ScoreSummary
from bertscore_core.stats import ScoreStatistics, cancelling

# Not so near 0 that the moves are as large as the scores.
RAW = st.floats(-1, 1, width=32).filter(lambda value: value == 0 or abs(value) > 1e-3)
ROWS = st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), max_size=40)


def summary_of(rows: list[tuple[float, bool]]) -> ScoreSummary:
    scores = np.array([score for score, _ in rows], dtype=np.float32)
    cut = np.array([is_cut for _, is_cut in rows], dtype=np.bool_)
    counts = {f"reason {int(score > 0)}": 1 for score in scores}
    return ScoreSummary.of(
        np.stack([scores, scores / 2, scores / 4]),
        cancelling=cut,
        truncated=cut,
        windowed=~cut,
        rows=len(rows),
        reasons=counts,
        rejected_reasons={},
    )


@given(st.lists(ROWS, max_size=8))
def test_summaries_of_parts_add_up_to_that_of_all_rows(parts: list[list[tuple[float, bool]]]):
    rows = [row for part in parts for row in part]
    summaries = [summary_of(part) for part in parts]
    merged, whole = ScoreSummary.merge(summaries), summary_of(rows)
    assert merged == functools.reduce(operator.add, summaries, ScoreSummary())
    assert (merged.rows, merged.truncated) == (len(rows), whole.truncated)
    assert (merged.windowed, merged.cancelling) == (whole.windowed, whole.cancelling)
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    sums = [merged.precision, merged.recall, merged.f1]
    np.testing.assert_allclose(sums, scores.sum() / [1, 2, 4], rtol=0, atol=1e-12)
    for name in ("reason 0", "reason 1"):
        expected = sum(summary.reasons.get(name, 0) for summary in summaries)
        assert merged.reasons.get(name, 0) == expected


@given(st.lists(st.tuples(RAW, RAW), min_size=1, max_size=50))
def test_rounding_moves_f1_far_only_where_precision_and_recall_cancel(pairs):
    precision, recall = np.array(pairs).T
    with np.errstate(divide="ignore", invalid="ignore"):
        f1 = harmonic_mean(precision, recall)
        moves = [
            np.abs(harmonic_mean(precision + a, recall + b) - f1)
            for a in (-3e-7, 3e-7)
            for b in (-3e-7, 3e-7)
        ]
    marked = cancelling(precision, recall, np.nan_to_num(f1))
    furthest = np.nan_to_num(np.max(moves, axis=0), nan=np.inf)
    steady = (precision != 0) | (recall != 0)  # two empty sides score 0 by rule
    assert (furthest[~marked & steady] < 1.01e-6).all()
    assert (furthest[marked] > 0.99e-6).all()
    assert not marked[~steady].any()


def harmonic_mean(precision, recall):
    return 2 * precision * recall / (precision + recall)


def test_an_f1_beyond_1_is_that_of_a_cancelling_pair_whatever_its_row_shows():
    one = np.ones(3)
    np.testing.assert_array_equal(cancelling(one, one, [1 + 4e-7, 1.2, -7]), [False, True, True])


def test_sums_of_nothing_are_the_neutral_element():
    some, nothing = ScoreSummary(rows=2, f1=0.5, reasons={"empty": 1}), ScoreSummary()
    assert ScoreSummary.merge([]) == nothing
    assert some + nothing == ScoreSummary.merge([nothing, some]) == some
    assert ScoreStatistics.merge([]) == ScoreStatistics()


def test_what_is_not_known_of_one_set_is_not_known_of_all():
    known, unknown = ScoreStatistics(rows=1, reused=1), ScoreStatistics(rows=2, reused=None)
    assert (known + unknown).reused is None
    assert (known + known).reused == 2
