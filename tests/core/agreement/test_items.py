"""Rankings within items, against plain loops over the definitions and examples worked by hand."""

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bertscore_core.agreement import accuracy_with_ties, darr, items, within_item_kendall
from bertscore_core.errors import InputError
from tests.core.agreement.judgements import judged

ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(-6, 6)), min_size=1, max_size=25
)


def pairs(keys):
    """Yield all pairs of rows of one item."""
    return [
        (first, second)
        for first, second in combinations(range(len(keys)), 2)
        if keys[first] == keys[second]
    ]


def plain_darr(people, scores, keys, threshold):
    """Count concordant and discordant rankings one by one."""
    signed = []
    for first, second in pairs(keys):
        gap = people[first] - people[second]
        if abs(gap) >= threshold:
            signed.append(1 if gap * (scores[first] - scores[second]) > 0 else -1)
    return np.mean(signed) if signed else np.nan


def plain_accuracy(people, scores, keys, threshold):
    """Return the mean over items of the share of pairs that are right."""
    shares = []
    for item in sorted(set(keys)):
        right = []
        for first, second in pairs(keys):
            if keys[first] == item:
                ours = scores[first] - scores[second]
                ours = 0 if abs(ours) <= threshold else np.sign(ours)
                right.append(ours == np.sign(people[first] - people[second]))
        if right:
            shares.append(np.mean(right))
    return np.mean(shares) if shares else np.nan


@given(ROWS, st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_rankings_equal_those_of_a_plain_loop(rows, threshold):
    keys, people, scores = np.array(rows, dtype=np.float64).T
    for given_items, named in ((keys, keys), (None, np.zeros(len(keys)))):
        found = darr(people, scores, given_items, threshold=threshold)
        expected = plain_darr(people, scores, named, threshold)
        np.testing.assert_allclose(found.values, [expected], atol=1e-12)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_the_threshold_is_the_best_of_all(rows):
    keys, people, scores = np.array(rows, dtype=np.float64).T
    found = accuracy_with_ties(people, scores, keys)
    gaps = {0.0} | {abs(scores[first] - scores[second]) for first, second in pairs(keys)}
    by_gap = {gap: plain_accuracy(people, scores, keys, gap) for gap in gaps}
    best = max(by_gap.values())
    np.testing.assert_allclose(found.estimates.values, [best], atol=1e-9)
    if not np.isnan(best):
        least = min(gap for gap, value in by_gap.items() if value >= best - 1e-9)
        assert found.thresholds[0] == least


@given(ROWS)
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_taus_within_items_equal_scipys(rows):
    keys, people, scores = np.array(rows, dtype=np.float64).T
    taus = [
        scipy.stats.kendalltau(people[keys == item], scores[keys == item]).statistic
        for item in np.unique(keys)
    ]
    known = [tau for tau in taus if not np.isnan(tau)]
    expected = np.mean(known) if known else np.nan
    found = within_item_kendall(people, scores, keys).values
    np.testing.assert_allclose(found, [expected], atol=1e-12)


def test_ties_are_counted_as_in_a_worked_example():
    """Four outputs of one item, of which people tie two; six pairs.

    Scores .9 .5 .48 .1 order every pair, so that the tied one is wrong: 5 of 6. With gaps up to
    .02 tied all six are right; the next threshold, .38, would tie a pair that people order.
    """
    people, scores = [100, 60, 60, 20], [0.9, 0.5, 0.48, 0.1]
    found = accuracy_with_ties(people, [scores, [4, 3, 2, 1]], ["a"] * 4)
    np.testing.assert_allclose(found.estimates.values, [1, 5 / 6])
    np.testing.assert_allclose(found.thresholds, [0.02, 0], atol=1e-12)


def test_rankings_are_counted_as_in_a_worked_example():
    """Judgements 90 65 64 10 make five rankings of 25 points; 65 and 64 are none.

    The score ties 65 and 10, which is discordant: four less one, over five.
    """
    people, scores = [90, 65, 64, 10], [0.8, 0.2, 0.5, 0.2]
    assert darr(people, scores, ["a"] * 4).values.tolist() == [0.6]
    # In four items there is no pair at all.
    assert np.isnan(darr(people, scores, ["a", "b", "c", "d"]).values).all()


def test_a_difference_of_the_threshold_is_a_ranking_in_spite_of_rounding():
    steps = np.arange(200) * 0.1
    scores = np.arange(200)
    for threshold in (0.3, 0.7, 2.5):
        expected = plain_darr(steps, -scores, np.zeros(200), threshold)
        rankings = sum(
            abs(steps[first] - steps[second]) >= threshold
            for first, second in combinations(range(200), 2)
        )
        found = darr(steps, scores, threshold=threshold)
        assert (found.values[0], expected) == (1, -1)
        mixed = np.random.default_rng(0).permutation(200)
        exact = plain_darr(steps, mixed, np.zeros(200), threshold)
        assert darr(steps, mixed, threshold=threshold).values[0] * rankings == pytest.approx(
            exact * rankings, abs=1e-6
        )


@pytest.mark.parametrize("grouped", [True, False], ids=["within items", "over rows"])
def test_errors_of_rankings_are_those_of_leaving_out(grouped):
    rows = judged(60, 4, noise=(0.5, 2.0), seed=4)
    keys = rows.items if grouped else np.arange(len(rows.people))
    left_out = []
    for key in np.unique(keys):
        kept = keys != key
        given_items = rows.items[kept] if grouped else None
        left_out.append(darr(rows.people[kept], rows.scores[:, kept], given_items).values)
    size = len(left_out)
    spread = ((np.array(left_out) - np.mean(left_out, axis=0)) ** 2).sum(axis=0)
    found = darr(rows.people, rows.scores, rows.items if grouped else None)
    np.testing.assert_allclose(found.errors, np.sqrt((size - 1) / size * spread), rtol=0.03)
    assert found.clusters == size


def test_items_without_a_pair_or_a_tau_are_left_out():
    people, scores = [1.0, 2.0, 3.0, 3.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    keys = ["a", "a", "b", "b", "c"]
    assert within_item_kendall(people, scores, keys).values.tolist() == [1.0]
    assert accuracy_with_ties(people, scores, keys).estimates.values.tolist() == [0.5]
    alone = accuracy_with_ties(people, scores, list("abcde"))
    assert np.isnan(alone.estimates.values).all()
    assert np.isnan(alone.thresholds).all()


def test_what_cannot_be_ranked_is_an_error(monkeypatch):
    with pytest.raises(InputError, match="threshold of rankings is 0; expected a number above 0"):
        darr([1, 2], [1, 2], threshold=0)
    monkeypatch.setattr(items, "MAX_PAIRS", 2)
    with pytest.raises(InputError, match="form 3 pairs within 1 items; expected at most 2"):
        accuracy_with_ties([1, 2, 3], [1, 2, 3], ["a"] * 3)


def test_what_is_not_defined_has_no_error():
    tied = within_item_kendall([1, 1, 2, 2], [[1, 2, 3, 4]], [0, 0, 1, 1])
    alone = accuracy_with_ties([1, 1, 2, 2], [[1, 2, 3, 4]], [0, 1, 2, 3]).estimates
    for found in (tied, alone, darr([1, 2], [[1, 2]], [0, 0])):
        assert np.isnan(found.values).all()
        assert np.isnan(found.errors).all()
        assert np.isnan(found.intervals()).all()
