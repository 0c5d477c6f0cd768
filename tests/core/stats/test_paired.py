"""Paired differences: equal to scipy's and sacreBLEU's where defined, and well calibrated."""

import itertools
import math
import re
import sys

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from scipy import stats

from bertscore_core.errors import InputError
from bertscore_core.stats import paired
from bertscore_core.stats.paired import (
    ClusterSums,
    PairedSums,
    compare_corpora,
    compare_paired,
    differences_of,
    holm,
    paired_result,
)
from tests.support import corpus_tests
from tests.support.nights import equal_clusters, lognormal, unequal_clusters, zipf


def differences(count, seed=0, mean=0.002):
    return np.random.default_rng(seed).standard_t(4, count) * 0.02 + mean


def check_bootstrap(found, values, errors, **options):
    """Compare an interval with scipy's, within some of its standard errors."""
    drawn = stats.bootstrap((values,), np.mean, method="percentile", batch=500, rng=1, **options)
    expected = (drawn.confidence_interval.low, drawn.confidence_interval.high)
    assert found.bootstrap_interval == pytest.approx(expected, abs=errors * found.error)
    return drawn


def flipped(values):
    """Return scipy's p value of a mean under sign flips."""
    sides, how = (values, np.zeros(len(values))), {"batch": 1000, "rng": 1}
    mean = lambda a, b, axis: np.mean(a - b, axis=axis)  # noqa: E731
    return stats.permutation_test(sides, mean, permutation_type="samples", **how).pvalue


@pytest.mark.parametrize("count", [2, 9, 300])
def test_error_interval_and_p_value_are_those_of_the_paired_t_test(count):
    d = differences(count)
    found, expected = compare_paired(d, resamples=0), stats.ttest_1samp(d, 0)
    assert found.difference == pytest.approx(d.mean(), rel=1e-12)
    assert found.error == pytest.approx(stats.sem(d), rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.interval == pytest.approx(expected.confidence_interval(0.95), rel=1e-9)
    one_sided = stats.ttest_1samp(d, 0, alternative="less")
    assert found.upper == pytest.approx(one_sided.confidence_interval(0.95).high, rel=1e-9)
    reach = stats.t.ppf(0.975, count - 1) + stats.t.ppf(0.8, count - 1)
    assert found.detectable == pytest.approx(reach * stats.sem(d), rel=1e-9)
    below = stats.ttest_1samp(d, -0.001, alternative="less").pvalue
    if count < 13:  # so few are no more certain than their signs
        signs = np.array([*itertools.product([-1, 1], repeat=count)]) @ np.abs(d)
        below = max(below, np.mean(signs <= d.sum() + 1e-12))
    assert found.drop_p_value(0.001) == pytest.approx(below, rel=1e-9)


def test_randomization_is_exact_where_all_sign_flips_can_be_made():
    d = np.concatenate([differences(12), np.zeros(500)])
    found = compare_paired(d).randomization_p
    assert found == pytest.approx(flipped(d[d != 0]), abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.001, 0.003])
def test_resampling_is_that_of_scipy_within_its_own_error(mean):
    d = differences(400, seed=3, mean=mean)
    found = compare_paired(d)
    assert found.randomization_p == pytest.approx(flipped(d), abs=0.02)
    drawn = check_bootstrap(found, d, 0.04)
    samples = drawn.bootstrap_distribution
    share = (np.abs(samples - d.mean()) >= abs(d.mean())).mean()
    assert found.bootstrap_p == pytest.approx(share, abs=0.02)


@pytest.fixture
def few_kept(monkeypatch):
    """Keep fewer differences, so that less makes the same point."""
    monkeypatch.setattr(paired, "KEPT", 300)
    return 300


def test_more_differences_than_are_kept_give_the_same_tests(few_kept):
    d = np.random.default_rng(5).laplace(0.0008, 0.02, 4 * few_kept)
    d[0] = 1.0  # one row moved very far
    found = compare_paired(d)
    flips = np.random.default_rng(1).choice([-1.0, 1.0], (4000, len(d))) @ d
    share = (np.abs(flips) >= abs(d.sum())).mean()
    assert found.randomization_p == pytest.approx(share, abs=0.03)
    check_bootstrap(found, d, 0.08, n_resamples=3000)


