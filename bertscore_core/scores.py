"""Scores of pairs, and sums of them that can be merged."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bertscore_core.tokens import BoolArray, FloatArray, TokenIds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Scores of N pairs, in input order.

    With all layers at once the score arrays have shape (L + 1, N), one row a layer.

    Attributes:
        precision: Rescaled when the scorer rescales. Shape (N,), float32.
        recall: The same.
        f1: The same. With several references each measure is the best over them separately, so F1
            need not be 2PR / (P + R) of the others; nor is it for texts that bert-score takes for
            empty, see `counted_as_empty`.
        raw_precision: Before rescaling; equal to `precision` when nothing was rescaled.
        raw_recall: The same.
        raw_f1: The same.
        best_reference: Index of the reference with the highest F1. Shape as the scores, int32.
        candidate_tokens: Tokens of the candidate, special ones included. Shape (N,), int32.
        reference_tokens: Tokens of all its references together. Shape (N,), int32.
        truncated: Whether the candidate or a reference was cut to the maximum length. Shape (N,).
        empty_candidate: Whether the candidate has no token but the special ones. Shape (N,).
        empty_reference: Whether every reference has none. Shape (N,).
        counted_as_empty: Whether bert-score takes a text for empty that is not, since it has
            exactly two tokens: precision and recall are 0, and F1 is kept. Shape (N,).
    """

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    raw_precision: FloatArray
    raw_recall: FloatArray
    raw_f1: FloatArray
    best_reference: TokenIds
    candidate_tokens: TokenIds
    reference_tokens: TokenIds
    truncated: BoolArray
    empty_candidate: BoolArray
    empty_reference: BoolArray
    counted_as_empty: BoolArray

    def __len__(self) -> int:
        """Return the number of pairs, N."""
        return len(self.candidate_tokens)

    @property
    def scored(self) -> BoolArray:
        """Pairs whose precision and recall are numbers, in all layers. Shape (N,)."""
        sums = np.atleast_2d(self.raw_precision + self.raw_recall)
        scored: BoolArray = ~np.logical_or.reduce(np.isnan(sums), axis=0)
        return scored

    @property
    def unweighted(self) -> BoolArray:
        """Pairs without an empty side in a text of which no token has any weight. Shape (N,)."""
        unweighted: BoolArray = ~(self.scored | self.empty_candidate | self.empty_reference)
        return unweighted

    def __repr__(self) -> str:
        """Show the number of pairs and the means."""
        if not len(self):
            return "Scores(0 pairs)"
        return (
            f"Scores({len(self)} pairs, precision={np.mean(self.precision):.4f}, "
            f"recall={np.mean(self.recall):.4f}, f1={np.mean(self.f1):.4f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """Sums over scored rows, from which corpus scores follow; merged with `+`.

    Attributes:
        rows: Rows seen.
        scored: Rows with scores.
        precision: Sum over the scored rows.
        recall: The same.
        f1: The same.
        truncated: Scored rows with a text that was cut at the maximum length.
        reasons: Rows that carry a reason, by reason.
    """

    rows: int = 0
    scored: int = 0
    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0
    truncated: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        precision: npt.NDArray[np.floating],
        recall: npt.NDArray[np.floating],
        f1: npt.NDArray[np.floating],
        *,
        truncated: npt.NDArray[np.bool_],
        rows: int,
        reasons: Mapping[str, int],
    ) -> "ScoreSummary":
        """Sum the scores of the scored rows. Each array has shape (scored,)."""
        return cls(
            rows=rows,
            scored=len(f1),
            precision=math.fsum(precision.tolist()),
            recall=math.fsum(recall.tolist()),
            f1=math.fsum(f1.tolist()),
            truncated=int(np.count_nonzero(truncated)),
            reasons=dict(reasons),
        )

    def __add__(self, other: "ScoreSummary") -> "ScoreSummary":
        """Return the sums over both sets of rows."""
        return ScoreSummary(
            rows=self.rows + other.rows,
            scored=self.scored + other.scored,
            precision=self.precision + other.precision,
            recall=self.recall + other.recall,
            f1=self.f1 + other.f1,
            truncated=self.truncated + other.truncated,
            reasons=dict(Counter(self.reasons) + Counter(other.reasons)),
        )

    @property
    def means(self) -> dict[str, float | None]:
        """Corpus precision, recall and F1: means over the scored rows; None without any."""
        sums = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: value / self.scored if self.scored else None for name, value in sums.items()}

    @property
    def truncated_fraction(self) -> float:
        """Share of the scored rows with a text that was cut; 0 without any."""
        return self.truncated / self.scored if self.scored else 0.0
