"""Whether settings are below the best of many: against plain programs, and by simulation."""

import numpy as np
import pytest
import scipy.stats

from bertscore_core.stats.agreement import kendall, pearson
from bertscore_core.stats.estimates import Resampled
from tests.core.stats.judgements import judged

ROWS = judged(150, 2, noise=(1.0, 1.02, 1.1, 4.0), seed=7)
DRAWS = 20_000


def test_two_settings_are_compared_by_a_two_sided_t_test():
    found = kendall(ROWS.people, ROWS.scores[[0, 2]], ROWS.items)
    influences = found.influences[0] - found.influences[1]
    error = influences.std(ddof=1) / np.sqrt(len(influences))
    ratio = (found.values[0] - found.values[1]) / error
    expected = 2 * scipy.stats.t.sf(ratio, found.degrees)
    assert found.p_below(0, resamples=DRAWS) == pytest.approx([1, expected], abs=0.01)


def test_many_settings_are_compared_with_the_greatest_difference_of_those_that_remain():
    """A plain program with the multivariate t distribution of the differences."""
    found = pearson(ROWS.people, ROWS.scores)
    covariance = np.cov(found.influences) / len(ROWS.people)
    drawn = scipy.stats.multivariate_t(shape=covariance, df=found.degrees, seed=1).rvs(DRAWS)

    def error(first, second):
        return np.sqrt(np.diff(found.influences[[first, second]], axis=0).var() / len(ROWS.people))

    best = int(found.values.argmax())
    ratios = [(found.values[best] - value) for value in found.values]
    ratios = [r / error(best, n) if n != best else 0 for n, r in enumerate(ratios)]
    left, expected, last = sorted(range(4), key=lambda n: -ratios[n]), {}, 0.0
    while left:
        pairs = [(a, b) for a in left for b in left if a < b]
        apart = [np.abs(drawn[:, a] - drawn[:, b]) / error(a, b) for a, b in pairs]
        greatest = np.max(apart, axis=0) if pairs else np.zeros(DRAWS)
        last = max(last, (greatest >= ratios[left[0]]).mean())
        expected[left.pop(0)] = last
    p_values = found.p_below(best, resamples=DRAWS)
    assert p_values == pytest.approx([expected[n] for n in range(4)], abs=0.012)
    assert p_values[3] < 0.001 < 0.05 < p_values[1]


def test_settings_that_order_alike_are_never_below_each_other():
    scores = np.array([ROWS.scores[0], 2 * ROWS.scores[0] + 1, ROWS.scores[0], ROWS.scores[3]])
    for statistic in (pearson, kendall):
        p_values = statistic(ROWS.people, scores).p_below(0)
        assert p_values[:3].tolist() == [1, 1, 1]
        assert p_values[3] < 0.01


def test_a_setting_without_a_value_has_no_p_value_and_changes_no_other():
    scores = np.array([ROWS.scores[0], np.ones(300), ROWS.scores[2]])
    p_values = pearson(ROWS.people, scores).p_below(0)
    assert np.isnan(p_values[1])
    assert p_values[[0, 2]] == pytest.approx(pearson(ROWS.people, scores[[0, 2]]).p_below(0))
    replicates = np.random.default_rng(0).normal([0.7, np.nan, 0], 0.1, (500, 3))
    made = Resampled(values=np.array([0.7, np.nan, 0]), replicates=replicates).p_below(0)
    assert np.isnan(made[1])
    assert made[0] == 1
    assert made[2] < 0.02


def lost(runs, rows, share, statistic=pearson):
    """Return in what share of runs some of seven equally good layers is below the best of them.

    And in what share one of them is that was fixed in advance, such as the registry's.
    """
    some = fixed = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        quality = rng.normal(size=rows)
        people = quality + rng.normal(size=rows)
        common = quality + np.sqrt(share) * rng.normal(size=rows)
        found = statistic(people, common + np.sqrt(1 - share) * rng.normal(size=(7, rows)))
        how = {} if isinstance(found, Resampled) else {"resamples": 400, "seed": seed}
        below = found.p_below(int(found.values.argmax()), **how) < 0.05
        some, fixed = some + below.any(), fixed + below[6]
    return some / runs, fixed / runs


def test_equally_good_layers_seldom_lose_their_star():
    some, fixed = lost(150, 100, 0.9)
    assert some < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)
    assert fixed <= some


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.9, 0.97])
@pytest.mark.parametrize("rows", [200, 1000])
def test_no_more_than_one_in_twenty_tables_lacks_a_star_of_equally_good_layers(rows, share):
    runs = 400
    some, fixed = lost(runs, rows, share)
    error = np.sqrt(0.05 * 0.95 / runs)
    assert 0.05 - 3 * error < some < 0.05 + 3 * error  # not by losing all power
    assert 0 < fixed < 0.05
