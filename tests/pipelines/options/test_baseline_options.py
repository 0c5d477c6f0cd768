"""Options of the baseline command."""

import pytest

from bertscore_core import ConfigError
from pipelines.cli.main import main
from pipelines.options.baseline import BaselineOptions
from tests.support.wet import CRAWL


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "got none; expected one of crawl, wet and sentences"),
        ({"crawl": CRAWL, "wet": "x"}, "got crawl and wet; expected one"),
        ({"crawl": CRAWL, "languages": [False, "en"]}, 'Put Norwegian in quotes: "no"'),
        ({"crawl": CRAWL, "languages": False}, 'Put Norwegian in quotes: "no"'),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_cure(changes, words):
    with pytest.raises(ConfigError, match=words):
        BaselineOptions.from_mapping({"models": ["m"], "output": "out"} | changes, "my.yaml")


def test_help_says_what_is_wanted_of_each_list_and_what_seed_holds_without_one(capsys):
    with pytest.raises(SystemExit):
        main(["baseline", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--models NAME [NAME ...]" in said
    assert "--languages CODE [CODE ...]" in said
    assert "--sentences LANGUAGE=PATH" in said
    assert "--wet PATH" in said
    assert ".txt, .txt.gz or .parquet" in said
    assert "are sampled (default: 0)" in said
