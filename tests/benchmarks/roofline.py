"""What GPUs should reach, worked out: the one model behind `rates` and the tables of two pages.

    python -m tests.benchmarks roofline

The time of a token is the sum of the times of its kernels: matrix products, attention, sums and
norms, GELU, matching. Each takes the time of its bytes at a share of what a copy reaches, and time
on the multiprocessors, which is scaled to other cards by their number and clock. So the share of
the bandwidth depends on the width. The figures of the kernels come from tables of single kernels of
an H200 (2026-11-26). `MEASURED` is what the model is held to.

Left out: waiting for the host, which is too slow for MiniLM; embeddings of tokens; batches below
8,192 tokens. Tests compare the tables that this prints with the pages.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from tests.benchmarks.harness import Recorder, Shape
from tests.benchmarks.models import SHAPES

ROBERTA_LARGE, MINILM = SHAPES["roberta-large"], SHAPES["embedded"]
ALL_LAYERS = Shape(layers=24, hidden=1024, inner=4096, heads=16)
TOKENS = 28
"""Tokens of a text, its special ones included; a pair has two texts."""

TORCH: Set[str] = frozenset()
OWN: Set[str] = frozenset({"attention", "norms", "matching"})
"""Kernels of this project in use: in 16 bits attention of texts up to 128 tokens, and a norm with
the sum before it, in place of torch's; and matching as it is since 2026-11-26."""

CLOCK = 1.98
"""Highest clock of the H200's multiprocessors, GHz."""
REFERENCE_CYCLES = 132 * CLOCK
"""Of all of them. All nanoseconds below are the H200's."""
PASS_SHARE = 0.91
"""Of the bytes a second of a copy: what wide sums of two tensors reach."""
PRODUCT_BYTES = 0.61
"""Of the time that the bytes of products take: what their arithmetic does not hide."""

# Nanoseconds beside the bytes, of a token or one of its elements: a sum and its norm, by torch's
# two kernels or by one of our own; GELU.
NORM, NORM_ELEMENT = 1.52, 0.00073
OWN_NORM = 0.1
GELU_ELEMENT = 0.00037

# The same of a token in the own attention, and of its tiles, which are computed whole: one of 64
# tokens, others in proportion to their operations.
OWN_ATTENTION, OWN_TILE = 0.43, 2.1
OWN_SIDES = (16, 32, 64, 128)

MATCHING, OWN_MATCHING = 310.0, 65.0
"""Nanoseconds of a tile of 32 x 32 tokens with 1,024 features, its bytes included."""


class Tiles(NamedTuple):
    """An attention kernel of torch, which computes whole tiles, however short a text is.

    Attributes:
        side: Queries, and keys, of a tile.
        start: Nanoseconds of a tile's queries.
        step: Nanoseconds of every tile of keys for them.
    """

    side: int
    start: float
    step: float


FLASH = Tiles(side=128, start=3.9, step=14.1)
EFFICIENT = Tiles(side=64, start=0.85, step=7.55)
"""The memory-efficient kernel: float32, and a T4."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device reaches at most.

    Attributes:
        products: FLOP/s of a large matrix product in the number format.
        copies: Bytes a second that a copy inside its memory reads and writes.
        cycles: Multiprocessors times their clock in GHz; infinite if only bytes and products count.
        flash: Whether it is an Ampere or later, which flash attention and our own kernels need.
    """

    products: float
    copies: float
    cycles: float
    flash: bool = True


