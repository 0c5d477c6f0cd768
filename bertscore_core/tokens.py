"""Texts as token ids, their pairs, and values of references combined, in plain numpy.

Axis letters used in every docstring of this package: N texts or pairs, T tokens of all texts
together, B pairs in a batch, C candidate tokens, R reference tokens, H hidden size, V vocabulary,
L layers of the encoder (so L + 1 rows of hidden states).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.specification import NOISE

IntArray = npt.NDArray[np.int64]
TokenIds = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


def is_encodable(text: str) -> bool:
    """Tell whether a text is valid Unicode, without lone surrogates.

    Raises:
        TypeError: it is not a text.
    """
    if str.isascii(text):
        return True
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedTexts:
    """Token ids of N texts, laid end to end.

    Attributes:
        ids: Token ids of all texts, special tokens included. Shape (T,), int32.
        offsets: Text n has `ids[offsets[n]:offsets[n + 1]]`. Shape (N + 1,), int64.
        truncated: Whether text n was longer than the maximum length. Shape (N,), bool.
    """

    ids: TokenIds
    offsets: IntArray
    truncated: BoolArray

    def __len__(self) -> int:
        return len(self.truncated)

    @property
    def lengths(self) -> IntArray:
        """Tokens per text, special tokens included. Shape (N,)."""
        return np.diff(self.offsets)

    def row(self, index: int) -> TokenIds:
        """Return the token ids of one text. Shape (tokens,)."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, rows: IntArray) -> TokenIds:
        """Return the token ids of some texts, laid end to end. Shape (their tokens,)."""
        return laid_out(self.ids, self.offsets[rows], self.lengths[rows])

    def select(self, rows: IntArray) -> "TokenizedTexts":
        """Return some of the texts, in another order."""
        return TokenizedTexts(
            ids=self.gather(rows),
            offsets=offsets_of(self.lengths[rows]),
            truncated=self.truncated[rows],
        )

    def count(self, ids: Sequence[int]) -> IntArray:
        """Return how many tokens of each text are one of these. Shape (N,)."""
        return np.diff(offsets_of(np.isin(self.ids, ids))[self.offsets])

    @classmethod
    def joined(cls, parts: "Sequence[TokenizedTexts]") -> "TokenizedTexts":
        """Return the texts of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            ids=np.concatenate([part.ids for part in parts]),
            offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
            truncated=np.concatenate([part.truncated for part in parts]),
        )

    @classmethod
    def from_rows(
        cls, rows: Sequence[Sequence[int]], truncated: Sequence[bool] | None = None
    ) -> "TokenizedTexts":
        """Lay the token ids of N texts end to end."""
        flat = [np.asarray(row, dtype=np.int32) for row in rows if len(row)]
        return cls(
            ids=np.concatenate(flat) if flat else np.zeros(0, dtype=np.int32),
            offsets=offsets_of(np.array([len(row) for row in rows], dtype=np.int64)),
            truncated=np.asarray(
                truncated if truncated is not None else [False] * len(rows), dtype=np.bool_
            ),
        )


def offsets_of(counts: IntArray | BoolArray) -> IntArray:
    """Return where each of N pieces, laid end to end, begins, and where the last one ends.

    Shape (N + 1,).
    """
    return np.concatenate([[0], np.cumsum(counts)])


def places_within(counts: IntArray) -> IntArray:
    """Return the place of each item in its piece, from 0, of pieces that are laid end to end."""
    places: IntArray = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def laid_out(ids: TokenIds, begins: IntArray, counts: IntArray) -> TokenIds:
    """Return pieces of token ids, which begin there and have this many, laid end to end."""
    # Positions of all tokens at once, without a loop over pieces.
    shifts = begins - (np.cumsum(counts) - counts)
    places: IntArray = np.repeat(shifts, counts) + np.arange(counts.sum())
    return ids[places]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextPairs:
    """P pairs of texts, by the indices of their sides, (P,), among the distinct texts."""

    texts: TokenizedTexts
    candidates: IntArray
    references: IntArray

    def __len__(self) -> int:
        return len(self.candidates)

    def select(self, rows: IntArray | BoolArray) -> "TextPairs":
        """Return some of the pairs, by index or by mask."""
        return TextPairs(
            texts=self.texts, candidates=self.candidates[rows], references=self.references[rows]
        )

    def used_texts(self) -> IntArray:
        """Return the indices of the texts that are in some pair, each once, in order."""
        is_used = np.zeros(len(self.texts), dtype=np.bool_)  # `np.unique` takes ten times as long
        is_used[self.candidates] = is_used[self.references] = True
        return np.flatnonzero(is_used)

    def without_mirrored(self) -> tuple["TextPairs", IntArray, BoolArray]:
        """Return the pairs that differ by more than their order: Q of P.

        Also which of them each pair is, and whether it is that pair the other way round. Shapes
        (P,).
        """
        low = np.minimum(self.candidates, self.references)
        high = np.maximum(self.candidates, self.references)
        _, rows, places = np.unique(
            low * len(self.texts) + high, return_index=True, return_inverse=True
        )
        pairs = self.select(rows)
        return pairs, places, self.candidates != pairs.candidates[places]


REFERENCE_RULES = ("best", "mean")
"""What several references give: the best of each measure, or the mean."""


def over_references(scores: FloatArray, starts: IntArray, rule: str) -> FloatArray:
    """Apply one of `REFERENCE_RULES` to scores (layers, P, 3) of references that begin at `starts`.

    A mean is over those that are scores, neither NaN nor minus infinity; NaN without any.
    """
    if rule == "best":
        return reduce_groups(np.maximum, scores, starts, axis=1)
    scored = np.isfinite(scores)
    # In double precision the order of so few references does not move the sum.
    sums = reduce_groups(np.add, np.where(scored, scores, np.float64(0)), starts, axis=1)
    with np.errstate(invalid="ignore"):
        means = sums / reduce_groups(np.add, scored.astype(np.float64), starts, axis=1)
    return np.asarray(means, dtype=np.float32)


def first_highest(values: FloatArray, starts: IntArray) -> IntArray:
    """Number the first value of each group that equals its highest, but for `NOISE`.

    NaN is highest of all. Takes values of L layers, (L, P), and where the N groups begin; each has
    a value. Returns the places in their groups, from 0. Shape (L, N).
    """
    size = values.shape[1]
    counts = np.diff(starts, append=size)
    highest = np.repeat(reduce_groups(np.maximum, values, starts, axis=1), counts, axis=1)
    is_highest = np.isclose(values, highest, rtol=0, atol=NOISE, equal_nan=True)
    places = np.where(is_highest, np.arange(size) - np.repeat(starts, counts), size)
    return reduce_groups(np.minimum, places, starts, axis=1).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPairs:
    """N candidates and their references as token ids.

    Attributes:
        candidates: Index of each candidate among the distinct texts. Shape (N,).
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
