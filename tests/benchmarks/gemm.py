"""The product limit of this machine: its fastest matrix product, in each number format."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
import torch

from bertscore_core.model import openvino_runtime

CPU_SHAPES = ((1024, 384, 1536), (1024, 1024, 4096), (2048, 2048, 2048))
"""Rows, inner length and columns of the products."""
CHAIN = 8
"""Products in a row in OpenVINO, which lays out each one's weights when it compiles them."""
CUDA_SHAPE = (8192, 8192, 8192)


def measure(dtype: str, device: str = "cpu", seconds: float = 0.4) -> float:
    """Return the FLOP/s of the fastest matrix product in one number format.

    Useful work a second as a share of it is what carries over from one processor to another. On a
    CPU three paths are timed: torch.matmul, oneDNN with the weights laid out beforehand, and a
    chain of products in OpenVINO. Which is the fastest depends on the processor, so the limit is
    the best of all over a few shapes, the smaller ones like those of an encoder. On CUDA it is one
    large torch.matmul.

    Args:
        dtype: `float32`, `bfloat16` or `float16`.
        device: `cpu` or `cuda`.
        seconds: Time spent on each path and shape.
    """
    if device != "cpu":
        return max(_torch_rates(CUDA_SHAPE, dtype, device, seconds))
    rates: list[float] = []
    for shape in CPU_SHAPES:
        rates += _torch_rates(shape, dtype, device, seconds)
        rates.append(_chain_rate(shape, dtype, seconds))
    return max(rates)


@torch.inference_mode()
def _torch_rates(
    shape: tuple[int, int, int], dtype: str, device: str, seconds: float
) -> list[float]:
    """Time torch.matmul, and on a CPU oneDNN with the weights laid out."""
    rows, inner, columns = shape
    left, right = (
        torch.randn(size, device=device).to(getattr(torch, dtype))
        for size in ((rows, inner), (inner, columns))
    )
    found = [_rate(lambda: left @ right, shape, device, seconds)]
    if device == "cpu":
        with suppress(RuntimeError, AttributeError):  # no oneDNN, or a format it lacks
            packed = torch.ops.mkldnn._reorder_linear_weight(right.T.contiguous(), rows)
            linear = torch.ops.mkldnn._linear_pointwise
            run = partial(linear, left, packed, None, "none", [], "")
            found.append(_rate(run, shape, device, seconds))
    return found


def _chain_rate(shape: tuple[int, int, int], dtype: str, seconds: float) -> float:
    """Time `CHAIN` products in a row, from the inner length to the columns and back."""
    installed = openvino_runtime.openvino_version() is not None
    known = dtype in openvino_runtime.OPENVINO_DTYPES
    if not installed or not known or not openvino_runtime.computes_in(dtype):
        return 0.0
    rows, inner, columns = shape
    openvino = openvino_runtime._import_openvino()
    operations = openvino.opset13
    random = np.random.default_rng(0)
    texts = operations.parameter([rows, inner], np.float32)
    states = texts
    for number in range(CHAIN):
        ends = (inner, columns) if number % 2 == 0 else (columns, inner)
        weight = random.standard_normal(ends[::-1], dtype=np.float32) / np.float32(ends[0] ** 0.5)
        states = operations.matmul(states, operations.constant(weight), False, True)
    model = openvino.Model([states], [texts])
    settings = openvino_runtime.settings(dtype, torch.get_num_threads(), 1)
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(
        openvino.Tensor(random.standard_normal((rows, inner), dtype=np.float32))
    )
    return CHAIN * _rate(request.infer, shape, "cpu", seconds)


def _rate(
    product: Callable[[], object], shape: tuple[int, int, int], device: str, seconds: float
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


def _timed(product: Callable[[], object], repeats: int, wait: Callable[[], None]) -> float:
    wait()
    started = time.perf_counter()
    for _ in range(repeats):
        product()
    wait()
    return time.perf_counter() - started
