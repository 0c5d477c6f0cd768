"""Score pairs that can be scored, and give a reason for the others.

    texts --score_rows--> ScoredPairs          used by `pipelines.pairs.handler`
    table --score_table--> table with scores    used by `pipelines.score.steps`

This module does not use Beam.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_core import (
    BertScorer,
    IdfTable,
    Scores,
    ScoreSummary,
    Signature,
    TokenWeights,
)
from bertscore_core.work import Work
from pipelines.dump import columns
from pipelines.dump.columns import TableFields, column_of, is_list
from pipelines.dump.lines import Lines
from pipelines.dump.parts import SIGNATURE_KEY
from pipelines.dump.texts import (
    Reason,
    Text,
    candidate_reason,
    only_strings,
    reference_reason,
    reference_texts,
    texts_from_column,
)

SCHEMA_VERSION = "1"
"""Version of the names and meanings of the score columns, in every part's metadata."""


ScoreColumn: TypeAlias = "np.ma.MaskedArray[Any, Any]"
"""Values of a score column, masked where there are none. Shape (N,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTable:
    """A table with score columns after its own, and the sums over its rows.

    Attributes:
        table: All rows, in their order.
        summary: Sums over the rows.
        rejected: Reason of each row without scores, by its position in the table.
        work: The work of the device.
    """

    table: pa.Table
    summary: ScoreSummary
    rejected: Mapping[int, str]
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredPairs:
    """N pairs, with scores for those that can be scored.

    Attributes:
        rows: Positions of the M encoded pairs. Shape (M,).
        scores: Scores of these pairs; `scores.scored` says which are numbers.
        reasons: Why a pair has no scores, or scores to check; None otherwise. Shape (N,).
        work: The work of the device.
    """

    rows: npt.NDArray[np.int64]
    scores: Scores
    reasons: list[str | None]
    work: Work

    def __len__(self) -> int:
        """Return the number of pairs, N."""
        return len(self.reasons)

    def summary(self) -> ScoreSummary:
        """Return the sums over the pairs."""
        kept = self.scores.scored
        return ScoreSummary.of(
            self.scores.precision[kept],
            self.scores.recall[kept],
            self.scores.f1[kept],
            truncated=self.scores.truncated[kept],
            rows=len(self),
            reasons=Counter(reason for reason in self.reasons if reason is not None),
        )

    def rejected(self) -> dict[int, str]:
        """Return the reason of each pair without scores, by its position."""
        scored = set(self.rows[self.scores.scored].tolist())
        return {
            row: reason
            for row, reason in enumerate(self.reasons)
            if reason is not None and row not in scored
        }

    def by_column(self, *, rescaled: bool) -> dict[str, ScoreColumn]:
        """Return the scores of all N pairs by column, without the reasons.

        Args:
            rescaled: Whether to include the raw scores.
        """
        scores, kept = self.scores, self.scores.scored
        seen = np.ones(len(self.rows), dtype=np.bool_)
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
        return result

    def _lay_out(self, values: npt.NDArray[Any], filled: npt.NDArray[np.bool_]) -> ScoreColumn:
        laid_out = np.zeros(len(self), dtype=values.dtype)
        missing = np.ones(len(self), dtype=np.bool_)
        laid_out[self.rows] = values
        missing[self.rows] = ~filled
        return np.ma.MaskedArray(laid_out, mask=missing)


def score_rows(
    scorer: BertScorer,
    candidates: Sequence[Text],
    references: Sequence[Sequence[Text] | None],
    *,
    weights: TokenWeights,
) -> ScoredPairs:
    """Score every pair that can be scored; none is dropped and the order is kept.

    Args:
        scorer: The loaded scorer.
        candidates: N texts.
        references: The references of each candidate, None for a null.
        weights: Token weights.
    """
    reasons: list[str | None] = [
        candidate_reason(candidate) or reference_reason(group)
        for candidate, group in zip(candidates, references, strict=True)
    ]
    rows = [row for row, reason in enumerate(reasons) if reason is None]
    tokenized = scorer.tokenize(
        [candidate for row in rows if isinstance(candidate := candidates[row], str)],
        [only_strings(references[row]) for row in rows],
    )
    work = Work()
    scores = scorer.score_tokenized(tokenized, weights, work)
    for row, reason in zip(rows, _score_reasons(scores), strict=True):
        reasons[row] = reason
    return ScoredPairs(
        rows=np.array(rows, dtype=np.int64),
        scores=scores,
        reasons=[None if reason is None else str(reason) for reason in reasons],
        work=work,
    )


def score_table(
    scorer: BertScorer,
    table: pa.Table,
    fields: TableFields,
    *,
    idf: IdfTable | None,
    signature: Signature,
    unreadable: Mapping[int, str] = MappingProxyType({}),
) -> ScoredTable:
    """Score every row that can be scored; no row is dropped and the order is kept.

    Args:
        scorer: The loaded scorer.
        table: Input rows with all their columns.
        fields: The columns of texts.
        idf: The idf table, if the scorer uses idf weights.
        signature: How the scores are made. The part's metadata has it with the fingerprint of the
            idf table.
        unreadable: Reason of each row that could not be read, and whose columns are null.

    Raises:
        ConfigError: A column is missing, has a wrong type, or is named like a score column.
    """
    references = column_of(table, fields.reference_column)
    pairs = score_rows(
        scorer,
        texts_from_column(column_of(table, fields.candidate_column)),
        reference_texts(references),
        weights=scorer.token_weights(idf),
    )
    for row, reason in unreadable.items():
        pairs.reasons[row] = reason
    added = {
        name: pa.array(column.data, mask=column.mask)
        for name, column in pairs.by_column(rescaled=scorer.config.rescale).items()
    }
    if not is_list(references.type):
        del added[columns.BEST_REFERENCE]
    added[columns.ERROR] = pa.array(pairs.reasons, type=pa.string())
    return ScoredTable(
        table=columns.append_scores(table, added, _metadata(signature, idf)),
        summary=pairs.summary(),
        rejected=pairs.rejected(),
        work=pairs.work,
    )


def unreadable_rows(lines: Lines | None) -> dict[int, str]:
    """Return the reason of each row of a split that could not be read."""
    return {} if lines is None else {row: str(line.reason) for row, line in lines.bad.items()}


def final_signature(signature: Signature, idf: IdfTable | None) -> Signature:
    """Return the signature with the fingerprint of the idf table."""
    return signature if idf is None else dataclasses.replace(signature, idf=idf.fingerprint)


def _metadata(signature: Signature, idf: IdfTable | None) -> dict[str, str]:
    """Return the metadata of a part."""
    signature = final_signature(signature, idf)
    return {
        "bertscore.schema_version": SCHEMA_VERSION,
        SIGNATURE_KEY: signature.format(),
        "bertscore.hash": signature.upstream_hash(),
    }


def _score_reasons(scores: Scores) -> list[str | None]:
    """Return the reason of each encoded pair, None without one."""
    reasons = np.full(len(scores), None, dtype=object)
    reasons[scores.counted_as_empty] = Reason.COUNTED_AS_EMPTY
    reasons[scores.unweighted] = Reason.NO_WEIGHTED_TOKEN
    reasons[scores.empty_reference] = Reason.EMPTY_REFERENCE
    reasons[scores.empty_candidate] = Reason.EMPTY_CANDIDATE
    return reasons.tolist()
