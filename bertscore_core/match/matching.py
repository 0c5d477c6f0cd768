"""Greedy matching of the tokens of two texts."""

from typing import NamedTuple

import torch
from torch import Tensor

from bertscore_core.empty_texts import EMPTY_LENGTH


class PairScores(NamedTuple):
    """Precision, recall and F1 of B pairs, each of shape (B,), float32 or float64."""

    precision: Tensor
    recall: Tensor
    f1: Tensor


class BestMatches(NamedTuple):
    """Similarity of each token of B pairs to its match: shapes (B, C) and (B, R), float32."""

    candidate: Tensor
    reference: Tensor


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
    other pairs of the batch. If all weights of a text are 0, its average is NaN and F1 is 0. A text
    of exactly two tokens counts as empty: precision and recall are 0.

    The scores have gradients with respect to the embeddings: that of a similarity goes to the
    matches alone, in equal parts to equal ones. Where F1 is not defined its gradient is 0.

    Args:
        candidate: Unit-length token embeddings, right-padded. Shape (B, C, H).
        reference: The same for the references. Shape (B, R, H).
        candidate_lengths: Tokens per candidate. Shape (B,), at least 1; so are those of the
            references.
        reference_lengths: Shape (B,).
        candidate_weights: Token weights, 0 on padding. Shape (B, C), float32.
        reference_weights: The same. Shape (B, R).

    Returns:
        Precision, recall and F1. Shape (B,) each, float32 (float64 for such embeddings), within
        [-1, 1] or NaN.

    References:
        Zhang et al. 2020, section 3. bert-score 0.3.13, `greedy_cos_idf`, which multiplies padded
        similarities by 0 instead; at batch size 1 both are equal.
    """
    lengths = candidate_lengths, reference_lengths
    best = best_matches(candidate, reference, *lengths)
    return average(best, candidate_weights, reference_weights, *lengths)


def best_matches(
    candidate: Tensor, reference: Tensor, candidate_lengths: Tensor, reference_lengths: Tensor
) -> BestMatches:
    """Find the similarity of each token to its most similar one; see `greedy_match`.

    On padding it is minus infinity, or that of the padding's embedding.
    """
    similarity = torch.bmm(candidate, reference.transpose(1, 2))  # (B, C, R)
    # Not less than float32. Float64 stays, for numerical checks of the gradient.
    similarity = similarity.to(torch.promote_types(similarity.dtype, torch.float32))
    candidate_padding = _padding_mask(candidate_lengths, candidate.shape[1])
    reference_padding = _padding_mask(reference_lengths, reference.shape[1])
    lowest = float("-inf")
    row_best = similarity.masked_fill(reference_padding[:, None, :], lowest).amax(dim=2)
    column_best = similarity.masked_fill(candidate_padding[:, :, None], lowest).amax(dim=1)
    return BestMatches(row_best, column_best)


def average(
    best: BestMatches,
    candidate_weights: Tensor,
    reference_weights: Tensor,
    candidate_lengths: Tensor,
    reference_lengths: Tensor,
) -> PairScores:
    """Average the matches of B pairs; see `greedy_match`. The same matches serve any weights."""
    precision = _weighted_mean(best.candidate, candidate_weights)
    recall = _weighted_mean(best.reference, reference_weights)
    return combine(precision, recall, candidate_lengths, reference_lengths)


def best_matches_in_tiles(candidate: Tensor, reference: Tensor, *, side: int) -> BestMatches:
    """Match one pair whose C x R similarities need not be in memory at the same time.

    The matches are those of `best_matches` up to the rounding of single similarities. Texts are
    unit vectors, (C, H) and (R, H); a tile has at most `side` tokens of either.
    """
    lowest, device = float("-inf"), candidate.device
    row_best, column_best = (
        torch.full((len(side),), lowest, dtype=torch.float32, device=device)
        for side in (candidate, reference)
    )
    for first in range(0, len(candidate), side):
        rows = row_best[first : first + side]  # a view, as `columns` is
        for other in range(0, len(reference), side):
            columns = column_best[other : other + side]
            tile = (candidate[first : first + side] @ reference[other : other + side].T).float()
            # NaN is kept, as by `amax`.
            torch.maximum(rows, tile.amax(dim=1), out=rows)
            torch.maximum(columns, tile.amax(dim=0), out=columns)
    return BestMatches(row_best[None], column_best[None])


def _padding_mask(lengths: Tensor, width: int) -> Tensor:
    return torch.arange(width, device=lengths.device)[None, :] >= lengths[:, None]


def _weighted_mean(best: Tensor, weights: Tensor) -> Tensor:
    # Divided before the sum, in the order of bert-score: other orders move the last bits.
    shares = weights / weights.sum(dim=1, keepdim=True)
    # The maximum on padding is minus infinity, and 0 times infinity would be NaN.
    return (best.masked_fill(weights == 0, 0.0) * shares).sum(dim=1)


def combine(
    precision: Tensor, recall: Tensor, candidate_lengths: Tensor, reference_lengths: Tensor
) -> PairScores:
    """Compute F1, then apply the rule for empty texts, as bert-score does. Shape (B,) each."""
    # Before the rule for empty texts, so their F1 stays what it was.
    f1 = 2 * precision * recall / (precision + recall)
    if f1.requires_grad:
        # Again, with other numbers where it is NaN: the gradient there would be NaN as well, not 0.
        left, right = (value.masked_fill(f1.isnan(), 1.0) for value in (precision, recall))
        f1 = torch.where(f1.isnan(), f1.detach(), 2 * left * right / (left + right))
    empty = (candidate_lengths == EMPTY_LENGTH) | (reference_lengths == EMPTY_LENGTH)
    return PairScores(
        precision.masked_fill(empty, 0.0),
        recall.masked_fill(empty, 0.0),
        f1.masked_fill(f1.isnan(), 0.0),
    )
