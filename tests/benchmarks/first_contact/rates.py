"""Part 5: tokens a second of two models at two lengths, beside what a roofline predicts."""

from dataclasses import dataclass
from typing import Any

import torch

from bertscore_core import BertScorer
from bertscore_core.tokens import Work
from tests.benchmarks import gemm
from tests.benchmarks.first_contact.card import seconds_on_device
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks, stopwatch
from tests.benchmarks.harness import Shape
from tests.benchmarks.models import BenchModel
from tests.benchmarks.roofline import HALF_BYTES
from tests.benchmarks.texts import fixed

LENGTHS, QUICK_LENGTHS = (28, 512), (12, 28)

REACHED = 0.8
"""Share of the largest product's rate that an encoder's products reach."""

LEAST = 0.5
"""Share of the prediction below which something must be wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the device does at best: FLOP/s of a product, and bytes/s read and written."""

    flops: float
    bytes: float

    def tokens_per_second(self, shape: Shape, tokens: int) -> float:
        """Predict the rate: products and memory traffic, one after the other."""
        computing = shape.flops([tokens]) / tokens / (REACHED * self.flops)
        moving = shape.layers * HALF_BYTES * shape.hidden / self.bytes
        return 1 / (computing + moving)


def run(checks: Checks, given: Given) -> None:
    """Measure the rates in the formats that a job would use."""
    for dtype in [name for name in given.dtypes() if not given.on_gpu or name != "bfloat16"]:
        limits = measure_limits(given, dtype)
        for model in dict.fromkeys((given.large(), given.minilm())):
            what = f"{model.name}, {dtype}"
            with checks.guarded(what):
                scorer = given.scorer(model, dtype)
                for tokens in QUICK_LENGTHS if given.quick else LENGTHS:
                    look(checks, given, what, scorer, model, tokens, limits)
                del scorer


def measure_limits(given: Given, dtype: str) -> Limits:
    """Measure the device's product in a format, and its copies."""
    kind = "cuda" if given.on_gpu else "cpu"
    peak = gemm.measure(dtype, kind, seconds=0.05 if given.quick else 0.5).best
    size = (1 << 30) if given.on_gpu else (1 << 26)
    there = torch.empty(size, dtype=torch.uint8, device=given.device)
    other = torch.empty_like(there)
    if given.on_gpu:
        return Limits(peak, 2 * size / seconds_on_device(lambda: other.copy_(there)))
    with stopwatch() as taken:
        other.copy_(there)
    return Limits(peak, 2 * size / taken[0])


def look(
    checks: Checks,
    given: Given,
    what: str,
    scorer: BertScorer,
    model: BenchModel,
    tokens: int,
    limits: Limits,
) -> None:
    """Measure one model at one length."""
    budget = tokens_to_encode(given, scorer.config.dtype, model.shape)
    pairs = fixed(max(budget // tokens // 2, 2), tokens)
    seconds, work = best_of(scorer, scorer.tokenize(pairs.candidates, pairs.references), 2)
    rate = work.tokens / seconds
    predicted = limits.tokens_per_second(model.shape, tokens)
    useful = model.shape.flops([tokens]) / tokens * rate
    figures: dict[str, Any] = {
        "tokens_per_second": rate,
        "predicted": predicted,
        "share_of_peak": useful / limits.flops,
        "mean_tokens": work.tokens / (2 * len(pairs)),
        "pairs_per_second": len(pairs) / seconds,
        "padding": work.padding,
    }
    name = f"{what}, {tokens} tokens"
    if given.on_gpu and not given.quick:
        share = rate / predicted
        why = f"{share:.0%} of the prediction; expected at least {LEAST:.0%}"
        checks.check(name, share >= LEAST, why, **figures)
    else:
        checks.note(name, **figures)


def tokens_to_encode(given: Given, dtype: str, shape: Shape) -> int:
    """Return how many tokens take about a second; to make millions of words takes long."""
    if not given.on_gpu:
        return 500 if given.quick else 20_000
    tokens = 1_000_000 if shape.hidden > 512 else 2_000_000
    return tokens // 6 if dtype == "float32" else tokens


def best_of(scorer: BertScorer, tokens: Any, rounds: int) -> tuple[float, Work]:
    """Score pairs that are tokenised, once unseen and then some times; return the best."""
    weights = scorer.token_weights(None)
    found: list[tuple[float, Work]] = []
    for _ in range(rounds + 1):
        work = Work()
        with stopwatch() as taken:
            scorer.score_tokenized(tokens, weights, work)  # it ends with the scores on the host
        found.append((taken[0], work))
    return min(found[1:], key=lambda item: item[0])
