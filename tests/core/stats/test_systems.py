"""Agreement over systems and hybrids, against plain loops."""

import numpy as np
import pytest
import scipy.stats

from bertscore_core.stats.agreement import (
    auc,
    hybrid_agreement,
    kendall,
    pearson,
    soft_system_accuracy,
    spearman,
    system_agreement,
    system_means,
)
from bertscore_core.stats.estimates import accuracy_with_ties, darr, within_item_kendall
from tests.core.stats.judgements import judged

ROWS = judged(80, 6, noise=(0.3, 3.0, np.inf), seed=5)


def test_systems_are_compared_by_their_means():
    pearson, accuracy = system_agreement(
        ROWS.people, ROWS.scores, ROWS.systems, ROWS.items, resamples=50
    )
    names, means = system_means(ROWS.scores, ROWS.systems)
    _, (people,) = system_means(ROWS.people, ROWS.systems)
    assert names == [f"system-{number}" for number in range(6)]
    assert people[2] == pytest.approx(ROWS.people[ROWS.systems == "system-2"].mean())
    for setting, line in enumerate(means):
        expected = scipy.stats.pearsonr(people, line).statistic
        assert pearson.values[setting] == pytest.approx(expected)
        signs = [
            np.sign(people[first] - people[second]) == np.sign(line[first] - line[second])
            for first in range(6)
            for second in range(first)
        ]
        assert accuracy.values[setting] == pytest.approx(np.mean(signs))


@pytest.mark.parametrize("grouped", [True, False], ids=["items", "rows"])
def test_resamples_are_those_of_drawn_segments(grouped):
    """The spread of a system's mean over resamples is its standard error."""
    people = np.where(ROWS.systems == "system-0", ROWS.people, 0.0)
    scores = np.where(ROWS.systems == "system-0", ROWS.scores[0], 0.0)
    keys = ROWS.items if grouped else None
    # Of two systems one is always 0: the order tells how often the other's mean is above 0.
    chosen = np.isin(ROWS.systems, ["system-0", "system-1"])
    own = scores[ROWS.systems == "system-0"]
    shift = own.mean() - own.std() / np.sqrt(len(own))
    scores = np.where(ROWS.systems == "system-0", scores - shift, 0.0)
    _, accuracy = system_agreement(
        people[chosen], scores[chosen], ROWS.systems[chosen],
        None if keys is None else keys[chosen], resamples=4000, seed=1,
    )  # fmt: skip
    # One standard error above 0: in 84% of the resamples.
    assert accuracy.replicates.mean() == pytest.approx(scipy.stats.norm.cdf(1), abs=0.03)


def test_systems_that_miss_items_are_left_out_of_a_resample_without_them():
    people, scores = [1.0, 2.0, 3.0, 4.0], [[1.0, 2.0, 3.0, 5.0]]
    pearson, _ = system_agreement(people, scores, list("aabb"), [1, 2, 1, 2], resamples=200)
    assert np.isfinite(pearson.replicates).all()
    _, alone = system_agreement(people, scores, list("abcd"), [1, 1, 2, 2], resamples=200)
    drawn = np.isfinite(alone.replicates[:, 0])
    assert 0.3 < drawn.mean() < 0.7  # both items are drawn in half of the resamples
    assert np.isfinite(alone.intervals()).all()


def plain_soft_accuracy(people, scores, systems, items, permutations):
    """The definition of Thompson et al., by loops over pairs of systems."""
    names = np.unique(systems)
    every = [item for item in np.unique(items) if len({*systems[items == item]}) > 1]
    signs = np.random.default_rng(5).choice([-1.0, 1.0], (permutations, len(every)))

    def p_value(values, first, second):
        places, gaps = [], []
        for place, item in enumerate(every):
            own = [values[(systems == name) & (items == item)] for name in (first, second)]
            if all(len(found) for found in own):
                places.append(place)
                gaps.append(own[0].mean() - own[1].mean())
        gaps = np.array(gaps)
        swapped = np.array([(row[places] * gaps).mean() for row in signs])
        return (swapped >= gaps.mean() - 1e-12).mean()

    pairs = [(a, b) for a in names for b in names if a < b]
    return np.mean([1 - abs(p_value(people, *pair) - p_value(scores, *pair)) for pair in pairs])


@pytest.mark.parametrize("share", [1.0, 0.7], ids=["all rows", "some rows"])
def test_soft_accuracy_is_that_of_a_plain_program_with_the_same_permutations(share):
    kept = np.random.default_rng(1).random(len(ROWS.people)) < share
    people, scores, items, systems = (column[..., kept] for column in ROWS)
    found = soft_system_accuracy(people, scores, systems, items, permutations=200, seed=5)
    for value, line in zip(found.values, scores, strict=True):
        expected = plain_soft_accuracy(people, line, systems, items, 200)
        assert value == pytest.approx(expected, abs=1e-12)
    assert found.values[0] > found.values[1] > found.values[2]
    low, high = found.intervals().T
    assert ((low < found.values) & (found.values < high)).all()
    itself = soft_system_accuracy(people, [people, np.ones_like(people)], systems, items)
    assert itself.values[0] == 1
    assert itself.replicates[:, 0].tolist() == [1] * len(itself.replicates)
    assert np.isnan(itself.values[1])


def test_soft_accuracy_knows_ties_and_systems_without_common_items():
    # Of two items one ties; of four permutations all reach 0, and two reach 1.
    tied = soft_system_accuracy([1, 0, 3, 3], [[0, 1, 3, 3]], list("abab"), [1, 1, 2, 2], seed=1)
    assert tied.values == pytest.approx(0.5, abs=0.05)
    apart = soft_system_accuracy([1, 2, 3, 4], [1, 2, 3, 4], list("aabb"), [1, 2, 3, 4])
    assert np.isnan(apart.values).all()
    assert np.isnan(apart.intervals()).all()


