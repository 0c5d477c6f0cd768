"""Part 4: what the device does in one batch, by torch's profiler."""

import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity

from bertscore_core import BertScorer
from bertscore_core.tokens import Work
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks
from tests.benchmarks.texts import mixed

KINDS = {
    "attention": ("flash", "fmha", "attention", "softmax", "sdpa"),
    "product": ("gemm", "cutlass", "matmul", "nvjet", "addmm", "linear", "wgmma", "::mm", "::bmm"),
    "copy": ("memcpy", "memset"),
}
"""Words in the names of kernels, in the order in which they are looked for."""

MOST_IDLE = 0.15
"""Share of the time between the first and the last kernel in which the device may do nothing."""


def run(checks: Checks, given: Given) -> None:
    """Profile roberta-large and MiniLM."""
    count = 20 if given.quick else 2_000
    for model in dict.fromkeys((given.large(), given.minilm())):
        dtype = "float16" if given.on_gpu else "float32"
        with checks.guarded(model.name):
            scorer = given.scorer(model, dtype)
            pairs = mixed(count, mean_tokens=30)
            tokens = scorer.tokenize(pairs.candidates, pairs.references)
            look(checks, given, f"{model.name}, {dtype}", scorer, tokens)


def look(checks: Checks, given: Given, what: str, scorer: BertScorer, tokens: Any) -> None:
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
        checks.skip(f"{what}: kernels, waits and idle time", "no CUDA device was asked for")


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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            started = time.perf_counter()
            scorer.score_tokenized(tokens, weights, work)
            seconds = time.perf_counter() - started
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
        seconds=seconds,
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
