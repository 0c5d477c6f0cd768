"""Codes of languages, and their detection."""

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.crawl import languages
from bertscore_beam.crawl.languages import (
    check_installed,
    check_language,
    check_tag,
    detect_language,
    header_language,
    known_languages,
)
from bertscore_beam.crawl.sentences import normalize
from bertscore_core.errors import ConfigError
from tests.support.crawl_texts import written


@pytest.mark.parametrize(
    ("code", "given_codes"),
    {
        **{"en": ["en", "EN", "eng"], "de": [" de ", "deu", "ger"], "he": ["iw"], "jv": ["jw"]},
        **{"no": ["no", "nb", "nob"], "nn": ["nn"], "tl": ["tl", "fil"], "ak": ["tw"]},
        **{"zh": ["cmn"], "ceb": ["ceb"]},
    }.items(),
)
def test_every_code_of_a_language_means_the_same(code, given_codes):
    assert {check_language(given_code) for given_code in given_codes} == {code}


@pytest.mark.parametrize(
    ("words", "codes"),
    {
        "this language cannot be detected: got": ["xq", "", "日本", "*", "en de", "tlh", "-"],
        "cannot be told from its neighbours.*--sentences (hr|bs)=PATH": [
            "hr",
            "hrv",
            "bs-Latn",
            "HR",
        ],
        r"Did you mean zh\?": ["zh-TW", "zh_Hant"],
        r"Did you mean en\?": ["en_US", "en-sci", "englsh"],
        r"Did you mean de\?": ["German"],
        r"Did you mean sr\?": ["sr-ME", "sh"],
    }.items(),
)
def test_code_that_cannot_be_detected_is_refused_with_a_hint(words, codes):
    for code in codes:
        with pytest.raises(ConfigError, match=words):
            check_language(code)


def test_every_known_language_is_its_own_code():
    codes = known_languages()
    assert len(codes) == 158
    assert [check_language(code) for code in codes] == list(codes)
    assert codes["zh"] == "chinese"
    assert all(code.isascii() and code.isalpha() and len(code) in (2, 3) for code in codes)


@pytest.mark.parametrize(
    ("code", "headers"),
    {
        **{"en": "eng", "zh": "zho cmn", "ar": "arb", "fa": "pes", "no": "nor nob", "nn": "nno"},
        **{"et": "ekk", "lv": "lvs", "ms": "zsm", "id": "ind", "sw": "swh", "he": "heb"},
        **{"jv": "jav", "tl": "tgl fil", "sr": "srp", None: "hrv bos yue und xxx tlh ?!"},
    }.items(),
)
def test_header_codes_become_the_users_codes(code, headers):
    assert {header_language(header) for header in headers.split()} == {code}
    assert header_language("") is None


def test_missing_packages_are_named_with_the_cure(monkeypatch):
    check_installed()
    gone, find = {"pycld2", "regex", "langcodes"}, languages.find_spec
    monkeypatch.setattr(languages, "find_spec", lambda name: None if name in gone else find(name))
    with pytest.raises(ConfigError, match=r"no langcodes, pycld2, regex; .*give them with --sent"):
        check_installed()
    with pytest.raises(ConfigError, match=r"no langcodes; .* pip install langcodes, or"):
        check_installed(pages=False)
    gone.remove("langcodes")
    check_installed(pages=False)


@pytest.mark.process
def test_modules_of_the_crawl_load_without_the_extra_packages():
    code = (
        "import sys\n"
        "names = ['langcodes', 'sacrebleu', 'pycld2', 'regex', 'sentencex']\n"
        "sys.modules.update(dict.fromkeys(names))\n"
        "from bertscore_beam.crawl.sentences import normalize\n"
        "print(normalize(' it  loads '))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "it loads\n", done.stderr


def test_given_sentences_may_be_in_a_language_that_is_not_detected():
    assert [check_tag(code) for code in ("en", "bar", "zh_TW")] == ["en", "bar", "zh-tw"]
    with pytest.raises(ConfigError, match="unknown language 'german'"):
        check_tag("german")


@pytest.mark.parametrize(("code", "pieces", "text"), written("texts.tsv"))
def test_detector_codes_become_the_users_codes(code, pieces, text):
    assert detect_language(text) == code


LATIN = "Ovde možete da vidite gde se nalazi naša prodavnica u Nišu."
NO_TEXTS = ("", " ", "12345", "?!?!", "\0", "\ud800", "q", "ᚠᚢᚦᚨᚱᚲ ᚷᚹ")


@pytest.mark.parametrize("text", [LATIN, LATIN.replace("a u", "\u0430 u"), *NO_TEXTS])
def test_serbian_in_latin_letters_but_for_one_or_all_and_what_is_no_text_have_no_language(text):
    assert detect_language(text) is None


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_detection_never_raises_and_gives_known_codes(text):
    for shown in (text, normalize(text)):
        code = detect_language(shown)
        assert code is None or code in known_languages() or code in languages.NOT_TOLD_APART


@pytest.mark.parametrize(
    "character", ["\0", "\x0b", "\x7f", "\x9f", "\ud800", "\ufdd0", "\uffff", "\U0010ffff"]
)
def test_characters_that_the_detector_refuses_are_gone_from_a_normalized_text(character):
    text = f"The ferry{character} leaves the island{character} at noon."
    assert detect_language(text) is None
    assert detect_language(normalize(text)) == "en"
