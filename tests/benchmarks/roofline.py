"""What GPUs should reach, worked out and not measured: the tables of configs/ and RESULTS.md.

    python -m tests.benchmarks roofline

The time of a token is that of its matrix products, at a share of the card's peak, that of all other
passes over memory, at a share of its bandwidth, and that of attention's tiles, one after the other.
Shares come from NVIDIA's tables of BERT-large on TensorRT (`TENSORRT`) where a card has one, and
are assumptions where it has none (`ASSUMED_SHARES`). Everything else is counted. The tests compare
the tables that this prints with those in the pages.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

from tests.benchmarks.harness import Recorder, Shape

ROBERTA_LARGE = Shape(layers=17, hidden=1024, inner=4096)
ALL_LAYERS = Shape(layers=24, hidden=1024, inner=4096)
TOKENS = 28
"""Tokens of a text, its special ones included; a pair has two texts."""

MEMORY_SHARE = 0.855
"""Of the bandwidth: 2.87 of an H100's 3.35 TB/s, as kernels that only copy reach it."""

# Bytes of a token and layer for every element of the hidden state, beside what products read and
# write, which overlaps with their arithmetic. In 16 bits, with attention fused, H elements:
# attention 8 (Q, K, V in, its output out, in 2 bytes each); two sums of 2 and 2 bytes into 2, 6
# each; two layer norms, 4 each; GELU on the 4 H elements between the feed-forward's products, 16.
HALF_BYTES = 8 + 2 * 6 + 2 * 4 + 16
# The same in float32: attention 16, sums 12, norms 8, GELU 32.
FLOAT32_BYTES = 16 + 2 * 12 + 2 * 8 + 32
# TensorRT keeps all of it in 2 bytes and fuses sums with norms: attention 8, those 6 each, GELU 16.
TENSORRT_BYTES = 8 + 2 * 6 + 16
FLOAT32_SHARE = 0.5
"""Of the peak in float32; an assumption."""


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU in a machine of Google Cloud; peaks as in NVIDIA's data sheets, without sparsity.

    Attributes:
        name: As people call it.
        machine: Machine type.
        dollars: For an hour of both, the list price in us-central1 in September 2026.
        tflops: Peak of products in bfloat16 (T4: float16), TFLOP/s.
        float32_tflops: Peak outside the tensor cores, TFLOP/s.
        bandwidth: Of its memory, GB/s.
        split_rows: `--split-rows` in the flags of the card.
    """

    name: str
    machine: str
    dollars: float
    tflops: float
    float32_tflops: float
    bandwidth: float
    split_rows: int


CARDS = {
    "T4": Card("T4", "n1-standard-8 with one T4", 0.73, 65, 8.1, 320, 20_000),
    "L4": Card("L4", "g2-standard-8", 0.85, 121, 30.3, 300, 20_000),
    "A100": Card("A100 40 GB", "a2-highgpu-1g", 3.67, 312, 19.5, 1555, 50_000),
    "H100": Card("H100 80 GB", "a3-highgpu-1g", 10.98, 989, 67, 3350, 100_000),
}

TENSORRT = {"A100": 51.61, "T4": 482.84}
"""Mean milliseconds of BERT-large, 24 layers, on 128 texts of 128 tokens in float16.

https://github.com/NVIDIA/TensorRT/blob/007c3470/demo/BERT/README.md#performance
"""

SIZES = (1_000_000, 100_000_000, 10_000_000_000)
"""Pairs, for the tables of RESULTS.md."""

TILES = {"T4": 64}
"""Queries, and keys, of a tile of attention, which is computed whole: 128 but for T4."""

OTHER_WORK = 1.025
"""Matching, and gaps between kernels."""

REQUESTS_A_SPLIT = 5
"""Of S3, to read, score and record a split, and to index it; counted at a server by
tests/pipelines/score/test_requests.py."""
OBJECTS_A_SPLIT = 2
"""Of a finished run: a part, and the digests of its rows. Records are put together at its end."""

ASSUMED_SHARES = {"L4": 0.52, "H100": 0.63}
"""Of the peak, in products, for cards without a table: all that TensorRT reaches of an A100's, its
other work included, for an H100; between that and a T4's for an L4, which 72 W hold down."""


def per_second(bandwidth: float) -> float:
    """Return the bytes a second that passes over memory reach, of a bandwidth in GB/s."""
    return MEMORY_SHARE * bandwidth * 1e9


def tensorrt_share(card: str) -> float:
    """Return the share of a card's peak that TensorRT reaches in its products."""
    texts, tokens = 128, 128
    work = ALL_LAYERS.flops([tokens] * texts)
    passes = TENSORRT_BYTES * ALL_LAYERS.hidden * ALL_LAYERS.layers * texts * tokens
    seconds = TENSORRT[card] / 1e3 - passes / per_second(CARDS[card].bandwidth)
    return work / seconds / (CARDS[card].tflops * 1e12)


def product_share(card: str) -> float:
    """Return the share of a card's peak that products are taken to reach."""
    return tensorrt_share(card) if card in TENSORRT else ASSUMED_SHARES[card]


def token_seconds(card: str) -> tuple[float, float, float]:
    """Return the seconds of a token of roberta-large to layer 17: products, passes, attention."""
    shape, facts = ROBERTA_LARGE, CARDS[card]
    reached = product_share(card) * facts.tflops * 1e12
    products = shape.flops([TOKENS]) / TOKENS / reached
    passes = HALF_BYTES * shape.hidden * shape.layers / per_second(facts.bandwidth)
    tile = TILES.get(card, 128)
    attention = 4 * tile**2 * shape.hidden * shape.layers / TOKENS / reached
    return products, passes, attention


