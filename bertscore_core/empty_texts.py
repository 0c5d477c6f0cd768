"""Which texts are empty, and what a pair with an empty side scores.

A text is empty if it has the same tokens as "": white space, or zero-width characters that the
tokenizer drops. One rule applies in the library, the job and every pipeline, also to candidates
with several references. It is part of the signature:

    reference   What bert-score does. A text of exactly two tokens counts as empty: precision and
                recall are 0, and F1 is kept if it is a number. An empty text that has one special
                token (T5, Pegasus) or three is scored by its special tokens.
    zero        Precision, recall and F1 are 0 if a side is empty, whatever the tokenizer. All
                other pairs score as under `reference`.
    null        No score (NaN) if a side is empty. An empty reference among others is skipped.
"""

from collections.abc import Sequence

import numpy as np

from bertscore_core.tokens import BoolArray, FloatArray, TokenizedTexts

EMPTY_LENGTH = 2
"""bert-score treats a text as empty if it has exactly this many tokens (its two special ones)."""

EMPTY_RULES = ("reference", "zero", "null")
"""Rules for what a pair with an empty side scores; see above."""


def are_empty(tokens: TokenizedTexts, empty_ids: Sequence[int]) -> BoolArray:
    """Tell which of N texts are empty; `empty_ids` are the tokens of an empty text. Shape (N,)."""
    # Few texts have that length, so only those are compared token by token.
    same_length = np.flatnonzero(tokens.lengths == len(empty_ids))
    empty = np.zeros(len(tokens), dtype=np.bool_)
    empty[same_length] = [
        np.array_equal(tokens.row(int(index)), empty_ids) for index in same_length
    ]
    return empty


def score_empty(scores: FloatArray, empty: BoolArray, rule: str) -> FloatArray:
    """Apply one of `EMPTY_RULES` to the scores (layers, P, 3) of pairs with an empty side, (P,).

    Under `null` such a pair scores minus infinity, so it is the best of several references only if
    all are empty; then it has no score.
    """
    if rule == "reference":
        return scores
    # Not NaN yet under `null`: NaN would win the maximum over several references.
    value = np.float32(0.0 if rule == "zero" else -np.inf)
    return np.where(empty[None, :, None], value, scores)
