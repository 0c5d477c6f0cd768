"""Greedy matching of one pair in plain steps, which the kernels are compared with."""

import torch
from torch import Tensor

from bertscore_core.matching import PairScores, combine


def greedy_match_pair(
    candidate: Tensor, reference: Tensor, candidate_weights: Tensor, reference_weights: Tensor
) -> PairScores:
    """Score one pair.

    Args:
        candidate: Unit-length token embeddings. Shape (C, H).
        reference: The same. Shape (R, H).
        candidate_weights: Shape (C,).
        reference_weights: Shape (R,).

    Returns:
        Precision, recall and F1, each of shape (1,).
    """
    similarity = candidate @ reference.T
    precision = (similarity.max(dim=1).values * candidate_weights).sum() / candidate_weights.sum()
    recall = (similarity.max(dim=0).values * reference_weights).sum() / reference_weights.sum()
    return combine(
        precision[None],
        recall[None],
        torch.tensor([len(candidate)]),
        torch.tensor([len(reference)]),
    )
