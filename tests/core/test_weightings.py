"""Several weightings are scored at once."""

import numpy as np
import pytest

from bertscore_core import TokenWeights
from bertscore_core.work import Work

CANDIDATES = ["the cat sat on the mat", "it rains", "", "one boat of two", "the cat sat on the mat"]
REFERENCES = [
    ["a cat was on the mat", "the cat"],
    ["rain falls on the roof of the house"],
    ["nothing"],
    ["two boats"],
    ["the cat sat on the mat"],
]


@pytest.fixture
def scorer(tiny_scorer):
    return tiny_scorer(all_layers=True, layer_semantics="cut", idf=True)


@pytest.mark.parametrize("pair_elements", [1 << 24, 4])
def test_each_weighting_scores_as_if_it_were_alone(scorer, pair_elements):
    scorer._engine.budget.pair_elements = pair_elements  # with 4, tile by tile
    pairs = scorer.tokenize(CANDIDATES, REFERENCES)
    weightings = [
        scorer.token_weights(None),
        scorer.token_weights(scorer.count_idf(REFERENCES)),
        TokenWeights(table=np.linspace(0.1, 2, 50), default=0.5),
    ]
    work = Work()
    together = scorer.score_with_each(pairs, weightings, work)
    for weights, scores in zip(weightings, together, strict=True):
        alone = scorer.score_tokenized(pairs, weights)
        for name in ("precision", "recall", "f1", "best_reference"):
            np.testing.assert_array_equal(getattr(scores, name), getattr(alone, name))
    assert work.tokens == work.planned_tokens  # no text was encoded again
    assert not np.array_equal(together[0].f1, together[1].f1)
