"""Statistics of groups: exact in any order, equal to numpy's on the rows, and compact."""

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bertscore_core.stats.score_statistics import (
    STATISTIC_BINS,
    GroupedRows,
    PackedHistogram,
    ScoreStatistics,
    ScoreSummary,
    statistics_by_group,
    summary_by_group,
)

GROUPS = 3


def some_rows(number: int) -> GroupedRows:
    """Return rows of three groups, a tenth of them without scores."""
    rng = np.random.default_rng(0)
    raw = rng.normal(0.7, 0.15, (number, 3)).astype(np.float32)
    raw[rng.random(number) < 0.1] = np.nan
    return GroupedRows(
        groups=rng.integers(0, GROUPS, number),
        number=GROUPS,
        scores=(raw - 0.5) / 0.5,
        raw=raw,
        truncated=rng.random(number) < 0.2,
        reasons={row: "null_candidate" for row in np.flatnonzero(np.isnan(raw[:, 0])).tolist()},
        windowed=rng.random(number) < 0.5,
        tokens=(tokens := rng.integers(-1, 9, number), np.minimum(tokens, 3)),
    )


def chosen(rows: GroupedRows, positions: Sequence[int]) -> GroupedRows:
    """Return some rows, in the order given."""
    at = np.array(positions, dtype=np.int64)
    names = ("groups", "scores", "raw", "truncated", "windowed")
    reasons = {new: rows.reasons[old] for new, old in enumerate(positions) if old in rows.reasons}
    tokens = None if rows.tokens is None else (rows.tokens[0][at], rows.tokens[1][at])
    arrays = {name: getattr(rows, name)[at] for name in names}
    return replace(rows, reasons=reasons, tokens=tokens, **arrays)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(60)), st.lists(st.integers(0, 60), max_size=5))
def test_any_order_and_any_cut_into_parts_give_the_same_statistics(
    order: list[int], cuts: list[int]
) -> None:
    rows = some_rows(60)
    whole = statistics_by_group(rows)
    edges = [0, *sorted(cuts), 60]
    parts = [
        statistics_by_group(chosen(rows, order[first:end]))
        for first, end in itertools.pairwise(edges)
    ]
    added = [ScoreStatistics() for _ in range(GROUPS)]
    for part in reversed(parts):
        added = [sums + other for sums, other in zip(part, added, strict=True)]
    assert added == whole
    names = [field.name for field in fields(ScoreSummary)]
    for summary, sums in zip(summary_by_group(rows), whole, strict=True):
        assert summary == ScoreSummary(**{name: getattr(sums, name) for name in names})


def test_counts_means_and_deviations_are_those_of_the_rows() -> None:
    rows = some_rows(5000)
    assert rows.raw is not None
    assert rows.windowed is not None
    groups = statistics_by_group(rows)
    assert sum(sums.rows for sums in groups) == 5000
    for group, sums in enumerate(groups):
        own = rows.groups == group
        scored = own & ~np.isnan(rows.scores[:, 0])
        final, raw = rows.scores[scored].astype(np.float64), rows.raw[scored].astype(np.float64)
        beyond = raw[:, 2] > 1  # by more than rounding
        final[beyond, 2] = raw[beyond, 2] = 1.0
        assert sums.clipped == beyond.sum() > 0
        assert (sums.rows, sums.scored) == (own.sum(), scored.sum())
        assert sums.rejected == own.sum() - scored.sum()
        assert sums.truncated == (rows.truncated & scored).sum()
        assert sums.windowed == (rows.windowed & scored).sum()
        assert sums.reasons == sums.rejected_reasons == {"null_candidate": sums.rejected}
        np.testing.assert_allclose(sums.means, final.mean(axis=0), rtol=0, atol=1e-11)
        np.testing.assert_allclose(sums.raw_means, raw.mean(axis=0), rtol=0, atol=1e-11)
        expected = final.std(axis=0, ddof=1) / np.sqrt(len(final))
        np.testing.assert_allclose(sums.standard_errors, expected, rtol=1e-9)


def test_quantiles_are_of_raw_scores_to_the_width_of_a_bin() -> None:
    rows = some_rows(4000)
    assert rows.raw is not None
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    for group, sums in enumerate(statistics_by_group(rows)):
        raw = rows.raw[(rows.groups == group) & ~np.isnan(rows.raw[:, 0])]
        expected = np.quantile(np.clip(raw, -1, 1), shares, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(sums.quantiles(shares), expected, atol=2 / STATISTIC_BINS)


def test_an_f1_without_bound_counts_as_1_or_minus_1_before_rescaling() -> None:
    scores = np.float32([[0.5, -0.5, np.inf], [0.5, -0.5, -1e30], [1, 1, 1e5]])
    one_group = {"groups": np.zeros(3, dtype=np.int64), "number": 1, "reasons": {}}
    (sums,) = statistics_by_group(replace(some_rows(3), scores=scores, raw=None, **one_group))
    assert (sums.means[2], sums.clipped) == (pytest.approx(1 / 3), 3)
    assert sums.standard_errors[2] == pytest.approx(np.std([1, -1, 1], ddof=1) / 3**0.5)
    rescaled = ((scores - 0.5) / 0.5).astype(np.float32)
    (sums,) = statistics_by_group(replace(some_rows(3), scores=rescaled, raw=scores, **one_group))
    assert sums.means[2] == pytest.approx((1 - 3 + 1) / 3)
    assert sums.raw_means[2] == pytest.approx(1 / 3)
    assert sums.histograms[2] == PackedHistogram.of(np.array([0, 4095]), np.array([1, 2]))


def test_statistics_are_small_when_they_cross_to_another_process() -> None:
    for sums in statistics_by_group(some_rows(3000)):
        data = pickle.dumps(sums)
        assert pickle.loads(data) == sums  # noqa: S301 - its own bytes
        assert len(data) < 30_000  # of 1,000 rows with three histograms
