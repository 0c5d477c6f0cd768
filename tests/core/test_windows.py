"""Long texts: cut, refused, or scored whole in overlapping windows, as the specification says."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertscore_core import BertScorer, ConfigError, IdfError, ScorerConfig
from bertscore_core.specification import nearest_window, window_starts
from bertscore_core.windows import Windows, WindowShape
from bertscore_core.work import Work

LENGTH = 16
SENTENCE = "the cat sat on a mat while rain fell in north and dogs slept by old doors"
WORDS = SENTENCE.split()
SHORT = "a cat sat on the mat"


def long_text(words, step):
    """Return a text of so many words, another one for each step."""
    return " ".join(WORDS[step * place * (place + 1) // 2 % len(WORDS)] for place in range(words))


LONG = [long_text(30, 1), long_text(41, 5), long_text(77, 3), long_text(13, 7)]


def config(folder, **options):
    return ScorerConfig(
        **{"model": str(folder), "num_layers": 3, "max_length": LENGTH, "device": "cpu"} | options
    )


def in_windows(folder, **options):
    return BertScorer(config(folder, long_text="windows", **options))


def measures(scores):
    return np.stack([scores.precision, scores.recall, scores.f1])


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    leading=st.integers(0, 2),
    trailing=st.integers(0, 2),
    content=st.integers(1, 9),
)
def test_every_token_is_kept_once_from_its_nearest_window(lengths, leading, trailing, content):
    shape = WindowShape(length=leading + content + trailing, leading=leading, trailing=trailing)
    lengths = np.array(lengths) + leading + trailing
    windows = Windows.cut(np.arange(len(lengths)), lengths, shape)
    assert np.bincount(windows.texts).tolist() == shape.counts(lengths).tolist()
    assert windows.lengths.sum() == shape.encoded_tokens(lengths)
    for text, length in enumerate(lengths):
        own = np.flatnonzero(windows.texts == text)
        actual = [
            (window, step)
            for window, at in enumerate(own)
            for step in range(windows.first[at], windows.first[at] + windows.kept[at])
        ]
        tokens = length - leading - trailing
        starts = window_starts(tokens, content) if tokens > content else [0]
        assert windows.starts[own].tolist() == starts
        nearest = [nearest_window(token, starts, content) for token in range(tokens)]
        last = len(own) - 1, windows.lengths[own[-1]]
        assert actual == [
            *((0, step) for step in range(leading)),
            *((k, leading + token - starts[k]) for token, k in enumerate(nearest)),
            *((last[0], last[1] - trailing + step) for step in range(trailing)),
        ]


@pytest.mark.model
@pytest.mark.parametrize("family", ["bert", "byt5"])
def test_texts_that_fit_score_the_same_bits_under_every_rule(tiny_folder, family):
    texts = ["a cat", "the mat", "rain fell", "a"]
    actual = {
        rule: measures(
            BertScorer(config(tiny_folder(family), long_text=rule)).score(texts, texts[::-1])
        )
        for rule in ("truncate", "error", "windows")
    }
    assert actual["truncate"].tobytes() == actual["error"].tobytes() == actual["windows"].tobytes()


@pytest.mark.model
def test_pairs_with_a_text_too_long_are_neither_scored_nor_encoded_under_error(tiny_folder):
    scorer = BertScorer(config(tiny_folder("bert"), long_text="error", empty="zero"))
    scores = scorer.score(
        [SHORT, LONG[2], "", SHORT], [[SHORT], [SHORT], [LONG[2]], [SHORT, LONG[1]]]
    )
    assert scores.too_long.tolist() == [False, True, True, True]
    assert scores.scored.tolist() == [True, False, False, False]
    assert np.isnan(measures(scores)[:, 1:]).all()
    assert not scores.truncated.any()
    assert not scores.unweighted.any()
    alone = BertScorer(config(tiny_folder("bert"))).score([SHORT], [SHORT])
    assert scores.f1[0] == alone.f1[0]
    work, pairs = Work(), scorer.tokenize([LONG[2], LONG[2]], [LONG[1], SHORT])
    scorer.score_tokenized(pairs, scorer.token_weights(None), work)
    assert work.batches == 0


@pytest.mark.model
def test_document_frequencies_are_of_whole_texts(tiny_folder):
    folder = tiny_folder("bert")
    cut = BertScorer(config(folder, idf=True)).count_idf(LONG)
    refused = BertScorer(config(folder, idf=True, long_text="error")).count_idf(LONG)
    whole_scorer = in_windows(folder, idf=True)
    whole = whole_scorer.count_idf(LONG)
    sets = [set(whole_scorer.tokenizer.encode([text]).ids.tolist()) for text in LONG]
    counts = dict(
        zip(whole.frequencies.ids.tolist(), whole.frequencies.counts.tolist(), strict=True)
    )
    assert counts == {token: sum(token in ids for ids in sets) for token in set().union(*sets)}
    assert sum(counts.values()) > cut.frequencies.counts.sum()
    assert refused.fingerprint == cut.fingerprint != whole.fingerprint
    with pytest.raises(IdfError, match=f"at length {LENGTH}; the model has .* at length None"):
        whole_scorer.token_weights(cut)
    with pytest.raises(IdfError, match="at length None"):
        BertScorer(config(folder, idf=True)).token_weights(whole)


def test_windows_without_a_length_are_refused(tiny_folder):
    with pytest.raises(ConfigError, match="states no maximum length"):
        in_windows(tiny_folder("xlnet"), max_length=None)
