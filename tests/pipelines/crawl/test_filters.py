"""Which sentences are kept by their form, in every language."""

from pathlib import Path

import pytest

from bertscore_beam.crawl import (
    PAGE_WORDS,
    WordLimits,
    count_words,
    form_reason,
    is_in_script,
    known_languages,
    normalize,
    prose_reason,
    scripts_of,
)
from tests.support.crawl_texts import HEADER_CODES, sentences

WRITTEN = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()[1:]
FEW = WordLimits(least=2, most=3)


def reject_reason(sentence, language, limits=PAGE_WORDS):
    """Return why a sentence is not fit, by the filters that a page goes through."""
    return form_reason(sentence, language, limits) or prose_reason(sentence, language)


@pytest.mark.parametrize("line", WRITTEN)
def test_sentence_is_kept_or_dropped_for_its_reason(line):
    language, reason, text = line.split("\t")
    assert (reject_reason(normalize(text), language) or "kept") == reason


@pytest.mark.parametrize(
    ("language", "text", "limits", "reason"),
    [
        ("en", "", PAGE_WORDS, "too_short"),
        ("en", "The caf\ufffd is open at noon.", PAGE_WORDS, "markup"),
        ("en", "Many " + "word " * 29 + "more.", PAGE_WORDS, None),
        ("en", "Many " + "word " * 30 + "more.", PAGE_WORDS, "too_long"),
        ("en", "Nobody knows the " + "x" * 39 + ".", PAGE_WORDS, None),
        ("en", "Nobody knows the " + "x" * 40 + ".", PAGE_WORDS, "long_word"),
        ("zh", "渡轮每天中午出发了。", PAGE_WORDS, None),
        ("zh", "渡" * 92 + "。", PAGE_WORDS, None),
        ("zh", "渡" * 93 + "。", PAGE_WORDS, "too_long"),
        ("th", "ก" * 94, PAGE_WORDS, "too_long"),
        ("en", "Nobody knows.", FEW, None),
        ("en", "Nobody.", FEW, "too_short"),
        ("en", "Nobody here knows why.", FEW, "too_long"),
        ("zh", "没人知道。", FEW, None),
        ("zh", "没人知道这件事情。", FEW, None),
        ("zh", "没人知道这件事情的。", FEW, "too_long"),
    ],
)
def test_bounds_are_inclusive_in_every_language(language, text, limits, reason):
    assert reject_reason(text, language, limits) == reason


@pytest.mark.parametrize("language", HEADER_CODES)
def test_made_up_sentences_pass_the_filter(language):
    made = sentences(language, 400, seed=5)
    assert len(set(made)) == 400
    assert sum(reject_reason(text, language) is None for text in made) >= 0.95 * len(made)
    assert [normalize(text) for text in made] == made


def test_every_language_has_a_script_and_runes_are_of_none():
    for language in known_languages():
        assert scripts_of(language), language
        assert not is_in_script("ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ", language), language


@pytest.mark.parametrize(
    ("language", "texts", "words"),
    [
        ("en", ["", "One two three."], [0, 3]),
        ("ko", ["배는 정오에 섬을 떠납니다."], [4]),
        ("zh", ["", "渡", "渡轮出", "渡轮出发"], [0, 1, 1, 2]),
        ("zh-tw", ["渡輪出發"], [2]),
        ("ja", ["船は正午に出ます。"], [3]),
        ("th", ["เรือออก"], [3]),
    ],
)
def test_words_are_counted_by_blanks_or_by_characters(language, texts, words):
    assert [count_words(text, language) for text in texts] == words
