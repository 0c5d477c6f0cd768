import subprocess
import sys
from importlib.util import find_spec as real_find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_core.errors import ConfigError
from pipelines.crawl import languages
from pipelines.crawl.languages import (
    check_installed,
    check_language,
    detect_language,
    detector_version,
    header_language,
    known_languages,
)
from tests.support.crawl_texts import HEADER_CODES, sentences

REFUSED = ["\0", "\x0b", "\x1f", "\x7f", "\x9f", "\ud800", "\udfff", "\ufdd0", "\ufffe", "\uffff"]


@pytest.mark.parametrize(
    ("given_code", "code"),
    [
        ("en", "en"),
        ("EN", "en"),
        (" de ", "de"),
        ("eng", "en"),
        ("deu", "de"),
        ("ger", "de"),
        ("iw", "he"),
        ("jw", "jv"),
        ("nb", "no"),
        ("nob", "no"),
        ("no", "no"),
        ("nn", "nn"),
        ("tl", "tl"),
        ("fil", "tl"),
        ("tw", "ak"),
        ("cmn", "zh"),
        ("ceb", "ceb"),
    ],
)
def test_every_code_of_a_language_means_the_same(given_code: str, code: str) -> None:
    assert check_language(given_code) == code


@pytest.mark.parametrize(
    "code", ["xq", "", "e", "日本", "*", "en de", "ast", "tlh", "un", "-", "--"]
)
def test_code_of_no_detectable_language_is_refused(code: str) -> None:
    with pytest.raises(ConfigError, match="not a language that can be detected: got"):
        check_language(code)


@pytest.mark.parametrize(
    ("given_code", "near"),
    [
        ("zh-TW", "zh"),
        ("zh_Hant", "zh"),
        ("en_US", "en"),
        ("en-sci", "en"),
        ("German", "de"),
        ("englsh", "en"),
        ("sr-ME", "sr"),
        ("sh", "sr"),
    ],
)
def test_refusal_names_the_language_that_may_be_meant(given_code: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"Did you mean {near}\?"):
        check_language(given_code)


def test_every_known_language_is_its_own_code() -> None:
    codes = known_languages()
    assert len(codes) == 160
    assert [check_language(code) for code in codes] == list(codes)
    assert codes["zh"] == "chinese"
    assert all(code.isascii() and code.isalpha() and len(code) in (2, 3) for code in codes)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("eng", "en"),
        ("zho", "zh"),
        ("cmn", "zh"),
        ("arb", "ar"),
        ("pes", "fa"),
        ("nor", "no"),
        ("nob", "no"),
        ("nno", "nn"),
        ("ekk", "et"),
        ("lvs", "lv"),
        ("zsm", "ms"),
        ("ind", "id"),
        ("swh", "sw"),
        ("heb", "he"),
        ("jav", "jv"),
        ("tgl", "tl"),
        ("fil", "tl"),
        ("srp", "sr"),
        ("hrv", "hr"),
        ("bos", "bs"),
        ("yue", None),
        ("und", None),
        ("xxx", None),
        ("tlh", None),
        ("", None),
        ("?!", None),
    ],
)
def test_header_codes_become_the_users_codes(header: str, code: str | None) -> None:
    assert header_language(header) == code


@pytest.mark.parametrize("language", HEADER_CODES)
def test_made_up_sentences_are_in_their_language(language: str) -> None:
    found = [detect_language(text) for text in sentences(language, 400, seed=7)]
    assert found.count(language) >= 0.95 * len(found)
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
def test_detector_codes_become_the_users_codes(text: str, code: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize("text", ["", " ", "12345", "?!?!", "\0", "\ud800", "q", "ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ"])
def test_text_that_cannot_be_told_has_no_language(text: str) -> None:
    assert detect_language(text) is None


@pytest.mark.parametrize("character", REFUSED)
def test_characters_the_detector_refuses_do_not_change_the_language(character: str) -> None:
    text = f"The ferry{character} leaves the island{character} at noon."
    assert detect_language(text) == "en"


def test_every_code_point_can_be_in_a_text() -> None:
    everything = [chr(code) for code in range(sys.maxunicode + 1)]
    for start in range(0, len(everything), 64):
        detect_language("The ferry leaves at noon. " + "".join(everything[start : start + 64]))
    # Noncharacters at the end of each plane are refused one by one, so look at them alone.
    for plane in range(0, sys.maxunicode, 0x10000):
        for last in (0xFFFE, 0xFFFF):
            assert detect_language(f"The ferry leaves at noon {chr(plane + last)}.") == "en"


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_detection_never_raises_and_gives_known_codes(text: str) -> None:
    code = detect_language(text)
    assert code is None or code in known_languages()


def test_missing_packages_are_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr(
        languages,
        "find_spec",
        lambda name: None if name == "pycld2" else real_find_spec(name),
    )
    with pytest.raises(ConfigError, match=r"no pycld2; .*pip install 'bertscore-beam\[baseline\]'"):
        check_installed()


@pytest.mark.parametrize("missing", ["pycld2", "regex", "sentencex"])
def test_given_sentences_need_nothing_that_reads_pages(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(
        languages, "find_spec", lambda name: None if name == missing else real_find_spec(name)
    )
    check_installed(pages=False)
    with pytest.raises(ConfigError, match=f"got no {missing}; expected them for reading web pages"):
        check_installed()


def test_given_sentences_need_the_names_of_languages_and_the_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(languages, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"Run: pip install langcodes matplotlib sacrebleu$"):
        check_installed(pages=False)
    with pytest.raises(
        ConfigError, match="langcodes, matplotlib, pycld2, regex, sacrebleu, sentencex; "
    ):
        check_installed()


@pytest.mark.process
def test_modules_of_the_crawl_load_without_the_extra_packages() -> None:
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({languages.EXTRA_PACKAGES!r}))\n"
        "import pipelines.crawl.extract\n"
        "from pipelines.crawl.sentences import normalize\n"
        "print(normalize(' it  loads '))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "it loads\n", done.stderr


def test_detector_is_named_with_its_version() -> None:
    assert detector_version() == "pycld2-0.42"


def test_given_sentences_may_be_in_a_language_that_is_not_detected():
    assert [languages.check_tag(code) for code in ("en", "bar", "zh-TW")] == ["en", "bar", "zh-tw"]
    with pytest.raises(ConfigError, match="unknown language 'german'"):
        languages.check_tag("german")
