"""Parts 4, 5, 6 and 9: kernels of a batch, rates and their predictions, ways to save time."""

import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity

from bertscore_core import BertScorer
from bertscore_core.model import LastLayer, PackedBatch, load_encoder, packed_forward
from bertscore_core.tokens import Work
from tests.benchmarks import gemm
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks, stopwatch
from tests.benchmarks.first_contact.works import seconds_on_device
from tests.benchmarks.harness import Shape
from tests.benchmarks.models import BenchModel
from tests.benchmarks.roofline import HALF_BYTES
from tests.benchmarks.texts import Pairs, fixed, mixed

KINDS = {
    "attention": ("flash", "fmha", "attention", "softmax", "sdpa"),
    "product": ("gemm", "cutlass", "matmul", "nvjet", "addmm", "linear", "wgmma", "::mm", "::bmm"),
    "copy": ("memcpy", "memset"),
}
"""Words in the names of kernels, in the order in which they are looked for."""

MOST_IDLE = 0.15
"""Share of the time between the first and the last kernel in which the device may do nothing."""

LENGTHS, QUICK_LENGTHS = (28, 512), (12, 28)

REACHED = 0.8
"""Share of the largest product's rate that an encoder's products reach."""

LEAST = 0.5
"""Share of the prediction below which something must be wrong."""

BATCH_TOKENS = (2048, 4096, 8192, 16384, 32768, 65536)

TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
"""How far F1 of the compiled forward pass may move."""


def profiled(checks: Checks, given: Given) -> None:
    """Profile roberta-large and MiniLM."""
    for model in dict.fromkeys((given.large(), given.minilm())):
        dtype = "float16" if given.on_gpu else "float32"
        with checks.guarded(model.name):
            scorer = given.scorer(model, dtype)
            tokens = scorer.tokenize(*mixed(20 if given.quick else 2_000, mean_tokens=30).sides)
            profile_one(checks, given, f"{model.name}, {dtype}", scorer, tokens)


def profile_one(checks: Checks, given: Given, what: str, scorer: BertScorer, tokens: Any) -> None:
    """Profile the scoring of pairs that are tokenised already."""
    weights = scorer.token_weights(None)
    scorer.score_tokenized(tokens, weights)  # what is done once is done
    # Of a GPU the kernels alone: to record what the host does would slow the host.
    activity = ProfilerActivity.CUDA if given.on_gpu else ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profile:
        scorer.score_tokenized(tokens, weights)
    events = profile.events()
    if given.on_gpu:
        report_kernels(checks, what, events)
        count_waits(checks, what, scorer, tokens)
    else:
        checks.note(
            f"{what}: operators",
            operators=len(events),
            casts=sum(event.name == "aten::_to_copy" for event in events),
            share_by_kind=shares({event.name: event.self_cpu_time_total for event in events}),
        )
        checks.without_gpu(f"{what}: kernels, waits and idle time")


def report_kernels(checks: Checks, what: str, events: Any) -> None:
    """Report the kernels, their shares of time, and the time with none."""
    kernels = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    spans = np.array(sorted((event.time_range.start, event.time_range.end) for event in kernels))
    times: dict[str, float] = defaultdict(float)
    for event in kernels:
        times[event.name] += event.time_range.end - event.time_range.start
    attention = sorted(name[:100] for name in times if kind_of(name) == "attention")
    by_time = sorted(times, key=lambda name: -times[name])[:8]
    checks.note(
        f"{what}: kernels",
        kernels=len(kernels),
        share_by_kind=shares(times),
        attention_kernels=attention,
        longest={name[:80]: round(times[name] / sum(times.values()), 4) for name in by_time},
    )
    # Kernels of several streams may overlap: only what lies beyond all before counts as a gap.
    ends = np.maximum.accumulate(spans[:, 1])
    idle = float(np.maximum(spans[1:, 0] - ends[:-1], 0).sum() / (ends[-1] - spans[0, 0]))
    checks.check(
        f"{what}: the device is kept busy",
        idle <= MOST_IDLE,
        f"idle {idle:.1%} of the time; expected at most {MOST_IDLE:.0%}",
        idle=idle,
    )


