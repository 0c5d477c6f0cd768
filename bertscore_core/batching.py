"""Which texts go through the encoder together."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def plan_batches(
    lengths: Sequence[int] | npt.NDArray[np.int64],
    *,
    max_batch_tokens: int,
) -> list[npt.NDArray[np.int64]]:
    """Group texts of similar length so that each batch stays within a token budget.

    The cost of a batch is its padded size: the longest length times the number of texts. Texts are
    taken from the longest to the shortest (ties in input order), so padding is small, the largest
    batch comes first, and the plan depends on the lengths alone.

    Args:
        lengths: Tokens per text. Shape (N,).
        max_batch_tokens: Largest padded size of a batch, in tokens. A longer text is a batch of its
            own.

    Returns:
        Indices of the texts, one array for each batch; every index exactly once.

    Example:
        >>> [batch.tolist() for batch in plan_batches([3, 9, 4, 4], max_batch_tokens=9)]
        [[1], [2, 3], [0]]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")  # stable: the plan is the same on every machine
    batches: list[npt.NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)  # a text may have no tokens
        count = max(max_batch_tokens // longest, 1)  # the first is the longest: it sets the padding
        batches.append(order[start : start + count])
        start += count
    return batches
