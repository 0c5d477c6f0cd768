"""Which sentences are kept by their form, in every language."""

import pytest

from bertscore_beam.crawl.filters import PAGE_WORDS, WordLimits, count_words, has_form, is_prose
from bertscore_beam.crawl.sentences import is_kept, normalize
from tests.support.crawl_texts import written

FEW = WordLimits(least=2, most=3)


def fits(sentence, language, limits=PAGE_WORDS):
    """Tell whether a sentence is fit, by the filters that a page goes through."""
    return has_form(sentence, language, limits) and is_prose(sentence, language)


@pytest.mark.parametrize(("language", "reason", "text"), written("sentences.tsv"))
def test_sentence_is_kept_or_dropped(language, reason, text):
    if reason == "other_script":  # which the detector tells
        assert not is_kept(normalize(text), language)
    else:
        assert fits(normalize(text), language) == (reason == "kept")


@pytest.mark.parametrize(
    ("language", "limits", "kept", "dropped"),
    [
        (
            "en",
            PAGE_WORDS,
            ["Many " + "word " * 29 + "more.", "Nobody knows the " + "x" * 39 + "."],
            ["Many " + "word " * 30 + "more.", "Nobody knows the " + "x" * 40 + "."],
        ),
        ("en", PAGE_WORDS, [], ["", "The caf\ufffd is open at noon."]),
        ("en", WordLimits(), [], [""]),
        ("zh", PAGE_WORDS, ["渡轮每天中午出发了。", "渡" * 92 + "。"], ["渡" * 93 + "。"]),
        ("th", PAGE_WORDS, [], ["ก" * 94]),
        ("en", FEW, ["Nobody knows."], ["Nobody.", "Nobody here knows why."]),
        ("zh", FEW, ["没人知道。", "没人知道这件事情。"], ["没人知道这件事情的。"]),
    ],
)
def test_bounds_are_inclusive_in_every_language(language, limits, kept, dropped):
    assert [text for text in kept + dropped if fits(text, language, limits)] == kept


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
