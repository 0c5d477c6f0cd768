"""Long texts: cut, refused, or scored whole in overlapping windows, compared with plain steps."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertscore_core import (
    BertScorer,
    ConfigError,
    IdfError,
    ScorerConfig,
    Signature,
    parse_baseline,
)
from bertscore_core.matching import best_matches_in_tiles
from bertscore_core.memory import Budget
from bertscore_core.windows import Windows, WindowShape
from bertscore_core.work import Work
from tests.support.plain_matching import greedy_match_pair
from tests.support.plain_windows import SPECIAL_TOKENS, load_plain, plain_vectors
from tests.support.tolerances import INVARIANCE_ATOL

LENGTH = 16
SENTENCE = "the cat sat on a mat while rain fell in north and dogs slept by old doors"
WORDS = SENTENCE.split()
SHORT = "a cat sat on the mat"

OFTEN = ("bert", "t5", "xlnet")
"""Families that every run of the tests covers: each has special tokens elsewhere."""


def some_are_long(families, *, often):
    """Return families as parameters, all but some of them for the long tests."""
    return [
        family if family in often else pytest.param(family, marks=pytest.mark.long)
        for family in families
    ]


def long_text(words, step):
    """Return a text of so many words, another one for each step."""
    return " ".join(WORDS[step * place * (place + 1) // 2 % len(WORDS)] for place in range(words))


LONG = [long_text(30, 1), long_text(41, 5), long_text(77, 3), long_text(13, 7)]
CANDIDATES = [LONG[0], LONG[1], SHORT, LONG[3], SHORT]
REFERENCES = [[LONG[2], SHORT], [LONG[3], LONG[0]], [LONG[1]], [LONG[3]], ["the dog sat on a mat"]]


def config(folder, **options):
    return ScorerConfig(
        **{"model": str(folder), "num_layers": 3, "max_length": LENGTH, "device": "cpu"} | options
    )


def in_windows(folder, **options):
    return BertScorer(config(folder, long_text="windows", **options))


def measures(scores):
    return np.stack([scores.precision, scores.recall, scores.f1])


# --- The definition ------------------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    leading=st.integers(0, 2),
    trailing=st.integers(0, 2),
    content=st.integers(1, 9),
)
def test_every_token_is_kept_once_from_where_it_has_most_context(
    lengths, leading, trailing, content
):
    shape = WindowShape(length=leading + content + trailing, leading=leading, trailing=trailing)
    lengths = np.array(lengths) + leading + trailing
    windows = Windows.cut(np.arange(len(lengths)), lengths, shape)
    assert np.bincount(windows.texts).tolist() == shape.counts(lengths).tolist()
    assert windows.lengths.sum() == shape.encoded_tokens(lengths)
    for text, length in enumerate(lengths):
        own = np.flatnonzero(windows.texts == text)
        starts = windows.starts[own]
        found = [
            (window, step)
            for window, at in enumerate(own)
            for step in range(windows.first[at], windows.first[at] + windows.kept[at])
        ]
        assert len(found) == length
        for token, (window, step) in enumerate(found):
            if token < leading:
                assert (window, step) == (0, token)
            elif token >= length - trailing:
                assert (window, step) == (len(own) - 1, windows.lengths[own[-1]] - length + token)
            else:
                place, size = token - leading, min(content, length - leading - trailing)
                context = [min(place - start, start + size - 1 - place) for start in starts]
                assert window == context.index(max(context))
                assert step == token - starts[window]


def test_windows_overlap_by_half_and_the_last_ends_with_the_text():
    shape = WindowShape(length=12, leading=1, trailing=1)
    windows = Windows.cut(np.array([0]), np.array([30]), shape)
    assert windows.starts.tolist() == [0, 5, 10, 15, 18]
    assert set(windows.lengths.tolist()) == {12}
    # 28 tokens between the special ones; the middles of the windows are 4.5, 9.5, 14.5, 19.5, 22.5.
    assert windows.kept.tolist() == [1 + 8, 5, 5, 4, 6 + 1]
    assert shape.counts(np.array([3, 12, 13, 17, 18, 30])).tolist() == [1, 1, 2, 2, 3, 5]


# --- Against transformers, one window at a time --------------------------------------------------


def expected_scores(scorer, folder, family, rows, *, idf=None):
    """Score the pairs by plain steps. Shape (rows, 3 measures, N)."""
    model = load_plain(folder, family)
    leading, trailing = SPECIAL_TOKENS[family]
    weights = scorer.token_weights(idf)

    def vectors(text):
        ids = scorer.tokenizer.encode([text]).ids
        states = plain_vectors(
            model, ids.tolist(), length=LENGTH, leading=leading, trailing=trailing
        )
        return torch.nn.functional.normalize(states, dim=-1), torch.from_numpy(weights.of(ids))

    found = []
    for candidate, references in zip(CANDIDATES, REFERENCES, strict=True):
        mine, own = vectors(candidate)
        scored = [
            [torch.cat(greedy_match_pair(mine[row], other[row], own, its)) for row in rows]
            for other, its in map(vectors, references)
        ]
        found.append(torch.stack([torch.stack(layers) for layers in scored]).amax(dim=0))
    return torch.stack(found, dim=-1).numpy()


@pytest.mark.model
@pytest.mark.parametrize("family", some_are_long(SPECIAL_TOKENS, often=OFTEN))
def test_scores_are_those_of_single_windows(tiny_folder, family):
    folder = tiny_folder(family)
    scorer = in_windows(folder, backend="torch", idf=True)
    references = [text for group in REFERENCES for text in group]
    idf = scorer.count_idf(references)
    found = scorer.score(CANDIDATES, REFERENCES, idf=idf)
    # The last layer, where the output of the encoder is what is scored in every family.
    expected = expected_scores(scorer, folder, family, [-1], idf=idf)
    assert measures(found) == pytest.approx(expected[0], abs=1e-6)
    assert found.windows.max() > 3
    assert found.windows[-1] == (2 if family == "byt5" else 1)  # its tokens are bytes
    assert not found.truncated.any()


@pytest.mark.model
@pytest.mark.parametrize(
    "family", some_are_long(["bert", "roberta", "t5", "xlnet", "mpnet"], often=("bert", "xlnet"))
)
def test_openvino_gives_the_scores_of_single_windows(tiny_folder, family):
    pytest.importorskip("openvino")
    folder = tiny_folder(family)
    scorer = in_windows(folder, backend="openvino")
    expected = expected_scores(scorer, folder, family, [-1])
    found = measures(scorer.score(CANDIDATES, REFERENCES))
    assert found == pytest.approx(expected[0], abs=1e-6)


@pytest.mark.model
@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_all_layers_are_those_of_single_windows_and_are_rescaled(tiny_folder, backend):
    pytest.importorskip("openvino")
    folder = tiny_folder("roberta")
    table = parse_baseline(
        "LAYER,P,R,F\n" + "".join(f"{n},0.{n}1,0.2,0.3\n" for n in range(4)), "x"
    )
    options = {"all_layers": True, "backend": backend, "rescale": True, "baseline": table}
    found = in_windows(folder, **options).score(CANDIDATES, REFERENCES)
    expected = expected_scores(in_windows(folder, **options), folder, "roberta", range(4))
    raw = np.stack([found.raw_precision, found.raw_recall, found.raw_f1], axis=1)
    assert raw == pytest.approx(expected, abs=1e-6)
    assert found.recall == pytest.approx((expected[:, 1] - 0.2) / 0.8, abs=2e-6)
    one = in_windows(folder, num_layers=2, backend=backend).score(CANDIDATES, REFERENCES)
    assert one.f1 == pytest.approx(expected[2, 2], abs=1e-6)


# --- Texts that fit ------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize("family", ["bert", "byt5"])
def test_texts_that_fit_score_the_same_bits_under_every_rule(tiny_folder, family):
    texts = ["a cat", "the mat", "rain fell", "a"]
    found = {
        rule: measures(
            BertScorer(config(tiny_folder(family), long_text=rule)).score(texts, texts[::-1])
        )
        for rule in ("truncate", "error", "windows")
    }
    assert found["truncate"].tobytes() == found["error"].tobytes() == found["windows"].tobytes()


@pytest.mark.model
@pytest.mark.parametrize(("batch_tokens", "block_bytes"), [(1, 1), (50, 1 << 12), (200, 1 << 16)])
def test_scores_do_not_depend_on_batches_and_blocks(tiny_folder, batch_tokens, block_bytes):
    scorer = in_windows(tiny_folder("bert"), backend="torch")
    whole = measures(scorer.score(CANDIDATES, REFERENCES))
    scorer._budget = Budget(
        batch_tokens=batch_tokens, block_bytes=block_bytes, match_elements=4096, pair_elements=300
    )
    assert measures(scorer.score(CANDIDATES, REFERENCES)) == pytest.approx(
        whole, abs=INVARIANCE_ATOL
    )


# --- Matching in tiles ---------------------------------------------------------------------------


@pytest.mark.model
def test_long_pairs_are_matched_in_tiles_whatever_their_company(tiny_folder, monkeypatch):
    scorer = in_windows(tiny_folder("bert"), backend="torch")
    whole = measures(scorer.score(CANDIDATES, REFERENCES))
    taken = []
    monkeypatch.setattr(
        "bertscore_core.kernel.best_matches_in_tiles",
        lambda *given, side: taken.append(side) or best_matches_in_tiles(*given, side=side),
    )
    scorer._budget = dataclasses.replace(scorer._budget, pair_elements=400, match_elements=100)
    assert measures(scorer.score(CANDIDATES, REFERENCES)) == pytest.approx(whole, abs=2e-7)
    assert set(taken) == {10}
    assert 0 < len(taken) < sum(map(len, REFERENCES))


# --- Too long to be scored -----------------------------------------------------------------------


@pytest.mark.model
def test_pairs_with_a_text_too_long_are_not_scored_under_error(tiny_folder):
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


@pytest.mark.model
def test_texts_too_long_are_never_encoded_under_error(tiny_folder):
    scorer = BertScorer(config(tiny_folder("bert"), long_text="error"))
    work = Work()
    pairs = scorer.tokenize([LONG[2], LONG[2]], [LONG[1], SHORT])
    assert np.isnan(scorer.score_tokenized(pairs, scorer.token_weights(None), work).f1).all()
    assert work.batches == 0


# --- Document frequencies, signature, configuration ----------------------------------------------


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


def test_signature_names_the_rule_unless_texts_are_cut(tiny_folder):
    folder = tiny_folder("bert")
    signatures = {
        rule: BertScorer(config(folder, long_text=rule)).signature()
        for rule in ("truncate", "error", "windows")
    }
    assert "long_text" not in signatures["truncate"].format()
    assert "|max_length:16|idf:" in signatures["truncate"].format()
    assert "|max_length:16|long_text:windows|idf:" in signatures["windows"].format()
    assert "|lt:error|" in signatures["error"].format(short=True)
    for signature in signatures.values():
        assert Signature.parse(signature.format(short=True)) == signature


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"long_text": "cut"}, "unknown long_text 'cut'; expected one of truncate, error, windows"),
        (
            {"long_text": "windows", "max_length": "unlimited"},
            "no effect with max_length unlimited",
        ),
        ({"long_text": "error", "max_length": "unlimited"}, "no effect with max_length unlimited"),
    ],
)
def test_rules_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ScorerConfig(**options)


def test_unlimited_where_positions_end_names_windows(tiny_folder):
    with pytest.raises(ConfigError, match="--long-text windows"):
        BertScorer(config(tiny_folder("bert"), max_length="unlimited"))


def test_windows_without_a_length_are_refused(tiny_folder):
    with pytest.raises(ConfigError, match="states no maximum length"):
        in_windows(tiny_folder("xlnet"), max_length=None)


# --- Documents -----------------------------------------------------------------------------------


@pytest.mark.long
def test_documents_of_ten_thousand_tokens_score_as_defined(tiny_folder):
    folder = tiny_folder("roberta")
    length = 48
    scorer = in_windows(folder, max_length=length)
    texts = [long_text(6000, step) for step in (1, 5)]
    model = load_plain(folder, "roberta")
    vectors, weights = [], []
    for text in texts:
        ids = scorer.tokenizer.encode([text]).ids
        states = plain_vectors(model, ids.tolist(), length=length, leading=1, trailing=1)
        vectors.append(torch.nn.functional.normalize(states[-1], dim=-1))
        weights.append(torch.from_numpy(scorer.token_weights(None).of(ids)))
    assert len(vectors[0]) > 10_000
    found = scorer.score(texts[:1], texts[1:])
    expected = torch.cat(greedy_match_pair(*vectors, *weights)).numpy()
    assert measures(found)[:, 0] == pytest.approx(expected, abs=1e-6)
