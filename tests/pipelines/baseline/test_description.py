"""The description beside a table."""

from tests.support.crawls import description
from tests.support.wet import CRAWL


def test_description_says_where_it_comes_from(finished, names):
    said = description(finished)
    assert (said["pairs"], said["pairs_wanted"]) == (120, 120)
    assert said["source"]["name"] == CRAWL
    assert said["source"]["files_listed"] == len(names) == 4
    assert {file["file"] for file in said["source"]["files"]} <= set(names)
    assert all(len(file["sha256"]) == 64 and file["rows"] for file in said["source"]["files"])
    assert said["source"]["counts"]["pages"] > said["source"]["counts"]["pages_of_language"] > 0
    counts = said["source"]["counts"]
    assert counts["sentences_kept"] > 0
    assert counts["sentences_seen"] > counts["sentences_kept"]
    assert sum(said["sample"]["words"].values()) == 240
    assert "layer_semantics:cut" in said["signature"]
    layer = said["layers"][1]["f1"]
    assert 0 < layer["standard_error"] < layer["standard_deviation"]
    assert said["sample"]["seed"] == 3
    assert (said["sample"]["min_words"], said["sample"]["max_words"]) == (4, 31)
    assert said["source"]["language_check"] == {
        "detectors": ["pycld2"],
        "close_to_others": False,
        "disagreement": None,
        "uncertain": False,
    }
    assert said["source"]["filters"]["second_detector"] == "py3langid-0.4.0"
    assert counts["sentence_phrase"] > 0  # cookie notices
