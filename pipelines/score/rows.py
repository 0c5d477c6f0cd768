"""Score pairs that can be scored, and give a reason for the others.

`score_table` takes a table through four stages:

1. `PairTexts.of_table`: the texts of every row, or the reason why it cannot be scored;
2. `rows_by_setting`: the rows that can be scored, by the setting of their language;
3. `score_rows`: the scores of the rows of one setting, once for each setting;
4. `ScoredPairs.joined`: all rows in their order; their columns are appended to the table.

`pipelines.pairs.handler` uses the stages 1, 3 and 4. This module does not use Beam.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_core import (
    BertScorer,
    IdfTable,
    Scores,
    TokenWeights,
)
from bertscore_core.work import Work
from pipelines.dump.columns import TableFields
from pipelines.dump.languages import languages_of
from pipelines.dump.texts import (
    Reason,
    Text,
    candidate_reason,
    only_strings,
    reference_reason,
    reference_texts,
    texts_from_column,
)
from pipelines.score.scored_pairs import ScoredPairs, ScoredRows
from pipelines.score.scored_table import ScoredTable, with_scores
from pipelines.score.scorers import Scorers
from pipelines.score.settings import EVERY_LANGUAGE, RowSetting, RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTexts:
    """The texts of N pairs.

    Attributes:
        candidates: One text each. Shape (N,).
        references: The references of each candidate, None for a null. Shape (N,).
        reasons: Why a pair cannot be scored; None if it can. Shape (N,).
        languages: The language of each pair. Shape (N,). Empty if all are scored alike.
    """

    candidates: Sequence[Text]
    references: Sequence[Sequence[Text] | None]
    reasons: Sequence[str | None]
    languages: Sequence[str] = ()

    @classmethod
    def of(
        cls, candidates: Sequence[Text], references: Sequence[Sequence[Text] | None]
    ) -> "PairTexts":
        """Find the reason of each pair that cannot be scored."""
        return cls(
            candidates=candidates,
            references=references,
            reasons=[
                candidate_reason(candidate) or reference_reason(group)
                for candidate, group in zip(candidates, references, strict=True)
            ],
        )

    @classmethod
    def of_table(cls, table: pa.Table, fields: TableFields, settings: RunSettings) -> "PairTexts":
        """Read the texts of a table, and the languages of its rows."""
        texts = cls.of(
            texts_from_column(table[fields.candidate_column]),
            reference_texts(table[fields.reference_column]),
        )
        if fields.language_column is None:
            return texts
        return texts.in_languages(languages_of(table[fields.language_column]), settings)

    def in_languages(self, languages: Sequence[str], settings: RunSettings) -> "PairTexts":
        """Return the same pairs with their languages; one without a setting is a reason."""
        missing = {language: settings.reason(language) for language in set(languages)}
        return replace(
            self,
            reasons=[
                reason or missing[language]
                for reason, language in zip(self.reasons, languages, strict=True)
            ],
            languages=languages,
        )

    @property
    def usable(self) -> npt.NDArray[np.int64]:
        """Positions of the pairs that can be scored, ascending. Shape (M,)."""
        rows = [row for row, reason in enumerate(self.reasons) if reason is None]
        return np.array(rows, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsOfSetting:
    """The rows of a table that are scored with one setting.

    Attributes:
        language: Their language; `EVERY_LANGUAGE` if all rows are scored alike.
        setting: The setting.
        rows: Their positions in the table, ascending. Shape (M,).
    """

    language: str
    setting: RowSetting
    rows: npt.NDArray[np.int64]


def score_table(
    scorers: Scorers,
    table: pa.Table,
    fields: TableFields,
    *,
    settings: RunSettings,
    idf: IdfTable | None,
) -> ScoredTable:
    """Score every row that can be scored; no row is dropped and the order is kept.

    Args:
        scorers: Returns the loaded scorer of a setting.
        table: Input rows with all their columns.
        fields: The columns of texts and languages.
        settings: How the rows of each language are scored. The part's metadata has the signatures
            with the fingerprints of the idf tables.
        idf: The idf table, if the scorers use idf weights.

    Raises:
        ConfigError: A column is missing, has a wrong type, or is named like a score column.
    """
    texts = PairTexts.of_table(table, fields, settings)
    scored = []
    for subset in rows_by_setting(texts, settings, scorers.has):
        scorer = scorers(subset.setting)
        weights = scorer.token_weights(idf)
        scored.append(score_rows(scorer, texts, subset.rows, weights=weights))
    pairs = ScoredPairs.joined(texts.reasons, scored)
    return with_scores(table, fields, texts.languages, pairs, settings=settings, idf=idf)


def rows_by_setting(
    texts: PairTexts, settings: RunSettings, is_loaded: Callable[[RowSetting], bool]
) -> list[RowsOfSetting]:
    """Return the rows that can be scored, by the setting they are scored with.

    Languages whose models are loaded come first, and those of one model one after the other, so
    that a worker loads models as rarely as possible.
    """
    if settings.sole is not None:
        return [RowsOfSetting(language=EVERY_LANGUAGE, setting=settings.sole, rows=texts.usable)]
    rows: dict[str, list[int]] = {}
    for row in texts.usable.tolist():
        rows.setdefault(texts.languages[row], []).append(row)
    subsets = [
        RowsOfSetting(
            language=language,
            setting=settings.by_language[language],
            rows=np.array(positions, dtype=np.int64),
        )
        for language, positions in rows.items()
    ]

    def turn(subset: RowsOfSetting) -> tuple[object, ...]:
        signature = subset.setting.signature
        return not is_loaded(subset.setting), signature.model, signature.weights, subset.language

    return sorted(subsets, key=turn)


def score_rows(
    scorer: BertScorer,
    texts: PairTexts,
    rows: npt.NDArray[np.int64],
    *,
    weights: TokenWeights,
) -> ScoredRows:
    """Score some pairs with one scorer.

    Args:
        scorer: The loaded scorer.
        texts: The texts.
        rows: Positions of the pairs, none of which has a reason. Shape (M,).
        weights: Token weights.
    """
    positions = rows.tolist()
    tokenized = scorer.tokenize(
        [candidate for row in positions if isinstance(candidate := texts.candidates[row], str)],
        [only_strings(texts.references[row]) for row in positions],
    )
    work = Work()
    scores = scorer.score_tokenized(tokenized, weights, work)
    return ScoredRows(
        rows=rows,
        scores=scores,
        reasons=_score_reasons(scores),
        work=work,
    )


def _score_reasons(scores: Scores) -> list[str | None]:
    """Return the reason of each encoded pair, None without one."""
    reasons = np.full(len(scores), None, dtype=object)
    reasons[scores.counted_as_empty] = Reason.COUNTED_AS_EMPTY
    reasons[scores.unweighted] = Reason.NO_WEIGHTED_TOKEN
    reasons[scores.empty_reference] = Reason.EMPTY_REFERENCE
    reasons[scores.empty_candidate] = Reason.EMPTY_CANDIDATE
    return reasons.tolist()
