"""Rankings within items, against plain loops over the definitions and examples worked by hand."""

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from bertscore_core.errors import InputError
from bertscore_core.stats import estimates
from bertscore_core.stats.estimates import accuracy_with_ties, darr, within_item_kendall
from tests.core.stats.judgements import jackknife_errors, judged

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
    best = max(plain_accuracy(people, scores, keys, gap) for gap in gaps)
    np.testing.assert_allclose(found.values, [best], atol=1e-9)


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


def test_a_difference_of_the_threshold_is_a_ranking_in_spite_of_rounding():
    steps, mixed = np.arange(200) * 0.1, np.random.default_rng(0).permutation(200)
    for threshold in (0.3, 0.7, 2.5):
        for scores in (np.arange(200), mixed):
            # One ranking more or less, of some 19,000, would change the share by 5e-5.
            expected = plain_darr(steps, scores, np.zeros(200), threshold)
            found = darr(steps, scores, threshold=threshold).values
            np.testing.assert_allclose(found, [expected], rtol=1e-10)


@pytest.mark.parametrize("grouped", [True, False], ids=["within items", "over rows"])
def test_errors_of_rankings_are_those_of_leaving_out(grouped):
    rows = judged(60, 4, noise=(0.5, 2.0), seed=4)
    keys = rows.items if grouped else np.arange(len(rows.people))

    def estimates_of(chosen):
        items = rows.items[chosen] if grouped else None
        return darr(rows.people[chosen], rows.scores[:, chosen], items)

    found = estimates_of(keys >= 0)
    expected = jackknife_errors(lambda chosen: estimates_of(chosen).values, keys)
    np.testing.assert_allclose(found.errors, expected, rtol=0.03)
    assert found.clusters == len(set(keys.tolist()))


def test_what_cannot_be_ranked_is_an_error(monkeypatch):
    monkeypatch.setattr(estimates, "MAX_PAIRS", 2)
    with pytest.raises(InputError, match="form 3 pairs within 1 items; expected at most 2"):
        accuracy_with_ties([1, 2, 3], [1, 2, 3], ["a"] * 3)