def count_waits(checks: Checks, what: str, scorer: BertScorer, tokens: Any) -> None:
    """Count how often the host waits for the device, batches and transfers of results apart."""
    weights, work = scorer.token_weights(None), Work()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught, stopwatch() as taken:
            warnings.simplefilter("always")
            scorer.score_tokenized(tokens, weights, work)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = [f"{item.filename.rpartition('/')[2]}:{item.lineno}" for item in caught]
    checks.check(
        f"{what}: the host waits less than once a batch",
        len(places) < max(work.batches, 2),
        f"{len(places)} waits in {work.batches} batches",
        waits=len(places),
        places=sorted(set(places)),
        batches=work.batches,
        seconds=taken[0],
    )


def kind_of(name: str) -> str:
    """Sort a kernel or operator by its name."""
    low = name.lower()
    return next((kind for kind, words in KINDS.items() if any(w in low for w in words)), "other")


def shares(times: dict[str, float]) -> dict[str, float]:
    """Return each kind's share of the time."""
    total = sum(times.values()) or 1.0
    found: dict[str, float] = defaultdict(float)
    for name, taken in times.items():
        found[kind_of(name)] += taken / total
    return {kind: round(share, 4) for kind, share in found.items()}


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


def rates(checks: Checks, given: Given) -> None:
    """Measure tokens a second of two models at two lengths, beside what a roofline predicts."""
    for dtype in [name for name in given.dtypes() if not given.on_gpu or name != "bfloat16"]:
        limits = measure_limits(given, dtype)
        for model in dict.fromkeys((given.large(), given.minilm())):
            what = f"{model.name}, {dtype}"
            with checks.guarded(what):
                scorer = given.scorer(model, dtype)
                for tokens in QUICK_LENGTHS if given.quick else LENGTHS:
                    measure_rate(checks, given, what, scorer, model, tokens, limits)
                del scorer


def measure_limits(given: Given, dtype: str) -> Limits:
    """Measure the device's product in a format, and its copies."""
    peak = gemm.measure(dtype, given.kind, seconds=0.05 if given.quick else 0.5).best
    size = (1 << 30) if given.on_gpu else (1 << 26)
    there = torch.empty(size, dtype=torch.uint8, device=given.device)
    other = torch.empty_like(there)
    if given.on_gpu:
        return Limits(peak, 2 * size / seconds_on_device(lambda: other.copy_(there)))
    with stopwatch() as taken:
        other.copy_(there)
    return Limits(peak, 2 * size / taken[0])


