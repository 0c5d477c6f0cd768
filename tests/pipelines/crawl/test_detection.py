"""The detection of languages: by one detector, or by two that must agree."""

import sys
from collections import Counter
from importlib.util import find_spec as real_find_spec

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.crawl import (
    CLOSE_LANGUAGES,
    DETECTORS,
    PY3LANGID,
    PYCLD2,
    check_installed,
    describe_detectors,
    detect_language,
    detected_languages,
    header_language,
    installed_detectors,
    is_in_language,
    known_languages,
    languages,
)
from tests.support.crawl_texts import HEADER_CODES, sentences

REFUSED = ["\0", "\x0b", "\x1f", "\x7f", "\x9f", "\ud800", "\udfff", "\ufdd0", "\ufffe", "\uffff"]


@pytest.mark.parametrize("language", HEADER_CODES)
def test_made_up_sentences_are_in_their_language(language):
    result = [detect_language(text) for text in sentences(language, 400, seed=7)]
    assert result.count(language) >= 0.95 * len(result)
    assert header_language(HEADER_CODES[language]) == language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("הספרייה הקטנה נפתחה אתמול בערב ליד תחנת הרכבת.", "he"),
        ("我們昨天晚上在火車站附近開了一家小圖書館。", "zh"),
        ("我们昨天晚上在火车站附近开了一家小图书馆。", "zh"),
        ("Me åpnet ikke noe bibliotek i går kveld, men vi snakket om prisen på brød.", "no"),
        ("Perpustakaan kecil itu dibuka kemarin malam di dekat stasiun kereta api.", "id"),
    ],
)
def test_detector_codes_become_the_users_codes(text, code):
    assert detect_language(text) == code


@pytest.mark.parametrize("text", ["", " ", "12345", "?!?!", "\0", "\ud800", "q", "ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ"])
def test_text_that_cannot_be_told_has_no_language(text):
    assert detect_language(text) is None
    assert text in ("q", "ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ") or detect_language(text, PY3LANGID) is None


@pytest.mark.parametrize("character", REFUSED)
def test_characters_the_detector_refuses_do_not_change_the_language(character):
    text = f"The ferry{character} leaves the island{character} at noon."
    assert detect_language(text) == "en"


def test_every_code_point_can_be_in_a_text():
    everything = [chr(code) for code in range(sys.maxunicode + 1)]
    for start in range(0, len(everything), 64):
        detect_language("The ferry leaves at noon. " + "".join(everything[start : start + 64]))
    # Noncharacters at the end of each plane are refused one by one, so look at them alone.
    for plane in range(0, sys.maxunicode, 0x10000):
        for last in (0xFFFE, 0xFFFF):
            assert detect_language(f"The ferry leaves at noon {chr(plane + last)}.") == "en"


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_detection_never_raises_and_gives_known_codes(text):
    code = detect_language(text)
    assert code is None or code in known_languages()


# Written for these tests. Each is plainly of its language: with words that the near one has not.
OF_CLOSE_LANGUAGES = {
    "no": "Jeg vet ikke hvorfor ingen åpnet døren da vi ringte på i går kveld.",
    "nn": "Eg veit ikkje kvifor ingen opna døra då vi ringde på i går kveld.",
    "da": "Jeg ved ikke, hvorfor ingen lukkede døren op, da vi ringede på i aftes.",
    "id": "Saya tidak tahu mengapa kereta api itu terlambat datang karena cuaca buruk kemarin.",
    "ms": "Saya tidak tahu kenapa kereta api itu lewat sampai kerana cuaca buruk semalam.",
    "cs": "Nevím, proč vlak včera večer přijel pozdě a nikdo nám to neřekl.",
    "sk": "Neviem, prečo vlak včera večer meškal a nikto nám to nepovedal.",
    "pt": "Não sei por que o trem chegou atrasado ontem à noite e ninguém nos avisou.",
    "gl": "Non sei por que o tren chegou tarde onte á noite e ninguén nos avisou.",
}


