import subprocess
import sys
from importlib.util import find_spec as real_find_spec

import pytest

from bertscore_beam.crawl import (
    DETECTORS,
    check_installed,
    check_language,
    header_language,
    known_languages,
    languages,
)
from bertscore_core.errors import ConfigError


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
    "code", ["xq", "", "e", "日本", "*", "en de", "ast", "tlh", "un", "-", "--"]
)
def test_code_of_no_detectable_language_is_refused(code):
    with pytest.raises(ConfigError, match="not a language that can be detected: got"):
        check_language(code)


@pytest.mark.parametrize("code", ["hr", "hrv", "bs", "bs-Latn", "HR"])
def test_languages_that_are_not_told_apart_are_refused(code):
    with pytest.raises(ConfigError, match=r"not told from another.*--sentences (hr|bs)=PATH"):
        check_language(code)
    assert check_language("sr") == "sr"


@pytest.mark.parametrize(
    ("near", "given_codes"),
    {
        **{"zh": ["zh-TW", "zh_Hant"], "en": ["en_US", "en-sci", "englsh"], "de": ["German"]},
        "sr": ["sr-ME", "sh"],
    }.items(),
)
def test_refusal_names_the_language_that_may_be_meant(near, given_codes):
    for given_code in given_codes:
        with pytest.raises(ConfigError, match=rf"Did you mean {near}\?"):
            check_language(given_code)


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


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch):
    """Return what hides packages."""

    def hide(*names: str) -> None:
        monkeypatch.setattr(
            languages, "find_spec", lambda name: None if name in names else real_find_spec(name)
        )

    return hide


def test_missing_packages_are_named_with_the_cure(lacking):
    check_installed()
    lacking(*DETECTORS)
    with pytest.raises(ConfigError, match=r"no py3langid, pycld2; .*pip install '\.\[baseline\]'"):
        check_installed()


@pytest.mark.parametrize("missing", ["regex", "sentencex"])
def test_given_sentences_need_nothing_that_reads_pages(lacking, missing):
    lacking(missing)
    check_installed(pages=False)
    with pytest.raises(ConfigError, match=f"got no {missing}; expected them for reading web pages"):
        check_installed()


def test_given_sentences_need_the_names_of_languages_and_the_pictures(lacking):
    lacking(*languages.EXTRA_PACKAGES)
    with pytest.raises(ConfigError, match=r"Run: pip install langcodes matplotlib sacrebleu$"):
        check_installed(pages=False)
    with pytest.raises(
        ConfigError, match="langcodes, matplotlib, py3langid, pycld2, regex, sacrebleu, sentencex; "
    ):
        check_installed()


@pytest.mark.process
def test_modules_of_the_crawl_load_without_the_extra_packages():
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({languages.EXTRA_PACKAGES!r}))\n"
        "import bertscore_beam.crawl.sentences\n"
        "from bertscore_beam.crawl.sentences import normalize\n"
        "print(normalize(' it  loads '))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "it loads\n", done.stderr


def test_given_sentences_may_be_in_a_language_that_is_not_detected():
    assert [languages.check_tag(code) for code in ("en", "bar", "zh-TW")] == ["en", "bar", "zh-tw"]
    with pytest.raises(ConfigError, match="unknown language 'german'"):
        languages.check_tag("german")
