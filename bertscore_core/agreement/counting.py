"""Counting smaller values among the first k, for many k at once, in O(n log n).

Kendall's tau asks for each segment how many others are below it on both sides. With the segments in
the order of one side, those are the values below its own among the first k: a question about a
prefix. A wavelet matrix answers it: level by level it sorts the values by one bit, from the highest
to the lowest, and keeps how many zeros precede each place. Every level is a few numpy operations
over all questions, and S settings are done one after the other, so memory is a few times N.

References:
    F. Claude, G. Navarro, A. Ordóñez, "The wavelet matrix", Information Systems 47 (2015).
"""

import numpy as np

from bertscore_core.tokens import IntArray


def count_below(values: IntArray, prefixes: IntArray, limits: IntArray) -> IntArray:
    """Count, for each question, the values below a limit among the first few.

    Args:
        values: Whole numbers from 0. Shape (n,).
        prefixes: How many of the first values each question looks at, 0 to n. Shape (q,).
        limits: What these values must be below, from 0. Shape (q,).

    Returns:
        Shape (q,), int64.
    """
    top = int(max(values.max(initial=0), limits.max(initial=0)))
    level = values.astype(np.int64)
    begins = np.zeros(len(limits), dtype=np.int64)
    ends = prefixes.astype(np.int64)
    counts = np.zeros(len(limits), dtype=np.int64)
    zeros = np.zeros(len(values) + 1, dtype=np.int64)
    for bit in range(top.bit_length() - 1, -1, -1):
        is_one = (level >> bit) & 1 == 1
        np.cumsum(~is_one, out=zeros[1:])
        first, last = zeros[begins], zeros[ends]
        above = (limits >> bit) & 1 == 1
        # A zero where the limit has a one is below it, whatever the lower bits are.
        counts += np.where(above, last - first, 0)
        begins = np.where(above, zeros[-1] + begins - first, first)
        ends = np.where(above, zeros[-1] + ends - last, last)
        level = np.concatenate([level[~is_one], level[is_one]])
    return counts


def dense_ranks(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> IntArray:
    """Return the rank of each value among the different ones, from 0. Shape (n,)."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
