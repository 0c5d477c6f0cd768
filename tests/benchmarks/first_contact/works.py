"""Parts 1 and 3: which card this is and what it does at best; every family in every format."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks import gemm
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks
from tests.golden import texts
from tests.support.tiny_models import FAMILIES, LAYERS, MAX_LENGTH, build_tiny_model, lacks

_QUERY = "name,driver_version,memory.total,clocks.max.sm,power.limit"

TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}
"""How far F1 of a family may be from float32 on the CPU."""

QUICK_FAMILIES = ("bert", "roberta", "t5")


def card(checks: Checks, given: Given) -> None:
    """Look at the card, and measure its matrix products and copies."""
    if given.on_gpu:
        built = torch.cuda.get_arch_list()
        checks.check(
            "a CUDA device that torch was built for",
            is_built_for(torch.cuda.get_device_capability(), built),
            f"built for {' '.join(built)}",
            **device_facts(),
        )
    else:
        checks.without_gpu("the card")
    for dtype in given.dtypes():
        with checks.guarded(f"product, {dtype}"):
            peak = gemm.measure(dtype, given.kind, seconds=0.05 if given.quick else 1.0)
            checks.note(f"product, {dtype}", tflops=peak.best / 1e12)
    if given.on_gpu:
        exact = not torch.backends.cuda.matmul.allow_tf32
        checks.check("products of float32 are exact by default", exact)
        with checks.guarded("copies"):
            measure_copies(checks, given)
    else:
        checks.without_gpu("copies to and from the device")


def is_built_for(capability: tuple[int, int], built: list[str]) -> bool:
    """Tell whether code was built for a device: for its generation, and not for a later member."""
    numbers = [re.fullmatch(r"sm_(\d+)(\d)[a-z]?", name) for name in built]
    return any(
        int(found[1]) == capability[0] and int(found[2]) <= capability[1]
        for found in numbers
        if found
    )


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
        facts["nvidia_smi"] = subprocess.run(
            command, capture_output=True, text=True, timeout=20
        ).stdout.strip()
    return facts


def measure_copies(checks: Checks, given: Given) -> None:
    """Measure copies inside the device, and between it and the host."""
    size = (1 << 24) if given.quick else (1 << 30)
    there = torch.empty(size, dtype=torch.uint8, device=given.device)
    other = torch.empty_like(there)
    pinned = torch.empty(size // 4, dtype=torch.uint8).pin_memory()
    plain = torch.empty(size // 4, dtype=torch.uint8)
    part = there[: size // 4]
    # Inside the device a byte is read and written.
    rate = 2 * size / seconds_on_device(lambda: other.copy_(there)) / 1e9
    checks.note("copy inside the device, read and written", gb_per_second=rate)
    for what, action in {
        "pinned memory to the device": lambda: part.copy_(pinned, non_blocking=True),
        "the device to pinned memory": lambda: pinned.copy_(part, non_blocking=True),
        "plain memory to the device": lambda: part.copy_(plain),
    }.items():
        seconds = seconds_on_device(action)
        checks.note(f"copy from {what}", gb_per_second=size / 4 / seconds / 1e9)


def seconds_on_device(action: Callable[[], Any], repeats: int = 10) -> float:
    """Return the seconds of one call, the device waited for before and after all of them."""
    action()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats


def families(checks: Checks, given: Given) -> None:
    """Score ragged batches with each family; the differences of all are in the figures."""
    pairs = [pair for pair in texts.FAMILY_PAIRS if pair.candidate and pair.reference]
    left, right = [pair.candidate for pair in pairs], [pair.reference for pair in pairs]
    ends = time.monotonic() + given.seconds - 10
    with TemporaryDirectory() as root:
        for family in QUICK_FAMILIES if given.quick else FAMILIES:
            if time.monotonic() > ends:
                checks.check(family, passed=False, why="no time was left for this family")
                continue
            if lacking := lacks(family):
                checks.skip(family, lacking)
                continue
            with checks.guarded(family):
                folder = build_tiny_model(family, Path(root) / family)
                expected = score(folder, "cpu", "float32", left, right)
                for dtype in given.dtypes():
                    with checks.guarded(f"{family}, {dtype}"):
                        found = score(folder, given.device, dtype, left, right)
                        compare(checks, f"{family}, {dtype}", dtype, found, expected)


def score(folder: Path, device: str, dtype: str, left: list[str], right: list[str]) -> np.ndarray:
    """Return F1 of a family's tiny model. Shape (pairs,)."""
    config = ScorerConfig(
        model=str(folder),
        num_layers=LAYERS,
        max_length=MAX_LENGTH,
        device=device,
        backend="torch",
        dtype=dtype,
        # Several batches of different lengths, each with texts of several lengths.
        max_batch_tokens=512,
    )
    return BertScorer(config).score(left, right).f1


def compare(checks: Checks, what: str, dtype: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Check that scores agree; a number that is missing on one side alone does not."""
    same_gaps = bool((np.isnan(found) == np.isnan(expected)).all())
    largest = float(np.nanmax(np.abs(found - expected)))
    limit = TOLERANCES[dtype]
    checks.check(
        what,
        same_gaps and largest <= limit and float(np.nanstd(expected)) > 0,
        f"F1 differs by at most {largest:.2g}; expected {limit:g}",
        largest=largest,
        mean=float(np.nanmean(np.abs(found - expected))),
    )
