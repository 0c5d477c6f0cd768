"""Greedy matching of pairs in one CUDA kernel, which reads embeddings where they are.

Nothing is gathered or padded, and similarities never leave the chip. The rules are those of
`matching`. This module imports Triton if it is installed, so import it only if the device is a GPU.

One program takes a pair: it computes each similarity once and takes both maxima from it, that of
the row and that of the column.

For texts of C and R tokens it does 2 C R H operations, each text filled up to a multiple of 32. On
one H200 it took 0.07 microseconds a pair with 1,024 numbers a token and 0.03 with 384, at 28
tokens: less than 1% of the time of an encoder. A pair is the work of one program, so a call lasts
at least as long as its longest pair: some milliseconds at 512 tokens.

From compute capability 8.0 (Ampere) products run on the tensor cores, each as three products of
TF32 that together keep the 24 bits of float32. Their sums are cut, not rounded, so only 32 numbers
are summed there, and these sums are added in float32: scores are then as near to float64 as with
float32's own products (2e-7). Below 8.0 products are float32's own.
"""

from typing import Any

import torch
from torch import Tensor

from bertscore_core.match.matching import PairScores, combine
from bertscore_core.model.device import AMPERE
from bertscore_core.model.triton_jit import jit, launching_on, tl

# Texts of at most 32 tokens, the common case, fit one tile. The sizes are the same for every call:
# if they depended on lengths or timings, so would the order of sums, and a pair's scores would
# depend on the other pairs or on the day. With these the kernel needs the fewest registers.
_TILE = {"rows": 32, "columns": 32, "depth": 32}
_WARPS = 2

# Programs of a launch; with more pairs than that each takes several. Enough to fill the largest GPU
# some times over. It bounds the memory for maxima.
_MOST_PROGRAMS = 4096


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

    The scores equal those of `greedy_match` up to rounding: products keep the bits of float32, and
    sums are float32. A pair's scores depend on its two texts alone, to the bit: not on other pairs,
    their order, or places.

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
        with launching_on(vectors):
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
                precision=_precision_on(vectors.device),
                **_TILE,
                num_warps=_WARPS,
            )
    return combine(averages[:, 0], averages[:, 1], candidate_lengths, reference_lengths)


def _precision_on(device: torch.device) -> str:
    # Plain "tf32", Triton's default, would keep 11 bits.
    ampere = device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE
    return "tf32x3" if ampere else "ieee"


def _sum_of_weighted(best: tl.tensor, weight: tl.tensor) -> tl.tensor:
    best = tl.where(best == float("inf"), float("nan"), best)  # see `kernel`
    # Weight 0 takes a token out, whatever its maximum: 0 times NaN would be NaN.
    return tl.sum(tl.where(weight == 0.0, 0.0, best * weight), axis=0)


_weighted_sum: Any = jit()(_sum_of_weighted)


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
    precision: tl.constexpr,
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
                    # Added here, not by the product, which would cut the sum.
                    similarity += tl.dot(left, right, input_precision=precision)
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
kernel: Any = jit(do_not_specialize=["pairs", "longest"])(_average_best_cosines)
