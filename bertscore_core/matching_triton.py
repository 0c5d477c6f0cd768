"""Greedy matching of pairs where their embeddings lie, in one kernel for CUDA.

Nothing is gathered or padded and no similarity leaves the chip, so a window of pairs needs no
memory beyond its embeddings. The rules are those of `bertscore_core.matching`. Importing this
module imports Triton, where it is installed: import it only when the device is a GPU.
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
# were they chosen by the lengths or by timing, sums would be formed in another order and a pair's
# scores would depend on its company or on the day.
_TILE = {"rows": 32, "columns": 32, "depth": 64}
_WARPS = 2

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton reads this when the kernel is made, not when it is called."""


def is_available(device: torch.device) -> bool:
    """Tell whether `greedy_match_ragged` runs on a device.

    It does on CUDA when Triton is installed and finds what it builds its launcher with on the first
    call: a C compiler and Python's headers. It does on the CPU under Triton's interpreter
    (TRITON_INTERPRET=1 before this module is imported), which is for tests and slow.
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
    """Score P pairs of texts whose embeddings lie end to end.

    Equal to `greedy_match` up to rounding. Products and sums are float32 (no TF32); embeddings in
    half precision are multiplied as they are and summed in float32. The bits of a pair's scores
    depend on its two texts alone: not on the other pairs, their order or where the texts lie.

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
    # One row a pair, so that program n finds its own text at n and the other one at n ^ 1.
    starts = torch.stack([candidate_starts, reference_starts], dim=1)
    lengths = torch.stack([candidate_lengths, reference_lengths], dim=1)
    averages = torch.empty(starts.shape, dtype=torch.float32, device=vectors.device)
    if averages.numel():
        # Triton launches on the current device, which need not be the one of the embeddings.
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
                similarity = tl.dot(own, other, similarity, input_precision="ieee")
            # A maximum on the device drops NaN, so NaN goes through it as infinity, which no
            # cosine is.
            similarity = tl.where(similarity == similarity, similarity, infinity)
            similarity = tl.where(column_inside[None, :], similarity, -infinity)
            best = tl.maximum(best, tl.max(similarity, axis=1))
        best = tl.where(best == infinity, float("nan"), best)
        weight = tl.load(weights + own_start + row, mask=row_inside, other=0.0)
        # Weight 0 takes a token out, whatever its maximum: 0 times NaN would be NaN.
        weighted += tl.sum(tl.where(weight == 0.0, 0.0, best * weight), axis=0)
        total += tl.sum(weight, axis=0)
    tl.store(averages + program, tl.div_rn(weighted, total))


kernel: Any = None if triton is None else triton.jit(_average_best_cosine)