def rate(card: str) -> int:
    """Return pairs a second, rounded to what such a model is worth: 50, or 500 above 5,000."""
    exact = 1 / (2 * TOKENS * OTHER_WORK * sum(token_seconds(card)))
    step = 50 if exact < 5_000 else 500
    return step * round(exact / step)


def peak_share(card: str) -> float:
    """Return useful work as a share of the card's peak."""
    useful = ROBERTA_LARGE.flops([TOKENS]) / TOKENS
    return useful / (OTHER_WORK * sum(token_seconds(card))) / (CARDS[card].tflops * 1e12)


def baseline_hours(card: str) -> float:
    """Return hours for a million pairs through all layers in float32."""
    shape, facts = ALL_LAYERS, CARDS[card]
    products = shape.flops([TOKENS]) / (FLOAT32_SHARE * facts.float32_tflops * 1e12)
    passes = FLOAT32_BYTES * shape.hidden * shape.layers * TOKENS / per_second(facts.bandwidth)
    return 2 * 1_000_000 * (products + passes) / 3600


def hours(pairs: int, card: str) -> float:
    """Return the hours of one card for so many pairs."""
    return pairs / rate(card) / 3600


def duration(given: float) -> str:
    """Return hours for people: minutes below one hour, one decimal below ten."""
    if given < 1:
        minutes = max(1, round(60 * given))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{given:.1f} hours" if given < 10 else f"{given:,.0f} hours"


Columns = dict[str, Callable[..., str]]
"""The columns of a table, by heading: how a cell is worked out from what its row is about."""

_CARDS: Columns = {
    "card": lambda name, card: card.name,
    "machine type": lambda name, card: card.machine,
    "$ an hour": lambda name, card: f"{card.dollars:.2f}",
    "`score`: pairs a second": lambda name, card: f"{rate(name):,}",
    "share of the peak": lambda name, card: f"{peak_share(name):.0%} of {card.tflops:,.0f} TFLOP/s",
    "a split takes": lambda name, card: f"{card.split_rows / rate(name):.0f} s",
    "$ for a million pairs": lambda name, card: f"{hours(1_000_000, name) * card.dollars:.2f}",
    "`baseline`: a million pairs take": lambda name, card: duration(baseline_hours(name)),
    "$": lambda name, card: f"{baseline_hours(name) * card.dollars:.2f}",
}
_ARITHMETIC: Columns = {
    "card": lambda name, card: name,
    "peak, TFLOP/s": lambda name, card: f"{card.tflops:,.0f}",
    "of it in products": lambda name, card: (
        f"{product_share(name):.0%}, {'TensorRT' if name in TENSORRT else 'assumed'}"
    ),
    "memory, GB/s": lambda name, card: f"{card.bandwidth:,.0f}",
    "products, µs a token": lambda name, card: f"{token_seconds(name)[0] * 1e6:.2f}",
    "other passes, µs a token": lambda name, card: f"{token_seconds(name)[1] * 1e6:.2f}",
    "tiles of attention, µs a token": lambda name, card: f"{token_seconds(name)[2] * 1e6:.2f}",
    "pairs a second": lambda name, card: f"{rate(name):,}",
}
_HOURS: Columns = {
    "pairs": lambda pairs, card: f"{pairs:,}",
    "card": lambda pairs, card: card,
    "splits": lambda pairs, card: f"{ceil(pairs / CARDS[card].split_rows):,}",
    "of rows": lambda pairs, card: f"{CARDS[card].split_rows:,}",
    "time on one machine": lambda pairs, card: duration(hours(pairs, card)),
    "machines for 8 hours": lambda pairs, card: f"{ceil(hours(pairs, card) / 8):,}",
}
_REQUESTS: Columns = {
    "pairs": lambda pairs, rows: f"{pairs:,}",
    "rows of a split": lambda pairs, rows: f"{rows:,}",
    "splits": lambda pairs, rows: f"{pairs // rows:,}",
    "requests in S3": lambda pairs, rows: f"{pairs // rows * REQUESTS_A_SPLIT:,}",
    "objects": lambda pairs, rows: f"{pairs // rows * OBJECTS_A_SPLIT:,}",
}


def markdown(columns: Columns, rows: Iterable[tuple[Any, Any]]) -> str:
    """Return a table."""
    cells = [[cell(*row) for cell in columns.values()] for row in rows]
    lines = [list(columns), ["---"] * len(columns), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES = {
    "configs/README.md": markdown(_CARDS, CARDS.items()),
    "tests/benchmarks/RESULTS.md, hours": markdown(_HOURS, product(SIZES, ("L4", "A100", "H100"))),
    "tests/benchmarks/RESULTS.md, requests": markdown(_REQUESTS, product(SIZES, (20_000, 100_000))),
    "tests/benchmarks/RESULTS.md, arithmetic": markdown(_ARITHMETIC, CARDS.items()),
}
"""The tables by the page that has them."""


def roofline(_: Recorder) -> None:
    """What GPUs should reach, worked out and not measured: tables of configs/ and RESULTS.md."""
    for place, table in TABLES.items():
        print(f"{place}\n\n{table}")