COPY_SHARE = 4.26 / 4.8
"""Of a memory's bandwidth: what a copy reached on the H200."""


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU; peaks as in NVIDIA's data sheets, without sparsity.

    Attributes:
        tflops: Peak of products in bfloat16 (T4: float16), TFLOP/s.
        share: Of that peak, in a large product.
        basis: Where the share comes from. For A100 and T4 it is what TensorRT leaves for products
            in NVIDIA's tables (see RESULTS.md); an L4's lies between, since 72 W hold it down.
        float32_tflops: What a large product reaches outside the tensor cores, TFLOP/s; half of the
            peak where nothing was measured.
        bandwidth: Of its memory, GB/s.
        cycles: As in `Limits`.
        flash: As in `Limits`.
    """

    tflops: float
    share: float
    basis: str
    float32_tflops: float
    bandwidth: float
    cycles: float
    flash: bool = True

    def limits(self, dtype: str = "float16") -> Limits:
        """Return what the card reaches in a number format."""
        tflops = self.float32_tflops if dtype == "float32" else self.share * self.tflops
        copies = COPY_SHARE * self.bandwidth * 1e9
        return Limits(tflops * 1e12, copies, self.cycles, self.flash)


# An H100 has the chip of an H200, and slower memory.
CARDS = {
    "T4": Card(65, 0.36, "TensorRT", 8.1 / 2, 320, 40 * 1.59, flash=False),
    "L4": Card(121, 0.52, "assumed", 30.3 / 2, 300, 58 * 2.04),
    "A100": Card(312, 0.80, "TensorRT", 19.5 / 2, 1555, 108 * 1.41),
    "H100": Card(989, 0.731, "an H200's", 51, 3350, REFERENCE_CYCLES),
    "H200": Card(989, 0.731, "measured", 51, 4800, REFERENCE_CYCLES),
}


class Machine(NamedTuple):
    """A machine of Google Cloud with one GPU.

    Attributes:
        card: As people call it.
        kind: Machine type.
        dollars: For an hour, the list price in us-central1 in September 2026.
        split_rows: `--split-rows` in the flags of the card.
    """

    card: str
    kind: str
    dollars: float
    split_rows: int


MACHINES = {
    "T4": Machine("T4", "n1-standard-8 with one T4", 0.73, 20_000),
    "L4": Machine("L4", "g2-standard-8", 0.85, 20_000),
    "A100": Machine("A100 40 GB", "a2-highgpu-1g", 3.67, 50_000),
    "H100": Machine("H100 80 GB", "a3-highgpu-1g", 10.98, 100_000),
}

SIZES = (1_000_000, 100_000_000, 10_000_000_000)
"""Pairs, for the tables of RESULTS.md."""
REQUESTS_A_SPLIT = 5
"""Of S3, to read, score and record a split, and to index it; counted at a server by
tests/pipelines/score/test_requests.py."""
OBJECTS_A_SPLIT = 2
"""Of a finished run: a part, and the digests of its rows. Records are put together at its end."""


def token_seconds(
    shape: Shape, tokens: int, limits: Limits, *, dtype: str = "float16", own: Set[str] = OWN
) -> dict[str, float]:
    """Return the seconds of a token in all layers, by kernel, and those of its matching.

    Args:
        shape: The model up to the layer that is scored.
        tokens: Of every text, special ones included.
        limits: What the device reaches in the number format.
        dtype: The number format of the encoder.
        own: The kernels of this project that are in use.
    """
    hidden, inner, size = shape.hidden, shape.inner, 4 if dtype == "float32" else 2
    clock = 1e-9 * REFERENCE_CYCLES / limits.cycles
    has_own = size == 2 and limits.flash

    def kernel(nanoseconds: float, elements: float) -> float:
        return nanoseconds * clock + elements * size / (PASS_SHARE * limits.copies)

    # The three products of a hidden state read it and write one each, and so does that behind
    # attention; those of the feed-forward block read and write both lengths.
    moved = (10 * hidden + 2 * inner) * size / limits.copies
    if "norms" in own and has_own:
        norms = 2 * kernel(OWN_NORM, 3 * hidden)
    else:
        norms = 2 * kernel(NORM + NORM_ELEMENT * hidden, 5 * hidden)
    if "attention" in own and has_own and tokens <= OWN_SIDES[-1]:
        side = next(side for side in OWN_SIDES if tokens <= side)
        tiles_of_token = shape.heads * OWN_TILE * (side / 64) ** 2 / tokens
        attention = kernel(max(OWN_ATTENTION, tiles_of_token), 4 * hidden)
    else:
        tiles = FLASH if has_own else EFFICIENT
        count, operations = ceil(tokens / tiles.side), 4 * tiles.side**2 * hidden / shape.heads
        # No tile is faster than its products.
        step = max(tiles.step * clock, operations / limits.products)
        rows = shape.heads * count * (tiles.start * clock + count * step) / tokens
        attention = rows + kernel(0, 4 * hidden)
    matching = OWN_MATCHING if "matching" in own and limits.flash else MATCHING
    layer = {
        "products": shape.linear / limits.products + PRODUCT_BYTES * moved,
        "attention": attention,
        "norms": norms,
        "GELU": kernel(GELU_ELEMENT * inner, 2 * inner),
    }
    return {
        **{name: shape.layers * seconds for name, seconds in layer.items()},
        "matching": matching * clock * hidden / 1024 * ceil(tokens / 32) ** 2 / (2 * tokens),
    }


def rates(shape: Shape, tokens: int, limits: Limits, dtype: str) -> dict[str, float]:
    """Return tokens a second with this project's kernels, and with torch's."""
    return {
        name: 1 / sum(token_seconds(shape, tokens, limits, dtype=dtype, own=own).values())
        for name, own in (("predicted", OWN), ("predicted_by_torch", TORCH))
    }


def pairs_per_second(
    card: str,
    shape: Shape = ROBERTA_LARGE,
    tokens: int = TOKENS,
    *,
    dtype: str = "float16",
    own: Set[str] = OWN,
    matched: bool = True,
) -> float:
    """Return the pairs of two texts that a card scores in a second, or only encodes."""
    seconds = token_seconds(shape, tokens, CARDS[card].limits(dtype), dtype=dtype, own=own)
    return 1 / (2 * tokens * sum(seconds.values() if matched else list(seconds.values())[:-1]))


def rate(card: str, own: Set[str] = OWN) -> int:
    """Return pairs a second, rounded to what such a model is worth: 50, or 500 above 5,000."""
    exact = pairs_per_second(card, own=own)
    step = 50 if exact < 5_000 else 500
    return step * round(exact / step)


def peak_share(card: str) -> float:
    """Return useful work as a share of the card's peak."""
    useful = ROBERTA_LARGE.flops([TOKENS] * 2)
    return useful * pairs_per_second(card) / (CARDS[card].tflops * 1e12)


