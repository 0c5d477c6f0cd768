"""Tokens that stand for text which the model's vocabulary lacks: counted, told, never hidden."""

import io
import logging
from contextlib import redirect_stderr

import numpy as np
import pytest

from bertscore_core import BERTScorer, BertScorer, ScorerConfig
from bertscore_core.model.resolve import resolve_model
from bertscore_core.stats.score_statistics import NOT_COUNTED, UnknownTokens
from bertscore_core.tokenizer.tokenization import load_tokenizer
from tests.support.tiny_models import FAMILIES

pytestmark = pytest.mark.model

NO_SCRIPT = "𓀀𓀁 𓂀𓃀"
"""Hieroglyphs, which no tiny vocabulary has."""
IN_BYTES = {"roberta", "deberta", "bart", "led", "longformer", "blenderbot", "byt5"}
"""Families whose tokenizers spell any text in bytes."""


@pytest.mark.parametrize("family", FAMILIES)
def test_only_text_that_the_vocabulary_lacks_is_unknown(tiny_folder, family):
    tokenizer = load_tokenizer(resolve_model(str(tiny_folder(family))), max_length=64)
    tokens = tokenizer.encode([NO_SCRIPT, "the rivers", "", f"the rivers {NO_SCRIPT}"])
    held = tokens.lengths - tokens.count(tokenizer.textless_ids)
    unknown = tokens.count(tokenizer.unknown_ids)
    assert held[0] > 0
    assert unknown[0] == (0 if family in IN_BYTES else held[0])
    assert unknown[1] == unknown[2] == held[2] == 0
    assert held[3] - held[0] - held[1] in {0, int(family in IN_BYTES)}  # a space
    assert unknown[3] == unknown[0]


def test_a_generic_class_that_names_no_unknown_token_has_that_of_its_model(tiny_folder):
    tokenizer = load_tokenizer(resolve_model(str(tiny_folder("bert"))), max_length=64)
    tokenizer._tokenizer.unk_token = None
    assert tokenizer._named_unknown() == set(tokenizer.unknown_ids) != set()


@pytest.fixture(scope="module")
def thai():
    """Texts that are one unknown token each for the embedded model."""
    return ["วันนี้อากาศหนาว", "ฉันหิวมาก"], ["ฉันชอบอ่านหนังสือ", "แมวนอนหลับ"]


def test_scores_say_how_much_of_a_pair_is_unknown(scorer, thai, caplog):
    (one, two), (three, _) = thai
    candidates, references = [one, "a cat", ""], [[three, two], ["the cat", f"a {two}"], [""]]
    with caplog.at_level(logging.WARNING):
        scores = scorer.score(candidates, references)
    assert scores.text_tokens.tolist() == [3, 6, 0]
    assert scores.unknown_tokens.tolist() == [3, 1, 0]
    np.testing.assert_array_equal(scores.unknown_share, np.float32([1, 1 / 6, np.nan]))
    assert scores.f1[0] == pytest.approx(1)
    assert scores.unknown == UnknownTokens(tokens=9, unknown=4, only_unknown=1)
    (warning,) = caplog.messages
    assert (
        "The model does not know 44.4% of the tokens: such texts look the same to the model;"
        in warning
    )
    assert "44.4% of the tokens unknown" in repr(scores)
    assert "44.4% of the tokens unknown" in str(scores.summary())


def test_texts_that_are_known_are_not_warned_of(scorer, caplog):
    scores = scorer.score(["a cat"], ["the cat"])
    assert scores.unknown.unknown == 0
    assert not caplog.messages
    assert "unknown" not in repr(scores) + str(scores.summary())


def test_the_drop_in_keeps_its_numbers_and_warns(scorer, thai, caplog):
    candidates, references = thai
    dropin = BERTScorer(model_type="all-MiniLM-L6-v2", num_layers=6, device="cpu")
    with redirect_stderr(io.StringIO()), caplog.at_level(logging.WARNING):
        _, _, f1 = dropin.score(candidates, references)
    np.testing.assert_allclose(f1.numpy(), [1, 1], atol=1e-5)
    assert ["does not know 100.0%" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize("weighed", [False, True])
def test_idf_says_whether_the_unknown_token_weighs_nothing(thai, weighed):
    """It weighs 0 where every reference holds it, as a known token does."""
    (one, two), (three, _) = thai
    scorer = BertScorer(ScorerConfig(idf=True, device="cpu"))
    of_all = ["a", "b"] if weighed else [three, two]
    idf = scorer.count_idf([f"the {word}" for word in of_all])
    scores = scorer.score([one, "the", "a cat"], ["a cat", "a cat", "a cat"], idf=idf)
    assert scores.unweighted.tolist() == [not weighed, True, False]
    assert scores.unknown_weighs_nothing.tolist() == [not weighed, False, False]


def test_rows_that_were_not_counted_are_left_out_of_the_share():
    tokens, unknown = np.array([4, NOT_COUNTED, 0, 6, 2]), np.array([1, NOT_COUNTED, 0, 6, 0])
    groups = np.array([0, 0, 1, 1, 1])
    first, second, third = UnknownTokens.by_group(tokens, unknown, groups, 3)
    assert first == UnknownTokens(tokens=4, unknown=1)
    assert second == UnknownTokens(tokens=8, unknown=6, only_unknown=1)
    assert (first.fraction, third.fraction) == (0.25, None)
    assert first + second == UnknownTokens.of(tokens, unknown)
