"""Texts read word by word: the ids are those of the whole text, whatever stands around a word."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from bertscore_core import load_tokenizer
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer import words

FAMILIES = ["bert", "distilbert", "roberta", "xlm_roberta", "albert", "t5", "blenderbot", "bigbird"]
MARKS = (
    " \u00a0\u0301\u0600\u0d4e\u0e33\u200b\u200d\u3000\ufeff\ufffd\uff9e\u00b4\u037a\u2581\x00\x1c"
    "猫がカﾞéßİΣक्\U0001f600\U0001f3fb"
)
WORDS = [
    "a", "the", "cat.", "  ", "``", "''", "'s", "don't", "9,", "café", "ΣΑΣ", "[SEP]", "</s>",
    "<mask>", "[MASK]", "<pad>", "<unk>", "[mask]", "x" * 70,
]  # fmt: skip
PIECES = st.one_of(
    st.sampled_from([*MARKS, *WORDS]), st.sampled_from(WORDS).map(lambda word: f" {word}")
)


@pytest.fixture(scope="module", params=FAMILIES)
def reading(request, tiny_folder):
    """Return a tokenizer that reads texts word by word."""
    files = resolve_model(str(tiny_folder(request.param)))
    tokenizer = load_tokenizer(files, max_length=12)
    assert tokenizer._words is not None
    return tokenizer


def ids_of(tokens):
    return [tokens.row(place).tolist() for place in range(len(tokens))]


@given(st.lists(st.lists(PIECES, max_size=40).map("".join), min_size=2, max_size=5))
@example(["a \u0301b", "the \u0301", "x \u0e33y"])
@example(["", " ", "a", "the cat."])
@example(["the <mask> a", "the a"])
def test_words_give_the_ids_of_the_whole_text(reading, texts):
    with mock.patch.object(words, "_REPEATED", 0):
        by_word = reading.encode(texts)
    with mock.patch.object(reading, "_words", None):
        whole = reading.encode(texts)
    assert ids_of(by_word) == ids_of(whole)
    assert by_word.truncated.tolist() == whole.truncated.tolist()


def test_repeated_words_are_read_once(scorer):
    tokenizer = scorer.tokenizer
    reader = words.WordReader.of(tokenizer._backend, tokenizer.empty_ids, tokenizer.max_length)
    texts = ["the cat sat on the mat", "the cat sat on a mat"] * 20
    asked = []

    def whole(texts):
        asked.extend(texts)
        return tokenizer._encode_batch(texts)

    few = [f"{text} {text[::-1]}" for text in texts[:2]]
    reader.encode(few, whole)
    assert asked == few  # too many words are new
    first = reader.encode(texts, whole)
    again = reader.encode(texts[::-1], whole)
    assert asked == few
    assert ids_of(again) == ids_of(first)[::-1]
    assert ids_of(first) == ids_of(tokenizer._encode_batch(texts))


def test_texts_beside_one_that_is_read_as_a_whole_keep_their_places(scorer):
    texts = ["the cat", "a \u0301 cat", "the mat", "on  a mat", ""] * 20
    together = scorer.tokenizer.encode(texts)
    alone = [scorer.tokenizer.encode([text]).row(0).tolist() for text in texts]
    assert ids_of(together) == alone


def test_words_are_forgotten_when_they_become_too_many(scorer):
    tokenizer = scorer.tokenizer
    reader = words.WordReader.of(tokenizer._backend, tokenizer.empty_ids, tokenizer.max_length)
    batches = [[f"w{number} cat{number} mat" for number in range(at, at + 9)] * 8 for at in (0, 9)]
    with mock.patch.object(words, "_MOST_WORDS", 30):
        for texts in [*batches, batches[0]]:
            with mock.patch.object(tokenizer, "_words", reader):
                by_word = tokenizer.encode(texts)
            with mock.patch.object(tokenizer, "_words", None):
                assert ids_of(by_word) == ids_of(tokenizer.encode(texts))
            assert 0 < len(reader._known) <= 30


def test_what_was_looked_up_stays_when_more_words_are_learnt(scorer):
    tokenizer = scorer.tokenizer
    reader = words.WordReader.of(tokenizer._backend, tokenizer.empty_ids, tokenizer.max_length)
    reader._learn(["the", " cat"])
    begins, lengths, ids = reader._begins, reader._lengths, reader._ids
    before = ids.copy()
    reader._learn([" mat"])
    assert np.array_equal(ids, before)
    assert len(begins) == len(lengths) == 2


@pytest.mark.parametrize(
    ("pre_tokenizer", "model", "alone"),
    [
        ({"type": "BertPreTokenizer"}, {"type": "WordPiece"}, True),
        ({"type": "Metaspace", "prepend_scheme": "first"}, {"type": "Unigram"}, True),
        (
            {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    {"type": "Metaspace", "prepend_scheme": "first"},
                ],
            },
            {"type": "Unigram"},
            False,
        ),
        ({"type": "ByteLevel"}, {"type": "BPE", "dropout": 0.1}, False),
        ({"type": "ByteLevel"}, {"type": "BPE", "dropout": None}, True),
    ],
)
def test_pieces_read_by_their_place_or_at_random_are_left_to_the_tokenizer(
    pre_tokenizer, model, alone
):
    state = {"pre_tokenizer": pre_tokenizer, "model": model}
    assert words._reads_each_alone(state) is alone
