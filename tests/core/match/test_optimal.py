"""Optimal matching: one token for each token, so that the sum is largest."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from bertscore_core.match.matching import average, best_matches, optimal_matches


def vectors(*angles: float) -> torch.Tensor:
    """Return unit vectors of the plane, by degrees."""
    turned = torch.deg2rad(torch.tensor(angles, dtype=torch.float64))
    return torch.stack([turned.cos(), turned.sin()], dim=1).float()


def lengths(*texts: torch.Tensor) -> list[torch.Tensor]:
    return [torch.tensor([len(text)]) for text in texts]


def greedy(candidate: torch.Tensor, reference: torch.Tensor):
    return best_matches(candidate[None], reference[None], *lengths(candidate, reference))


def largest_sum(candidate: torch.Tensor, reference: torch.Tensor) -> float:
    """Try every assignment."""
    similarity = (candidate @ reference.T).numpy()
    if similarity.shape[0] > similarity.shape[1]:
        similarity = similarity.T
    rows = np.arange(len(similarity))
    return max(
        float(similarity[rows, list(order)].sum())
        for order in permutations(range(similarity.shape[1]), len(rows))
    )


def test_two_tokens_cannot_share_a_match():
    """Tokens at 0 and 20 degrees are both nearest to the one at 10; the second must go to 90.

    Greedy: cos 10 for both. Optimal: cos 10 and cos 70 (sum 1.327) beat cos 10 and cos 90.
    """
    candidate, reference = vectors(0, 20), vectors(10, 90)
    ten, seventy = np.cos(np.deg2rad([10, 70]))
    best = optimal_matches(candidate, reference)
    np.testing.assert_allclose(best.candidate, [[ten, seventy]], rtol=1e-6)
    np.testing.assert_allclose(best.reference, [[ten, seventy]], rtol=1e-6)
    np.testing.assert_allclose(greedy(candidate, reference).candidate, [[ten, ten]], rtol=1e-6)


def test_tokens_that_are_left_over_count_as_0():
    """Of three tokens at 0, 30 and 90 degrees two are assigned, to those at 0 and 90.

    With weights 1, 1, 2 precision is (1 + 0 + 2) / 4; recall has both tokens matched.
    """
    candidate, reference = vectors(0, 30, 90), vectors(0, 90)
    best = optimal_matches(candidate, reference)
    scores = average(
        best, torch.tensor([[1.0, 1.0, 2.0]]), torch.ones(1, 2), *lengths(candidate, reference[:1])
    )
    np.testing.assert_allclose(scores.precision, [0.75], atol=1e-6)
    np.testing.assert_allclose(scores.recall, [1], atol=1e-6)
    np.testing.assert_allclose(scores.f1, [2 * 0.75 / 1.75], atol=1e-6)


ANGLES = st.lists(st.floats(0, 180), min_size=1, max_size=5)


@given(ANGLES, ANGLES)
@settings(max_examples=60, deadline=None)
def test_the_sum_is_the_largest_of_all_and_at_most_that_of_greedy_matching(left, right):
    candidate, reference = vectors(*left), vectors(*right)
    best, free = optimal_matches(candidate, reference), greedy(candidate, reference)
    for assigned, nearest in zip(best, free, strict=True):
        assert float(assigned.sum()) == pytest.approx(largest_sum(candidate, reference), abs=1e-5)
        # A token that is assigned is at most as near as its nearest.
        taken = assigned != 0
        assert bool((assigned[taken] <= nearest[taken] + 1e-6).all())
        assert int(taken.sum()) <= min(len(left), len(right))
    # Both sides have the same matches, seen from either end.
    np.testing.assert_allclose(
        np.sort(best.candidate[best.candidate != 0]),
        np.sort(best.reference[best.reference != 0]),
        atol=1e-6,
    )


def test_numbers_that_are_not_finite_reach_the_scores():
    broken = vectors(0, 40)
    broken[1] = torch.nan
    assert all(bool(side.isnan().all()) for side in optimal_matches(broken, vectors(0, 10, 20)))
