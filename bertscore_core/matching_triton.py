"""Greedy matching of pairs in one CUDA kernel, which reads embeddings where they are.

Nothing is gathered or padded, and similarities never leave the chip, so a block of pairs needs no
memory but its embeddings. The rules are those of `bertscore_core.matching`. This module imports
Triton if it is installed, so import it only if the device is a GPU.
"""

import os
import shutil
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bertscore_core.matching import PairScores, combine

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
    tl = SimpleNamespace(tensor=Any, constexpr=Any)  # names that a signature below needs

# Texts of at most 32 tokens, the common case, fit one tile. The sizes are the same for every call:
# if they depended on lengths or timings, so would the order of sums, and a pair's scores would
# depend on the other pairs or on the day.
_TILE = {"rows": 32, "columns": 32, "depth": 64}
_WARPS = 2

# Read here, since Triton reads it when the kernel is made, not when it is called.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def is_available(device: torch.device) -> bool:
    """Tell whether `greedy_match_ragged` runs on a device.

    On CUDA, Triton must be installed, and so must a C compiler and Python's headers: Triton builds
    its launcher with them on the first call. On a CPU it needs Triton's interpreter, which is slow
    and for tests only (TRITON_INTERPRET=1 before this module is imported).
    """
    if triton is None or device.type not in ("cpu", "cuda"):
        return False
    if _INTERPRETED or device.type == "cpu":
        return _INTERPRETED
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def greedy_match_ragged(
    vectors: Tensor,
    weights: Tensor,
    candidate_starts: Tensor,
    candidate_lengths: Tensor,
    reference_starts: Tensor,
    reference_lengths: Tensor,
) -> PairScores:
    """Score P pairs of texts whose embeddings are laid end to end.

    The scores equal those of `greedy_match` up to rounding. Products and sums are float32 (no
    TF32); embeddings in half precision are multiplied as they are and summed in float32. A pair's
    scores depend on its two texts alone, to the bit: not on other pairs, their order, or places.

    Args:
        vectors: Unit-length token embeddings. Shape (T, H), float32, bfloat16 or float16.
        weights: Token weights. Shape (T,), float32.
        candidate_starts: First token of each pair's candidate. Shape (P,), int64, P below 2^30.
        candidate_lengths: Tokens per candidate. Shape (P,), int64, at least 1.
        reference_starts: First token of each pair's reference. Shape (P,), int64.
        reference_lengths: Tokens per reference. Shape (P,), int64, at least 1.

    Returns:
        Precision, recall and F1. Shape (P,) each, float32, on the device of the embeddings.
    """
    # One row for each pair, so that program n finds its own text at n and the other one at n ^ 1.
    starts = torch.stack([candidate_starts, reference_starts], dim=1)
    lengths = torch.stack([candidate_lengths, reference_lengths], dim=1)
    averages = torch.empty(starts.shape, dtype=torch.float32, device=vectors.device)
    if averages.numel():
        # Triton launches on the current device, which may not be that of the embeddings.
        with torch.cuda.device(vectors.device if vectors.is_cuda else -1):  # -1: none
            kernel[(averages.numel(),)](
                vectors.contiguous(),
                weights.contiguous(),
                starts,
                lengths,
                averages,
                hidden=vectors.shape[1],
                **_TILE,
                num_warps=_WARPS,
            )
    return combine(averages[:, 0], averages[:, 1], candidate_lengths, reference_lengths)


def _average_best_cosine(
    vectors: tl.tensor,
    weights: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    averages: tl.tensor,
    hidden: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    depth: tl.constexpr,
) -> None:
    """Average, over the tokens of one text, the best cosine of each in the other text.

    There is one program for each pair and direction: even ones give precision, odd ones recall.
    Pointers: `vectors` (T, H), `weights` (T,), and `starts`, `lengths` and the results `averages`
    of each pair's candidate and reference, all (P, 2). Tokens of the own text are taken `rows` at
    once, those of the other text `columns` at once, and their `hidden` features `depth` at once.
    """
    program = tl.program_id(0)
    own_start = tl.load(starts + program)
    own_length = tl.load(lengths + program).to(tl.int32)
    other_start = tl.load(starts + (program ^ 1))
    other_length = tl.load(lengths + (program ^ 1)).to(tl.int32)
    infinity = float("inf")
    weighted = 0.0
    total = 0.0
    for first_row in range(0, own_length, rows):
        row = first_row + tl.arange(0, rows)
        row_inside = row < own_length
        best = tl.full((rows,), -infinity, tl.float32)
        for first_column in range(0, other_length, columns):
            column = first_column + tl.arange(0, columns)
            column_inside = column < other_length
            similarity = tl.zeros((rows, columns), tl.float32)
            for first_feature in range(0, hidden, depth):
                feature = first_feature + tl.arange(0, depth)
                feature_inside = feature < hidden
                own = tl.load(
                    vectors + (own_start + row)[:, None] * hidden + feature[None, :],
                    mask=row_inside[:, None] & feature_inside[None, :],
                    other=0.0,
                )
                other = tl.load(
                    vectors + (other_start + column)[None, :] * hidden + feature[:, None],
                    mask=column_inside[None, :] & feature_inside[:, None],
                    other=0.0,
                )
                # "ieee" keeps float32; the default, TF32, has 10 bits of mantissa.
                similarity = tl.dot(own, other, similarity, input_precision="ieee")
            # A maximum on the device drops NaN, so NaN passes through it as infinity, which is not
            # a cosine.
            similarity = tl.where(similarity == similarity, similarity, infinity)
            similarity = tl.where(column_inside[None, :], similarity, -infinity)
            best = tl.maximum(best, tl.max(similarity, axis=1))
        best = tl.where(best == infinity, float("nan"), best)
        weight = tl.load(weights + own_start + row, mask=row_inside, other=0.0)
        # Weight 0 takes a token out, whatever its maximum: 0 times NaN would be NaN.
        weighted += tl.sum(tl.where(weight == 0.0, 0.0, best * weight), axis=0)
        total += tl.sum(weight, axis=0)
    tl.store(averages + program, tl.div_rn(weighted, total))  # IEEE; plain `/` is approximate


kernel: Any = None if triton is None else triton.jit(_average_best_cosine)