def baseline_hours(card: str) -> float:
    """Return hours for a million pairs through all layers in float32."""
    return 1_000_000 / pairs_per_second(card, ALL_LAYERS, dtype="float32") / 3600


_ENCODER, _MINILM, _OWN = {"matched": False}, {"shape": MINILM}, {"own": OWN}
_ATTENTION = {"matched": False, "own": frozenset({"attention"})}
_BOTH = {"matched": False, "own": frozenset({"attention", "norms"})}

MEASURED: dict[str, tuple[int, dict[str, Any]]] = {
    "roberta-large, float32, 28 tokens": (1_869, _OWN | {"dtype": "float32"}),
    "roberta-large, float32, 512 tokens": (94, _OWN | {"dtype": "float32", "tokens": 512}),
    "roberta-large, 28 tokens, torch": (14_608, {}),
    "roberta-large, 28 tokens, own": (17_810, _OWN),
    "roberta-large, 512 tokens, torch": (800, {"tokens": 512}),
    "roberta-large, 512 tokens, own": (899, _OWN | {"tokens": 512}),
    "MiniLM, 28 tokens, torch": (94_763, _MINILM),
    "MiniLM, 28 tokens, own": (132_187, _MINILM | _OWN),
    "MiniLM, 512 tokens, torch": (5_657, _MINILM | {"tokens": 512}),
    "MiniLM, 512 tokens, own": (4_272, _MINILM | _OWN | {"tokens": 512}),
    "roberta-large's encoder, torch": (15_543, _ENCODER),
    "roberta-large's encoder, own": (19_313, _BOTH),
    "roberta-large's encoder, own, bfloat16": (20_093, _BOTH | {"dtype": "bfloat16"}),
    "MiniLM's encoder, torch": (129_310, _MINILM | _ENCODER),
    "MiniLM's encoder, own": (243_196, _MINILM | _BOTH),
    "trial: roberta-large's encoder, own attention": (18_410, _ATTENTION),
    "trial: the same, own norms too": (19_905, _BOTH),
    "trial: MiniLM's encoder, own attention": (187_000, _MINILM | _ATTENTION),
    "trial: MiniLM's, own norms too": (227_000, _MINILM | _BOTH),
}
"""Pairs a second of an H200, and what the model is asked; where it does not say, of torch's kernels
in float16 at 28 tokens."""