def test_cluster_errors_are_those_of_the_sums_of_whole_clusters():
    d, clusters = differences(90), np.repeat(np.arange(9), 10).astype(np.uint64)
    found = compare_paired(d, clusters)
    means = d.reshape(9, 10).mean(axis=1)
    assert found.error == pytest.approx(stats.sem(means), rel=1e-12)  # equal clusters are units
    assert (found.clusters, found.degrees) == (9, pytest.approx(8))
    assert found.effective_clusters == pytest.approx(9)
    # All flips of whole clusters.
    sums = [np.dot(signs, means) for signs in itertools.product((-1, 1), repeat=9)]
    exact = np.mean(np.abs(sums) >= abs(means.sum()) - 1e-12)
    assert found.randomization_p == pytest.approx(exact, abs=1e-12)
    check_bootstrap(found, means, 0.06)


def test_the_error_of_unequal_clusters_is_that_of_leaving_each_of_them_out():
    clusters = lognormal(30, 1.3, seed=0)
    d = differences(len(clusters))
    found = compare_paired(d, clusters, resamples=0)
    means = np.array([d[clusters != one].mean() for one in range(30)])
    assert found.error == pytest.approx((29 / 30 * ((means - d.mean()) ** 2).sum()) ** 0.5)


@pytest.mark.parametrize("shared", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize(
    "clusters",
    [equal_clusters(), unequal_clusters(), lognormal(60, 1.3, seed=18), zipf(100)],
    ids=["equal", "2 to 18", "lognormal", "Zipf"],
)
def test_the_variance_is_on_average_the_true_one_or_a_little_more(clusters, shared):
    """Exact: clusters are independent, so their shares in the average add up one by one."""
    sizes = np.bincount(clusters.astype(np.int64)).astype(float)
    true = shared * sizes**2 + (1 - shared) * sizes  # of the sum of each cluster
    estimated = [
        compare_paired((clusters == one) / size, clusters, resamples=0).error ** 2
        for one, size in enumerate(sizes)
    ]
    ratio = float(true @ estimated) * len(clusters) ** 2 / true.sum()
    assert 1 - 1e-12 <= ratio <= 1.15


def test_clusters_may_be_named_by_texts_or_numbers():
    d, numbers = differences(60), np.repeat([7, 3, 900], 20)
    found = compare_paired(d, numbers)
    assert found.clusters == 3
    assert compare_paired(d, numbers.astype(np.uint64)) == found
    assert compare_paired(list(d), [f"document {number:03}" for number in numbers]) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resamples": -1}, "resamples cannot be -1; expected 0"),
        ({"confidence": 95}, "got 95; expected a number between 0 and 1"),
        ({"differences": [0.1, math.nan, math.inf]}, "got shape (3,) with 2 values not finite"),
        ({"differences": [[0.1, 0.2]]}, "got shape (1, 2) with 0 values not finite"),
        ({"differences": ["a", "b"]}, "differences are not numbers: got ValueError"),
        ({"clusters": ["a"]}, "got shape (1,) with 0 values missing; expected one for each of 2"),
        ({"clusters": ["a", None]}, "got shape (2,) with 1 values missing"),
        ({"clusters": [1.0, math.nan]}, "got shape (2,) with 1 values missing"),
        ({"clusters": np.array(["a", 1], dtype=object)}, "clusters have no order"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        compare_paired(**{"differences": [0.1, 0.2], **given})


def test_sums_of_parts_are_the_sums_of_the_whole():
    d = differences(6000)
    clusters = np.random.default_rng(1).integers(0, 40, len(d)).astype(np.uint64)
    cuts = [0, 1, 700, 2900, len(d)]
    parts = [slice(*bounds) for bounds in itertools.pairwise(cuts)]
    none = PairedSums.of(d[:0])
    sums, grouped = none, ClusterSums.of(d[:0], clusters[:0])
    for part in parts:
        sums += PairedSums.of(d[part])
        grouped += ClusterSums.of(d[part], clusters[part])
    merged = paired_result(none, grouped, resamples=0)
    whole = compare_paired(d, clusters, resamples=0)
    assert (sums.largest == PairedSums.of(d).largest).all()
    assert merged.difference == pytest.approx(whole.difference, rel=1e-12)
    assert merged.error == pytest.approx(whole.error, rel=1e-12)
    assert paired_result(sums, resamples=0).error == pytest.approx(
        compare_paired(d, resamples=0).error, rel=1e-12
    )


def test_what_is_not_defined_is_none():
    none = compare_paired(np.zeros(0))
    assert (none.pairs, none.difference, none.p_value) == (0, None, None)
    one = compare_paired(np.array([-0.5]))
    assert (one.difference, one.error, one.drop_p_value(0.1)) == (-0.5, None, None)
    alone = compare_paired(differences(20), np.zeros(20, dtype=np.uint64))
    assert alone.difference is not None
    assert (alone.clusters, alone.interval) == (1, None)
    outweighed = compare_paired(differences(105), [*np.zeros(100), *range(1, 6)])
    assert (outweighed.clusters, outweighed.error) == (6, None)


def test_differences_that_are_all_the_same_have_no_error():
    same = compare_paired(np.zeros(50))
    assert (same.error, same.interval, same.p_value) == (0.0, (0.0, 0.0), 1.0)
    assert (same.randomization_p, same.bootstrap_p) == (1.0, 1.0)
    assert (same.drop_p_value(0.0), same.detectable) == (1.0, None)
    lower = compare_paired(np.full(64, -0.25))
    assert lower.drop_p_value(0.2) == 0.5**64
    assert lower.drop_p_value(0.25) == 1.0
    assert lower.randomization_p == pytest.approx(1 / 10_000)


def test_two_equal_differences_are_not_certain():
    found = compare_paired([-0.4, -0.4])
    assert (found.error, found.randomization_p, found.drop_p_value(0.005)) == (0.0, 0.5, 0.25)


@pytest.mark.parametrize("number", [40, 500], ids=["few", "more than are kept"])
def test_rows_by_themselves_are_clusters_of_one_row(number, few_kept):
    """In any mixture, also of rows that have not moved."""
    clusters = np.repeat(np.arange(number), np.arange(number) % 4 + 1)
    own = np.random.default_rng(5).normal(-0.01, 0.1, number) * (np.arange(number) % 5 > 0)
    d, is_alone = own[clusters], clusters % 4 == 0
    mixed = paired_result(
        PairedSums.of(d[is_alone]), ClusterSums.of(d[~is_alone], clusters[~is_alone])
    )
    whole = compare_paired(d, clusters)
    for name in ("pairs", "clusters", "units", "moved_units", "difference", "error", "degrees"):
        assert getattr(mixed, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    assert (mixed.units, mixed.moved_units) == (number, number * 4 // 5)
    assert mixed.p_value == pytest.approx(whole.p_value, rel=1e-9)
    assert mixed.randomization_p == pytest.approx(whole.randomization_p, abs=0.03)
    reach = 0.1 * whole.error
    assert mixed.bootstrap_interval == pytest.approx(whole.bootstrap_interval, abs=reach)


def test_what_moves_by_noise_alone_has_not_moved():
    """Whether the last bits of scores are equal depends on the processor."""
    large, noise = np.full(3, -0.3), np.random.default_rng(1).normal(0, 1e-8, 57)
    exact = compare_paired([*large, *0 * noise], resamples=0)
    d = np.append(large, noise)
    noisy = paired_result(PairedSums.of(d, np.abs(d) > 1e-6), resamples=0)
    grouped = ClusterSums.of(d, np.arange(60, dtype=np.uint64), np.abs(d) > 1e-6)
    for one in (noisy, paired_result(PairedSums.of(d[:0]), grouped, resamples=0)):
        assert (one.units, one.moved_units, one.signs_p) == (60, 3, 0.125)
        assert one.drop_p_value(0.005) == pytest.approx(exact.drop_p_value(0.005), rel=1e-5)


def test_holm_is_that_of_its_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert holm([]) == []


# Five standard errors of the difference of two estimates, from 10,000 swaps and 1,000 samples.
SWAPS_ATOL, SAMPLES_ATOL, BOUND_ATOL = 0.036, 0.11, 0.15


def share_of_hits(sums):
    return 100 * sums[0] / sums[1]


def check_corpora(found, mine, theirs, score):
    """Compare with swaps and samples of all rows, which are made one by one."""
    random, rows = np.random.default_rng(1), len(mine)

    def difference(own, other):
        return score(own.sum(axis=0)) - score(other.sum(axis=0))

    observed, swapped, drawn = difference(mine, theirs), [], []
    for _ in range(2000):
        swap = random.random((rows, 1)) < 0.5
        swapped.append(difference(np.where(swap, theirs, mine), np.where(swap, mine, theirs)))
    for _ in range(1000):
        chosen = random.integers(0, rows, rows)
        drawn.append(difference(mine[chosen], theirs[chosen]))
    assert found.difference == pytest.approx(observed)
    beyond = np.abs(swapped) >= abs(observed) - 1e-9
    assert found.randomization_p == pytest.approx(beyond.mean(), abs=2 * SWAPS_ATOL)
    beyond = np.abs(drawn - np.mean(drawn)) >= abs(observed) - 1e-9
    assert found.bootstrap_p == pytest.approx(beyond.mean(), abs=SAMPLES_ATOL)
    bounds = np.quantile(drawn, [0.025, 0.975])
    np.testing.assert_allclose(found.interval, bounds, atol=BOUND_ATOL * np.ptp(bounds))


@pytest.mark.parametrize(
    ("changed", "documents"), [(300, 0), (2_500, 0), (2_500, 1), (2_500, 3), (300, 3)]
)
def test_corpora_of_many_rows_are_compared_as_if_row_by_row(changed, documents):
    random = np.random.default_rng(5)
    length = np.append(random.integers(4, 12, 2_500), np.full(documents, 30_000))
    hits = random.binomial(length, 0.4, (2, len(length)))
    hits[1, changed:2_500] = hits[0, changed:2_500]
    mine, theirs = (np.stack([own, length], axis=1).astype(float) for own in hits)
    check_corpora(compare_corpora(mine, theirs, share_of_hits), mine, theirs, share_of_hits)


def translations(rows, *, worse):
    """Return two systems' translations, of which each loses words by chance, and references."""
    random = np.random.default_rng(2)
    references = [
        " ".join(random.choice(list("abcdefghijklmnopqrst"), size)) for size in range(6, 6 + rows)
    ]
    lost = (0.3, 0.3 + worse)
    return [
        [" ".join(word for word in text.split() if random.random() > share) for text in references]
        for share in lost
    ], [references]


@pytest.mark.parametrize("metric", [BLEU(), CHRF()], ids=["BLEU", "chrF"])
@pytest.mark.parametrize("worse", [0, 0.03])
def test_corpora_are_compared_as_sacrebleu_does_but_for_its_bootstrap_p(metric, worse):
    (first, second), references = translations(40, worse=worse)
    counts = [metric._extract_corpus_statistics(own, references) for own in (first, second)]

    def score(sums):
        return metric._compute_score_from_stats(sums).score

    found = compare_corpora(*np.asarray(counts, dtype=float), score)
    one, other = (metric.corpus_score(own, references).score for own in (first, second))
    assert (found.score, found.against_score) == pytest.approx((one, other), abs=1e-9)
    sides = (metric, first, second, references)
    by_swaps = corpus_tests.randomization_p(*sides, swaps=2_000)
    assert found.randomization_p == pytest.approx(by_swaps, abs=2 * SWAPS_ATOL)
    by_samples, bounds = corpus_tests.bootstrap(*sides)
    assert found.bootstrap_p == pytest.approx(by_samples, abs=SAMPLES_ATOL)
    np.testing.assert_allclose(found.interval, bounds, atol=BOUND_ATOL * np.ptp(bounds))


def test_tests_of_equal_corpora_reject_as_often_as_they_say(monkeypatch):
    monkeypatch.setattr(paired, "CORPUS_SWAPS", 1_000)
    random, nights = np.random.default_rng(3), 500
    p_values = []
    for night in range(nights):
        length, share = random.integers(5, 30, 100), random.beta(4, 4, 100)
        sides = [np.stack([random.binomial(length, share), length], 1) * 1.0 for _ in range(2)]
        found = compare_corpora(*sides, share_of_hits, seed=night)
        p_values.append((found.randomization_p, found.bootstrap_p))
    rejected = (np.array(p_values) < 0.05).mean(axis=0)
    # Three standard errors of a share of .05.
    assert np.abs(rejected - 0.05).max() < 3 * (0.05 * 0.95 / nights) ** 0.5


def test_corpora_that_differ_in_one_row_do_not_differ_significantly():
    mine = np.tile([5.0, 10.0], (200, 1))
    theirs = mine.copy()
    theirs[0, 0] = 2
    found = compare_corpora(mine, theirs, share_of_hits)
    assert found.randomization_p == 1  # a swap changes the sign alone
    # A sample lacks the row in 37%, and has it twice or more in 26%.
    assert found.bootstrap_p > 0.2


RESULTS = ("difference", "error", "upper", "detectable")
ENDS = ("interval", "bootstrap_interval")
P_VALUES = ("p_value", "signs_p", "randomization_p", "bootstrap_p")
SAME = ("pairs", "units", "moved_units", "degrees", "carriers", "effective_clusters", *P_VALUES)


def in_two_parts(d, clusters):
    """Compare rows as they come in two buckets, whose largest differences are not the same."""
    halves = slice(0, len(d) // 2), slice(len(d) // 2, None)
    pairs = PairedSums.merge([PairedSums.of(d[:0]), *(PairedSums.of(d[one]) for one in halves)])
    if clusters is None:
        return paired_result(pairs)
    grouped = ClusterSums.merge([ClusterSums.of(d[one], clusters[one]) for one in halves])
    return paired_result(pairs, grouped)


@pytest.mark.parametrize("rows", [2, 9, 40, 2100])
@pytest.mark.parametrize("has_clusters", [False, True])
@pytest.mark.parametrize("compare", [compare_paired, in_two_parts])
def test_numbers_of_any_size_have_the_same_p_values_to_the_last_bit(rows, has_clusters, compare):
    random = np.random.default_rng(rows)
    d = random.normal(0.3, 1, rows) * np.append(np.ones(rows - 1), 40)
    d[random.random(rows) < 0.2] = 0
    clusters = random.integers(0, rows // 2 + 1, rows).astype(np.uint64) if has_clusters else None
    expected = compare(d, clusters)
    for exponent in (-900, 1000):
        found = compare(np.ldexp(d, exponent), clusters)
        for name in RESULTS:
            value = getattr(expected, name)
            scaled = None if value is None else math.ldexp(value, exponent)
            assert getattr(found, name) == scaled, name
        for name in ENDS:
            ends = getattr(expected, name)
            scaled = None if ends is None else tuple(math.ldexp(end, exponent) for end in ends)
            assert getattr(found, name) == scaled, name
        for name in SAME:
            assert getattr(found, name) == getattr(expected, name), name
        for drop in (0.0, 0.25):
            own = found.drop_p_value(math.ldexp(drop, exponent))
            assert own == expected.drop_p_value(drop)


def test_the_largest_doubles_are_compared_and_no_result_is_infinite():
    largest = sys.float_info.max
    whole = compare_paired([largest, *range(-4, 5)])
    assert whole.difference == largest / 10
    assert whole.error == pytest.approx(largest / 10)
    assert whole.interval[1] == pytest.approx(largest / 10 * (1 + stats.t.ppf(0.975, 9)))
    few = compare_paired([largest, -1.0])
    assert few.interval == (-largest, largest)  # of Student's t, and no double is beyond
    mine, theirs = np.array([largest, -largest, 3.0]), np.array([-largest, -largest, 1.0])
    d, exponent = differences_of(mine, theirs)
    found = paired_result(PairedSums.of(d, exponent=exponent))
    assert found.difference == largest / 3 * 2
    alone = paired_result(PairedSums.of(d[:1], exponent=exponent))
    assert alone.difference == largest  # twice as much is no double


def test_small_differences_are_not_lost_beside_rows_of_any_size():
    scores, others = np.full(50, 1e150), np.full(50, 1e150)
    scores[:40], others[:40] = 3e-170, 1e-170
    scores[:40:2] = 5e-170
    found = paired_result(PairedSums.of(differences_of(scores, others)[0]))
    d = np.append(np.tile([4.0, 2.0], 20), np.zeros(10))
    assert found.p_value == pytest.approx(compare_paired(d).p_value, rel=1e-12)
    assert 1e-9 > found.p_value > 0
    assert found.difference == pytest.approx(2.4e-170)
    assert found.error == pytest.approx(d.std(ddof=1) / 50**0.5 * 1e-170)
