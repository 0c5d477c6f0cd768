"""The standard error that knows hosts: it covers, for many samples of scores whose hosts are known.

Each sample has other hosts, drawn like those of the others. So the standard deviation of the
samples' means is what a standard error should say.
"""

import numpy as np
import pytest

from bertscore_core import Moments
from bertscore_core.stats.moments import HOST_BUCKETS

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