def measure_rate(
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
    seconds, work = best_of(scorer, scorer.tokenize(*pairs.sides), 2)
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


def some_pairs(given: Given) -> Pairs:
    """Return pairs of texts of about 30 tokens."""
    return mixed(10 if given.quick else 10_000 if given.on_gpu else 300, mean_tokens=30)


def sweep(checks: Checks, given: Given) -> None:
    """Measure tokens a batch, and each way of saving time switched on and off."""
    dtype = "float16" if given.on_gpu else "bfloat16"
    model, pairs = given.large(), some_pairs(given)
    ends = time.monotonic() + given.seconds - 20
    sizes = BATCH_TOKENS if given.on_gpu else BATCH_TOKENS[:2]
    variants: dict[str, dict[str, Any]] = {
        "as by default": {},
        **{f"{size} tokens a batch": {"max_batch_tokens": size} for size in sizes},
        "texts padded": {"attention": "sdpa"},
    }
    default = 0.0
    for name, options in variants.items():
        if time.monotonic() > ends:
            checks.skip(name, "no time was left")
            continue
        with checks.guarded(name):
            scorer = given.scorer(model, dtype, **options)
            rate = measure_variant(checks, name, scorer, pairs, default)
            default = default or rate
            del scorer


def measure_variant(
    checks: Checks, name: str, scorer: BertScorer, pairs: Pairs, default: float
) -> float:
    """Measure the rate, the padding and the memory beside the weights; return the rate."""
    on_gpu = torch.cuda.is_available()
    tokens = scorer.tokenize(*pairs.sides)
    before = 0
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    seconds, work = best_of(scorer, tokens, 2)
    rate = work.tokens / seconds
    checks.note(
        name,
        tokens_per_second=rate,
        times_default=rate / (default or rate),
        pairs_per_second=len(pairs) / seconds,
        padding=work.padding,
        batches=work.batches,
        weights_mb=before / 1e6,
        working_mb=(torch.cuda.max_memory_allocated() - before) / 1e6 if on_gpu else None,
    )
    return rate


class OneShape:
    """Compiles a forward pass, and fills every batch up to the same number of tokens.

    The number of texts, and the tokens of the longest, are rounded up to powers of two.
    """

    def __init__(self, scorer: BertScorer, backend: str) -> None:
        forward = packed_forward(LastLayer(scorer.encoder.model))

        def on_tensors(ids: Tensor, positions: Tensor, ends: Tensor, longest: int) -> Tensor:
            return forward(PackedBatch(ids=ids, positions=positions, ends=ends, longest=longest))

        self._compiled = torch.compile(on_tensors, dynamic=False, backend=backend)
        self._tokens = 0
        self.shapes: set[tuple[int, ...]] = set()

    @torch.inference_mode()
    def __call__(self, batch: PackedBatch) -> Tensor:
        """Encode a batch; the hidden states of the first, which must be the largest, and more."""
        self._tokens = max(self._tokens, batch.ids.shape[1])
        missing = self._tokens - batch.ids.shape[1]
        ids, positions = (
            nn.functional.pad(rows, (0, missing)) for rows in (batch.ids, batch.positions)
        )
        texts = 1 << (len(batch.ends) - 1).bit_length()
        ends = torch.cat([batch.ends, batch.ends[-1:].expand(texts + 1 - len(batch.ends))])
        longest = 1 << (batch.longest - 1).bit_length()
        self.shapes.add((self._tokens, texts, longest))
        hidden: Tensor = self._compiled(ids, positions, ends, longest)
        return hidden


def compiled(checks: Checks, given: Given) -> None:
    """Compare rates and scores with torch.compile on one shape and without.

    The last part, since nobody knows how long compiling takes.
    """
    dtype = "float16" if given.on_gpu else "float32"
    scorer = given.scorer(given.large(), dtype)
    if scorer.encoder.packing is None:  # a CPU pads by default
        settings = scorer.settings
        scorer.encoder = load_encoder(settings.files, replace(settings.encoder_options, packs=True))
    tokens = scorer.tokenize(*some_pairs(given).sides)
    weights = scorer.token_weights(None)
    expected = scorer.score_tokenized(tokens, weights).f1
    seconds, work = best_of(scorer, tokens, 2)
    forward = OneShape(scorer, "inductor" if given.on_gpu else "eager")
    scorer.encoder = replace(scorer.encoder, forward=partial(partial, forward))
    with stopwatch() as compiling:
        found = scorer.score_tokenized(tokens, weights).f1
    faster, _ = best_of(scorer, tokens, 2)
    apart = float(np.abs(found - expected).max())
    checks.check(
        f"torch.compile, {dtype}",
        apart <= TOLERANCES[dtype],
        f"F1 differs by at most {apart:.2g}; expected {TOLERANCES[dtype]:g}",
        tokens_per_second=work.tokens / faster,
        times_default=seconds / faster,
        compiling_seconds=compiling[0],
        shapes=sorted(forward.shapes),
    )
