"""What a score is: a specification that runs, to be read beside the paper.

It takes one pair of texts at a time, in float64 and with numpy alone. Every faster path of the
project is tested against it; nothing else calls it. It follows section 3 of the paper.

Axes: C tokens of a candidate, R of a reference, T of any text, special tokens included; H hidden
size; L layers. A score is precision, recall and F1, of shape (3,); before rescaling from -1 to 1.

References:
    Zhang, Kishore, Wu, Weinberger, Artzi, "BERTScore: Evaluating Text Generation with BERT", ICLR
    2020. What the paper leaves open is as in bert-score 0.3.13 at batch size 1.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]

NOISE = 1e-6
"""Scores that differ by no more are equal: so far the batch and the processor move float32."""


class Text(NamedTuple):
    """A text: the ids of its T tokens, their vectors (T, H) and their weights (T,)."""

    ids: Sequence[int]
    vectors: Array
    weights: Array


# Token representation.


def vectors_at(states: Array, num_layers: int, norm: Callable[[Array], Array] | None) -> Array:
    """Choose the hidden states that stand for the tokens of a text. Shape (T, H).

    Args:
        states: What the embeddings and then each layer put out. Shape (L + 1, T, H).
        num_layers: Layers that a text goes through, from 0 (the embeddings alone) to L.
        norm: The norm behind the last layer, as in T5; row L has passed it. For one lower layer
            bert-score cuts the encoder there, so that layer passes it, too. When it returns all
            layers, they do not: give None. None also if there is no norm.
    """
    is_last = num_layers == len(states) - 1
    return states[num_layers] if is_last or norm is None else norm(states[num_layers])


def window_starts(tokens: int, size: int) -> list[int]:
    """Place windows over more tokens than their size: half a window apart, the last at the end."""
    last = tokens - size
    return [*range(0, last, max(size // 2, 1)), last]


def nearest_window(token: int, starts: Sequence[int], size: int) -> int:
    """Number the window whose middle is nearest to a token, of two equally near the first."""
    return min(range(len(starts)), key=lambda k: abs(token - (starts[k] + (size - 1) / 2)))


def vectors_in_windows(
    ids: Sequence[int], encode: Callable[[Sequence[int]], Array], shape: tuple[int, int, int]
) -> Array:
    """Encode a text of any length; a token's vector is that of its nearest window. Shape (T, H).

    The project's own: bert-score cuts texts. Every window has the special tokens. The vectors of
    those before the text are from the first window, of those after it from the last.

    Args:
        ids: Its T tokens.
        encode: Turns the ids of a window into their vectors, (tokens, H).
        shape: Tokens of a window, and how many of them are special tokens before and after.
    """
    length, before, after = shape
    if len(ids) <= length:
        return encode(ids)
    end, size = len(ids) - after, length - before - after
    starts = window_starts(end - before, size)
    windows = [
        encode([*ids[:before], *ids[before + start :][:size], *ids[end:]]) for start in starts
    ]
    nearest = [nearest_window(token, starts, size) for token in range(end - before)]
    rows = [windows[k][before + token - starts[k]] for token, k in enumerate(nearest)]
    return np.stack([*windows[0][:before], *rows, *windows[-1][before + size :]])


# Similarity measure.


def similarities(candidate: Array, reference: Array) -> Array:
    """Compare tokens by the cosines of their vectors, (C, H) and (R, H). Shape (C, R)."""
    left, right = (np.asarray(vectors, dtype=np.float64) for vectors in (candidate, reference))
    left, right = (text / np.linalg.norm(text, axis=1, keepdims=True) for text in (left, right))
    cosines: Array = left @ right.T
    return cosines


# BERTScore.


def match(
    candidate: Array, reference: Array, candidate_weights: Array, reference_weights: Array
) -> Array:
    """Score a pair, where each token of a text takes the most similar token of the other.

    Special tokens may be taken, although as a rule they weigh 0 themselves. Shapes: the vectors of
    the tokens (C, H) and (R, H), at least one of each, and their weights, (C,) and (R,).

    References:
        bert-score: a text whose weights add up to 0 has no precision or recall (NaN). F1 is 0 where
        it is not defined. A text of exactly two tokens counts as empty: precision and recall are
        then 0, but F1 stays what it was.
    """
    cosines = similarities(candidate, reference)
    precision = weighted_mean(cosines.max(axis=1), candidate_weights)
    recall = weighted_mean(cosines.max(axis=0), reference_weights)
    total = precision + recall
    f1 = 0.0 if math.isnan(total) or total == 0 else 2 * precision * recall / total
    return np.array([0, 0, f1] if 2 in cosines.shape else [precision, recall, f1])


def weighted_mean(values: Array, weights: Array) -> float:
    """Average the values of a text's tokens; NaN without any weight."""
    total = float(np.sum(weights, dtype=np.float64))
    return float(values @ weights) / total if total else math.nan


