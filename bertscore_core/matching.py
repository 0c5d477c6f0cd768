"""Greedy matching: each token with its most similar token of the other text."""

from typing import NamedTuple

import torch
from torch import Tensor

EMPTY_LENGTH = 2
"""The reference calls a text empty when it has exactly this many tokens (its two special ones)."""


class PairScores(NamedTuple):
    """Precision, recall and F1 of B pairs, each of shape (B,), float32."""

    precision: Tensor
    recall: Tensor
    f1: Tensor


def greedy_match(
    candidate: Tensor,
    reference: Tensor,
    candidate_lengths: Tensor,
    reference_lengths: Tensor,
    candidate_weights: Tensor,
    reference_weights: Tensor,
) -> PairScores:
    """Score B pairs by greedy cosine matching.

    Padding is masked with minus infinity before the maxima, so a pair's scores do not depend on the
    pairs beside it. A text whose weights are all zero gives NaN for its own average and F1 = 0; a
    text of exactly two tokens counts as empty and sets precision and recall to 0.

    Args:
        candidate: Unit-length token embeddings, right-padded. Shape (B, C, H).
        reference: The same for the references. Shape (B, R, H).
        candidate_lengths: Tokens per candidate. Shape (B,), at least 1.
        reference_lengths: Tokens per reference. Shape (B,), at least 1.
        candidate_weights: Token weights, 0 on padding. Shape (B, C), float32.
        reference_weights: Token weights, 0 on padding. Shape (B, R), float32.

    Returns:
        Precision, recall and F1. Shape (B,) each, float32, within [-1, 1] or NaN.

    References:
        Zhang et al. 2020, section 3. bert-score 0.3.13, `greedy_cos_idf`, which multiplies padded
        similarities by 0 instead: there a token whose best cosine is negative scores 0 in a padded
        batch; equal to it at batch size 1.
    """
    similarity = torch.bmm(candidate, reference.transpose(1, 2)).float()  # (B, C, R)
    candidate_padding = _padding_mask(candidate_lengths, candidate.shape[1])
    reference_padding = _padding_mask(reference_lengths, reference.shape[1])
    lowest = float("-inf")
    row_best = similarity.masked_fill(reference_padding[:, None, :], lowest).amax(dim=2)
    column_best = similarity.masked_fill(candidate_padding[:, :, None], lowest).amax(dim=1)
    precision = _weighted_mean(row_best, candidate_weights)
    recall = _weighted_mean(column_best, reference_weights)
    return combine(precision, recall, candidate_lengths, reference_lengths)


def _padding_mask(lengths: Tensor, width: int) -> Tensor:
    """Mark the positions behind each text's last token. Shape (B, width), bool."""
    return torch.arange(width, device=lengths.device)[None, :] >= lengths[:, None]


def _weighted_mean(best: Tensor, weights: Tensor) -> Tensor:
    """Average the maxima by weight; the maxima on padding are left out. Shape (B,)."""
    shares = weights / weights.sum(dim=1, keepdim=True)
    return (best.masked_fill(weights == 0, 0.0) * shares).sum(dim=1)


def combine(
    precision: Tensor, recall: Tensor, candidate_lengths: Tensor, reference_lengths: Tensor
) -> PairScores:
    """Form F1, then apply the reference's rule for empty texts, in its order. Shape (B,) each."""
    f1 = 2 * precision * recall / (precision + recall)
    empty = (candidate_lengths == EMPTY_LENGTH) | (reference_lengths == EMPTY_LENGTH)
    return PairScores(
        precision.masked_fill(empty, 0.0),
        recall.masked_fill(empty, 0.0),
        f1.masked_fill(f1.isnan(), 0.0),
    )
