"""Which texts go through the encoder together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertscore_core.tokens import IntArray

# Texts of a batch at most: the attention kernels of a GPU have one block of threads for each in a
# dimension of their grid that ends there.
_MOST_TEXTS = 65_535


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """How texts, the longest first, lie in a batch: end to end, or filled up to the longest."""

    packed: bool

    def fit(self, lengths: IntArray, tokens: int) -> int:
        """Return how many of the first texts make a batch of `tokens` at most; at least 1."""
        if not self.packed:
            count = tokens // max(int(lengths[0]), 1)  # a text may have no tokens
            return min(max(count, 1), _MOST_TEXTS)
        # No more than that many texts fit, so no more need to be added up.
        ends = np.cumsum(np.maximum(lengths[: min(max(tokens, 1), _MOST_TEXTS)], 1))
        return max(int(np.searchsorted(ends, tokens, side="right")), 1)

    def size(self, lengths: IntArray) -> int:
        """Return the tokens of a batch, with what fills it up."""
        return int(lengths.sum()) if self.packed else len(lengths) * int(lengths[0])


_PADDED = BatchLayout(packed=False)


def plan_batches(
    lengths: Sequence[int] | IntArray, *, max_batch_tokens: int, layout: BatchLayout = _PADDED
) -> list[IntArray]:
    """Group texts of similar length so that each batch stays within a token budget.

    Texts are taken from the longest to the shortest (ties in input order), so padding is small, the
    largest batch comes first, and the plan depends on the lengths alone. A longer text than the
    budget is a batch of its own. Returns the indices of the texts of each batch; every index
    exactly once.

    Examples:
        >>> [batch.tolist() for batch in plan_batches([3, 9, 4, 4], max_batch_tokens=9)]
        [[1], [2, 3], [0]]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")  # stable: the plan is the same on every machine
    batches: list[IntArray] = []
    start = 0
    while start < len(order):
        # No more than that many texts fit, so no more need to be looked up.
        rest = order[start : start + max(max_batch_tokens, 1)]
        count = layout.fit(lengths[rest], max_batch_tokens)
        batches.append(rest[:count])
        start += count
    return batches