# Importance weighting.


def plain_weights(ids: Sequence[int], zero_weight_ids: Collection[int]) -> Array:
    """Weigh tokens without idf: separator and classifier 0, all others 1. Shape (T,).

    As in bert-score: other special tokens, such as the end mark of T5, count as words do.
    """
    return np.array([0.0 if token in zero_weight_ids else 1.0 for token in ids])


def idf_weights(ids: Sequence[int], documents: Sequence[Collection[int]]) -> Array:
    """Weigh tokens, of either side, by ln((N + 1) / (n + 1)), in nats. Shape (T,).

    Documents are the tokens of all N references, equal and empty ones included; a token is in n of
    them. Special tokens are in all, and so weigh 0. The smoothing of the paper is as in bert-score.
    """
    frequencies = [sum(token in document for document in documents) for token in ids]
    return np.log((len(documents) + 1) / (np.array(frequencies) + 1))


# Empty texts and several references, of which the paper says little.


def score_pair(
    candidate: Text, reference: Text, *, empty_ids: Sequence[int], rule: str, weightless: float
) -> Array:
    """Score a pair, a text of which may be empty: of the tokens that "" has. Shape (3,).

    Args:
        candidate: The text to score.
        reference: What to score it by.
        empty_ids: The tokens of "".
        rule: With an empty text, `reference` scores its tokens, as bert-score does; `zero` scores
            0; `null` gives no score, here minus infinity.
        weightless: What NaN becomes if no text is empty. It stays NaN with idf, as in bert-score;
            it is 0 without idf, where a text is nothing but special tokens.
    """
    is_empty = list(empty_ids) in (list(candidate.ids), list(reference.ids))
    if is_empty and rule != "reference":
        return np.full(3, {"zero": 0.0, "null": -math.inf}[rule])
    if len(candidate.ids) == 0 or len(reference.ids) == 0:
        return np.zeros(3)
    scores = match(candidate.vectors, reference.vectors, candidate.weights, reference.weights)
    return scores if is_empty else np.where(np.isnan(scores), weightless, scores)


def best(pairs: Sequence[Array]) -> tuple[Array, int]:
    """Take the best of the scores with each reference, (3,), and number the best reference.

    As in bert-score, each measure is the highest by itself, so F1 need not be that of precision and
    recall; NaN is highest of all. The best reference is the first whose F1 equals the highest, but
    for `NOISE`. One without a score is left out; without any, the result is NaN.
    """
    highest, f1 = np.max(pairs, axis=0), np.array(pairs)[:, 2]
    is_best = np.isclose(f1, highest[2], rtol=0, atol=NOISE, equal_nan=True)
    return np.where(np.isneginf(highest), np.nan, highest), int(np.argmax(is_best))


# Baseline rescaling.


def rescale(score: Array, baseline: Array) -> Array:
    """Move the baseline, the mean score of random pairs, to 0 and leave 1 where it is.

    This comes last. Each measure has its own baseline: both have shape (3,).
    """
    return (score - baseline) / (1 - baseline)
