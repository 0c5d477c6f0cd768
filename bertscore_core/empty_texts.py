"""Empty texts: which texts are empty, and what a pair with an empty side scores.

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
from dataclasses import dataclass

import numpy as np

from bertscore_core.tokens import BoolArray, FloatArray, TextPairs, TokenizedTexts

EMPTY_LENGTH = 2
"""bert-score treats a text as empty if it has exactly this many tokens (its two special ones)."""

EMPTY_RULES = ("reference", "zero", "null")
"""Rules for what a pair with an empty side scores; see above."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmptySides:
    """Which of P pairs have an empty side.

    Attributes:
        candidate: Whether the candidate is empty. Shape (P,).
        reference: Whether the reference is empty. Shape (P,).
        counted: Whether neither is empty, but bert-score treats one as empty, since it has exactly
            two tokens. Shape (P,).
    """

    candidate: BoolArray
    reference: BoolArray
    counted: BoolArray

    @classmethod
    def find(cls, pairs: TextPairs, empty_ids: Sequence[int]) -> "EmptySides":
        """Find the empty sides of P pairs.

        Args:
            pairs: The pairs.
            empty_ids: The tokens of an empty text.
        """
        candidates, references = pairs.candidates, pairs.references
        empty = _is_empty(pairs.texts, empty_ids)
        short = pairs.texts.lengths == EMPTY_LENGTH
        either = empty[candidates] | empty[references]
        return cls(
            candidate=empty[candidates],
            reference=empty[references],
            # Kept apart, since under `zero` only texts that are really empty score 0.
            counted=(short[candidates] | short[references]) & ~either,
        )

    @property
    def either(self) -> BoolArray:
        """Whether a side is empty. Shape (P,)."""
        either: BoolArray = self.candidate | self.reference
        return either


def score_empty(scores: FloatArray, empty: BoolArray, rule: str) -> FloatArray:
    """Apply the rule to the pairs with an empty side.

    Args:
        scores: The scores of bert-score. Shape (layers, P, 3).
        empty: Whether a side is empty. Shape (P,).
        rule: One of `EMPTY_RULES`. Under `null` such a pair scores minus infinity, so it is the
            best of several references only if all are empty; see `drop_empty`.
    """
    if rule == "reference":
        return scores
    # Not NaN yet under `null`: NaN would win the maximum over several references.
    value = np.float32(0.0 if rule == "zero" else -np.inf)
    return np.where(empty[None, :, None], value, scores)


def drop_empty(best: FloatArray, empty: BoolArray, rule: str) -> FloatArray:
    """Remove the scores of candidates all of whose pairs have an empty side, under `null`.

    Args:
        best: Best scores over the references of N candidates. Shape (layers, N, 3).
        empty: Whether all pairs of a candidate have an empty side. Shape (N,).
        rule: One of `EMPTY_RULES`.
    """
    return np.where(empty[None, :, None], np.float32(np.nan), best) if rule == "null" else best


def _is_empty(tokens: TokenizedTexts, empty_ids: Sequence[int]) -> BoolArray:
    """Tell which texts have the tokens of an empty text. Shape (N,)."""
    # Few texts have that length, so only those are compared token by token.
    same_length = np.flatnonzero(tokens.lengths == len(empty_ids))
    empty = np.zeros(len(tokens), dtype=np.bool_)
    empty[same_length] = [
        np.array_equal(tokens.row(int(index)), empty_ids) for index in same_length
    ]
    return empty
