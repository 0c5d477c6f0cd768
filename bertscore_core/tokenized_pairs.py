"""Pairs of texts as token ids, and values of a pair's references combined."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.tokens import IntArray, TextPairs, TokenizedTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPairs:
    """N candidates and their references as token ids.

    Attributes:
        texts: The distinct texts.
        candidates: Index of each candidate. Shape (N,).
        references: Indices of all references, those of the first candidate first.
        counts: Number of references of each candidate. Shape (N,).
    """

    texts: TokenizedTexts
    candidates: IntArray
    references: IntArray
    counts: IntArray

    def over_all(self, combine: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Combine a value of each text over a candidate and all its references. Shape (N,)."""
        starts = np.cumsum(self.counts) - self.counts
        over: npt.NDArray[Any] = combine(
            values[self.candidates], reduce_groups(combine, values[self.references], starts)
        )
        return over

    def flat(self) -> TextPairs:
        """Return one pair for each reference."""
        return TextPairs(
            texts=self.texts,
            candidates=np.repeat(self.candidates, self.counts),
            references=self.references,
        )


def reduce_groups(
    combine: np.ufunc, values: npt.NDArray[Any], starts: IntArray, axis: int = 0
) -> npt.NDArray[Any]:
    """Combine the values of each group of references, which begin at `starts`.

    A maximum is NaN if one of the values is. Without groups, which `reduceat` refuses, the values
    are returned, of which there are none.
    """
    if not len(starts):
        return values
    reduced: npt.NDArray[Any] = combine.reduceat(values, starts, axis=axis)
    return reduced
