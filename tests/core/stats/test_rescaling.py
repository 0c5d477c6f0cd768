"""Rescaling moves scores, and no ranking and no correlation."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bertscore_core import Baseline, find_baseline, published_baselines, rescale
from bertscore_core.stats import accuracy_with_ties, darr, kendall, pearson, spearman
from tests.core.stats.judgements import judged


def as_scores(values):
    """Put numbers where BERTScore's are: float32, equal or a millionth apart at least."""
    return np.round(0.9 + 0.03 * np.tanh(values), 6).astype(np.float32)


def lowest_and_highest() -> list[Baseline]:
    """Return the published tables with the least and the greatest value."""
    tables = [find_baseline(*key) for key in published_baselines()]
    return [
        min(tables, key=lambda one: one.rows.min()),
        max(tables, key=lambda one: one.rows.max()),
    ]


@pytest.mark.parametrize("baseline", lowest_and_highest(), ids=lambda table: table.name)
def test_rescaling_changes_no_ranking_and_no_correlation(baseline):
    rows = judged(300, 4, noise=(0.5, 2.0), seed=9)
    raw = as_scores(rows.scores)
    final = np.stack(
        [rescale(line, baseline.rows.astype(np.float32)[:, [2]]) for line in raw]
    )  # settings, layers, rows
    assert np.abs(final - raw[:, None]).max() > 0.05
    for layer in (0, 5, -1):
        ours = final[:, layer]
        np.testing.assert_array_equal(
            np.argsort(ours, axis=1, kind="stable"), np.argsort(raw, axis=1, kind="stable")
        )
        for statistic in (spearman, kendall):
            np.testing.assert_array_equal(
                statistic(rows.people, ours).values, statistic(rows.people, raw).values
            )
        np.testing.assert_array_equal(
            darr(rows.people, ours, rows.items).values, darr(rows.people, raw, rows.items).values
        )
        np.testing.assert_allclose(
            pearson(rows.people, ours).values, pearson(rows.people, raw).values, atol=1e-6
        )
    # A threshold of ties is a difference of scores, and is stretched with them.
    ties = accuracy_with_ties(rows.people, final[:, -1], rows.items)
    before = accuracy_with_ties(rows.people, raw, rows.items)
    np.testing.assert_allclose(ties.values, before.values, atol=1e-3)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=50),
    st.floats(-0.5, 0.984375, width=32),
)
@settings(max_examples=50, deadline=None)
def test_rescaling_never_turns_an_order_around(values, baseline):
    """Neighbours among float32 numbers may become equal, but no score passes another."""
    ordered = np.sort(np.float32(values))
    assert (np.diff(rescale(ordered, np.float32(baseline))) >= 0).all()
