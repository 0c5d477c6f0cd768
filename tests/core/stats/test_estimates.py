"""Intervals hold the true value as often as they say, and resampling terms is resampling rows."""

import numpy as np
import pytest

from bertscore_core.stats.agreement import auc, kendall, pearson, spearman
from bertscore_core.stats.estimates import (
    Estimates,
    accuracy_with_ties,
    darr,
    first_best,
    within_item_kendall,
)
from tests.core.stats.judgements import Judged, judged


def over_items(rows: Judged, *, items: bool = True) -> dict[str, Estimates]:
    people, scores, clusters = rows.people, rows.scores, rows.items if items else None
    of_rows = {
        "pearson": pearson(people, scores, clusters),
        "spearman": spearman(people, scores, clusters),
        "kendall": kendall(people, scores, clusters),
        "rankings": darr(people, scores, clusters),
        "auc": auc(people > 50, scores, clusters),
    }
    if not items:
        return of_rows
    return of_rows | {
        "tau within items": within_item_kendall(people, scores, rows.items),
        "accuracy": accuracy_with_ties(people, scores, rows.items),
    }


def over_rows(rows: Judged) -> dict[str, Estimates]:
    return over_items(rows, items=False)


def test_intervals_surround_the_value_and_stay_in_range():
    rows = judged(50, 4, noise=(0.8, 1.5), seed=1)
    for found in over_items(rows).values():
        intervals = found.intervals()
        assert (found.lowest <= intervals[:, 0]).all()
        assert (intervals[:, 0] < found.values).all()
        assert (found.values < intervals[:, 1]).all()
        assert (intervals[:, 1] <= 1).all()
        np.testing.assert_array_equal(found.intervals(), intervals)


def test_the_first_of_settings_that_are_equal_but_for_rounding_is_the_best():
    rng = np.random.default_rng(9)
    for _ in range(100):
        values = np.array([np.nan, 0.2, 2 / 3, 2 / 3, 0.66, 2 / 3])
        assert first_best(values * (1 + rng.uniform(-4e-16, 4e-16, 6))) == 2
    assert first_best(np.array([0.5, 0.5 + 1e-8])) == 1


def test_a_perfect_agreement_leaves_no_room():
    found = kendall([1, 2, 3, 4], [[1, 2, 3, 4], [4, 3, 2, 1]])
    assert found.intervals().tolist() == [[1, 1], [-1, -1]]


def test_fewer_than_two_clusters_have_no_error():
    found = pearson([1, 2, 4], [[1, 3, 2]], clusters=["a"] * 3)
    assert found.values[0] == pytest.approx(0.3273, abs=1e-4)
    assert np.isnan(found.errors).all()
    assert np.isnan(found.intervals()).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "items"), [(over_rows, 100), (over_items, 150)], ids=["rows", "items"]
)
def test_intervals_hold_the_true_value_as_often_as_they_say(names, items):
    systems = 1 if names is over_rows else 4
    large = judged(20_000, systems, noise=(0.7, 2.0), seed=100)
    truth = {name: one.values for name, one in names(large).items()}
    samples = 300
    hits = {name: np.zeros(2) for name in truth}
    for seed in range(samples):
        for name, one in names(judged(items, systems, noise=(0.7, 2.0), seed=seed)).items():
            low, high = one.intervals(resamples=500, seed=seed).T
            hits[name] += (low <= truth[name]) & (truth[name] <= high)
    shares = {name: hit / samples for name, hit in hits.items()}
    for name, share in shares.items():
        # The standard error of a share of 95% of 300 is 1.3%.
        assert (share > 0.90).all(), (name, share)
        assert (share < 0.99).all(), (name, share)


def test_one_large_cluster_leaves_few_degrees_of_freedom():
    """Twice the nominal rate is what as many degrees as clusters would give here."""
    clusters = np.repeat(np.arange(11), [100] + [10] * 10)
    rng, fired = np.random.default_rng(0), 0
    for _ in range(400):
        common = rng.normal(size=(2, 11))[:, clusters] + rng.normal(size=(2, len(clusters)))
        people = rng.normal(size=len(clusters))
        found = pearson(people, people + 0.7 * common, clusters)
        fired += found.p_below(0)[1] < 0.05
    assert found.degrees == pytest.approx(200**2 / (100**2 + 10 * 10**2) - 1)
    assert fired / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    rows = pearson(people, people, np.arange(len(people)))
    assert rows.degrees == pytest.approx(len(people) - 1)
