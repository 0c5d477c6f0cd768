"""Rescaling moves scores, and no ranking and no correlation."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bertscore_core import find_baseline, published_baselines, rescale
from bertscore_core.stats import kendall, pearson, spearman
from tests.core.stats.judgements import judged


@pytest.mark.parametrize("statistic", [spearman, kendall, pearson])
def test_rescaling_changes_no_ranking_and_no_correlation(statistic):
    rows = judged(300, 4, noise=(0.5, 2.0), seed=9)
    # As BERTScore's are: float32, equal or a millionth apart at least.
    raw = np.round(0.9 + 0.03 * np.tanh(rows.scores), 6).astype(np.float32)
    table = max((find_baseline(*key).rows for key in published_baselines()), key=np.max)
    final = rescale(raw, np.float32(table.max()))
    assert np.abs(final - raw).max() > 0.05
    found, before = (statistic(rows.people, scores).values for scores in (final, raw))
    np.testing.assert_allclose(found, before, atol=1e-6 if statistic is pearson else 0)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=50),
    st.floats(-0.5, 0.984375, width=32),
)
@settings(max_examples=50, deadline=None)
def test_rescaling_never_turns_an_order_around(values, baseline):
    """Neighbours among float32 numbers may become equal, but no score passes another."""
    ordered = np.sort(np.float32(values))
    assert (np.diff(rescale(ordered, np.float32(baseline))) >= 0).all()
