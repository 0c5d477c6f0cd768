"""The tables of a run: the checks, the picture and the description beside each."""

import io
import unicodedata

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from bertscore_beam.baseline import baseline_tables
from bertscore_beam.baseline.baseline_tables import CHECKS, FEW_PAIRS, check_moments
from bertscore_beam.baseline.table_picture import draw_distributions
from bertscore_beam.crawl.sentences import FILTER_VERSION
from bertscore_core.stats.moments import Moments
from tests.support.baseline_tables import moments
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


def opened(png: bytes) -> npt.NDArray[np.uint8]:
    image = Image.open(io.BytesIO(png))
    assert image.format == "PNG"
    assert image.height == 864
    return np.asarray(image.convert("RGB"))


def test_any_number_of_layers_can_be_drawn_and_more_get_more_room():
    widths = []
    for rows in (1, 13, 49):
        png = draw_distributions(moments(0, rows=rows, pairs=500), "model, en: 500 random pairs")
        image = opened(png)
        widths.append(image.shape[1])
        assert 0.01 < (image != 255).any(axis=-1).mean() < 0.6
        # Between the bars of two layers is white: along them are as many colours as layers.
        pale = (image == (0xD3, 0xE6, 0xF4)).all(axis=-1)[120:].any(axis=0)
        assert np.count_nonzero(np.diff(pale.astype(int)) == 1) == rows
    assert 800 <= widths[0] <= widths[1] < widths[2] <= 1800


def test_the_same_numbers_give_the_same_bytes_and_others_do_not():
    first, again = (draw_distributions(moments(0, rows=7, pairs=300), "title") for _ in range(2))
    assert first == again
    assert draw_distributions(moments(1, rows=7, pairs=300), "title") != first
    assert draw_distributions(moments(0, rows=7, pairs=300), "another") != first


@pytest.mark.parametrize("pairs", [1, 2])
def test_so_few_pairs_that_there_is_no_error_can_be_drawn(pairs):
    one_host = np.zeros((pairs, 2), dtype=np.int64)
    few = Moments.of(np.full((3, pairs, 3), 0.5, dtype=np.float32), one_host)
    assert np.isnan(few.standard_errors).all()
    opened(draw_distributions(few, "t"))


LONG = "sentence-transformers/paraphrase-multilingual-mpnet-base-v2, en: 10,000 random pairs"


@pytest.mark.parametrize("title", ["a_$b^{$_c", "x" * 120, "a\ufffe\x00\x1b[31m\nb", LONG])
def test_a_name_is_not_read_as_a_formula_and_a_long_one_is_written_smaller(title):
    image = opened(draw_distributions(moments(0, rows=3, pairs=50), title))
    assert (image[:60] < 128).any()
    assert (image[:60, [0, -1]] == 255).all() or len(title) > len(LONG)  # it fits


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
