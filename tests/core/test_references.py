"""Several references: the mean over them, and texts among each other, of which pairs are halved."""

from dataclasses import replace

import numpy as np
import pytest

from bertscore_core import ConfigError, explain, specification
from bertscore_core.explanations import explanation
from bertscore_core.tokens import TextPairs, TokenizedTexts, first_highest

TEXTS = ["the cat sat on the mat", "a dog sat", "", "rain falls on the roof of the house", "a dog"]
OTHERS = [TEXTS[:place] + TEXTS[place + 1 :] for place in range(len(TEXTS))]
MEASURES = ("precision", "recall", "f1")


def alone(scorer, name):
    """Return a measure of each text with each other one, each pair scored by itself."""
    return np.array(
        [
            [getattr(scorer.score([text], [other]), name)[0] for other in others]
            for text, others in zip(TEXTS, OTHERS, strict=True)
        ]
    )


@pytest.mark.model
@pytest.mark.parametrize("empty", ["reference", "zero", "null"])
def test_the_mean_is_that_of_single_pairs_that_have_a_score(tiny_scorer, empty):
    scorer = tiny_scorer(num_layers=2, empty=empty, references="mean")
    scores = scorer.score(TEXTS, OTHERS)
    for name in MEASURES:
        single = alone(scorer, name)
        single[2] = np.nan if empty == "null" else single[2]
        number = (~np.isnan(single)).sum(axis=1)
        mean = np.where(number, np.nansum(single, axis=1) / np.maximum(number, 1), np.nan)
        np.testing.assert_allclose(getattr(scores, name), mean, atol=1e-6, rtol=0)
    assert scores.scored.tolist() == [True, True, empty != "null", True, True]


@pytest.mark.model
def test_weights_and_layers_are_those_of_each_text(tiny_scorer):
    scorer = tiny_scorer(all_layers=True, layer_semantics="cut", idf=True, references="mean")
    table = scorer.count_idf(TEXTS)
    texts = [TEXTS[0], TEXTS[1], TEXTS[3]]
    others = [texts[1:], [texts[0], texts[2]], texts[:2]]
    scores = scorer.score(texts, others, idf=table)
    pairs = scorer.score([texts[0]] * 2, texts[1:], idf=table)
    for name in MEASURES:
        mean = getattr(pairs, name).mean(axis=1)
        np.testing.assert_allclose(getattr(scores, name)[:, 0], mean, atol=1e-6, rtol=0)


def test_each_pair_of_texts_is_matched_once():
    texts = TokenizedTexts.from_rows([[1], [2], [3]])
    first, second = np.array([0, 0, 1, 1, 2, 2, 1, 1]), np.array([1, 2, 0, 2, 0, 1, 1, 0])
    pairs = TextPairs(texts=texts, candidates=first, references=second)
    halved, places, mirrored = pairs.without_mirrored()
    assert len(halved) == 4  # three of three texts, and a text with itself
    found = [halved.candidates[places], halved.references[places]]
    there = np.where(mirrored, found[::-1], found)
    np.testing.assert_array_equal(there, [first, second])


def test_the_best_is_the_first_of_equal_references_whatever_the_noise():
    random, counts = np.random.default_rng(0), np.array([1, 4, 3, 2, 2])
    f1 = np.float32([0.3, 0.2, 0.8, 0.1, 0.8, 1, 1, 1, -np.inf, -np.inf, -np.inf, 0.5])
    starts = np.cumsum(counts) - counts
    for _ in range(50):
        noisy = f1 + random.uniform(-5e-7, 5e-7, (2, len(f1))).astype(np.float32)
        assert first_highest(noisy, starts).tolist() == [[0, 1, 0, 0, 1]] * 2
        rows = [np.stack([own] * 3, axis=1) for own in np.split(noisy[0], starts[1:])]
        assert [specification.best(row)[1] for row in rows] == [0, 1, 0, 0, 1]
    # What is not noise decides, and NaN is highest of all.
    with_nan = np.float32([0.5, 0.500002, np.nan, 0.9])
    assert first_highest(with_nan[None], starts[:1]).tolist() == [[2]]
    assert specification.best([np.full(3, one) for one in with_nan])[1] == 2
    assert first_highest(np.float32([[0.5, 0.500002]]), starts[:1]).tolist() == [[1]]
    assert first_highest(np.zeros((3, 0), np.float32), starts[:0]).shape == (3, 0)


@pytest.mark.model
def test_a_column_and_an_explanation_name_the_same_of_equal_references(scorer):
    """The encoder reads no case, so a text in capitals is the same text."""
    groups = [[text, text.upper(), text] for text in TEXTS if text] * 2
    found = scorer.score([text[::-1] for text, *_ in groups] + ["a"], [*groups, ["b", "a", "a"]])
    assert found.best_reference.tolist() == [0] * len(groups) + [1]
    for row in range(len(groups) // 2):
        assert explain(scorer, groups[row][0][::-1], groups[row]).best == (0, 0, 0)
    scores = scorer.score(["a cat"] * 3, ["a dog", "a cat", "a cat"])
    random = np.random.default_rng(0)
    for _ in range(20):
        noisy = replace(
            scores,
            **{
                f"raw_{name}": getattr(scores, name) + np.float32(random.uniform(-5e-7, 5e-7, 3))
                for name in MEASURES
            },
        )
        assert explanation._best(noisy, explanation.Measures(1.0, 1.0, 1.0)) == (1, 1, 1)


@pytest.mark.model
def test_a_mean_has_no_explanation(tiny_scorer):
    with pytest.raises(ConfigError, match="got references mean; expected best"):
        explain(tiny_scorer(references="mean"), "a", ["b", "c"])
