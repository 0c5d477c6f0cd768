"""Correlations over segments equal scipy's, and their errors are those of resampled rows."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from bertscore_core.errors import InputError
from bertscore_core.stats.agreement import auc, kendall, pearson, spearman
from tests.core.stats.judgements import jackknife_errors, judged

SCIPY = {
    pearson: scipy.stats.pearsonr,
    spearman: scipy.stats.spearmanr,
    kendall: scipy.stats.kendalltau,
}
STATISTICS = [pytest.param(statistic, id=statistic.__name__) for statistic in (*SCIPY, auc)]
TIED = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.booleans()), min_size=2, max_size=40
)


@given(TIED)
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_correlations_equal_scipys_with_any_ties(rows):
    people, scores = np.array([row[:2] for row in rows], dtype=np.float64).T
    for ours, theirs in SCIPY.items():
        expected = theirs(people, scores).statistic
        np.testing.assert_allclose(ours(people, scores).values, [expected], atol=1e-12)


@given(TIED)
@settings(max_examples=50, deadline=None)
def test_auc_is_the_statistic_of_mann_and_whitney(rows):
    labels = np.array([row[2] for row in rows], dtype=np.float64)
    scores = np.array([row[0] for row in rows], dtype=np.float64)
    found = auc(labels, scores).values
    if labels.min() == labels.max():
        assert np.isnan(found).all()
        return
    yes, no = scores[labels == 1], scores[labels == 0]
    expected = scipy.stats.mannwhitneyu(yes, no).statistic / len(yes) / len(no)
    np.testing.assert_allclose(found, [expected], atol=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_errors_are_those_of_leaving_out_rows(statistic):
    """The jackknife counts each statistic again without each row; terms are counted once."""
    rows = judged(40, 5, noise=(0.5, 2.0), seed=1)
    people = rows.people > 50 if statistic is auc else rows.people
    expected = jackknife_errors(
        lambda chosen: statistic(people[chosen], rows.scores[:, chosen]).values,
        np.arange(len(people)),
    )
    found = statistic(people, rows.scores)
    np.testing.assert_allclose(found.errors, expected, rtol=0.03)
    np.testing.assert_allclose(found.influences.mean(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_rows_given_twice_add_nothing_when_they_are_one_cluster(statistic):
    rows = judged(60, 4, noise=(1.0,), seed=2)
    people = rows.people > 50 if statistic is auc else rows.people
    once = statistic(people, rows.scores)
    twice = statistic(
        np.tile(people, 2), np.tile(rows.scores, 2), clusters=np.tile(np.arange(len(people)), 2)
    )
    assert twice.clusters == once.clusters
    np.testing.assert_allclose(twice.errors, once.errors, rtol=0.01)
    apart = statistic(np.tile(people, 2), np.tile(rows.scores, 2))
    assert apart.errors[0] < 0.75 * once.errors[0]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_constant_side_has_no_correlation_and_no_error(statistic):
    people = np.array([0.0, 1.0, 1.0, 0.0])
    constant = np.full(4, 0.1)
    found = statistic(people, np.array([constant, people]))
    if statistic is auc:  # which a constant score guesses
        assert found.values.tolist() == [0.5, 1.0]
        return
    assert np.isnan(found.values[0])
    assert np.isnan(found.errors[0])
    assert np.isnan(found.intervals()[0]).all()
    assert np.isnan(found.p_below(1)[0])
    assert found.values[1] == pytest.approx(1)


@pytest.mark.parametrize("size", [1e-9, 1.0, -1e9])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_noise_of_float32_alone_is_no_variation(statistic, size):
    """Scores of candidates that equal their references are 1 but for some 2e-7.

    Judgements have only the noise of adding, which is far smaller.
    """
    rng = np.random.default_rng(2)
    people = rng.permuted(np.arange(60) % 2)
    constant = size * (1 + rng.uniform(-5e-7, 5e-7, (3, 60)))
    found = statistic(people, np.concatenate([constant, [people]]))
    assert found.values[3] == pytest.approx(1)
    if statistic is auc:
        assert found.values[:3].tolist() == [0.5] * 3
        return
    assert np.isnan(found.values[:3]).all()
    judged = size * (1 + rng.uniform(-5e-14, 5e-14, 60))
    assert np.isnan(statistic(judged, people).values).all()
    varies = size * (1 + 2e-5 * people)
    assert statistic(people, varies).values == pytest.approx([np.sign(size)])


def test_a_number_that_is_missing_is_an_error():
    with pytest.raises(InputError, match="2 of 4 rows have no judgement or no score"):
        kendall([1.0, np.nan, 3.0, 4.0], [[1.0, 2.0, np.inf, 4.0], [1.0, 2.0, 3.0, 4.0]])


def test_shapes_and_labels_that_do_not_fit_are_errors():
    with pytest.raises(InputError, match=r"got shapes \(3,\) and \(1, 2\)"):
        pearson([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="got 1 clusters for 3 rows"):
        spearman([1, 2, 3], [1, 2, 4], clusters=["a"])
    with pytest.raises(InputError, match="2 of 3 labels are neither 0 nor 1, such as 2"):
        auc([1, 2, 3], [1, 2, 4])


@pytest.mark.parametrize("statistic", STATISTICS)
def test_no_rows_and_one_row_have_no_value(statistic):
    for size in (0, 1):
        found = statistic(np.ones(size), np.ones((2, size)))
        assert np.isnan(found.values).all()
        assert np.isnan(found.errors).all()
        assert np.isnan(found.intervals()).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_numbers_whose_squares_do_not_fit_a_double_have_a_correlation(scale):
    people, scores = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 5.0])
    expected = scipy.stats.pearsonr(people, scores).statistic
    assert pearson(people * scale, scores / scale).values == pytest.approx([expected], abs=1e-12)


def test_intervals_of_thirty_rows_hold_less_than_they_say():
    """The shares that `tune` and its page name; multivariate t of 4 degrees has heavy tails."""
    nights, rows, held = 1000, 30, np.zeros(2)
    for seed in range(nights):
        rng = np.random.default_rng(seed)
        people, noise = rng.normal(size=(2, rows))
        pair = np.array([people, 0.65 * people + np.sqrt(1 - 0.65**2) * noise])
        heavy = pair * np.sqrt(4 / rng.chisquare(4, size=rows))
        for i, (one, other) in enumerate((pair, heavy)):
            low, high = pearson(one, other).intervals(seed=seed)[0]
            held[i] += low < 0.65 < high
    assert held / nights == pytest.approx([0.91, 0.82], abs=0.025)