def test_close_languages_are_told_apart_by_two_detectors():
    assert set(OF_CLOSE_LANGUAGES) == CLOSE_LANGUAGES
    for language in OF_CLOSE_LANGUAGES:
        counts: Counter[str] = Counter()
        accepted = [
            code
            for code, text in OF_CLOSE_LANGUAGES.items()
            if is_in_language(text, language, counts, DETECTORS)
        ]
        assert accepted == [language]
        assert counts["sentences_detectors_agree"] == 1
        assert counts["sentence_other_language"] + counts["sentence_detectors_disagree"] == 8


def test_sentence_on_which_the_detectors_disagree_is_dropped_and_counted():
    # Good in both: pycld2 says Bokmål, py3langid Danish.
    text = next(
        text
        for text in ("Han kom for sent til toget igen.", "Vi har en plan for dem alle.",
                     "Hun var med os i bilen.", "Det er en god dag for os alle.")
        if {detect_language(text, name) for name in DETECTORS} == {"no", "da"}
    )  # fmt: skip
    first = detect_language(text, PYCLD2)
    assert first is not None
    counts: Counter[str] = Counter()
    assert not is_in_language(text, first, counts, DETECTORS)
    assert counts == {"sentence_detectors_disagree": 1}
    # With one detector there is nothing to disagree with.
    assert is_in_language(text, first, Counter(), (PYCLD2,))


def test_a_language_that_is_not_close_to_others_is_asked_about_once(monkeypatch):
    asked: list[str | None] = []

    def noting(text: str, detector: str | None = None) -> str | None:
        asked.append(detector)
        return detect_language(text, detector)

    monkeypatch.setattr("bertscore_beam.crawl.sentences.detect_language", noting)
    counts: Counter[str] = Counter()
    assert is_in_language("The ferry leaves the island at noon.", "en", counts, DETECTORS)
    assert asked == [PYCLD2]
    assert counts == {}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("我们昨天晚上在火车站附近开了一家小图书馆。", {"sentences_simplified": 1}),
        ("我們昨天晚上在火車站附近開了一家小圖書館。", {"sentences_traditional": 1}),
        ("他一百年以前在山上。", {}),
        ("我哋尋晚喺火車站附近開咗間細圖書館。", {"sentence_other_language": 1}),
    ],
)
def test_chinese_is_counted_by_its_characters_and_cantonese_is_not_chinese(text, kept):
    counts: Counter[str] = Counter()
    assert is_in_language(text, "zh", counts) == ("sentence_other_language" not in kept)
    assert counts == kept


@pytest.fixture
def without_pycld2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide pycld2, as on machines for which it has no wheel."""
    monkeypatch.setattr(
        languages, "find_spec", lambda name: None if name == PYCLD2 else real_find_spec(name)
    )
    monkeypatch.setitem(sys.modules, PYCLD2, None)
    known_languages.cache_clear()
    header_language.cache_clear()
    yield
    known_languages.cache_clear()
    header_language.cache_clear()


@pytest.mark.usefixtures("without_pycld2")
def test_py3langid_serves_where_pycld2_cannot_be_installed():
    check_installed()
    assert installed_detectors() == (PY3LANGID,)
    described = describe_detectors(installed_detectors())
    assert described["detector"] == "py3langid-0.4.0"
    assert described["second_detector"] is None
    assert len(known_languages()) > 100
    assert {"en", "de", "zh", "sr", "no"} <= set(known_languages())
    assert "hr" not in known_languages()
    for language, code in HEADER_CODES.items():
        result = [detect_language(text) for text in sentences(language, 200, seed=7)]
        assert result.count(language) >= 0.95 * len(result)
        assert header_language(code) == language
    for language, text in OF_CLOSE_LANGUAGES.items():
        assert is_in_language(text, language, Counter())
    assert detect_language("我們昨天晚上在火車站附近開了一家小圖書館。") == "zh"


def test_detectors_agree_on_the_codes_of_languages():
    known = detected_languages(PY3LANGID)
    assert {"no", "nn", "zh", "he", "jv", "tl", "sr"} <= set(known)
    assert {"nb", "yue", "zxx"}.isdisjoint(known)
    assert set(known) >= CLOSE_LANGUAGES
