"""Sums over scores: exact in any order, right against plain arithmetic, refused when damaged."""

import io
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from bertscore_core import InputError, Moments
from bertscore_core.stats.moments import HOST_BUCKETS, MAX_PAIRS

# (layers, pairs, 3) within [-1, 1], and two buckets of hosts for each pair.
SCORES = st.integers(0, 40).flatmap(
    lambda pairs: st.tuples(
        arrays.arrays(np.float32, (2, pairs, 3), elements=st.floats(-1, 1, width=32)),
        arrays.arrays(np.int16, (pairs, 2), elements=st.sampled_from([0, 1, 7, HOST_BUCKETS - 1])),
    )
)


def random_scores(pairs, *, layers=3):
    """Scores like those of random pairs, with buckets of hosts."""
    random = np.random.default_rng(0)
    middle = random.uniform(0.1, 0.8, (layers, 1, 3))
    scores = np.clip(middle + 0.05 * random.standard_normal((layers, pairs, 3)), -1, 1)
    return scores.astype(np.float32), random.integers(0, HOST_BUCKETS, (pairs, 2))


@given(SCORES, st.data())
def test_any_order_and_any_partition_give_the_same_bytes(given_scores, data):
    scores, hosts = given_scores
    whole = Moments.of(scores, hosts)
    order = np.array(data.draw(st.permutations(range(len(hosts)))), dtype=np.int64)
    cuts = data.draw(st.lists(st.integers(0, len(hosts)), max_size=5).map(sorted))
    parts = [Moments.of(scores[:, rows], hosts[rows]) for rows in np.split(order, cuts)]
    shuffled = data.draw(st.permutations(parts))
    assert Moments.merge(shuffled).to_bytes() == whole.to_bytes()
    assert sum(parts, Moments.zero(2)).to_bytes() == whole.to_bytes()


@given(SCORES)
def test_means_and_spread_are_those_of_float64(given_scores):
    scores, hosts = given_scores
    found = Moments.of(scores, hosts)
    values = scores.astype(np.float64)
    assert found.num_pairs == len(hosts)
    if len(hosts) == 0:
        assert np.isnan(found.means).all()
        return
    np.testing.assert_allclose(found.means, values.mean(axis=1), atol=1e-9, rtol=0)
    gaps = values[..., 0] - values[..., 1]
    np.testing.assert_allclose(found.gaps, gaps.mean(axis=1), atol=1e-9, rtol=0)
    if len(hosts) == 1:
        assert np.isnan(found.deviations).all()
        assert np.isnan(found.gap_errors).all()
        return
    spread = values.std(axis=1, ddof=1)
    np.testing.assert_allclose(found.deviations**2, spread**2, atol=1e-9, rtol=0)
    errors = gaps.std(axis=1, ddof=1) / math.sqrt(len(hosts))
    np.testing.assert_allclose(found.gap_errors**2, errors**2, atol=1e-9, rtol=0)


@given(SCORES)
def test_error_is_that_of_the_sums_by_host(given_scores):
    """The estimate that the module describes, word for word."""
    scores, hosts = given_scores
    found = Moments.of(scores, hosts)
    values, pairs = scores.astype(np.float64), len(hosts)
    buckets = np.unique(hosts)
    touches = [(hosts == bucket).any(axis=1) for bucket in buckets]
    if pairs < 2 or len(buckets) < 2 or any(touched.all() for touched in touches):
        expected = found.naive_errors if pairs == 0 else np.full((2, 3), np.nan)
        np.testing.assert_array_equal(found.standard_errors, expected)
        return
    apart = values - values.mean(axis=1, keepdims=True)
    shares = np.array([(hosts == bucket).mean() for bucket in buckets])
    q = (shares**2).sum()
    factor = q / (q - 2 * (shares**3).sum() + q**2)
    naive = values.var(axis=1, ddof=1) / pairs
    shared = sum(apart[:, t].sum(axis=1) ** 2 / (1 - t.mean()) for t in touches)
    own = (factor * sum(t.sum() for t in touches) - pairs) * pairs * naive
    variance = np.maximum(naive, (factor * shared - own) / pairs**2)
    np.testing.assert_allclose(found.standard_errors**2, variance, atol=1e-8)
    assert found.effective_hosts == pytest.approx(1 / q)


@pytest.mark.parametrize("f1", [-7.5, 3.0, -np.inf, np.inf])
def test_f1_of_scores_that_cancel_counts_as_the_bound(f1):
    scores = np.float32([[[0.01, -0.0099, f1], [0.2, 0.2, 0.2]], [[0.1, 0.1, 0.1]] * 2])
    found = Moments.of(scores)
    assert found.means[:, 2] == pytest.approx([(math.copysign(1, f1) + 0.2) / 2, 0.1], abs=1e-6)
    assert found.clipped.tolist() == [1, 0]
    assert (found + found).clipped.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(((1, 3, measure), np.nan) for measure in range(3)),
        *(((0, 3, 1), value) for value in (1.01, -1.01, np.inf)),
    ],
)
def test_scores_that_are_none_are_refused(place, value):
    scores, hosts = random_scores(5)
    scores[place] = value
    with pytest.raises(InputError, match=r"1 of 5 pairs have scores .* such as pair 3; expected"):
        Moments.of(scores, hosts)


