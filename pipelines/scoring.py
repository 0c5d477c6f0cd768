"""Score pairs: which of them can be scored, their scores by column, a reason for the others.

    texts --score_pairs--> ScoredPairs          what `pipelines.transforms.pair_handler` carries
    table --score_table--> table with scores    what `pipelines.transforms.scoring` carries

Free of Beam: the transforms only carry pairs here and back.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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
from pipelines.io import columns
from pipelines.io.columns import (
    Text,
    UnreadableText,
    is_list,
    reference_texts,
    texts_from_column,
)
from pipelines.io.parquet import SIGNATURE_KEY

SCHEMA_VERSION = "1"
"""Version of the score columns' names and meanings, kept in every part's metadata."""


class Reason(StrEnum):
    """Why a row has no scores, or scores that need a second look; the values of bertscore_error."""

    NULL_CANDIDATE = "null_candidate"
    NULL_REFERENCE = "null_reference"
    NO_REFERENCES = "no_references"
    INVALID_UTF8 = "invalid_utf8"
    NOT_TEXT = "not_text"
    NO_WEIGHTED_TOKEN = "no_weighted_token"
    COUNTED_AS_EMPTY = "counted_as_empty"
    EMPTY_CANDIDATE = "empty_candidate"
    EMPTY_REFERENCE = "empty_reference"


ScoreColumn: TypeAlias = "np.ma.MaskedArray[Any, Any]"
"""Values of a column of ours, masked where there are none. Shape (N,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFields:
    """Which columns hold the texts.

    Attributes:
        candidate_column: Column of candidates: strings.
        reference_column: Column of references: strings, or lists of strings.
    """

    candidate_column: str
    reference_column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTable:
    """A table with score columns behind its own, and the sums over its rows.

    Attributes:
        table: All rows, in their order.
        summary: Sums over the rows.
        rejected: Reason of each row without scores, by its position in the table.
        work: What the device did for them.
    """

    table: pa.Table
    summary: ScoreSummary
    rejected: Mapping[int, str]
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredPairs:
    """N pairs, scored as far as they can be.

    Attributes:
        rows: Positions of the M pairs that the encoder saw. Shape (M,).
        scores: Their scores; only those that are numbers count.
        reasons: Why a pair has no scores, or ones that need a second look; None when fine.
            Shape (N,).
        work: What the device did for them.
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
        """Lay the scores out over all N pairs, by column; the reasons are not among them.

        Args:
            rescaled: Whether to give the raw scores, too.
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


def score_pairs(
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
        references: The references of each, None for a null.
        weights: Token weights.
    """
    reasons: list[str | None] = [
        _candidate_reason(candidate) or _reference_reason(group)
        for candidate, group in zip(candidates, references, strict=True)
    ]
    rows = [row for row, reason in enumerate(reasons) if reason is None]
    tokenized = scorer.tokenize(
        [candidate for row in rows if isinstance(candidate := candidates[row], str)],
        [_strings(references[row]) for row in rows],
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
) -> ScoredTable:
    """Score every row that can be scored; no row is dropped and the order is kept.

    Args:
        scorer: The loaded scorer.
        table: Input rows with all their columns.
        fields: Where the texts are.
        idf: Token weights' counts, when the scorer weighs by idf.
        signature: How the scores are made; kept in the schema's metadata with the idf table's
            fingerprint filled in.

    Raises:
        ConfigError: a column is missing, mistyped, or named like one of ours.
    """
    pairs = score_pairs(
        scorer,
        texts_from_column(table[fields.candidate_column]),
        reference_texts(table[fields.reference_column]),
        weights=scorer.token_weights(idf),
    )
    added = {
        name: pa.array(column.data, mask=column.mask)
        for name, column in pairs.by_column(rescaled=scorer.config.rescale).items()
    }
    if not is_list(table.schema.field(fields.reference_column).type):
        del added[columns.BEST_REFERENCE]
    added[columns.ERROR] = pa.array(pairs.reasons, type=pa.string())
    return ScoredTable(
        table=columns.append_scores(table, added, _metadata(signature, idf)),
        summary=pairs.summary(),
        rejected=pairs.rejected(),
        work=pairs.work,
    )


def final_signature(signature: Signature, idf: IdfTable | None) -> Signature:
    """Fill in the fingerprint of the idf table, known once the corpus has been counted."""
    return signature if idf is None else dataclasses.replace(signature, idf=idf.fingerprint)


def _metadata(signature: Signature, idf: IdfTable | None) -> dict[str, str]:
    """Return what a part says about its scores."""
    signature = final_signature(signature, idf)
    return {
        "bertscore.schema_version": SCHEMA_VERSION,
        SIGNATURE_KEY: signature.format(),
        "bertscore.hash": signature.upstream_hash(),
    }


def readable_references(column: pa.ChunkedArray) -> list[str]:
    """Return every reference of a column that a pair could be scored against: the idf corpus.

    Rows whose references are rejected are left out whole, as they are when scoring.
    """
    return [
        text
        for group in reference_texts(column)
        if _reference_reason(group) is None
        for text in _strings(group)
    ]


def _candidate_reason(candidate: Text) -> str | None:
    if candidate is None:
        return Reason.NULL_CANDIDATE
    return candidate.value if isinstance(candidate, UnreadableText) else None


def _reference_reason(group: Sequence[Text] | None) -> str | None:
    if group is None or any(text is None for text in group):
        return Reason.NULL_REFERENCE
    unreadable = [text.value for text in group if isinstance(text, UnreadableText)]
    if unreadable:
        return unreadable[0]
    return None if len(group) else Reason.NO_REFERENCES


def _strings(group: Sequence[Text] | None) -> list[str]:
    return [text for text in group or () if isinstance(text, str)]


def _score_reasons(scores: Scores) -> list[str | None]:
    """Give a reason to the scored pairs that need one, in the order of the pairs."""
    reasons = np.full(len(scores), None, dtype=object)
    reasons[scores.counted_as_empty] = Reason.COUNTED_AS_EMPTY
    reasons[scores.unweighted] = Reason.NO_WEIGHTED_TOKEN
    reasons[scores.empty_reference] = Reason.EMPTY_REFERENCE
    reasons[scores.empty_candidate] = Reason.EMPTY_CANDIDATE
    return reasons.tolist()
