"""Sums over scores: exact in any order, right against plain arithmetic, refused when damaged."""

import io
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bertscore_core import InputError, Moments, moments
from bertscore_core.moments import BINS, GROUPS, MAX_PAIRS

# (layers, pairs, 3) within [-1, 1], and a group for each pair.
SCORES = st.integers(0, 40).flatmap(
    lambda pairs: st.tuples(
        arrays.arrays(np.float32, (2, pairs, 3), elements=st.floats(-1, 1, width=32)),
        arrays.arrays(np.int64, pairs, elements=st.integers(0, GROUPS - 1)),
    )
)


def random_scores(pairs, *, layers=3, seed=0, spread=0.05):
    """Scores like those of random pairs, with the groups they would get."""
    random = np.random.default_rng(seed)
    middle = random.uniform(0.1, 0.8, (layers, 1, 3))
    scores = np.clip(middle + spread * random.standard_normal((layers, pairs, 3)), -1, 1)
    return scores.astype(np.float32), random.integers(0, GROUPS, pairs)


def plain_jackknife(scores, groups):
    """Delete-m jackknife, word for word: pseudo-values of the means without each group."""
    scores = scores.astype(np.float64)
    pairs, present = len(groups), np.unique(groups)
    mean, count = scores.mean(axis=1), len(present)
    sizes = [pairs / (groups == group).sum() for group in present]
    without = [scores[:, groups != group].mean(axis=1) for group in present]
    center = count * mean - sum((1 - 1 / h) * part for h, part in zip(sizes, without, strict=True))
    pseudo = [h * mean - (h - 1) * part for h, part in zip(sizes, without, strict=True)]
    parts = [(value - center) ** 2 / (h - 1) for h, value in zip(sizes, pseudo, strict=True)]
    return np.sqrt(sum(parts) / count)


@given(SCORES, st.data())
def test_any_order_and_any_partition_give_the_same_bytes(given_scores, data):
    scores, groups = given_scores
    whole = Moments.of(scores, groups)
    order = np.array(data.draw(st.permutations(range(len(groups)))), dtype=np.int64)
    cuts = data.draw(st.lists(st.integers(0, len(groups)), max_size=5).map(sorted))
    parts = [Moments.of(scores[:, rows], groups[rows]) for rows in np.split(order, cuts)]
    shuffled = data.draw(st.permutations(parts))
    assert Moments.merge(shuffled).to_bytes() == whole.to_bytes()
    assert sum(parts, Moments.zero(2)).to_bytes() == whole.to_bytes()


@given(SCORES)
def test_means_and_spread_are_those_of_float64(given_scores):
    scores, groups = given_scores
    found = Moments.of(scores, groups)
    values = scores.astype(np.float64)
    assert found.num_pairs == len(groups)
    if len(groups) == 0:
        assert np.isnan(found.means).all()
        return
    np.testing.assert_allclose(found.means, values.mean(axis=1), atol=1e-9, rtol=0)
    gaps = values[..., 0] - values[..., 1]
    np.testing.assert_allclose(found.gaps, gaps.mean(axis=1), atol=1e-9, rtol=0)
    if len(groups) == 1:
        assert np.isnan(found.deviations).all()
        assert np.isnan(found.gap_errors).all()
        return
    spread = values.std(axis=1, ddof=1)
    np.testing.assert_allclose(found.deviations**2, spread**2, atol=1e-9, rtol=0)
    errors = gaps.std(axis=1, ddof=1) / math.sqrt(len(groups))
    np.testing.assert_allclose(found.gap_errors**2, errors**2, atol=1e-9, rtol=0)


def test_standard_error_is_the_spread_over_the_root_of_the_pairs():
    found = Moments.of(*random_scores(400))
    np.testing.assert_allclose(found.standard_errors, found.deviations / 20)
    assert found.deviations == pytest.approx(np.full((3, 3), 0.05), rel=0.15)


@given(SCORES)
def test_jackknife_is_the_one_of_leaving_groups_out(given_scores):
    scores, groups = given_scores
    found = Moments.of(scores, groups)
    if len(found.groups) < 2:
        assert np.isnan(found.jackknife_errors).all()
    else:
        expected = plain_jackknife(scores, groups)
        np.testing.assert_allclose(found.jackknife_errors, expected, atol=1e-8)


def test_independent_pairs_have_equal_naive_and_jackknife_errors():
    """One jackknife over 64 groups has a standard deviation of 9%, a mean of 72 of them 1%."""
    ratios = []
    for seed in range(8):
        found = Moments.of(*random_scores(6400, seed=seed))
        ratios.append(found.jackknife_errors / found.standard_errors)
        assert np.abs(ratios[-1] - 1).max() < 0.3
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)


def test_pairs_that_resemble_each_other_show_in_the_jackknife_alone():
    scores, groups = random_scores(6400)
    scores = scores + np.linspace(-0.1, 0.1, GROUPS, dtype=np.float32)[groups][None, :, None]
    found = Moments.of(scores, groups)
    assert (found.jackknife_errors > 4 * found.standard_errors).all()


def test_errors_tell_how_far_means_stray():
    """Of 300 means, those within two errors of the truth are about 95 in 100."""
    random = np.random.default_rng(1)
    scores = np.clip(0.4 + 0.05 * random.standard_normal((100, 640, 3)), -1, 1)
    found = Moments.of(scores.astype(np.float32), random.integers(0, GROUPS, 640))
    for errors in (found.standard_errors, found.jackknife_errors):
        assert 0.91 < (np.abs(found.means - 0.4) < 2 * errors).mean() < 0.99


