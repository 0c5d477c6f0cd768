"""Attention of short texts that are laid end to end, in one kernel for float16 and bfloat16.

Flash attention works in tiles of 128 queries, so at 28 tokens most of its work is on what is not
there. Here a program takes one text and one head, and the text fits one tile: nothing is read
twice, and similarities never leave the chip. Products are those of the tensor cores, with sums in
float32, and so is the softmax.

The tile is a constant of a launch, so texts are launched by classes of lengths. A text's class
depends on its own length alone, so its vectors do not depend on the texts beside it, to the bit.

This module imports Triton, so import it only if the device is a GPU.
"""

import math
from typing import Any

from torch import Tensor

from bertscore_core.model.triton_jit import jit, launching_on, tl

# Threads of a program by its tile, 32 to a warp: the fastest on one H200.
_WARPS = {16: 1, 32: 1, 64: 4, 128: 8}


def attend_one_class(
    rows: tuple[Tensor, ...],
    ends: Tensor,
    first: int,
    count: int,
    *,
    tile: int,
    scale: float,
    out: Tensor,
) -> None:
    """Let the tokens of some neighbouring texts, of at most `tile` tokens each, attend.

    The texts are those from `first` on, `count` of them. What queries and keys give is multiplied
    by `scale`, and the mixed values are written to `out`.

    Shapes: `rows` are queries, keys and values; these and `out` have the shape (T, heads, D) with
    the numbers of a head side by side, and D a power of two from 16 on. `ends` says where each of N
    texts begins and the last one ends, (N + 1,), int32.
    """
    heads, size = out.shape[1:]
    parts = *rows, out
    with launching_on(out):
        kernel[(count, heads)](
            *parts,
            ends,
            first,
            scale * math.log2(math.e),  # the kernel's exponential has the base 2
            *(step for part in parts for step in part.stride()[:2]),
            size=size,
            tile=tile,
            num_warps=_WARPS[tile],
        )


def _attend_within_tile(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    ends: tl.tensor,
    first: tl.tensor,
    scale: tl.tensor,
    query_row: tl.tensor,
    query_head: tl.tensor,
    key_row: tl.tensor,
    key_head: tl.tensor,
    value_row: tl.tensor,
    value_head: tl.tensor,
    out_row: tl.tensor,
    out_head: tl.tensor,
    size: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    """Attend within one text and one head; `*_row` and `*_head` are steps in memory."""
    text = tl.program_id(0) + first
    head = tl.program_id(1).to(tl.int64)
    begin = tl.load(ends + text).to(tl.int64)
    length = tl.load(ends + text + 1) - begin
    token = tl.arange(0, tile)
    inside = token < length
    row = (begin + token)[:, None]
    number = tl.arange(0, size)[None, :]
    of_text = inside[:, None]
    queries = tl.load(query + row * query_row + head * query_head + number, mask=of_text, other=0.0)
    keys = tl.load(key + row * key_row + head * key_head + number, mask=of_text, other=0.0)
    values = tl.load(value + row * value_row + head * value_head + number, mask=of_text, other=0.0)
    similarity = tl.dot(queries, tl.trans(keys)) * scale
    similarity = tl.where(inside[None, :], similarity, -float("inf"))
    share = tl.exp2(similarity - tl.max(similarity, axis=1)[:, None])
    mixed = tl.dot(share.to(values.dtype), values) / tl.sum(share, axis=1)[:, None]
    tl.store(
        out + row * out_row + head * out_head + number, mixed.to(out.dtype.element_ty), mask=of_text
    )


# The number of the first text changes from call to call: Triton would compile the kernel again for
# some of them.
kernel: Any = jit(do_not_specialize=["first"])(_attend_within_tile)
