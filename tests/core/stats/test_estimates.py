"""Intervals hold the true value as often as they say, and resampling terms is resampling rows."""

import numpy as np
import pytest

from bertscore_core.stats import (
    Estimates,
    accuracy_with_ties,
    auc,
    darr,
    kendall,
    pearson,
    spearman,
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


def test_an_interval_is_about_two_errors_to_each_side():
    found = pearson(*judged(500, 1, noise=(1.5,), seed=2)[:2])
    half = (found.intervals(resamples=2000) @ [-1, 1]) / 2
    np.testing.assert_allclose(half, 1.96 * found.errors, rtol=0.08)


@pytest.mark.parametrize(("freedom", "expected"), [(1e6, 0.92), (4, 0.853)])
def test_intervals_of_thirty_rows_hold_the_true_value_less_often_than_they_say(freedom, expected):
    rng, hits = np.random.default_rng(3), []
    for _ in range(300):
        people, noise = rng.standard_t(freedom, (2, 30))
        low, high = pearson(people, people + 0.9 * noise).intervals(resamples=500)[0]
        hits.append(low <= (1 + 0.9**2) ** -0.5 <= high)
    assert np.mean(hits) == pytest.approx(expected, abs=0.06)


def test_a_perfect_agreement_leaves_no_room():
    found = kendall([1, 2, 3, 4], [[1, 2, 3, 4], [4, 3, 2, 1]])
    assert found.intervals().tolist() == [[1, 1], [-1, -1]]


def test_fewer_than_two_clusters_have_no_error():
    found = pearson([1, 2, 4], [[1, 3, 2]], clusters=["a"] * 3)
    assert found.values[0] == pytest.approx(0.3273, abs=1e-4)
    assert np.isnan(found.errors).all()
    assert np.isnan(found.intervals()).all()


@pytest.mark.long
@pytest.mark.parametrize("names", [over_rows, over_items])
def test_resampling_terms_is_resampling_rows(names):
    """The error is that of a bootstrap which draws rows, or items, and counts everything again."""
    rows = judged(300, 1 if names is over_rows else 4, noise=(0.7, 2.0), seed=3)
    found = names(rows)
    rng = np.random.default_rng(0)
    again = {name: [] for name in found}
    groups = [np.flatnonzero(rows.items == item) for item in range(300)]
    for _ in range(400):
        drawn = rng.integers(0, 300, 300)
        taken = np.concatenate([groups[item] for item in drawn])
        # An item that is drawn twice is two items.
        items = np.repeat(np.arange(300), [len(groups[item]) for item in drawn])
        sample = Judged(rows.people[taken], rows.scores[:, taken], items, rows.systems[taken])
        for name, one in names(sample).items():
            again[name].append(one.values)
    for name, one in found.items():
        # The spread of 400 resamples has itself an error of 3.5%.
        np.testing.assert_allclose(np.std(again[name], axis=0), one.errors, rtol=0.15, err_msg=name)


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
