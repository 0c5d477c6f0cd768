"""Statistics of groups: exact in any order, equal to numpy's on the rows, and compact."""

import itertools
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertscore_core.errors import InputError
from bertscore_core.histograms import PackedHistogram
from bertscore_core.score_statistics import (
    STATISTIC_BINS,
    GroupedRows,
    ScoreStatistics,
    statistics_by_group,
)

GROUPS = 3


def some_rows(number: int, *, seed: int = 0, rescaled: bool = True) -> GroupedRows:
    """Return rows of three groups, a tenth of them without scores."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(0.7, 0.15, (number, 3)).astype(np.float32)
    raw[rng.random(number) < 0.1] = np.nan
    return GroupedRows(
        groups=rng.integers(0, GROUPS, number),
        number=GROUPS,
        scores=(raw - 0.5) / 0.5 if rescaled else raw,
        raw=raw if rescaled else None,
        truncated=rng.random(number) < 0.2,
        reasons={row: "null_candidate" for row in np.flatnonzero(np.isnan(raw[:, 0])).tolist()},
        reused=rng.random(number) < 0.5,
    )


def chosen(rows: GroupedRows, positions: Sequence[int]) -> GroupedRows:
    """Return some rows, in the order given."""
    at = np.array(positions, dtype=np.int64)
    assert rows.reused is not None
    return GroupedRows(
        groups=rows.groups[at],
        number=rows.number,
        scores=rows.scores[at],
        raw=None if rows.raw is None else rows.raw[at],
        truncated=rows.truncated[at],
        reasons={
            new: rows.reasons[old] for new, old in enumerate(positions) if old in rows.reasons
        },
        reused=rows.reused[at],
    )


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
        added = [one + other for one, other in zip(part, added, strict=True)]
    assert added == whole
    assert [one.to_bytes() for one in added] == [one.to_bytes() for one in whole]


def test_counts_means_and_deviations_are_those_of_the_rows() -> None:
    rows = some_rows(5000)
    assert rows.raw is not None
    assert rows.reused is not None
    found = statistics_by_group(rows)
    assert sum(one.rows for one in found) == 5000
    for group, one in enumerate(found):
        own = rows.groups == group
        kept = own & ~np.isnan(rows.scores[:, 0])
        final, raw = rows.scores[kept].astype(np.float64), rows.raw[kept].astype(np.float64)
        assert (one.rows, one.scored) == (own.sum(), kept.sum())
        assert one.rejected == own.sum() - kept.sum()
        assert one.truncated == (rows.truncated & kept).sum()
        assert one.reused == (rows.reused & own).sum()
        assert one.reasons == one.rejected_reasons == {"null_candidate": one.rejected}
        np.testing.assert_allclose(one.means, final.mean(axis=0), rtol=0, atol=1e-11)
        np.testing.assert_allclose(one.raw_means, raw.mean(axis=0), rtol=0, atol=1e-11)
        np.testing.assert_allclose(one.deviations, final.std(axis=0, ddof=1), rtol=1e-9)
        np.testing.assert_allclose(one.raw_deviations, raw.std(axis=0, ddof=1), rtol=1e-9)
        errors = final.std(axis=0, ddof=1) / np.sqrt(len(final))
        np.testing.assert_allclose(one.standard_errors, errors, rtol=1e-9)


def test_quantiles_are_of_raw_scores_to_the_width_of_a_bin() -> None:
    rows = some_rows(4000)
    assert rows.raw is not None
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    for group, one in enumerate(statistics_by_group(rows)):
        raw = rows.raw[(rows.groups == group) & ~np.isnan(rows.raw[:, 0])]
        expected = np.quantile(np.clip(raw, -1, 1), shares, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(one.quantiles(shares), expected, atol=2 / STATISTIC_BINS)


def test_a_reason_of_a_scored_row_is_not_one_of_a_rejected_row() -> None:
    rows = some_rows(1)
    with_score = GroupedRows(
        groups=np.zeros(2, dtype=np.int64),
        number=1,
        scores=np.array([[0, 0, 0], [np.nan] * 3], dtype=np.float32),
        raw=None,
        truncated=np.zeros(2, dtype=np.bool_),
        reasons={0: "empty_candidate", 1: "null_candidate"},
        reused=None,
    )
    (one,) = statistics_by_group(with_score)
    assert one.reasons == {"empty_candidate": 1, "null_candidate": 1}
    assert one.rejected_reasons == {"null_candidate": 1}
    assert one.reused is None
    assert (one + statistics_by_group(rows)[0]).reused is None


def test_a_score_without_bound_counts_as_the_largest_one() -> None:
    scores = np.array([[0.5, -0.5, np.inf], [0.5, -0.5, -1e30], [1, 1, 1e5]], dtype=np.float32)
    rows = GroupedRows(
        groups=np.zeros(3, dtype=np.int64),
        number=1,
        scores=scores,
        raw=None,
        truncated=np.zeros(3, dtype=np.bool_),
        reasons={},
        reused=None,
    )
    (one,) = statistics_by_group(rows)
    assert one.means[2] == pytest.approx(1e5 / 3)
    assert one.deviations[2] == pytest.approx(np.std([2.0**26, -(2.0**26), 1e5], ddof=1))
    assert one.histograms[2] == PackedHistogram.of(np.array([0, 4095]), np.array([1, 2]))


def test_no_rows_have_no_means() -> None:
    empty = ScoreStatistics()
    assert np.isnan(empty.means).all()
    assert np.isnan(empty.deviations).all()
    assert np.isnan(empty.quantiles([0.5])).all()
    assert ScoreStatistics.from_bytes(empty.to_bytes()) == empty


def test_statistics_come_back_from_bytes_and_are_small() -> None:
    for one in statistics_by_group(some_rows(3000)):
        assert ScoreStatistics.from_bytes(one.to_bytes()) == one
        assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - its own bytes
        assert len(one.to_bytes()) < 5000  # of 1,000 rows with three histograms


@pytest.mark.parametrize("damage", [lambda b: b[:-4], lambda b: b"{}", lambda b: b[:30] + b[31:]])
def test_damaged_bytes_are_refused(damage: object) -> None:
    (one, *_) = statistics_by_group(some_rows(100))
    assert callable(damage)
    with pytest.raises(InputError, match="statistics of a group"):
        ScoreStatistics.from_bytes(damage(one.to_bytes()))
