"""Pictures of baselines: that they can be drawn for any model, and always the same."""

import io

import numpy as np
import pytest
from PIL import Image

from bertscore_beam.baseline import draw_distributions
from bertscore_core.stats import HOST_BUCKETS, Moments


def moments(rows: int, pairs: int, seed: int = 0) -> Moments:
    rng = np.random.default_rng(seed)
    centre = np.linspace(0.3, 0.8, rows)[:, None, None]
    scores = centre + rng.normal(0, 0.03, (rows, pairs, 3))
    return Moments.of(scores.astype(np.float32), rng.integers(0, HOST_BUCKETS, (pairs, 2)))


def opened(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image.convert("RGB")


def share_of(colour: tuple[int, int, int], image: Image.Image) -> float:
    return float((np.asarray(image) == colour).all(axis=-1).mean())


@pytest.mark.parametrize("rows", [1, 2, 7, 13, 25, 49])
def test_any_number_of_layers_can_be_drawn(rows):
    image = opened(draw_distributions(moments(rows, 500), "model, en: 500 random pairs"))
    assert 800 <= image.width <= 1800
    assert image.height == 864
    assert 0.01 < 1 - share_of((255, 255, 255), image) < 0.6


def test_more_layers_get_more_room_and_all_their_bars():
    few, many = (opened(draw_distributions(moments(rows, 500), "t")) for rows in (13, 49))
    assert many.width > few.width
    # Between the bars of two layers is white: along the bars there are as many colours as layers.
    for image, rows in ((few, 13), (many, 49)):
        pale = (np.asarray(image) == (0xD3, 0xE6, 0xF4)).all(axis=-1)[120:].any(axis=0)
        assert np.count_nonzero(np.diff(pale.astype(int)) == 1) == rows


def test_the_same_numbers_give_the_same_bytes_and_others_do_not():
    first, again = (draw_distributions(moments(7, 300), "title") for _ in range(2))
    assert first == again
    assert draw_distributions(moments(7, 300, seed=1), "title") != first
    assert draw_distributions(moments(7, 300), "another") != first


def test_a_picture_does_not_say_when_and_with_what_it_was_made():
    assert Image.open(io.BytesIO(draw_distributions(moments(3, 50), "t"))).info.keys() <= {"dpi"}


@pytest.mark.parametrize("pairs", [1, 2])
def test_so_few_pairs_that_there_is_no_error_can_be_drawn(pairs):
    one_host = np.zeros((pairs, 2), dtype=np.int64)
    few = Moments.of(np.full((3, pairs, 3), 0.5, dtype=np.float32), one_host)
    assert np.isnan(few.standard_errors).all()
    assert opened(draw_distributions(few, "t")).height == 864


@pytest.mark.parametrize("title", ["a_$b$_c^{", "x" * 120, "a\ufffe\x00\x1b[31m\nb"])
def test_a_name_is_not_read_as_a_formula_and_may_be_long(title):
    assert opened(draw_distributions(moments(3, 50), title)).height == 864


def test_long_names_are_written_smaller_so_that_they_fit():
    name = "sentence-transformers/paraphrase-multilingual-mpnet-base-v2"
    image = np.asarray(
        opened(draw_distributions(moments(3, 50), f"{name}, en: 10,000 random pairs"))
    )
    assert (image[:60, [0, -1]] == 255).all()
    assert (image[:60] < 128).any()
