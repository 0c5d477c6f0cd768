import subprocess
import sys
from importlib.util import find_spec as real_find_spec

import pytest

from bertscore_beam.crawl import languages
from bertscore_beam.crawl.detection import DETECTORS
from bertscore_beam.crawl.languages import (
    check_installed,
    check_language,
    header_language,
    known_languages,
)
from bertscore_core.errors import ConfigError


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


@pytest.mark.parametrize("code", ["hr", "hrv", "bs", "bs-Latn", "HR"])
def test_languages_that_are_not_told_apart_are_refused(code: str) -> None:
    with pytest.raises(ConfigError, match=r"not told from another.*--sentences (hr|bs)=PATH"):
        check_language(code)
    assert check_language("sr") == "sr"


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
    assert len(codes) == 158
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
        ("hrv", None),  # see test_languages_that_are_not_told_apart_are_refused
        ("bos", None),
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


def test_missing_packages_are_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr(
        languages,
        "find_spec",
        lambda name: None if name in DETECTORS else real_find_spec(name),
    )
    with pytest.raises(
        ConfigError, match=r"no py3langid, pycld2; .*pip install 'bertscore-beam\[baseline\]'"
    ):
        check_installed()


@pytest.mark.parametrize("missing", ["regex", "sentencex"])
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
        ConfigError,
        match="langcodes, matplotlib, py3langid, pycld2, regex, sacrebleu, sentencex; ",
    ):
        check_installed()


@pytest.mark.process
def test_modules_of_the_crawl_load_without_the_extra_packages() -> None:
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({languages.EXTRA_PACKAGES!r}))\n"
        "import bertscore_beam.crawl.extract\n"
        "from bertscore_beam.crawl.sentences import normalize\n"
        "print(normalize(' it  loads '))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "it loads\n", done.stderr


def test_given_sentences_may_be_in_a_language_that_is_not_detected():
    assert [languages.check_tag(code) for code in ("en", "bar", "zh-TW")] == ["en", "bar", "zh-tw"]
    with pytest.raises(ConfigError, match="unknown language 'german'"):
        languages.check_tag("german")
