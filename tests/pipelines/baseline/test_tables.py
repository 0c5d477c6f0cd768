"""The tables of a run: the checks and the description beside each."""

import unicodedata

import numpy as np
import pytest

from bertscore_beam.baseline import baseline_tables
from bertscore_beam.baseline.baseline_tables import CHECKS, FEW_PAIRS, check_moments
from bertscore_beam.crawl.sentences import FILTER_VERSION
from bertscore_core.stats.moments import Moments
from tests.support.crawls import NAMES, description
from tests.support.wet import CRAWL


def scored(pairs: int, hosts: int | None = 200, shifts: tuple[float, ...] = (0, 0, 0)) -> Moments:
    rng = np.random.default_rng(0)
    precision, recall = rng.normal(0.5, 0.03, (2, 4, pairs))
    f1 = 2 * precision * recall / (precision + recall)
    scores = (np.stack([precision, recall, f1], axis=-1) + shifts).astype(np.float32)
    return Moments.of(scores, None if hosts is None else rng.integers(0, hosts, (pairs, 2)))


@pytest.mark.parametrize("pairs", [1, FEW_PAIRS - 1, FEW_PAIRS])
def test_every_check_is_listed_and_made_of_enough_pairs(pairs):
    checks, passed = check_moments(scored(pairs)), True if pairs == FEW_PAIRS else None
    assert [(check["name"], check["passed"]) for check in checks] == [
        (name, passed) for name in CHECKS
    ]
    few = f"not looked at: too few pairs: {pairs:,}"
    assert passed or {check["found"] for check in checks} == {few}


@pytest.mark.parametrize(
    ("hosts", "passed", "found"),
    [
        (None, None, "not looked at: hosts are not known"),
        (1, False, "as good as 1.0 hosts"),
        (10, False, "as good as 10.0 hosts"),
        (100, True, "as good as 9"),
    ],
)
def test_few_hosts_are_said(hosts, passed, found):
    *others, about_hosts = check_moments(scored(FEW_PAIRS, hosts))
    assert all(check["passed"] for check in others)
    assert about_hosts["passed"] is passed
    assert about_hosts["found"].startswith(found)


@pytest.mark.parametrize(
    ("failed", "shifts"),
    [
        (0, [(0.02, 0, 0.01), (0, 0.02, 0.01)]),  # precision above recall, or below
        (1, [(0, 0, 0.01), (0, 0, -0.03)]),  # F1 above the mean of both, or far below
    ],
)
def test_scores_that_random_pairs_cannot_have_fail_a_check(failed, shifts):
    for shift in shifts:
        checks = check_moments(scored(FEW_PAIRS, shifts=shift))
        assert [check["passed"] for check in checks].index(False) == failed


def test_description_says_where_it_comes_from(finished):
    said = description(finished)
    source, sample, layer = said["source"], said["sample"], said["layers"][1]["f1"]
    assert (said["pairs"], said["pairs_wanted"]) == (120, 120)
    assert source["name"] == CRAWL
    assert source["files_listed"] == len(NAMES) == 4
    assert {file["file"] for file in source["files"]} <= set(NAMES)
    assert all(len(file["sha256"]) == 64 and file["rows"] for file in source["files"])
    assert source["records"] > 4
    assert source["records_broken"] == 0
    assert "layer_semantics:cut" in said["signature"]
    assert 0 < layer["standard_error"] < layer["standard_deviation"]
    assert (sample["seed"], sample["min_words"], sample["max_words"]) == (3, 4, 31)
    assert source["filters"] == {
        **{"version": FILTER_VERSION, "detector": "pycld2-0.42", "splitter": "sentencex-1.0.32"},
        **{"unicode": unicodedata.unidata_version, "words": [4, 31]},
    }


def test_a_language_of_one_sentence_has_no_pairs():
    languages = {code: {"sentences": number} for code, number in (("de", 2), ("en", 1), ("fi", 0))}
    assert baseline_tables.languages_without_pairs(languages) == ["en", "fi"]
