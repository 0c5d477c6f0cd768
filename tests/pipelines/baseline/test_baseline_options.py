"""Options of the baseline command."""

import pytest

from bertscore_beam.baseline import BaselineOptions
from bertscore_beam.cli.main import main
from bertscore_core import ConfigError
from tests.support.wet import CRAWL


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "got none; expected one of crawl, wet and sentences"),
        ({"crawl": CRAWL, "wet": "x"}, "got crawl and wet; expected one"),
        ({"crawl": CRAWL, "languages": [False, "en"]}, 'Put Norwegian in quotes: "no"'),
        ({"crawl": CRAWL, "languages": False}, 'Put Norwegian in quotes: "no"'),
        ({"sentences": "en=a", "min_words": 0}, "'min_words' cannot be used: got 0"),
        ({"sentences": "en=a", "min_words": 9, "max_words": 8}, "at least --min-words, which is 9"),
        ({"sentences": "en=a", "max_files": 3}, "'max_files' cannot be used: got 3"),
        ({"crawl": CRAWL, "languages": "en", "max_words": 3}, "at least --min-words, which is 4"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_cure(changes, words):
    with pytest.raises(ConfigError, match=words):
        BaselineOptions.from_mapping({"models": ["m"], "output": "out"} | changes, "my.yaml")


def test_help_says_what_is_wanted_of_each_list_and_what_seed_holds_without_one(capsys):
    with pytest.raises(SystemExit):
        main(["baseline", "--help-all"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--models NAME [NAME ...]" in said
    assert "--languages CODE [CODE ...]" in said
    assert "--sentences LANGUAGE=PATH" in said
    assert "--wet PATH" in said
    assert ".txt, .txt.gz or .parquet" in said
    assert "are sampled (default: 0)" in said


def test_pages_have_limits_of_words_and_given_sentences_have_none():
    pages = {"output": "out", "crawl": CRAWL, "languages": ("en",)}
    sources = {"output": "out", "sentences": ("en=a.txt",)}
    limits = [
        (options.words.least, options.words.most)
        for options in (
            BaselineOptions(**pages),
            BaselineOptions(**pages, max_words=20),
            BaselineOptions(**sources),
            BaselineOptions(**sources, max_words=31),
        )
    ]
    assert limits == [(4, 31), (4, 20), (None, None), (None, 31)]
    assert not BaselineOptions(**sources).words
