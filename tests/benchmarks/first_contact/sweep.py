"""Part 6: tokens a batch, and each way of saving time switched on and off."""

import time
from functools import partial
from typing import Any
from unittest import mock

import torch

from bertscore_core import BertScorer
from bertscore_core.match import matching_triton
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.rates import best_of
from tests.benchmarks.first_contact.report import Checks
from tests.benchmarks.texts import mixed

BATCH_TOKENS = (2048, 4096, 8192, 16384, 32768, 65536)
TILES = ((64, 2), (32, 2), (64, 4), (32, 4), (64, 1), (32, 1))
"""Features at once and warps of the kernel that matches pairs; the first are those in use."""


def run(checks: Checks, given: Given) -> None:
    """Measure with texts of about 30 tokens."""
    dtype = "float16" if given.on_gpu else "bfloat16"
    model = given.large()
    pairs = mixed(10 if given.quick else 10_000 if given.on_gpu else 300, mean_tokens=30)
    ends = time.monotonic() + given.seconds - 20
    base: dict[str, float] = {}
    for name, options in variants(given):
        if time.monotonic() > ends:
            checks.skip(name, "no time was left")
            continue
        with checks.guarded(name):
            scorer = given.scorer(model, dtype, **options)
            base[name] = measure(checks, name, scorer, pairs, base)
            del scorer
    if not given.on_gpu:
        checks.skip("tiles of the matching kernel", "no CUDA device was asked for")
        return
    for depth, warps in TILES:
        with checks.guarded(f"matching, {depth} features at once, {warps} warps"):
            measure_matching(checks, given, depth, warps)


def variants(given: Given) -> list[tuple[str, dict[str, Any]]]:
    """Return what is tried: its name, and the scorer's options."""
    sizes = BATCH_TOKENS if given.on_gpu else BATCH_TOKENS[:2]
    return [
        ("as by default", {}),
        *((f"{size} tokens a batch", {"max_batch_tokens": size}) for size in sizes),
        ("texts padded", {"attention": "sdpa"}),
    ]


def measure(
    checks: Checks, name: str, scorer: BertScorer, pairs: Any, base: dict[str, float]
) -> float:
    """Measure the rate, the padding and the memory beside the weights; return the rate."""
    on_gpu = torch.cuda.is_available()
    tokens = scorer.tokenize(pairs.candidates, pairs.references)
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
        times_default=rate / next(iter(base.values()), rate),
        pairs_per_second=len(pairs) / seconds,
        padding=work.padding,
        batches=work.batches,
        weights_mb=before / 1e6,
        working_mb=(torch.cuda.max_memory_allocated() - before) / 1e6 if on_gpu else None,
    )
    return rate


def measure_matching(checks: Checks, given: Given, depth: int, warps: int) -> None:
    """Time the matching kernel on pairs of 28 and of 512 tokens, hidden size 1024."""
    from tests.benchmarks.first_contact.card import seconds_on_device

    tile = {**matching_triton._TILE, "depth": depth}
    with (
        mock.patch.object(matching_triton, "_TILE", tile),
        mock.patch.object(matching_triton, "_WARPS", warps),
    ):
        for tokens, pairs in ((28, 20_000), (512, 400)):
            count = 2 * tokens * pairs
            vectors = torch.nn.functional.normalize(
                torch.randn(count, 1024, device=given.device), dim=1
            )
            weights = torch.ones(count, device=given.device)
            starts = torch.arange(pairs, device=given.device) * 2 * tokens
            lengths = torch.full_like(starts, tokens)
            match = partial(
                matching_triton.greedy_match_ragged,
                *(vectors, weights, starts, lengths, starts + tokens, lengths),
                longest=tokens,
            )
            seconds = seconds_on_device(match, repeats=3)
            checks.note(
                f"matching, {depth} features at once, {warps} warps, {tokens} tokens",
                tflops=2 * 1024 * tokens**2 * pairs / seconds / 1e12,
                gb_per_second=4 * 1024 * count / seconds / 1e9,
                nanoseconds_per_token=seconds / count * 1e9,
            )
