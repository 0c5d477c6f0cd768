"""Intervals of a mean from its histogram: equal to scipy's bootstrap, and right how often."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from bertscore_core.errors import InputError
from bertscore_core.stats.intervals import (
    effective_rows,
    effective_rows_in,
    is_dominated,
    mean_intervals,
    method_of,
)
from bertscore_core.stats.score_statistics import GroupedRows, ScoreStatistics, statistics_by_group
from tests.support.nights import coverage


def statistics_of(values: np.ndarray, scale: float = 1.0) -> ScoreStatistics:
    """Return the statistics of rows whose three raw scores are the same; final ones are scaled."""
    raw = np.stack([values] * 3, axis=1)
    rows = GroupedRows(
        groups=np.zeros(len(values), dtype=np.int64),
        number=1,
        scores=raw * scale,
        raw=None if scale == 1 else raw,
        truncated=np.zeros(len(values), dtype=np.bool_),
        reasons={},
    )
    return statistics_by_group(rows)[0]


def normal(rng: np.random.Generator, number: int) -> np.ndarray:
    """Draw from a normal distribution with mean .6."""
    return rng.normal(0.6, 0.1, number)


def skewed(rng: np.random.Generator, number: int) -> np.ndarray:
    """Draw from a distribution with mean .65 and skewness -1.4."""
    return 0.8 - rng.gamma(2.0, 0.075, number)


@pytest.mark.parametrize("number", [20, 200])
def test_the_bootstrap_is_that_of_scipy_on_the_rows(number: int) -> None:
    values = skewed(np.random.default_rng(1), number)
    found = mean_intervals(statistics_of(values))[:, 0]
    drawn = stats.bootstrap((values,), np.mean, n_resamples=40_000, batch=1000, rng=2)
    ends = np.array(drawn.confidence_interval)
    # Ours is wider by the factor of Student's t, and by that of n / (n - 1) rows.
    wider = stats.t.ppf(0.975, number - 1) / stats.norm.ppf(0.975) * np.sqrt(number / (number - 1))
    expected = values.mean() + (ends - values.mean()) * wider
    np.testing.assert_allclose(found, expected, atol=0.06 * stats.sem(values))


def test_large_groups_have_the_interval_of_normal_theory() -> None:
    values = skewed(np.random.default_rng(1), 10_000)
    expected = stats.norm.interval(0.95, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose(mean_intervals(statistics_of(values))[:, 1], expected, atol=1e-9)
    assert (method_of(10_000), method_of(9_999)) == ("normal", "bootstrap")


def test_rescaled_scores_have_the_interval_of_the_raw_ones_rescaled() -> None:
    values = skewed(np.random.default_rng(3), 300)
    raw, final = (mean_intervals(statistics_of(values, scale=scale)) for scale in (1.0, 8.0))
    np.testing.assert_allclose(final, 8 * raw, rtol=1e-7)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9), st.integers(1, 50))
def test_rows_equally_far_from_the_mean_carry_the_variance_all_alike(nulls, times) -> None:
    assert effective_rows(np.array([1.0, -1.0]), times) == pytest.approx(2 * times)
    assert effective_rows(np.array([*np.zeros(len(nulls)), 0.5]), [*nulls, times]) == pytest.approx(
        times
    )
    assert effective_rows(np.zeros(3)) is None


def test_few_carry_the_variance_of_some_zeros_and_not_of_normal_scores() -> None:
    scores = normal(np.random.default_rng(2), 100)
    assert not is_dominated(effective_rows_in(statistics_of(scores).histograms[2]), 100)
    scores[:3] = -1
    number = effective_rows_in(statistics_of(scores).histograms[2])
    assert number == pytest.approx(stats_carriers(scores), rel=0.01)
    assert is_dominated(number, 100)
    narrow = np.full(100, 0.7)
    narrow[0] += 1e-3
    assert effective_rows_in(statistics_of(narrow).histograms[2]) is None


def stats_carriers(scores: np.ndarray) -> float:
    return len(scores) / float(stats.kurtosis(scores, fisher=False))


# Of 4,000 samples each: intervals of a group hold the mean, and are warned about; those of pairs
# hold it, and the gate fires, in hundredths.
SEEN = {
    ("normal", 20): (95, 2, 95, 5),
    ("normal", 100): (95, 0, 95, 5),
    ("gamma, skewness -1.4", 30): (95, 15, 94, 8),
    ("gamma, skewness -4", 30): (91, 73, 87, 17),
    ("gamma, skewness -4", 1000): (95, 0, 95, 6),
    ("gamma, skewness -4", 20): (90, 70, 85, 19),
    ("2% zeros", 20): (56, 34, 57, 52),
    ("2% zeros", 30): (53, 45, 54, 50),
    ("2% zeros", 100): (86, 82, 87, 13),
    ("10% zeros", 20): (87, 56, 88, 12),
    ("10% zeros", 100): (96, 3, 93, 9),
}


@pytest.mark.parametrize(
    ("samples", "cases"),
    [
        (150, [("normal", 20), ("2% zeros", 30), ("2% zeros", 100)]),
        pytest.param(2000, SEEN, marks=pytest.mark.long),
    ],
)
def test_skewed_scores_and_rare_zeros_are_covered_as_the_docs_say(samples, cases) -> None:
    for case in cases:
        found = 100 * coverage(*case, samples, seed=1)
        expected = np.array(SEEN[case])
        noise = 3.3 * np.sqrt(np.maximum(expected * (100 - expected), 100) / samples)
        assert (np.abs(found - expected) < noise + 0.5).all(), (case, found)


def test_equal_scores_have_an_interval_of_no_width() -> None:
    ends = mean_intervals(statistics_of(np.full(50, 0.75)))
    np.testing.assert_array_equal(ends, np.full((2, 3), 0.75))


def test_nearly_equal_scores_have_the_interval_of_students_t() -> None:
    values = np.random.default_rng(0).normal(0.7, 2e-5, 40)
    expected = stats.t.interval(0.9, 39, loc=values.mean(), scale=stats.sem(values))
    found = mean_intervals(statistics_of(values), 0.9)[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-4 * stats.sem(values))


def test_fewer_than_twenty_rows_have_no_interval() -> None:
    for number in (0, 1, 3, 19):
        values = np.linspace(0.7, 0.8, number)
        found = statistics_of(values) if number else ScoreStatistics()
        assert np.isnan(mean_intervals(found)).all()
        assert method_of(number) is None
    assert np.isfinite(mean_intervals(statistics_of(np.linspace(0.7, 0.8, 20)))).all()


def test_intervals_end_where_scores_do() -> None:
    values = np.array([*[1.0] * 19, -0.9])
    ends = mean_intervals(statistics_of(values))
    assert (ends >= -1).all()
    assert (ends[1] == 1).all()
    rescaled = statistics_of(values, scale=2.0)
    assert mean_intervals(rescaled)[1, 0] > 1
    beyond = mean_intervals(statistics_of(np.array([0.2, *[-2.5] * 19])))
    assert beyond[0, 2] == -1


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan")])
def test_a_confidence_beyond_0_and_1_is_refused(confidence: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_intervals(ScoreStatistics(), confidence)