def test_quantiles_are_within_a_bin():
    scores, groups = random_scores(5000)
    shares = [0.0, 0.01, 0.25, 0.5, 0.9, 1.0]
    found = Moments.of(scores, groups).quantiles(shares)
    exact = np.quantile(scores.astype(np.float64), shares, axis=1, method="inverted_cdf")
    assert found.shape == (6, 3, 3)
    assert np.abs(found - exact).max() <= 2 / BINS + 1e-9


def test_quantiles_do_not_lie_where_no_scores_are():
    scores = np.repeat(np.float32([[[-0.5]], [[0.5]]]), 3, axis=2).reshape(1, 2, 3)
    found = Moments.of(scores, np.array([0, 1])).quantiles([0.0, 0.25, 0.5, 0.75, 1.0])[:, 0, 0]
    np.testing.assert_allclose(found, [-0.5, -0.495, -0.49, 0.505, 0.51], atol=1e-9)


def test_every_score_has_a_bin():
    ends = np.float32([-1.0000001, -1, 0, 0.999, 1, 1.0000002])
    scores = np.repeat(ends[None, :, None], 3, axis=2)
    histogram = Moments.of(scores, np.arange(6)).histogram[0, 0]
    assert histogram.sum() == 6
    assert histogram[[0, BINS // 2, BINS - 1]].tolist() == [2, 1, 3]


@pytest.mark.parametrize("f1", [-7.5, 3.0, -np.inf, np.inf])
def test_f1_of_scores_that_cancel_counts_as_the_bound(f1):
    scores = np.float32([[[0.01, -0.0099, f1], [0.2, 0.2, 0.2]], [[0.1, 0.1, 0.1]] * 2])
    found = Moments.of(scores, np.array([3, 5]))
    assert found.means[:, 2] == pytest.approx([(math.copysign(1, f1) + 0.2) / 2, 0.1], abs=1e-6)
    assert found.clipped.tolist() == [1, 0]
    assert (found + found).clipped.tolist() == [2, 0]


@pytest.mark.parametrize("measure", [0, 1, 2])
def test_scores_that_are_no_numbers_are_refused(measure):
    scores, groups = random_scores(5)
    scores[1, 3, measure] = np.nan
    with pytest.raises(InputError, match=r"1 of 5 pairs have scores .* such as pair 3; expected"):
        Moments.of(scores, groups)


@pytest.mark.parametrize("value", [1.01, -1.01, np.inf, -np.inf])
def test_precision_and_recall_beyond_one_are_refused(value):
    scores, groups = random_scores(5)
    scores[0, 2, 1] = value
    with pytest.raises(InputError, match="recall beyond 1, such as pair 2"):
        Moments.of(scores, groups)


@pytest.mark.parametrize("groups", [[0, 64], [-1, 0], [0.0, 1.0]])
def test_what_is_no_group_is_refused(groups):
    with pytest.raises(InputError, match="got a group beyond 0 to 63"):
        Moments.of(np.zeros((1, 2, 3), dtype=np.float32), np.array(groups))


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 4), (1, 3, 3)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(InputError, match="scores and groups do not fit"):
        Moments.of(np.zeros(shape, dtype=np.float32), np.zeros(2, dtype=np.int64))


def test_more_pairs_than_fit_are_refused_and_the_most_do_fit():
    """Doubling 1s and -1s: the largest sums there can be."""
    scores = np.float32([[[1, -1, 1]] * 2])
    found = Moments.of(scores, np.array([0, 0]))
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


def test_parts_are_left_as_they_were():
    first, second = (Moments.of(*random_scores(30, seed=seed)) for seed in (1, 2))
    before = first.to_bytes(), second.to_bytes()
    total = Moments.merge([first, second])
    alone = Moments.merge([first])
    total.sums[...] = 0
    alone.histogram[...] = 0
    assert (first.to_bytes(), second.to_bytes()) == before


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


def rewritten(**changes):
    """Write an archive with some of its arrays replaced."""
    data = Moments.of(*random_scores(200)).to_bytes()
    with np.load(io.BytesIO(data)) as archive:
        content = {**archive, **changes}
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": np.zeros(GROUPS, dtype=np.int64)}, "do not belong together"),
        ({"groups": np.zeros(GROUPS, dtype=np.int64)}, "do not belong together"),
        ({"groups": np.arange(1, GROUPS + 1)}, "do not belong together"),
        ({"squares": np.zeros((3, 3), dtype=np.int64)}, "do not belong together"),
        ({"histogram": np.zeros((3, 3, BINS), dtype=np.int64)}, "do not belong together"),
        ({"head": np.frombuffer(b'{"format": "bertscore-moments/2"}', np.uint8)}, "moments/2"),
        ({"sums": np.array([{}], dtype=object)}, "allow_pickle=False"),
    ],
)
def test_archives_of_something_else_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Moments.from_bytes(rewritten(**changes), "a.npz")


def test_baseline_is_the_table_of_means():
    found = Moments.of(*random_scores(50))
    baseline = found.baseline("en/model")
    assert baseline.name == "en/model"
    np.testing.assert_array_equal(baseline.rows, found.means)
    with pytest.raises(InputError, match="baseline en/model has no pairs"):
        Moments.zero(3).baseline("en/model")


def test_a_step_is_far_below_what_is_printed():
    assert 1 / moments._SCALE < 1e-7 / 1000
