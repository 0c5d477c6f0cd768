"""Which texts go through the encoder together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]


def _padded_fit(lengths: Lengths, tokens: int) -> int:
    return max(tokens // max(int(lengths[0]), 1), 1)  # a text may have no tokens


def _padded_size(lengths: Lengths) -> int:
    return len(lengths) * int(lengths[0])


def _packed_fit(lengths: Lengths, tokens: int) -> int:
    # No more than that many texts fit, so no more need to be added up.
    ends = np.cumsum(np.maximum(lengths[: max(tokens, 1)], 1))
    return max(int(np.searchsorted(ends, tokens, side="right")), 1)


def _packed_size(lengths: Lengths) -> int:
    return int(lengths.sum())


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """How texts lie in a batch, which decides how many of them fit.

    Both functions take the lengths of texts, the longest first.

    Attributes:
        fit: Takes a number of tokens, too, and returns how many of the first texts make a batch: at
            least 1.
        size: Returns the tokens of a batch of them.
    """

    fit: Callable[[Lengths, int], int]
    size: Callable[[Lengths], int]


PADDED = BatchLayout(_padded_fit, _padded_size)
"""Each text in a row of its own, filled up to the longest."""

PACKED = BatchLayout(_packed_fit, _packed_size)
"""Laid end to end."""


def plan_batches(
    lengths: Sequence[int] | npt.NDArray[np.int64],
    *,
    max_batch_tokens: int,
    layout: BatchLayout = PADDED,
) -> list[npt.NDArray[np.int64]]:
    """Group texts of similar length so that each batch stays within a token budget.

    Texts are taken from the longest to the shortest (ties in input order), so padding is small, the
    largest batch comes first, and the plan depends on the lengths alone.

    Args:
        lengths: Tokens per text. Shape (N,).
        max_batch_tokens: Largest size of a batch, in tokens. A longer text is a batch of its own.
        layout: How they lie in a batch.

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
        # No more than that many texts fit, so no more need to be looked up.
        rest = order[start : start + max(max_batch_tokens, 1)]
        count = layout.fit(lengths[rest], max_batch_tokens)
        batches.append(rest[:count])
        start += count
    return batches
