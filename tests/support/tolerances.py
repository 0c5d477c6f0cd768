"""How far apart two numbers may be, and why."""

import numpy as np

PARITY_ATOL = 1e-5
"""Against the reference, raw scores in float32."""

INVARIANCE_ATOL = 1e-6
"""The same pair in other company: batches, shards, order. Only summation order differs."""


def f1_slack(raw: np.ndarray) -> np.ndarray:
    """Return how many times a difference in precision and recall is larger in F1, at least 1.

    The harmonic mean has a pole where precision is minus recall: one golden pair lies near it.
    """
    precision, recall = raw[..., 0], raw[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        steepness = 2 * (precision**2 + recall**2) / (precision + recall) ** 2
    slack = np.ones_like(raw)
    slack[..., 2] = np.where(np.isfinite(steepness), np.maximum(steepness, 1), 1)
    return slack
