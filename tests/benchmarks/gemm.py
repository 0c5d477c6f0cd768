"""The fastest matrix product this machine does, against which useful work is measured.

    python -m tests.benchmarks.gemm

On a CPU two paths are timed: torch.matmul, and oneDNN with the weights laid out beforehand, which
uses wider kernels on some processors. The peak is the best of both over a few shapes, the smaller
ones like those of an encoder. On CUDA it is one large torch.matmul.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

CPU_SHAPES = ((1024, 384, 1536), (1024, 1024, 4096), (2048, 2048, 2048))
"""Rows, inner length and columns of the products."""
CUDA_SHAPES = ((8192, 8192, 8192),)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Peak:
    """Best rates of one number format, in FLOP/s; 0 where a path does not exist."""

    matmul: float
    packed: float

    @property
    def best(self) -> float:
        """The faster path."""
        return max(self.matmul, self.packed)


def measure(dtype: str, device: str = "cpu", seconds: float = 0.4) -> Peak:
    """Measure the peak of one number format.

    Args:
        dtype: `float32`, `bfloat16` or `float16`.
        device: `cpu` or `cuda`.
        seconds: Time spent on each path and shape.
    """
    shapes = CPU_SHAPES if device == "cpu" else CUDA_SHAPES
    plain = [_matmul_rate(shape, DTYPES[dtype], device, seconds) for shape in shapes]
    packed = [_packed_rate(shape, DTYPES[dtype], seconds) for shape in shapes if device == "cpu"]
    return Peak(max(plain), max(packed, default=0.0))


@torch.inference_mode()
def _matmul_rate(
    shape: tuple[int, int, int], dtype: torch.dtype, device: str, seconds: float
) -> float:
    rows, inner, columns = shape
    left = torch.randn(rows, inner, device=device).to(dtype)
    right = torch.randn(inner, columns, device=device).to(dtype)
    return _rate(lambda: left @ right, shape, device, seconds)


@torch.inference_mode()
def _packed_rate(shape: tuple[int, int, int], dtype: torch.dtype, seconds: float) -> float:
    rows, inner, columns = shape
    left = torch.randn(rows, inner).to(dtype)
    weight = torch.randn(columns, inner).to(dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
        linear = torch.ops.mkldnn._linear_pointwise
        return _rate(lambda: linear(left, packed, None, "none", [], ""), shape, "cpu", seconds)
    except (RuntimeError, AttributeError):  # a build without oneDNN, or a format it lacks
        return 0.0


def _rate(
    product: Callable[[], Tensor], shape: tuple[int, int, int], device: str, seconds: float
) -> float:
    """Return FLOP/s of the fastest of several short runs."""
    wait: Callable[[], None] = torch.cuda.synchronize if device != "cpu" else lambda: None
    work = 2 * shape[0] * shape[1] * shape[2]
    repeats = 1
    while True:  # as many products a run as take 20 ms
        taken = _timed(product, repeats, wait)
        if taken > 0.02:
            break
        repeats *= 2
    best = taken
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, _timed(product, repeats, wait))
    return repeats * work / best


def _timed(product: Callable[[], Tensor], repeats: int, wait: Callable[[], None]) -> float:
    wait()
    started = time.perf_counter()
    for _ in range(repeats):
        product()
    wait()
    return time.perf_counter() - started


def main() -> None:
    """Print one line a number format."""
    from tests.benchmarks.harness import Recorder, add_out

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=0.4)
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("gemm", given.out)
    for dtype in ("float32", "bfloat16"):
        peak = measure(dtype, given.device, given.seconds)
        recorder.add(
            model="-",
            what=dtype,
            n=1,
            seconds=[],
            matmul_gflops=round(peak.matmul / 1e9, 1),
            packed_gflops=round(peak.packed / 1e9, 1),
            peak_gflops=round(peak.best / 1e9, 1),
            threads=torch.get_num_threads(),
        )


if __name__ == "__main__":
    main()
