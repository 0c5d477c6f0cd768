"""One rule for empty texts: what bert-score does, zero, or no score."""

import numpy as np
import pytest

from bertscore_core import Baseline, ScorerConfig, settle
from bertscore_core.tokens import EMPTY_RULES

MEASURES = ("precision", "recall", "f1")
HALF = Baseline(name="custom", rows=np.full((4, 3), 0.5))


@pytest.fixture
def score(tiny_scorer):
    """Score with the tiny model of a family under a rule."""

    def score_with(family, rule, candidates, references, **changes):
        changes |= {"num_layers": 2, "max_length": 48, "backend": "torch", "empty": rule}
        return tiny_scorer(family, **changes).score(candidates, references)

    return score_with


def rows(scores, *, raw=False):
    """Return precision, recall and F1 of every pair."""
    names = [f"raw_{name}" if raw else name for name in MEASURES]
    return np.stack([getattr(scores, name) for name in names], axis=-1).tolist()


@pytest.mark.parametrize("family", ["t5", "byt5", "pegasus", "mbart", "prophetnet", "xlm_roberta"])
@pytest.mark.parametrize("idf", [False, True])
def test_zero_is_zero_whatever_the_special_tokens(score, family, idf):
    pairs = ["", "one two", " \u00a0 ", "one two"], ["one two", "\t", "", "two one"]
    scores = score(family, "zero", *pairs, idf=idf)
    assert rows(scores)[:3] == [[0.0] * 3] * 3
    assert rows(scores)[3] != [0.0] * 3
    assert scores.scored.tolist() == [True] * 4


@pytest.mark.parametrize("family", ["t5", "bert"])
def test_null_gives_no_number_and_counts_as_not_scored(score, family):
    scores = score(family, "null", ["", "one two"], ["one two", "two one"])
    assert np.isnan(rows(scores)[0]).all()
    assert scores.scored.tolist() == [False, True]
    assert not scores.unweighted.any()


def test_text_that_the_reference_alone_takes_for_empty_keeps_its_f1_under_every_rule(score):
    """One byte and the end mark are two tokens: P = R = 0, and F1 is not 2PR / (P + R)."""
    for rule in EMPTY_RULES:
        scores = score("byt5", rule, ["a", "a"], ["a cat", ["a cat", "a b"]])
        assert scores.counted_as_empty.tolist() == [True, True]
        assert not scores.empty_candidate.any()
        for precision, recall, f1 in rows(scores):
            assert precision == recall == 0
            assert f1 != 0


def test_empty_reference_among_several_takes_no_score_under_idf(score):
    """Every token of it weighs 0, which bert-score makes NaN of, and NaN wins every maximum."""
    references = [["", "two one"], ["one three"], ["four"]]
    candidates = ["one two", "one three", "four one"]
    assert np.isnan(rows(score("t5", "reference", candidates, references, idf=True))[0][1])
    for rule in ("zero", "null"):
        scores = score("t5", rule, candidates, references, idf=True)
        assert scores.scored.all()


def test_signature_names_what_was_done(tiny_folder):
    base = {"model": str(tiny_folder("bert")), "num_layers": 2, "device": "cpu"}
    assert settle(ScorerConfig(**base)).signature().empty == "reference"
    for rule in EMPTY_RULES:
        assert settle(ScorerConfig(**base, empty=rule)).signature().empty == rule
