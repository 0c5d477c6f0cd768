from pathlib import Path

import pytest

from tests.benchmarks import roofline
from tests.benchmarks.roofline import CARDS, TABLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("place", TABLES)
def test_the_pages_have_the_tables_that_the_script_prints(place):
    page = (ROOT / place.partition(",")[0]).read_text(encoding="utf-8")
    assert TABLES[place]() in page


def test_the_model_gives_back_the_times_it_was_fitted_to():
    """BERT-large on TensorRT: products at the share found, and its own passes over memory."""
    for card, milliseconds in roofline.TENSORRT.items():
        tokens, facts, shape = 128 * 128, CARDS[card], roofline.ALL_LAYERS
        products = shape.flops([128] * 128) / (roofline.product_share(card) * facts.tflops * 1e12)
        passes = tokens * 24 * 1024 * 36 / (0.855 * facts.bandwidth * 1e9)
        assert 1e3 * (products + passes) == pytest.approx(milliseconds)


def test_a_rate_is_what_a_count_by_hand_gives():
    # A token of an H100: 17 layers of 2 * 12 * 1024^2 + 4 * 28 * 1024 operations at 63% of 989e12,
    # 17 * 44 * 1024 bytes at 85.5% of 3,350e9, and tiles of 128 * 128 for 28 tokens; 56 tokens a
    # pair.
    products = 17 * (24 * 1024**2 + 112 * 1024) / (0.63 * 989e12)
    passes = 17 * 44 * 1024 / (0.855 * 3350e9)
    attention = 17 * 4 * 128 * 128 * 1024 / 28 / (0.63 * 989e12)
    assert roofline.token_seconds("H100") == pytest.approx((products, passes, attention))
    seconds = 1.025 * (products + passes + attention)
    assert roofline.rate("H100") == pytest.approx(1 / (56 * seconds), abs=250)
