"""Part 1: which card this is, and how fast its matrix products and copies are."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import torch

from tests.benchmarks import gemm
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks

_QUERY = "name,driver_version,memory.total,clocks.max.sm,power.limit"


def run(checks: Checks, given: Given) -> None:
    """Look at the card."""
    if given.on_gpu:
        built = torch.cuda.get_arch_list()
        checks.check(
            "a CUDA device that torch was built for",
            is_built_for(torch.cuda.get_device_capability(), built),
            f"built for {' '.join(built)}",
            **device_facts(),
        )
    else:
        checks.skip("the card", "no CUDA device was asked for")
    for dtype in given.dtypes():
        with checks.guarded(f"product, {dtype}"):
            measure_product(checks, given, dtype)
    if given.on_gpu:
        exact = not torch.backends.cuda.matmul.allow_tf32
        checks.check("products of float32 are exact by default", exact)
        with checks.guarded("copies"):
            measure_copies(checks, given)
    else:
        checks.skip("copies to and from the device", "no CUDA device was asked for")


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


def measure_product(checks: Checks, given: Given, dtype: str) -> None:
    """Measure a large matrix product in a number format."""
    kind = "cuda" if given.on_gpu else "cpu"
    peak = gemm.measure(dtype, kind, seconds=0.05 if given.quick else 1.0)
    checks.note(f"product, {dtype}", tflops=peak.best / 1e12)


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
