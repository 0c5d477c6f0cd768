"""Greedy matching of pairs in one CUDA kernel, which reads embeddings where they are.

Nothing is gathered or padded, and similarities never leave the chip. The rules are those of
`matching`. This module imports Triton if it is installed, so import it only if the device is a GPU.

One program takes a pair: it computes each similarity once and takes both maxima from it, that of
the row and that of the column.

For texts of C and R tokens it does 2 C R H operations, each text filled up to a multiple of 32, and
8 operations for each byte that it reads. By estimate, nothing measured, matching then takes less
than 0.5% of the time of roberta-large at 28 tokens, and 1 to 5% at 512.
"""

import os
import shutil
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bertscore_core.match.matching import PairScores, combine

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
    tl = SimpleNamespace(tensor=Any, constexpr=Any)  # names that the signatures below need

_jit: Any = (lambda **_: lambda function: function) if triton is None else triton.jit

# Texts of at most 32 tokens, the common case, fit one tile. The sizes are the same for every call:
# if they depended on lengths or timings, so would the order of sums, and a pair's scores would
# depend on the other pairs or on the day.
_TILE = {"rows": 32, "columns": 32, "depth": 64}
_WARPS = 2

# Programs of a launch; with more pairs than that each takes several. Enough to fill the largest GPU
# some times over. It bounds the memory for maxima.
_MOST_PROGRAMS = 4096

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
    *,
    longest: int,
) -> PairScores:
    """Score P pairs of texts whose embeddings are laid end to end.

    The scores equal those of `greedy_match` up to rounding. Products and sums are float32 (no
    TF32). A pair's scores depend on its two texts alone, to the bit: not on other pairs, their
    order, or places.

    Shapes: vectors (T, H), of unit length, in float32, bfloat16 or float16; weights (T,), float32;
    the first token of each text and its number of tokens, at least 1, (P,), int64, P below 2^30.
    `longest` is at least the tokens of the shorter text of any pair: to read it from the lengths
    would wait for the device. Returns precision, recall and F1, (P,) each, float32.
    """
    starts = torch.stack([candidate_starts, reference_starts], dim=1)
    lengths = torch.stack([candidate_lengths, reference_lengths], dim=1)
    averages = torch.empty(starts.shape, dtype=torch.float32, device=vectors.device)
    pairs = len(starts)
    if pairs:
        programs = min(pairs, _MOST_PROGRAMS)
        maxima = torch.empty((programs, longest), dtype=torch.float32, device=vectors.device)
        # Triton launches on the current device, which may not be that of the embeddings.
        with torch.cuda.device(vectors.device if vectors.is_cuda else -1):  # -1: none
            kernel[(programs,)](
                vectors.contiguous(),
                weights.contiguous(),
                starts,
                lengths,
                averages,
                maxima,
                pairs,
                longest,
                hidden=vectors.shape[1],
                **_TILE,
                num_warps=_WARPS,
            )
    return combine(averages[:, 0], averages[:, 1], candidate_lengths, reference_lengths)


def _sum_of_weighted(best: tl.tensor, weight: tl.tensor) -> tl.tensor:
    best = tl.where(best == float("inf"), float("nan"), best)  # see `kernel`
    # Weight 0 takes a token out, whatever its maximum: 0 times NaN would be NaN.
    return tl.sum(tl.where(weight == 0.0, 0.0, best * weight), axis=0)


_weighted_sum: Any = _jit()(_sum_of_weighted)


def _average_best_cosines(
    vectors: tl.tensor,
    weights: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    averages: tl.tensor,
    maxima: tl.tensor,
    pairs: tl.tensor,
    longest: tl.tensor,
    hidden: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    depth: tl.constexpr,
) -> None:
    """Average, over the tokens of each text of a pair, the best cosine of each in the other text.

    `maxima` (programs, longest) is for the kernel's own use. A program takes every so many of the
    `pairs`. The tokens of the longer text of a pair are the rows, those of the shorter one the
    columns. The maxima of columns wait in `maxima` from one tile of rows to the next; at the last
    one they are complete.
    """
    infinity = float("inf")
    program = tl.program_id(0)
    kept = maxima + program.to(tl.int64) * longest
    for pair in range(program, pairs, tl.num_programs(0)):
        # 0 if the candidate is the longer text, so that its tokens are the rows.
        side = (tl.load(lengths + 2 * pair) < tl.load(lengths + 2 * pair + 1)).to(tl.int32)
        row_place = 2 * pair + side
        column_place = 2 * pair + 1 - side
        row_start = tl.load(starts + row_place)
        row_length = tl.load(lengths + row_place).to(tl.int32)
        column_start = tl.load(starts + column_place)
        column_length = tl.load(lengths + column_place).to(tl.int32)
        row_weighted = 0.0
        row_total = 0.0
        column_weighted = 0.0
        column_total = 0.0
        for first_row in range(0, row_length, rows):
            row = first_row + tl.arange(0, rows)
            row_inside = row < row_length
            is_last = first_row + rows >= row_length
            row_best = tl.full((rows,), -infinity, tl.float32)
            for first_column in range(0, column_length, columns):
                column = first_column + tl.arange(0, columns)
                column_inside = column < column_length
                similarity = tl.zeros((rows, columns), tl.float32)
                for first_feature in range(0, hidden, depth):
                    feature = first_feature + tl.arange(0, depth)
                    feature_inside = feature < hidden
                    left = tl.load(
                        vectors + (row_start + row)[:, None] * hidden + feature[None, :],
                        mask=row_inside[:, None] & feature_inside[None, :],
                        other=0.0,
                    )
                    right = tl.load(
                        vectors + (column_start + column)[None, :] * hidden + feature[:, None],
                        mask=column_inside[None, :] & feature_inside[:, None],
                        other=0.0,
                    )
                    # "ieee" keeps float32; the default, TF32, has 10 bits of mantissa.
                    similarity = tl.dot(left, right, similarity, input_precision="ieee")
                # A maximum on the device drops NaN, so NaN passes through it as infinity, which is
                # not a cosine.
                similarity = tl.where(similarity == similarity, similarity, infinity)
                inside = row_inside[:, None] & column_inside[None, :]
                similarity = tl.where(inside, similarity, -infinity)
                row_best = tl.maximum(row_best, tl.max(similarity, axis=1))
                before = tl.load(
                    kept + column, mask=column_inside & (first_row > 0), other=-infinity
                )
                column_best = tl.maximum(before, tl.max(similarity, axis=0))
                tl.store(kept + column, column_best, mask=column_inside & (is_last == 0))
                # Whole sums are made only of the last tile of rows; before that all weights are 0.
                weight = tl.load(
                    weights + column_start + column, mask=column_inside & is_last, other=0.0
                )
                column_weighted += _weighted_sum(column_best, weight)
                column_total += tl.sum(weight, axis=0)
            weight = tl.load(weights + row_start + row, mask=row_inside, other=0.0)
            row_weighted += _weighted_sum(row_best, weight)
            row_total += tl.sum(weight, axis=0)
            # Another thread may read what one has written here.
            tl.debug_barrier()
        # IEEE; plain `/` is approximate.
        tl.store(averages + row_place, tl.div_rn(row_weighted, row_total))
        tl.store(averages + column_place, tl.div_rn(column_weighted, column_total))


# The numbers of pairs and tokens change from call to call: Triton would compile the kernel again
# for some of them.
kernel: Any = _jit(do_not_specialize=["pairs", "longest"])(_average_best_cosines)
