"""Scores of pairs, and sums of them that can be merged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscore_core.score_views import (
    MeanScores,
    ScoresSummary,
    frame_of,
    html_of,
    mean_of,
    summary_of,
    words_of,
)
from bertscore_core.sums import Sums
from bertscore_core.tokens import BoolArray, FloatArray, TokenIds

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Scores of N pairs, in input order.

    With all layers at once the score arrays have shape (L + 1, N), one row for each layer.

    Attributes:
        precision: Rescaled if the scorer rescales. Shape (N,), float32.
        recall: The same.
        f1: The same. It need not be 2PR / (P + R): with several references each measure is the best
            over them separately, and bert-score keeps F1 for some texts; see `counted_as_empty`.
        raw_precision: Before rescaling; equal to `precision` if the scorer does not rescale.
        raw_recall: The same.
        raw_f1: The same.
        best_reference: Index of the reference with the highest F1. Shape as the scores, int32.
        candidate_tokens: Tokens of the candidate, special ones included. Shape (N,), int32.
        reference_tokens: Tokens of all its references together. Shape (N,), int32.
        truncated: Whether the candidate or a reference was cut to the maximum length. Shape (N,).
        too_long: Whether a text is longer than the maximum length and the pair is therefore not
            scored: all scores are NaN, and such a text has the maximum length as its number of
            tokens. Only with `long_text` `error`. Shape (N,).
        windows: Windows of the text of the pair with the most of them; 1 if all texts fit. More
            only with `long_text` `windows`. Shape (N,), int32.
        empty_candidate: Whether the candidate is empty: it has only special tokens. Shape (N,).
        empty_reference: Whether all references are empty. Shape (N,).
        counted_as_empty: Whether bert-score treats a text as empty that is not, since it has
            exactly two tokens: precision and recall are 0, and F1 is kept. Shape (N,).
        only_special: Whether the candidate, or every reference, has nothing but special tokens,
            which weigh 0, and is not empty. Only without idf. F1 is 0, and so is precision (of the
            candidate) or recall (of the references), where bert-score has NaN. Shape (N,).
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
    too_long: BoolArray
    windows: TokenIds
    empty_candidate: BoolArray
    empty_reference: BoolArray
    counted_as_empty: BoolArray
    only_special: BoolArray

    @classmethod
    def joined(cls, parts: Sequence["Scores"]) -> "Scores":
        """Return the scores of several sets of pairs, one set after the other.

        Without any set they are the scores of one layer of no pairs.
        """
        every = parts or [cls._of_no_pairs()]
        return cls(
            **{
                f.name: np.concatenate([getattr(part, f.name) for part in every], axis=-1)
                for f in fields(cls)
            }
        )

    @classmethod
    def _of_no_pairs(cls) -> "Scores":
        measures = np.zeros(0, dtype=np.float32)
        counts, marks = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.bool_)
        return cls(
            precision=measures,
            recall=measures,
            f1=measures,
            raw_precision=measures,
            raw_recall=measures,
            raw_f1=measures,
            best_reference=counts,
            candidate_tokens=counts,
            reference_tokens=counts,
            truncated=marks,
            too_long=marks,
            windows=counts,
            empty_candidate=marks,
            empty_reference=marks,
            counted_as_empty=marks,
            only_special=marks,
        )

    def select(self, pairs: npt.NDArray[Any]) -> "Scores":
        """Return the scores of some pairs.

        Args:
            pairs: Their positions, in the order wanted; or which ones to keep. Shape (K,) or (N,).
        """
        return Scores(**{f.name: getattr(self, f.name)[..., pairs] for f in fields(Scores)})

    def __len__(self) -> int:
        """Return the number of pairs, N."""
        return len(self.candidate_tokens)

    @property
    def scored(self) -> BoolArray:
        """Pairs whose precision and recall are not NaN in any layer. Shape (N,)."""
        # One layer has shape (N,), several have (L + 1, N).
        sums = np.atleast_2d(self.raw_precision + self.raw_recall)
        scored: BoolArray = ~np.logical_or.reduce(np.isnan(sums), axis=0)
        return scored

    @property
    def unweighted(self) -> BoolArray:
        """Pairs without scores since a text that is not empty has no weighted token. Shape (N,)."""
        others = self.empty_candidate | self.empty_reference | self.too_long
        unweighted: BoolArray = ~(self.scored | others)
        return unweighted

    def mean(self) -> MeanScores:
        """Return mean precision, recall and F1 of the scored pairs: the corpus scores.

        NaN without scored pairs. With all layers at once they are arrays of shape (L + 1,).
        """
        return mean_of(self)

    def summary(self, confidence: float = 0.95) -> ScoresSummary:
        """Return means with their errors and intervals, quantiles and counts; it prints as a table.

        Args:
            confidence: Confidence of the intervals of the means. Pairs count as independent.

        Raises:
            InputError: The scores are of several layers, or the confidence is not between 0 and 1.
        """
        return summary_of(self, confidence)

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame with a row for each pair and a column for each attribute.

        Raises:
            ConfigError: pandas is not installed.
            InputError: The scores are of several layers.
        """
        return frame_of(self)

    def __repr__(self) -> str:
        """Show the number of pairs, the means, and how many are truncated, empty or not scored."""
        return words_of(self)

    def _repr_html_(self) -> str:
        """Show the same in a notebook, with the first pairs."""
        return html_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary(Sums):
    """Sums over scored rows, from which corpus scores are computed. Merged with `+`.

    Attributes:
        rows: Rows seen.
        scored: Rows with scores.
        precision: Sum over the scored rows.
        recall: The same.
        f1: The same.
        truncated: Scored rows with a text that was cut at the maximum length.
        windowed: Scored rows with a text in several windows.
        reasons: Number of rows by the reason they have, with and without scores.
        rejected_reasons: The same of the rows without scores alone.
    """

    rows: int = 0
    scored: int = 0
    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0
    truncated: int = 0
    windowed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    rejected_reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        precision: npt.NDArray[np.floating],
        recall: npt.NDArray[np.floating],
        f1: npt.NDArray[np.floating],
        *,
        truncated: npt.NDArray[np.bool_],
        windowed: npt.NDArray[np.bool_],
        rows: int,
        reasons: Mapping[str, int],
        rejected_reasons: Mapping[str, int],
    ) -> "ScoreSummary":
        """Sum the scores of the scored rows. Each array has shape (scored,)."""
        return cls(
            rows=rows,
            scored=len(f1),
            # fsum is exact, so the order of rows does not matter.
            precision=math.fsum(precision.tolist()),
            recall=math.fsum(recall.tolist()),
            f1=math.fsum(f1.tolist()),
            truncated=int(np.count_nonzero(truncated)),
            windowed=int(np.count_nonzero(windowed)),
            reasons=dict(reasons),
            rejected_reasons=dict(rejected_reasons),
        )

    @property
    def means(self) -> dict[str, float | None]:
        """Corpus precision, recall and F1: means over the scored rows, None if there are none."""
        sums = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: value / self.scored if self.scored else None for name, value in sums.items()}

    @property
    def truncated_fraction(self) -> float:
        """Share of the scored rows with a text that was cut, 0 if there are none."""
        return self.truncated / self.scored if self.scored else 0.0
