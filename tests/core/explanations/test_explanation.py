"""An explanation adds up to the score, and names the right tokens."""

import re
import shutil

import numpy as np
import pytest

from bertscore_core import Baseline, BertScorer, ScorerConfig, errors, explain
from bertscore_core.config import settle_tokenizer
from bertscore_core.explanations import explanation
from bertscore_core.explanations.explanation import NO_MATCH, describe_making, fragment, page
from bertscore_core.tokenizer.tokenization import readable_tokens
from tests.support.read_html import Reader

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "rain", "fell", "over", "quiet", "towns"]
LONG = " ".join(WORDS[(5 * k + k // 12) % len(WORDS)] for k in range(200))
GROUPS = [
    ("the weather is cold today", ["it is freezing today"]),
    ("the cat sat", ["a dog barked", "the cat was sitting there", "cats"]),
    ("I like it 😀 very much", ["I 😀 love it"]),
    ("今天天气很冷", ["今天很冷。", "天气好"]),
    ("שלום עולם", ["مرحبا بالعالم"]),
    (LONG, [LONG[::2], "short"]),
    ("", ["", "the cat"]),
    (" \t", ["the cat"]),
    ("the cat", ["", "a cat"]),
]
TABLE = Baseline(name="custom", rows=np.full((7, 3), [0.1, 0.2, 0.3]))


def check_adds_up(scorer, groups=GROUPS, idf=None):
    """Compare explanations with scores, and the sums of their tokens with both."""
    expected = scorer.score([c for c, _ in groups], [r for _, r in groups], idf=idf)
    for row, (candidate, references) in enumerate(groups):
        found = explain(scorer, candidate, references, idf=idf)
        for name, number in zip(found.scores._fields, range(3), strict=True):
            wanted = getattr(expected, name)[row]
            assert found.scores[number] == pytest.approx(wanted, abs=1e-6, nan_ok=True)
            assert found.raw[number] == pytest.approx(
                found.pairs[found.best[number]].raw[number], abs=1e-6, nan_ok=True
            )
        assert found.best[2] == expected.best_reference[row]
        for pair in found.pairs:
            if pair.rule is None:
                assert pair.candidate.total == pytest.approx(pair.raw.precision, abs=1e-6)
                assert pair.reference.total == pytest.approx(pair.raw.recall, abs=1e-6)
                sums = pair.candidate.total, pair.reference.total
                assert 2 * sums[0] * sums[1] / sum(sums) == pytest.approx(pair.raw.f1, abs=1e-6)


def test_sums_are_the_scores(scorer):
    check_adds_up(scorer)


def test_a_text_of_nothing_but_special_tokens_names_its_rule(scorer):
    found = explain(scorer, "[SEP]", ["the cat", "[CLS]"])
    assert [pair.rule for pair in found.pairs] == ["only_special_tokens"] * 2
    assert (found.raw.precision, found.raw.f1) == (0, 0)
    assert found.raw.recall == pytest.approx(found.pairs[0].reference.total, abs=1e-6)
    assert "A text holds nothing but special tokens, which have no weight" in fragment(found)


@pytest.mark.model
def test_sums_are_the_scores_with_idf_and_rescaling():
    scorer = BertScorer(ScorerConfig(device="cpu", idf=True, rescale=True, baseline=TABLE))
    table = scorer.count_idf([text for _, references in GROUPS for text in references])
    check_adds_up(scorer, GROUPS[:3], idf=table)
    found = explain(scorer, *GROUPS[0], idf=table)
    assert found.idf
    assert found.baseline == pytest.approx((0.1, 0.2, 0.3))
    assert found.scores.f1 == pytest.approx((found.raw.f1 - 0.3) / 0.7, abs=1e-6)
    assert len(set(found.pairs[0].candidate.weights.tolist())) > 2
    # Without a table the references of the call are counted, as by `score`.
    with pytest.raises(errors.InputError, match="contains a value that is not a string"):
        explain(scorer, "a cat", [None])
    alone = explain(scorer, "a cat", ["a cat", "a dog"])
    assert alone.scores.f1 == scorer.score(["a cat"], [["a cat", "a dog"]]).f1[0]


def test_windows_are_named_and_add_up(tiny_scorer):
    scorer = tiny_scorer(backend="torch", max_length=12, long_text="windows")
    check_adds_up(scorer, [(LONG, [LONG[::2], "short"])])
    text = explain(scorer, LONG, "short").pairs[0].candidate
    assert len(text.tokens) == len(text.windows) > 200
    assert text.windows[0] == 0
    assert np.all(np.diff(text.windows) >= 0)
    assert text.windows[-1] == scorer.score([LONG], ["short"]).windows[0] - 1


def test_cut_and_refused_texts_say_so(tiny_scorer):
    found = explain(tiny_scorer(backend="torch", max_length=12), LONG, "short").pairs[0]
    assert (found.candidate.truncated, found.reference.truncated) == (True, False)
    assert len(found.candidate.tokens) == 12
    scorer = tiny_scorer(backend="torch", max_length=12, long_text="error")
    refused = explain(scorer, LONG, "short")
    assert refused.pairs[0].rule == "too_long"
    assert np.isnan(refused.scores.f1)


def test_matches_are_the_most_similar_tokens(scorer):
    pair = explain(scorer, "the weather is cold today", "it is freezing today").pairs[0]
    assert pair.candidate.tokens == ("[CLS]", "the", "weather", "is", "cold", "today", "[SEP]")
    assert pair.reference.tokens == ("[CLS]", "it", "is", "freezing", "today", "[SEP]")
    matched = {
        token: pair.reference.tokens[match]
        for token, match in zip(pair.candidate.tokens, pair.candidate.matches, strict=True)
    }
    assert matched["cold"] == "freezing"
    assert matched["today"] == "today"
    for text, cosines in (
        (pair.candidate, pair.similarities),
        (pair.reference, pair.similarities.T),
    ):
        np.testing.assert_array_equal(text.similarities, cosines.max(axis=1))
        np.testing.assert_array_equal(text.matches, cosines.argmax(axis=1))
        assert text.weights[[0, -1]].tolist() == [0, 0]
        assert text.shares.sum() == pytest.approx(1)


def test_a_text_without_tokens_has_no_matches(tiny_scorer, monkeypatch):
    scorer = tiny_scorer(backend="torch")
    # Then it adds no special tokens.
    monkeypatch.setattr(scorer.tokenizer._backend, "post_processor", None)
    monkeypatch.setattr(scorer.tokenizer, "empty_ids", ())
    found = explain(scorer, "", "the cat sat")
    assert found.scores == (0, 0, 0)
    pair = found.pairs[0]
    assert pair.rule == "empty_candidate"
    assert pair.candidate.tokens == ()
    assert set(pair.reference.matches.tolist()) == {NO_MATCH}
    assert np.isnan(pair.reference.similarities).all()
    assert "(no tokens)" in fragment(found)


def test_what_cannot_be_explained_is_refused(scorer, tiny_scorer, monkeypatch):
    with pytest.raises(errors.InputError, match="empty list of references"):
        explain(scorer, "a", [])
    with pytest.raises(errors.ConfigError, match="expected one layer"):
        explain(tiny_scorer(backend="torch", all_layers=True), "a", "b")
    monkeypatch.setattr(explanation, "MOST_SIMILARITIES", 20)
    with pytest.raises(
        errors.InputError, match="got 5 tokens in the candidate and 7 in a reference"
    ):
        explain(scorer, "a b c", ["a", "a b c d e"])


@pytest.mark.model
def test_parts_of_a_character_are_shown_as_the_character(tiny_folder):
    for family in ("deberta", "byt5", "led"):
        config = ScorerConfig(
            model=str(tiny_folder(family)), num_layers=1, max_length=48, device="cpu"
        )
        tokenizer = settle_tokenizer(config)
        shown = readable_tokens(tokenizer, tokenizer.encode(["the 😀 中 \ufffd"]).ids.tolist())
        # The first piece may hold the space before the character.
        assert len([token for token in shown if re.fullmatch(r"😀 \(\d/\d\)", token)]) >= 3
        assert [token for token in shown if token.startswith("中 (")][-1].endswith("(3/3)")
        assert len(shown) == len(tokenizer.encode(["the 😀 中 \ufffd"]).ids)
        assert all(token.strip() for token in shown)


def test_html_is_escaped_and_loads_nothing(scorer):
    hostile = '</td><script>alert("x")</script> <img src=x onerror=y> \x00\x1b[31m & $a$'
    found = explain(scorer, hostile, ["plain", hostile])
    text = page([(hostile, (hostile,), found)], hostile)
    assert not {"script", "img", "link", "iframe"} & set(Reader(text).tags)
    assert "http" not in text
    assert "url(" not in text
    assert "\x00" not in text
    assert "\x1b" not in text
    assert text.count("<td") > len(found.pairs[0].candidate.tokens)
    assert f"{found.raw.f1:.6f}" in text
    assert "Reference 2 of 2, which gives precision, recall, F1" in text
    assert found._repr_html_() == fragment(found)


def test_html_shows_both_texts_as_they_are_written(scorer):
    text = fragment(explain(scorer, "The  CAT\n\u202esat 😀", ["", "naïve  Ça"]))
    written = re.findall(r'<p class="written" dir="auto">(.*?)</p>', text, re.DOTALL)
    candidate = "The  CAT\n\\u202esat 😀"
    assert written == [candidate, "(empty)", candidate, "naïve  Ça"]


@pytest.mark.model
def test_pages_show_codes_for_what_cannot_be_seen(tiny_folder, tmp_path):
    folder = tmp_path / "m$x_a$ \x1b[31m\ufffe"
    shutil.copytree(tiny_folder("roberta"), folder)
    scorer = BertScorer(ScorerConfig(model=str(folder), num_layers=2, device="cpu"))
    hostile = "a \ufffe b\uffff \x1b[31m \x00 \u202e c"
    found = explain(scorer, hostile, ["the cat"])
    shown = page([(hostile, (hostile,), found)], hostile)
    assert all(code in shown for code in (r"\ufffe", r"\uffff", r"\x1b", r"\x00", r"\u202e"))
    assert not set("\ufffe\uffff\x1b\x00\u202e") & set(shown)
    assert r"m$x_a$ \x1b[31m\ufffe, layer 2" in shown
    assert describe_making(found).startswith(r"m$x_a$ \x1b[31m\ufffe, layer 2")


def test_plain_values_hold_no_nan(scorer):
    described = explain(scorer, "", ["the cat"]).as_dict()
    assert described["pairs"][0]["candidate"]["sum"] is None
    assert described["pairs"][0]["rule"] == "empty_candidate"
    assert "nan" not in repr(described).lower()