def error(what: str) -> float:
    """Return by which share the model is above what was measured."""
    pairs, asked = MEASURED[what]
    return pairs_per_second("H200", **{"own": TORCH, **asked}) / pairs - 1


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


def _microseconds(*kernels: str) -> Callable[[str, Card], str]:
    def cell(name: str, card: Card) -> str:
        seconds = token_seconds(ROBERTA_LARGE, TOKENS, card.limits())
        return f"{1e6 * sum(seconds[kernel] for kernel in kernels):.2f}"

    return cell


_MACHINES: Columns = {
    "card": lambda name, machine: machine.card,
    "machine type": lambda name, machine: machine.kind,
    "$ an hour": lambda name, machine: f"{machine.dollars:.2f}",
    "`score`: pairs a second": lambda name, machine: f"{rate(name):,}",
    "share of the peak": lambda name, machine: (
        f"{peak_share(name):.0%} of {CARDS[name].tflops:,.0f} TFLOP/s"
    ),
    "a split takes": lambda name, machine: f"{machine.split_rows / rate(name):.0f} s",
    "$ for a million pairs": lambda name, machine: (
        f"{hours(1_000_000, name) * machine.dollars:.2f}"
    ),
    "`baseline`: a million pairs take": lambda name, machine: duration(baseline_hours(name)),
    "$": lambda name, machine: f"{baseline_hours(name) * machine.dollars:.2f}",
}
_ARITHMETIC: Columns = {
    "card": lambda name, card: name,
    "peak, TFLOP/s": lambda name, card: f"{card.tflops:,.0f}",
    "of it in products": lambda name, card: f"{card.share:.0%}, {card.basis}",
    "memory, GB/s": lambda name, card: f"{card.bandwidth:,.0f}",
    "products, µs a token": _microseconds("products"),
    "attention": _microseconds("attention"),
    "sums, norms, GELU, matching": _microseconds("norms", "GELU", "matching"),
    "pairs a second": lambda name, card: f"{rate(name):,}",
    "with torch's kernels": lambda name, card: f"{rate(name, TORCH):,}",
}
_ERRORS: Columns = {
    "pairs a second of an H200": lambda what, pairs: what,
    "measured": lambda what, pairs: f"{pairs:,}",
    "by the model": lambda what, pairs: f"{pairs * (1 + error(what)):,.0f}",
    "error": lambda what, pairs: f"{error(what):+.0%}",
}
_HOURS: Columns = {
    "pairs": lambda pairs, card: f"{pairs:,}",
    "card": lambda pairs, card: card,
    "splits": lambda pairs, card: f"{ceil(pairs / MACHINES[card].split_rows):,}",
    "of rows": lambda pairs, card: f"{MACHINES[card].split_rows:,}",
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
    "configs/README.md": markdown(_MACHINES, MACHINES.items()),
    "tests/benchmarks/RESULTS.md, errors": markdown(
        _ERRORS, ((what, pairs) for what, (pairs, _) in MEASURED.items())
    ),
    "tests/benchmarks/RESULTS.md, arithmetic": markdown(_ARITHMETIC, CARDS.items()),
    "tests/benchmarks/RESULTS.md, hours": markdown(_HOURS, product(SIZES, ("L4", "A100", "H100"))),
    "tests/benchmarks/RESULTS.md, requests": markdown(_REQUESTS, product(SIZES, (20_000, 100_000))),
}
"""The tables by the page that has them."""


def roofline(_: Recorder) -> None:
    """What GPUs should reach, worked out: tables of configs/ and RESULTS.md."""
    for place, table in TABLES.items():
        print(f"{place}\n\n{table}")
