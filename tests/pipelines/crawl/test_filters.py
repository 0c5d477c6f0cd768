"""Which sentences are kept by their form, in every language."""

import pytest

from bertscore_beam import crawl
from tests.support.crawl_texts import written

FEW = crawl.WordLimits(least=2, most=3)


def fits(sentence, language, limits=crawl.PAGE_WORDS):
    """Tell whether a sentence is fit, by the filters that a page goes through."""
    return crawl.has_form(sentence, language, limits) and crawl.is_prose(sentence, language)


@pytest.mark.parametrize(("language", "reason", "text"), written("sentences.tsv"))
def test_sentence_is_kept_or_dropped(language, reason, text):
    if reason == "other_script":  # which the detector tells
        assert not crawl.is_kept(crawl.normalize(text), language)
    else:
        assert fits(crawl.normalize(text), language) == (reason == "kept")


@pytest.mark.parametrize(
    ("language", "limits", "kept", "dropped"),
    [
        (
            "en",
            crawl.PAGE_WORDS,
            ["Many " + "word " * 29 + "more.", "Nobody knows the " + "x" * 39 + "."],
            ["Many " + "word " * 30 + "more.", "Nobody knows the " + "x" * 40 + "."],
        ),
        ("en", crawl.PAGE_WORDS, [], ["", "The caf\ufffd is open at noon."]),
        ("en", crawl.WordLimits(), [], [""]),
        ("zh", crawl.PAGE_WORDS, ["渡轮每天中午出发了。", "渡" * 92 + "。"], ["渡" * 93 + "。"]),
        ("th", crawl.PAGE_WORDS, [], ["ก" * 94]),
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
    assert [crawl.count_words(text, language) for text in texts] == words
