"""Token ids and token embeddings of many texts, without padding.

Axis letters used in every docstring of this package: N texts or pairs, T tokens of all texts
together, B pairs in a batch, C candidate tokens, R reference tokens, H hidden size, V vocabulary,
L layers of the encoder (so L + 1 rows of hidden states).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError

IntArray = npt.NDArray[np.int64]
TokenIds = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


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

    def __post_init__(self) -> None:
        """Check that the three arrays describe the same texts."""
        if len(self.offsets) != len(self.truncated) + 1 or self.offsets[-1] != len(self.ids):
            raise InputError(
                f"token offsets do not fit: got {len(self.offsets)} offsets ending at "
                f"{self.offsets[-1]}, {len(self.truncated)} texts and {len(self.ids)} ids; "
                "expected one offset more than texts, ending at the number of ids."
            )

    def __len__(self) -> int:
        """Return the number of texts, N."""
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
        counts = self.lengths[rows]
        # Positions of all tokens at once, without a loop over texts.
        shifts = self.offsets[rows] - (np.cumsum(counts) - counts)
        places: IntArray = np.repeat(shifts, counts) + np.arange(counts.sum())
        return self.ids[places]

    @classmethod
    def from_rows(
        cls, rows: Sequence[Sequence[int]], truncated: Sequence[bool] | None = None
    ) -> "TokenizedTexts":
        """Lay the token ids of N texts end to end."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = [np.asarray(row, dtype=np.int32) for row in rows if len(row)]
        return cls(
            ids=np.concatenate(flat) if flat else np.zeros(0, dtype=np.int32),
            offsets=offsets,
            truncated=np.asarray(
                truncated if truncated is not None else [False] * len(rows), dtype=np.bool_
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextPairs:
    """P pairs of texts, given by index. A text may be in several pairs.

    Attributes:
        texts: The distinct texts.
        candidates: Index of each pair's candidate. Shape (P,).
        references: Index of each pair's reference. Shape (P,).
    """

    texts: TokenizedTexts
    candidates: IntArray
    references: IntArray

    def __len__(self) -> int:
        """Return the number of pairs, P."""
        return len(self.candidates)

    def select(self, rows: IntArray | BoolArray) -> "TextPairs":
        """Return some of the pairs, by index or by mask."""
        return TextPairs(
            texts=self.texts, candidates=self.candidates[rows], references=self.references[rows]
        )