@pytest.mark.parametrize(
    ("scores", "hosts", "words"),
    [
        ((1, 2, 3), [[0, 256], [0, 0]], "got a bucket of hosts beyond 0 to 255"),
        ((1, 2, 3), [[0.0, 1.0], [0.0, 0.0]], "got a bucket of hosts beyond 0 to 255"),
        ((1, 2, 3), [[0, 0]] * 3, "scores and hosts do not fit"),
        ((1, 2, 4), None, "scores do not fit"),
    ],
)
def test_scores_and_hosts_that_do_not_fit_are_refused(scores, hosts, words):
    with pytest.raises(InputError, match=words):
        Moments.of(np.zeros(scores, np.float32), None if hosts is None else np.array(hosts))


def test_pairs_with_and_without_hosts_do_not_add_up():
    scores, hosts = random_scores(4)
    with pytest.raises(InputError, match="with and without hosts cannot be added"):
        Moments.of(scores, hosts) + Moments.of(scores)
    assert (Moments.of(scores, hosts) + Moments.zero(3)).knows_hosts


def test_more_pairs_than_fit_are_refused_and_the_most_do_fit():
    """Doubling 1s and -1s: the largest sums there can be."""
    scores = np.float32([[[1, -1, 1]] * 2])
    found = Moments.of(scores, np.zeros((2, 2), dtype=np.int64))
    while found.num_pairs < MAX_PAIRS:
        found = found + found
    assert found.num_pairs == MAX_PAIRS == 2**26
    assert found.means.tolist() == [[1, -1, 1]]
    assert found.gaps.tolist() == [2]
    assert found.deviations.tolist() == [[0, 0, 0]]
    assert found.gap_errors.tolist() == [0]
    with pytest.raises(InputError, match=f"{2**27} pairs are more than can be added up exactly"):
        found + found


def test_moments_of_other_models_do_not_add_up():
    with pytest.raises(InputError, match="moments of 3 and of 2 layers cannot be added"):
        Moments.of(*random_scores(4)) + Moments.of(*random_scores(4, layers=2))
    with pytest.raises(InputError, match="no moments to add up"):
        Moments.merge([])


def test_bytes_round_trip():
    found = Moments.of(*random_scores(200))
    data = found.to_bytes()
    again = Moments.from_bytes(data, "a.npz")
    assert again.to_bytes() == data
    np.testing.assert_array_equal(again.means, found.means)
    between_workers = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert between_workers.to_bytes() == data
    nothing = Moments.zero(3)
    assert Moments.from_bytes(nothing.to_bytes(), "b.npz").to_bytes() == nothing.to_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not an archive",
        lambda data: data[: len(data) // 2],
        lambda data: data[:1500] + bytes([data[1500] ^ 255]) + data[1501:],
    ],
)
def test_damaged_bytes_are_named(damage):
    data = Moments.of(*random_scores(200)).to_bytes()
    with pytest.raises(InputError, match=r"a\.npz holds no sums of scores .* run that command"):
        Moments.from_bytes(damage(data), "a.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host_pairs": np.full(HOST_BUCKETS, 9)}, "do not belong together"),
        ({"host_sides": np.full(HOST_BUCKETS, 5)}, "do not belong together"),
        ({"host_buckets": np.zeros(HOST_BUCKETS, dtype=np.int64)}, "do not belong together"),
        ({"host_sums": np.zeros((HOST_BUCKETS, 3))}, "host_sums has another shape"),
        ({"pairs": np.array(199)}, "do not belong together"),
        ({"squares": np.zeros((3, 3), dtype=np.int64)}, "squares has another shape"),
        ({"head": np.frombuffer(b'{"format": "bertscore-moments/1"}', np.uint8)}, "moments/1"),
        ({"sums": np.array([{}], dtype=object)}, "allow_pickle=False"),
    ],
)
def test_archives_of_something_else_are_refused(changes, message):
    with np.load(io.BytesIO(Moments.of(*random_scores(1500)).to_bytes())) as archive:
        content = {**archive, **changes}
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    with pytest.raises(InputError, match=message):
        Moments.from_bytes(buffer.getvalue(), "a.npz")


def test_baseline_is_the_table_of_means():
    found = Moments.of(*random_scores(50))
    baseline = found.baseline("en/model")
    assert baseline.name == "en/model"
    np.testing.assert_array_equal(baseline.rows, found.means)
    with pytest.raises(InputError, match="baseline en/model has no pairs"):
        Moments.zero(3).baseline("en/model")