ULPS = np.array([-2, -1, 0, 1, 2]) * np.finfo(float).eps


@pytest.mark.parametrize("size", [1e-200, 0.1, 1e200])
def test_systems_with_equal_means_tie_in_whatever_order_their_rows_are_added(size):
    """.1 + .2 + .3 is not .3 + .2 + .1, and a mean of rows may be one or two digits off."""
    steps = np.array([1, 2, 3, 3, 2, 1, 2, 3, 1, 1, 1, 1.0])
    systems, items = np.repeat(list("abcd"), 3), np.tile([1, 2, 3], 4)
    rng = np.random.default_rng(6)
    plain = system_agreement(steps, steps, systems, items, resamples=100)
    for _ in range(20):
        people, scores = steps * size * (1 + rng.choice(ULPS, (2, 12)))
        _, accuracy = system_agreement(people, scores, systems, items, resamples=100)
        assert accuracy.values.tolist() == [1.0]
        assert np.array_equal(accuracy.replicates, plain[1].replicates, equal_nan=True)
        assert np.isnan(system_agreement(people[:9], scores[:9], systems[:9])[0].values).all()
        # Of one item each, so that means of rows are compared.
        soft = soft_system_accuracy(people[:9], scores[:9], systems[:9], np.ones(9))
        assert np.isnan(soft.values).all()


def hybrids(*rows, **how):
    """Return Pearson's correlation, hits, reciprocal rank and difference of each setting."""
    return hybrid_agreement(*rows, **how).values()


def test_hybrids_take_one_output_of_each_item():
    """Items with a single output leave no choice: all hybrids are alike."""
    few = {"hybrids": 20, "choices": 5, "rivals": 10}
    pearson, hits, _, difference = hybrids([1, 2, 3], [4, 5, 7], list("abc"), **few)
    assert np.isnan(pearson).all()
    assert (hits[0], difference[0]) == (1, 0)
    # The first item has two outputs, worth 0 and 6; a hybrid's judgement is 1 or 3.
    pearson, hits, rank, difference = hybrids(
        [0, 6, 3], [[0, 1, 0], [1, 0, 0]], ["a", "a", "b"], rivals=2
    )
    np.testing.assert_allclose(pearson, [1, -1])
    assert hits[0] == 1
    # Two different hybrids differ about half of the time; then the second setting takes the worse.
    missed = 1 - hits[1]
    assert missed == pytest.approx(0.5, abs=0.02)
    assert difference[1] == pytest.approx(3 * missed)
    assert rank[1] == pytest.approx(1 - missed / 2)


def test_hybrids_of_decimals_tie_as_those_of_whole_numbers_do():
    """Sums of decimals are not exact: those that are equal can differ in the last digit."""
    random, few = np.random.default_rng(0), {"hybrids": 1000, "choices": 2000}
    people, scores = random.integers(-20, 20, (2, 200)).astype(float)
    whole, decimal = (
        hybrids(people / by, [scores / by, 0 * people], np.arange(200) // 4, **few)
        for by in (1, 10)
    )
    assert [values.tolist() for values in list(decimal)[1:3]] == [
        values.tolist() for values in list(whole)[1:3]
    ]


def test_better_settings_choose_better_hybrids():
    many = {"hybrids": 2000, "choices": 3000, "seed": 3}
    pearson, hits, rank, difference = hybrids(ROWS.people, ROWS.scores, ROWS.items, **many)
    for values in (pearson, hits, rank, -difference):
        assert values[0] > values[1] > values[2]
    # By chance 1 of 100 hybrids is the best.
    assert hits[2] == pytest.approx(0.01, abs=0.03)
    few = {"hybrids": 500, "choices": 100, "rivals": 20}
    first, again, other = (
        hybrid_agreement(ROWS.people, ROWS.scores[:1], ROWS.items, **few, seed=seed)
        for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("exponent", [-900, 1023])
def test_agreement_does_not_depend_on_how_large_scores_are(exponent):
    scores = ROWS.scores / np.abs(ROWS.scores).max()
    few = {"hybrids": 200, "choices": 50, "rivals": 20}

    def found(scores):
        rows, items, systems = (ROWS.people, scores), ROWS.items, ROWS.systems
        yield from (one(*rows).values for one in (pearson, spearman, kendall))
        yield auc(ROWS.people > 50, scores).values
        yield from (one(*rows, items).values for one in (darr, within_item_kendall))
        yield accuracy_with_ties(*rows, items).values
        for own in system_agreement(*rows, systems, items, resamples=20):
            yield from (own.values, own.replicates)
        soft = soft_system_accuracy(*rows, systems, items, permutations=20, resamples=20)
        yield from (soft.values, soft.replicates)
        yield from hybrid_agreement(*rows, items, **few).values()

    for own, expected in zip(found(np.ldexp(scores, exponent)), found(scores), strict=True):
        # Means of systems are rounded to twelve digits, which a unit may put at another place.
        np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-10)


def test_judgements_that_differ_by_little_are_no_constant():
    """Only scores have noise: 0 and 1, counted from a million on, agree as 0 and 1 do."""
    people = (ROWS.people > 50).astype(float)
    for one in (pearson, kendall):
        expected = one(people, ROWS.scores).values
        np.testing.assert_allclose(one(people + 1e6, ROWS.scores).values, expected, rtol=1e-9)
