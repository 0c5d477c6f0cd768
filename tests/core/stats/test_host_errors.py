"""The standard error that knows hosts: it covers, for many samples of scores whose hosts are known.

Each sample has other hosts, drawn like those of the others. So the standard deviation of the
samples' means is what a standard error should say.
"""

import numpy as np
import pytest

from bertscore_core import Moments
from bertscore_core.stats import HOST_BUCKETS

SAMPLES = 400
STRENGTHS = (0.0, 0.01, 0.02, 0.05)
"""Standard deviations of what a host adds to a score, each in a layer of its own; that of a pair
alone is 0.05."""


def equal(size):
    """Return hosts of one size."""
    return lambda rng, count: np.arange(count) // size


def heavy_tailed(most):
    """Return hosts whose sizes spread as on the web, capped."""

    def hosts(rng, count):
        sizes = np.minimum(rng.pareto(1.1, count) + 1, most).astype(np.int64)
        return np.repeat(np.arange(count), sizes)[:count]

    return hosts


def draw(rng, pairs, make_hosts):
    """Return the scores of random pairs and the buckets of their hosts."""
    hosts = make_hosts(rng, 2 * pairs)
    sides = rng.permutation(hosts).reshape(2, pairs)
    effects = rng.standard_normal(hosts.max() + 1) * np.array(STRENGTHS)[:, None]
    own = 0.05 * rng.standard_normal((len(STRENGTHS), pairs))
    scores = 0.4 + effects[:, sides].sum(axis=1) + own
    measured = scores[..., None] + 0.01 * rng.standard_normal((*scores.shape, 3))
    buckets = rng.integers(0, HOST_BUCKETS, hosts.max() + 1)
    return np.clip(measured, -1, 1).astype(np.float32), buckets[sides].T


def claims(seed, pairs, make_hosts):
    """Return spread of the means over the mean error claimed, and over the naive one, by layer."""
    rng = np.random.default_rng(seed)
    found = [Moments.of(*draw(rng, pairs, make_hosts)) for _ in range(SAMPLES)]
    spread = np.std([one.means for one in found], axis=0, ddof=1)
    errors = np.mean([one.standard_errors for one in found], axis=0)
    return spread / errors, spread / np.mean([one.naive_errors for one in found], axis=0)


@pytest.mark.parametrize(
    ("make_hosts", "pairs"),
    [
        pytest.param(equal(1), 2000, id="alone", marks=pytest.mark.long),
        pytest.param(equal(2), 2000, id="two", marks=pytest.mark.long),
        pytest.param(equal(10), 2000, id="ten", marks=pytest.mark.long),
        pytest.param(equal(10), 300, id="ten, few pairs", marks=pytest.mark.long),
        pytest.param(equal(40), 2000, id="forty", marks=pytest.mark.long),
        pytest.param(heavy_tailed(10), 2000, id="web, at most 10"),
        pytest.param(heavy_tailed(100), 2000, id="web, at most 100", marks=pytest.mark.long),
    ],
)
def test_the_error_claimed_covers(make_hosts, pairs):
    """A ratio over 400 samples has a standard error of 3.5%, and the measures share most of it."""
    ratios, naive = claims(6, pairs, make_hosts)
    np.testing.assert_allclose(ratios.mean(axis=1), 1, atol=0.1)
    # Where hosts have nothing in common the naive error is right as well.
    assert naive[0].mean() == pytest.approx(1, abs=0.1)


@pytest.mark.long
def test_few_hosts_give_a_rough_error_that_is_right_on_average():
    """With 20 hosts: a little too large where they do not matter, since naive errors are least."""
    rng = np.random.default_rng(7)
    found = [Moments.of(*draw(rng, 200, equal(20))) for _ in range(SAMPLES)]
    spread = np.std([one.means for one in found], axis=0, ddof=1).mean(axis=1)
    errors = np.array([one.standard_errors for one in found]).mean(axis=2)
    ratios = spread / np.sqrt((errors**2).mean(axis=0))
    assert 0.8 < ratios[0] < 1
    np.testing.assert_allclose(ratios[2:], 1, atol=0.1)
    roughness = errors[:, -1].std() / errors[:, -1].mean()
    assert roughness == pytest.approx(1 / np.sqrt(2 * 19), rel=0.4)


@pytest.mark.long
def test_naive_errors_miss_what_hosts_have_in_common():
    _, naive = claims(6, 2000, heavy_tailed(100))
    assert (np.diff(naive.mean(axis=1)) > 0).all()
    assert naive[-1].mean() > 3


def test_errors_of_pairs_without_hosts_in_common_are_near_the_naive_ones():
    rng = np.random.default_rng(2)
    found = [Moments.of(*draw(rng, 4000, equal(1))) for _ in range(20)]
    ratios = np.array([one.standard_errors / one.naive_errors for one in found])
    assert ratios.min() >= 1
    assert 1 <= ratios.mean() < 1.07  # an estimate below the naive one counts as the naive one


def test_error_of_hosts_that_matter_is_above_the_naive_one():
    """For hosts of equal size k the variance grows by k * 2 t^2 / (s^2 + 2 t^2)."""
    found = Moments.of(*draw(np.random.default_rng(3), 4000, equal(10)))
    ratios = (found.standard_errors / found.naive_errors).mean(axis=1)
    t = np.array(STRENGTHS)
    expected = np.sqrt(1 + (10 - 1) * 2 * t**2 / (0.05**2 + 2 * t**2))
    np.testing.assert_allclose(ratios[1:], expected[1:], rtol=0.2)


@pytest.mark.parametrize(
    "hosts",
    [
        np.zeros((50, 2), dtype=np.int64),
        np.stack([np.zeros(50, dtype=np.int64), np.arange(50)], axis=1),
        np.array([[3, 5]]),
    ],
    ids=["one host", "a host that all pairs touch", "one pair"],
)
def test_there_is_no_error_without_hosts_to_compare(hosts):
    scores = np.random.default_rng(0).uniform(0, 1, (2, len(hosts), 3)).astype(np.float32)
    assert np.isnan(Moments.of(scores, hosts).standard_errors).all()


def test_two_hosts_give_an_error():
    """Two hosts of means .2 and .6: the error of their mean is .2, that of 100 pairs .02."""
    hosts = np.array([[0, 0], [1, 1]] * 50)
    scores = np.repeat(np.float32([0.2, 0.6] * 50), 3).reshape(1, 100, 3)
    found = Moments.of(scores, hosts)
    assert found.effective_hosts == pytest.approx(2)
    assert (found.standard_errors > 5 * found.naive_errors).all()
