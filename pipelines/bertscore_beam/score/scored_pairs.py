"""Pairs with scores or a reason: some of them, scored with one setting, and all of a table.

    several ScoredRows --ScoredPairs.joined--> ScoredPairs --by_column--> score columns

This module does not use Beam.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump import columns
from bertscore_core import Scores, ScoreSummary
from bertscore_core.work import Work

ScoreColumn: TypeAlias = "np.ma.MaskedArray[Any, Any]"
"""Values of a score column, masked where there are none. Shape (N,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredRows:
    """The M rows of a table that were scored with one setting.

    Attributes:
        rows: Their positions in the table, ascending. Shape (M,).
        scores: Their scores; `scores.scored` says which are numbers.
        reasons: Why a row has no scores, or scores to check; None otherwise. Shape (M,).
        work: The work of the device.
    """

    rows: npt.NDArray[np.int64]
    scores: Scores
    reasons: list[str | None]
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredPairs:
    """N pairs, with scores for those that can be scored.

    Attributes:
        rows: Positions of the M encoded pairs, ascending. Shape (M,).
        scores: Scores of these pairs; `scores.scored` says which are numbers.
        reasons: Why a pair has no scores, or scores to check; None otherwise. Shape (N,).
        work: The work of the device.
    """

    rows: npt.NDArray[np.int64]
    scores: Scores
    reasons: list[str | None]
    work: Work

    @classmethod
    def joined(cls, reasons: Sequence[str | None], subsets: Sequence[ScoredRows]) -> "ScoredPairs":
        """Put the scored rows of a table together, in the order of the table.

        Args:
            reasons: Why a row was not scored at all; None for rows in a subset. Shape (N,).
            subsets: Disjoint sets of its rows.
        """
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *(part.rows for part in subsets)])
        order = np.argsort(rows)
        every_reason = list(reasons)
        work = Work()
        for part in subsets:
            for row, reason in zip(part.rows.tolist(), part.reasons, strict=True):
                every_reason[row] = reason
            work += part.work
        return cls(
            rows=rows[order],
            scores=Scores.joined([part.scores for part in subsets]).select(order),
            reasons=[None if reason is None else str(reason) for reason in every_reason],
            work=work,
        )

    def __len__(self) -> int:
        """Return the number of pairs, N."""
        return len(self.reasons)

    def summary(self, among: npt.NDArray[np.bool_] | None = None) -> ScoreSummary:
        """Return the sums over the pairs.

        Args:
            among: Which pairs to add up; None for all. Shape (N,).
        """
        chosen = np.ones(len(self), dtype=np.bool_) if among is None else among
        kept = self.scores.scored & chosen[self.rows]
        reasons = (self.reasons[row] for row in np.flatnonzero(chosen).tolist())
        return ScoreSummary.of(
            self.scores.precision[kept],
            self.scores.recall[kept],
            self.scores.f1[kept],
            truncated=self.scores.truncated[kept],
            windowed=self.scores.windows[kept] > 1,
            rows=int(np.count_nonzero(chosen)),
            reasons=Counter(reason for reason in reasons if reason is not None),
            rejected_reasons=Counter(
                reason for row, reason in self.rejected().items() if chosen[row]
            ),
        )

    def rejected(self) -> dict[int, str]:
        """Return the reason of each pair without scores, by its position."""
        scored = set(self.rows[self.scores.scored].tolist())
        return {
            row: reason
            for row, reason in enumerate(self.reasons)
            if reason is not None and row not in scored
        }

    def by_column(self, *, rescaled: bool, windowed: bool = False) -> dict[str, ScoreColumn]:
        """Return the scores of all N pairs by column, without the reasons.

        Args:
            rescaled: Whether to include the raw scores.
            windowed: Whether to include the number of windows.
        """
        scores, kept = self.scores, self.scores.scored
        seen = ~self.scores.too_long  # the tokens of others were not counted to the end
        result = {
            columns.PRECISION: self._lay_out(scores.precision, kept),
            columns.RECALL: self._lay_out(scores.recall, kept),
            columns.F1: self._lay_out(scores.f1, kept),
        }
        if rescaled:
            result[columns.RAW_PRECISION] = self._lay_out(scores.raw_precision, kept)
            result[columns.RAW_RECALL] = self._lay_out(scores.raw_recall, kept)
            result[columns.RAW_F1] = self._lay_out(scores.raw_f1, kept)
        result[columns.BEST_REFERENCE] = self._lay_out(scores.best_reference, kept)
        result[columns.CANDIDATE_TOKENS] = self._lay_out(scores.candidate_tokens, seen)
        result[columns.REFERENCE_TOKENS] = self._lay_out(scores.reference_tokens, seen)
        result[columns.TRUNCATED] = self._lay_out(scores.truncated, seen)
        if windowed:
            result[columns.WINDOWS] = self._lay_out(scores.windows, seen)
        return result

    def _lay_out(self, values: npt.NDArray[Any], filled: npt.NDArray[np.bool_]) -> ScoreColumn:
        laid_out = np.zeros(len(self), dtype=values.dtype)
        missing = np.ones(len(self), dtype=np.bool_)
        laid_out[self.rows] = values
        missing[self.rows] = ~filled
        return np.ma.MaskedArray(laid_out, mask=missing)
