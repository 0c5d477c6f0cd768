"""Several weightings are scored at once, greedily or by the best assignment."""

import itertools

import numpy as np
import pytest
import torch

from bertscore_core import BertScorer, ScorerConfig, TokenWeights
from bertscore_core.matching import average, best_matches
from bertscore_core.optimal import optimal_matches
from bertscore_core.work import Work

CANDIDATES = ["the cat sat on the mat", "it rains", "", "one boat of two", "the cat sat on the mat"]
REFERENCES = [
    ["a cat was on the mat", "the cat"],
    ["rain falls on the roof of the house"],
    ["nothing"],
    ["two boats"],
    ["the cat sat on the mat"],
]


def scorer_of(folder, **changes):
    chosen = {"model": str(folder), "all_layers": True, "layer_semantics": "cut", "idf": True}
    return BertScorer(ScorerConfig(**chosen, max_length=32, device="cpu", **changes))


@pytest.mark.model
@pytest.mark.parametrize("pair_elements", [1 << 24, 4])
def test_each_weighting_scores_as_if_it_were_alone(tiny_folder, pair_elements):
    scorer = scorer_of(tiny_folder("bert"))
    scorer._budget.pair_elements = pair_elements  # with 4, tile by tile
    pairs = scorer.tokenize(CANDIDATES, REFERENCES)
    weightings = [
        scorer.token_weights(None),
        scorer.token_weights(scorer.count_idf(REFERENCES)),
        TokenWeights(table=np.linspace(0.1, 2, 50), default=0.5),
    ]
    work = Work()
    together = scorer.score_with_each(pairs, weightings, work)
    for weights, found in zip(weightings, together, strict=True):
        alone = scorer.score_tokenized(pairs, weights)
        for name in ("precision", "recall", "f1", "best_reference"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    assert work.tokens == work.planned_tokens  # no text was encoded again
    assert not np.array_equal(together[0].f1, together[1].f1)


def unit(random, count):
    vectors = torch.randn(count, 6, generator=random)
    return torch.nn.functional.normalize(vectors, dim=-1)


@pytest.mark.parametrize(("ours", "theirs"), [(3, 5), (5, 3), (4, 4), (1, 4)])
def test_the_assignment_is_the_best_of_all(ours, theirs):
    random = torch.Generator().manual_seed(ours * 10 + theirs)
    candidate, reference = unit(random, ours), unit(random, theirs)
    similarity = candidate @ reference.T
    small, large = (similarity, theirs) if ours <= theirs else (similarity.T, ours)
    best = max(
        sum(float(small[row, column]) for row, column in enumerate(columns))
        for columns in itertools.permutations(range(large), len(small))
    )
    found = optimal_matches(candidate, reference)
    assert float(found.candidate.sum()) == pytest.approx(best, abs=1e-6)
    assert float(found.reference.sum()) == pytest.approx(best, abs=1e-6)
    assert int((found.candidate != 0).sum()) == int((found.reference != 0).sum()) == len(small)


def test_no_assignment_is_better_than_greedy_matching():
    random = torch.Generator().manual_seed(1)
    candidate, reference = unit(random, 7), unit(random, 9)
    lengths = torch.tensor([7]), torch.tensor([9])
    greedy = best_matches(candidate[None], reference[None], *lengths)
    optimal = optimal_matches(candidate, reference)
    assert (optimal.candidate <= greedy.candidate + 1e-6).all()
    weights = torch.ones(1, 7), torch.ones(1, 9)
    scores = [average(best, *weights, *lengths) for best in (greedy, optimal)]
    assert scores[1].f1 < scores[0].f1


@pytest.mark.model
def test_a_scorer_matches_optimally_if_it_is_asked(tiny_folder):
    scorer = scorer_of(tiny_folder("bert"))
    pairs = scorer.tokenize(CANDIDATES, REFERENCES)
    weightings = [scorer.token_weights(None)]
    (greedy,) = scorer.score_with_each(pairs, weightings)
    (optimal,) = scorer.score_with_each(pairs, weightings, optimal=True)
    assert (optimal.precision <= greedy.precision + 1e-6).all()
    assert (optimal.f1[:, 1] < greedy.f1[:, 1]).any()  # texts of different lengths
    np.testing.assert_allclose(optimal.f1[:, 4], 1, atol=1e-6)  # a text and itself
    assert (optimal.f1[:, 2] == greedy.f1[:, 2]).all()  # an empty text
