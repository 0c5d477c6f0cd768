"""Tests between settings, against other ways to compute them and by simulation."""

import numpy as np
import pytest
import scipy.stats

from bertscore_core.errors import InputError
from bertscore_core.stats import (
    darr,
    kendall,
    not_below_best,
    pearson,
    permutation,
    williams,
    williams_test,
)
from tests.core.stats.judgements import judged

ROWS = judged(150, 2, noise=(1.0, 1.02, 4.0), seed=7)


def correlate(people, scores):
    return pearson(people, scores).values


def plain_williams(first, second, between, rows):
    """The statistic as Graham and Baldwin print it, by the determinant of the correlations."""
    matrix = np.array([[1, first, second], [first, 1, between], [second, between, 1]])
    below = 2 * np.linalg.det(matrix) * (rows - 1) / (rows - 3)
    below += (first + second) ** 2 / 4 * (1 - between) ** 3
    t = (first - second) * np.sqrt((rows - 1) * (1 + between) / below)
    return scipy.stats.t.sf(t, rows - 3)


def test_williams_equals_the_printed_statistic():
    for case in ((0.5, 0.4, 0.7, 100), (0.4, 0.5, 0.7, 100), (-0.2, 0.1, -0.3, 12)):
        found = williams_test(*(np.array([value]) for value in case[:3]), case[3])
        np.testing.assert_allclose(found, [plain_williams(*case)], rtol=1e-10)


def test_williams_is_computed_for_all_settings_at_once():
    found = williams(ROWS.people, ROWS.scores)
    values = correlate(ROWS.people, ROWS.scores)
    best = int(np.argmax(values))
    for setting in set(range(3)) - {best}:
        between = np.corrcoef(ROWS.scores[best], ROWS.scores[setting])[0, 1]
        expected = plain_williams(values[best], values[setting], between, len(ROWS.people))
        assert found[setting] == pytest.approx(expected)
    assert found[best] == 0.5
    assert not_below_best(found).tolist() == [True, True, False]


def test_settings_that_order_alike_are_never_below_each_other():
    scores = np.array([ROWS.scores[0], 2 * ROWS.scores[0] + 1, ROWS.scores[0]])
    for p_values in (
        williams(ROWS.people, scores, 0),
        pearson(ROWS.people, scores).p_below(0),
        kendall(ROWS.people, scores).p_below(0),
    ):
        np.testing.assert_allclose(p_values, 0.5, atol=0.01)
    found = permutation(correlate, ROWS.people, scores, 0, permutations=20)
    assert found.tolist() == [0.5, 1.0, 1.0]  # no swap makes a difference


def test_the_three_tests_agree_on_independent_rows():
    scores, people = ROWS.scores, ROWS.people
    swaps = permutation(correlate, people, scores, 0, permutations=1500)
    np.testing.assert_allclose(swaps, williams(people, scores, 0), atol=0.04)
    np.testing.assert_allclose(
        pearson(people, scores).p_below(0), williams(people, scores, 0), atol=0.03
    )


def test_any_statistic_can_be_permuted():
    def rankings(people, scores):
        return darr(people, scores, ROWS.items).values

    found = permutation(rankings, ROWS.people, ROWS.scores, permutations=99)
    assert found[2] <= 0.05 < found[1]
    again = permutation(rankings, ROWS.people, ROWS.scores, permutations=99)
    np.testing.assert_array_equal(found, again)


def test_a_setting_without_a_value_is_not_marked():
    scores = np.array([ROWS.scores[0], np.ones(300)])
    for p_values in (
        williams(ROWS.people, scores),
        permutation(correlate, ROWS.people, scores, permutations=5),
    ):
        assert np.isnan(p_values[1])
        assert not_below_best(p_values).tolist() == [True, False]
    assert np.isnan(williams([1, 2, 3], [[1, 3, 2], [1, 2, 3]])).all()  # too few rows


def test_what_cannot_be_tested_is_an_error():
    with pytest.raises(InputError, match="got 0 permutations"):
        permutation(correlate, ROWS.people, ROWS.scores, permutations=0)
    with pytest.raises(InputError, match="no setting has a value"):
        williams([1.0, 1.0, 1.0, 1.0], [[1, 2, 3, 4]])


@pytest.mark.long
def test_equally_good_settings_differ_in_one_of_twenty_samples():
    """Each test claims a difference of equals as often as its level says, at 5%."""
    samples, claims = 400, np.zeros(4)
    for seed in range(samples):
        rng = np.random.default_rng(seed)
        quality = rng.normal(size=120)
        people = quality + rng.normal(size=120)
        shared = rng.normal(size=120)
        scores = quality + shared + rng.normal(size=(2, 120))
        claims += [
            found[1] < 0.05
            for found in (
                williams(people, scores, 0),
                permutation(correlate, people, scores, 0, permutations=200, seed=seed),
                pearson(people, scores).p_below(0),
                kendall(people, scores).p_below(0),
            )
        ]
    # The standard error of a share of 5% of 400 is 1.1%.
    np.testing.assert_allclose(claims / samples, 0.05, atol=0.03)
