"""The card, the kernels of a batch, rates, ways to save time."""

import re
import shutil
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity
from torch.utils.benchmark import Timer

from bertscore_core import BertScorer
from bertscore_core.tokens import TokenizedPairs
from bertscore_core.work import Work
from tests.benchmarks import gemm
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.harness import Recorder, Shape
from tests.benchmarks.texts import Pairs, fixed, mixed

_QUERY = "name,driver_version,memory.total,clocks.max.sm,power.limit"

KINDS = {
    "attention": ("flash", "fmha", "attend", "attention", "softmax", "sdpa"),
    "product": ("gemm", "cutlass", "matmul", "nvjet", "addmm", "linear", "wgmma", "::mm", "::bmm"),
    "copy": ("memcpy", "memset"),
}
"""Words in the names of kernels, in the order in which they are looked for."""

MOST_IDLE = 0.15
"""Share of the time between the first and the last kernel in which the device may do nothing."""

LEAST, LEAST_WAITING = 0.45, 0.06
"""Share of what large products reach below which something must be wrong: of roberta-large, for
which an H200 reached 0.57 and more, and of MiniLM, where the device waits for the host."""

BATCH_TOKENS = (2048, 4096, 8192, 16384, 32768, 65536)


def card(recorder: Recorder, given: Given) -> None:
    """Look at the card, and measure its matrix products and copies."""
    if given.on_gpu:
        built = torch.cuda.get_arch_list()
        fits = is_built_for(torch.cuda.get_device_capability(), built)
        why = f"built for {' '.join(built)}"
        recorder.check("a CUDA device that torch was built for", fits, why, **device_facts())
        exact = not torch.backends.cuda.matmul.allow_tf32
        recorder.check("products of float32 are exact by default", exact)
    else:
        recorder.skip("the card")
    for dtype in dict.fromkeys(("float32", "bfloat16", given.half)):
        with recorder.guarded(f"product, {dtype}"):
            peak = gemm.measure(dtype, given.device, seconds=0.05 if given.quick else 1.0)
            recorder.add(what=f"product, {dtype}", tflops=peak / 1e12)
    if not given.on_gpu:
        recorder.skip("copies to and from the card")
        return
    with recorder.guarded("copies"):
        size = (1 << 24) if given.quick else (1 << 30)
        there = torch.empty(size // 4, dtype=torch.uint8, device=given.device)
        plain = torch.empty(size // 4, dtype=torch.uint8)
        pinned = plain.pin_memory()
        # Inside the device a byte is read and written.
        recorder.add(what="copy inside the device", gb_per_second=copied(given, size) / 1e9)
        for what, action in {
            "pinned memory to the device": lambda: there.copy_(pinned, non_blocking=True),
            "the device to pinned memory": lambda: pinned.copy_(there, non_blocking=True),
            "plain memory to the device": lambda: there.copy_(plain),
        }.items():
            rate = size / 4 / seconds_of(action)
            recorder.add(what=f"copy from {what}", gb_per_second=rate / 1e9)


def is_built_for(capability: tuple[int, int], built: list[str]) -> bool:
    """Tell whether code was built for a device: for its generation, and not for a later member."""
    found = [match for name in built if (match := re.fullmatch(r"sm_(\d+)(\d)[a-z]?", name))]
    return any(int(one[1]) == capability[0] and int(one[2]) <= capability[1] for one in found)


def device_facts() -> dict[str, Any]:
    """Return what torch and the driver say of the device."""
    found = torch.cuda.get_device_properties(0)
    facts: dict[str, Any] = {
        "name": found.name,
        "architecture": f"sm_{found.major}{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory_gb": found.total_memory / 1e9,
        "l2_mb": getattr(found, "L2_cache_size", 0) / 1e6,
        "torch_cuda": torch.version.cuda,
    }
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        facts["nvidia_smi"] = done.stdout.strip()
    return facts


def seconds_of(action: Callable[[], Any]) -> float:
    """Return the seconds of one call of ten, the device waited for before and after all of them."""
    timer = Timer("action()", globals={"action": action}, num_threads=torch.get_num_threads())
    return float(timer.timeit(10).mean)


def copied(given: Given, size: int) -> float:
    """Return the bytes a second that a copy inside the device reads and writes."""
    there = torch.empty(size, dtype=torch.uint8, device=given.device)
    other = torch.empty_like(there)
    return 2 * size / seconds_of(lambda: other.copy_(there))


def profiled(recorder: Recorder, given: Given) -> None:
    """Profile roberta-large and MiniLM."""
    for model in dict.fromkeys((given.large(), given.minilm())):
        what = f"{model.name}, {given.half}"
        with recorder.guarded(what):
            scorer = given.scorer(model, given.half)
            tokens = scorer.tokenize(*mixed(20 if given.quick else 2_000, mean_tokens=30))
            weights = scorer.token_weights(None)
            scorer.score_tokenized(tokens, weights)  # what is done once is done
            if not given.on_gpu:
                recorder.skip(f"{what}: kernels, waits and idle time")
                continue
            # The kernels alone: to record what the host does would slow the host.
            with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profile:
                scorer.score_tokenized(tokens, weights)
            report_kernels(recorder, what, profile.events())
            count_waits(recorder, what, scorer, tokens)


def report_kernels(recorder: Recorder, what: str, events: Any) -> None:
    """Report the kernels, their shares of time, and the time with none."""
    kernels = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    spans = np.array(sorted((event.time_range.start, event.time_range.end) for event in kernels))
    times: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for event in kernels:
        taken = event.time_range.end - event.time_range.start
        times[event.name] += taken
        kinds[kind_of(event.name)] += taken
    whole = times.total()
    recorder.add(
        what=f"{what}: kernels",
        kernels=len(kernels),
        share_by_kind={kind: round(taken / whole, 4) for kind, taken in kinds.items()},
        attention_kernels=sorted(name[:100] for name in times if kind_of(name) == "attention"),
        longest={name[:80]: round(taken / whole, 4) for name, taken in times.most_common(8)},
    )
    # Kernels of several streams may overlap: only what lies beyond all before counts as a gap.
    ends = np.maximum.accumulate(spans[:, 1])
    idle = float(np.maximum(spans[1:, 0] - ends[:-1], 0).sum() / (ends[-1] - spans[0, 0]))
    why = f"idle {idle:.1%} of the time; expected at most {MOST_IDLE:.0%}"
    recorder.check(f"{what}: the device is kept busy", idle <= MOST_IDLE, why, idle=idle)


def count_waits(recorder: Recorder, what: str, scorer: BertScorer, tokens: TokenizedPairs) -> None:
    """Count how often the host waits for the device, batches and transfers of results apart."""
    weights, work = scorer.token_weights(None), Work()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scorer.score_tokenized(tokens, weights, work)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = sorted({f"{item.filename.rpartition('/')[2]}:{item.lineno}" for item in caught})
    few = len(caught) < max(work.batches, 2)
    why = f"{len(caught)} waits in {work.batches} batches"
    recorder.check(f"{what}: the host waits less than once a batch", few, why, places=places)


def kind_of(name: str) -> str:
    """Sort a kernel by its name."""
    low = name.lower()
    return next((kind for kind, words in KINDS.items() if any(w in low for w in words)), "other")


def rates(recorder: Recorder, given: Given) -> None:
    """Measure tokens a second of two models at two lengths, beside what products reach."""
    for dtype in ("float32", given.half):
        peak = gemm.measure(dtype, given.device, seconds=0.05 if given.quick else 0.5)
        for model in dict.fromkeys((given.large(), given.minilm())):
            shape = model.shape
            with recorder.guarded(f"{model.name}, {dtype}"):
                scorer = given.scorer(model, dtype)
                for tokens in (12, 28) if given.quick else (28, 512):
                    count = tokens_to_encode(given, dtype, shape) // tokens // 2
                    figures = timed(given, scorer, fixed(max(count, 2), tokens))
                    work = shape.flops([tokens]) / tokens * figures["tokens_per_second"]
                    share = figures["share_of_peak"] = work / peak
                    least = LEAST if shape.hidden > 512 else LEAST_WAITING
                    least = least if given.on_gpu and not given.quick else 0.0
                    why = f"{share:.0%} of what products reach; expected at least {least:.0%}"
                    name = f"{model.name}, {dtype}, {tokens} tokens"
                    recorder.check(name, share >= least, why, **figures)
                del scorer


def tokens_to_encode(given: Given, dtype: str, shape: Shape) -> int:
    """Return how many tokens take about a second; to make millions of words takes long."""
    if not given.on_gpu:
        return 500 if given.quick else 20_000
    tokens = 1_000_000 if shape.hidden > 512 else 2_000_000
    return tokens // 6 if dtype == "float32" else tokens


def timed(given: Given, scorer: BertScorer, pairs: Pairs) -> dict[str, Any]:
    """Score pairs that are tokenised, once unseen and then twice; return figures of the best."""
    tokens, weights = scorer.tokenize(*pairs), scorer.token_weights(None)
    before = 0
    if given.on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    found: list[tuple[float, Work]] = []
    for _ in range(3):
        work, started = Work(), time.perf_counter()
        scorer.score_tokenized(tokens, weights, work)  # it ends with the scores on the host
        found.append((time.perf_counter() - started, work))
    seconds, work = min(found[1:], key=lambda item: item[0])
    return {
        "tokens_per_second": work.tokens / seconds,
        "pairs_per_second": len(pairs[0]) / seconds,
        "mean_tokens": work.tokens / (2 * len(pairs[0])),
        "padding": work.padding,
        "batches": work.batches,
        "weights_mb": before / 1e6,
        "working_mb": (torch.cuda.max_memory_allocated() - before) / 1e6 if given.on_gpu else None,
    }


def sweep(recorder: Recorder, given: Given) -> None:
    """Measure tokens a batch, and each way of saving time switched on and off."""
    model = given.large()
    pairs = mixed(10 if given.quick else 10_000 if given.on_gpu else 300, mean_tokens=30)
    ends = time.monotonic() + given.seconds - 20
    variants: dict[str, dict[str, Any]] = {"as by default": {}, "texts padded": {}}
    variants["texts padded"]["attention"] = "sdpa"
    for size in BATCH_TOKENS if given.on_gpu else BATCH_TOKENS[:2]:
        variants[f"{size} tokens a batch"] = {"max_batch_tokens": size}
    for name, options in variants.items():
        if time.monotonic() > ends:
            recorder.skip(name, "no time was left")
            continue
        with recorder.guarded(name):
            scorer = given.scorer(model, given.half, **options)
            recorder.add(what=name, **timed(given, scorer, pairs))
            del scorer
