"""Score pairs that can be scored, and give a reason for the others.

`score_table` takes a table through four stages:

1. `PairTexts.of_table`: the texts of every row, or the reason why it cannot be scored;
2. `rows_by_setting`: the rows that can be scored, by the setting of their language and their idf
   table; a row without a table gets a reason before;
3. `score_rows`: the scores of the rows of one setting, once for each setting; rows that an earlier
   run has scored alike take its scores instead;
4. `ScoredPairs.joined`: all rows in their order; their columns are appended to the table.

`bertscore_beam.pairs.handler` uses the stages 1, 3 and 4. This module does not use Beam.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.columns import TableFields, column_of
from bertscore_beam.dump.languages import languages_of
from bertscore_beam.dump.text_digests import digest_texts
from bertscore_beam.dump.texts import (
    Reason,
    Text,
    candidate_reason,
    only_strings,
    reference_reason,
    reference_texts,
    texts_from_column,
)
from bertscore_beam.idf.row_keys import NO_KEY, RowKeys, row_keys
from bertscore_beam.idf.tables import IdfKey, IdfTables
from bertscore_beam.runs.lookup import FoundRows
from bertscore_beam.runs.row_scores import SignedRows
from bertscore_beam.score.earlier import Find, offered_rows, taken_rows
from bertscore_beam.score.scored_pairs import ScoredPairs, ScoredRows
from bertscore_beam.score.scored_table import ScoredTable, with_scores
from bertscore_beam.score.scorers import Scorers
from bertscore_beam.score.settings import RowSetting, RunSettings
from bertscore_core import (
    IdfTable,
    Scores,
    Signature,
    TokenWeights,
)
from bertscore_core.work import Work

if TYPE_CHECKING:
    from bertscore_core import BertScorer


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
    def of_table(
        cls,
        table: pa.Table,
        fields: TableFields,
        settings: RunSettings,
        unreadable: Mapping[int, str],
    ) -> "PairTexts":
        """Read the texts of a table, and the languages of its rows; see `score_table`."""
        texts = cls.of(
            texts_from_column(column_of(table, fields.candidate_column)),
            reference_texts(column_of(table, fields.reference_column)),
        )
        if fields.language_column is not None:
            languages = languages_of(column_of(table, fields.language_column))
            texts = texts.in_languages(languages, settings)
        reasons = [unreadable.get(row, reason) for row, reason in enumerate(texts.reasons)]
        return replace(texts, reasons=reasons)

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
    """The rows of a table that are scored with one setting and one idf table.

    Attributes:
        setting: The setting.
        key: What chooses the idf table.
        rows: Their positions in the table, ascending. Shape (M,).
    """

    setting: RowSetting
    key: IdfKey
    rows: npt.NDArray[np.int64]

    def idf_table(self, tables: IdfTables | None) -> IdfTable | None:
        """Return the idf table of the rows; None without idf."""
        return None if tables is None else tables.get(self.key)

    def signature(self, tables: IdfTables | None) -> Signature:
        """Return how the rows are scored, with the fingerprint of their own idf table."""
        return self.setting.final_signature(self.idf_table(tables))


class RowProgress:
    """How much of a table is scored. Another thread may ask for it meanwhile."""

    def __init__(self, rows: int) -> None:
        """Begin with nothing.

        Args:
            rows: Rows of the table.
        """
        self._rows = rows
        self._begun: list[tuple[int, Work]] = []

    def begin(self, rows: int) -> Work:
        """Begin with some of the rows, and return the counts of their work."""
        work = Work()
        self._begun.append((rows, work))
        return work

    def skip(self, rows: int) -> None:
        """Count rows that need no work."""
        self._begun.append((rows, Work(planned_tokens=1, tokens=1)))

    @property
    def share(self) -> float:
        """The share that is scored, from 0 to 1."""
        return sum(rows * work.share for rows, work in self._begun) / max(self._rows, 1)


def score_table(
    scorers: Scorers,
    table: pa.Table,
    fields: TableFields,
    *,
    settings: RunSettings,
    idf: IdfTables | None,
    unreadable: Mapping[int, str] = MappingProxyType({}),
    find: Find | None = None,
    progress: "RowProgress | None" = None,
) -> ScoredTable:
    """Score every row that can be scored; no row is dropped and the order is kept.

    Args:
        scorers: Returns the loaded scorer of a setting.
        table: Input rows with all their columns.
        fields: The columns of texts, of languages, and of groups if there are tables of groups.
        settings: How the rows of each language are scored. The part's metadata has the signatures
            with the fingerprints of the idf tables.
        idf: The idf tables, if the scorers use idf weights.
        unreadable: Reason of each row that could not be read, and whose columns are null.
        find: Looks rows up in an earlier run; None without one. A scorer is needed only for rows
            that are not found.
        progress: Follows the work, if given.

    Raises:
        ConfigError: A column is missing, has a wrong type, or is named like a score column.
    """
    texts = PairTexts.of_table(table, fields, settings, unreadable)
    texts, subsets = _chosen_rows(scorers, texts, row_keys(table, fields.idf), settings, idf)
    digests = digest_texts(
        column_of(table, fields.candidate_column), column_of(table, fields.reference_column)
    )
    signed = SignedRows.of(table.num_rows, [(one.rows, one.signature(idf)) for one in subsets])
    found = None if find is None else find(digests, signed)
    pairs = score_subsets(scorers, texts, subsets, idf=idf, found=found, progress=progress)
    return with_scores(
        table,
        fields,
        texts.languages,
        pairs,
        settings=settings,
        idf=idf,
        reused=_reused_rows(table.num_rows, subsets, found),
        offered=offered_rows(pairs, digests, signed),
    )


def _reused_rows(
    number: int, subsets: Sequence[RowsOfSetting], found: FoundRows | None
) -> npt.NDArray[np.bool_]:
    """Return which rows take the scores of an earlier run. Shape (number,)."""
    reused = np.zeros(number, dtype=np.bool_)
    if found is not None:
        for one in subsets:
            reused[one.rows] = found.found[one.rows]
    return reused


def score_texts(
    scorers: Scorers,
    texts: PairTexts,
    keys: RowKeys,
    *,
    settings: RunSettings,
    idf: IdfTables | None,
) -> ScoredPairs:
    """Score every pair that can be scored, each with the setting and the idf table of its key.

    Args:
        scorers: Returns the loaded scorer of a setting.
        texts: The pairs.
        keys: The key of each pair.
        settings: How the pairs of each language are scored.
        idf: The idf tables, if the scorers use idf weights.
    """
    texts, subsets = _chosen_rows(scorers, texts, keys, settings, idf)
    return score_subsets(scorers, texts, subsets, idf=idf)


def _chosen_rows(
    scorers: Scorers,
    texts: PairTexts,
    keys: RowKeys,
    settings: RunSettings,
    idf: IdfTables | None,
) -> tuple[PairTexts, list[RowsOfSetting]]:
    """Give pairs without an idf table their reason, and return the others by their setting."""
    if idf is not None:
        texts = _without_table_rejected(texts, keys, idf)
    return texts, rows_by_setting(texts, keys, settings, scorers.has)


def score_subsets(
    scorers: Scorers,
    texts: PairTexts,
    subsets: Sequence[RowsOfSetting],
    *,
    idf: IdfTables | None,
    found: FoundRows | None = None,
    progress: RowProgress | None = None,
) -> ScoredPairs:
    """Score the rows of each setting, and put all rows together.

    Args:
        scorers: Returns the loaded scorer of a setting.
        texts: The pairs.
        subsets: The rows of each setting.
        idf: The idf tables, if the scorers use idf weights.
        found: Rows that an earlier run has scored alike take its scores; None without one.
        progress: Follows the work, if given.
    """
    progress = RowProgress(len(texts.reasons)) if progress is None else progress
    scored: list[ScoredRows] = []
    for subset in subsets:
        rows = subset.rows
        if found is not None:
            taken, rows = taken_rows(found, rows, subset.setting.baseline)
            progress.skip(len(taken.rows))
            scored.append(taken)
        if len(rows):
            scorer = scorers(subset.setting)
            weights, work = scorer.token_weights(subset.idf_table(idf)), progress.begin(len(rows))
            scored.append(score_rows(scorer, texts, rows, weights=weights, work=work))
    return ScoredPairs.joined(texts.reasons, scored)


def rows_by_setting(
    texts: PairTexts,
    keys: RowKeys,
    settings: RunSettings,
    is_loaded: Callable[[RowSetting], bool],
) -> list[RowsOfSetting]:
    """Return the rows that can be scored, by the setting and the idf table they are scored with.

    Languages whose models are loaded come first, and those of one model one after the other, so
    that a worker loads models as rarely as possible.
    """
    usable = texts.usable
    codes = keys.codes[usable]
    # One sort finds the rows of all keys, of which there may be thousands. Stable: rows ascend.
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(keys.keys) + 1))
    subsets = [
        RowsOfSetting(
            setting=settings.by_language[key.language], key=key, rows=usable[order[start:stop]]
        )
        for key, start, stop in zip(keys.keys, bounds[:-1], bounds[1:], strict=True)
        if stop > start
    ]

    def turn(subset: RowsOfSetting) -> tuple[object, ...]:
        signature = subset.setting.signature
        return not is_loaded(subset.setting), signature.model, signature.weights, subset.key

    return sorted(subsets, key=turn)


def _without_table_rejected(texts: PairTexts, keys: RowKeys, idf: IdfTables) -> PairTexts:
    """Give a reason to the rows that have no idf table, if they have none yet."""
    known = [idf.get(key) is not None for key in keys.keys]
    reasons = list(texts.reasons)
    for row in texts.usable.tolist():
        code = keys.codes[row]
        if code == NO_KEY:
            reasons[row] = Reason.NO_IDF_GROUP
        elif not known[code]:
            reasons[row] = Reason.NO_IDF_TABLE
    return replace(texts, reasons=reasons)


def score_rows(
    scorer: "BertScorer",
    texts: PairTexts,
    rows: npt.NDArray[np.int64],
    *,
    weights: TokenWeights,
    work: Work | None = None,
) -> ScoredRows:
    """Score some pairs with one scorer.

    Args:
        scorer: The loaded scorer.
        texts: The texts.
        rows: Positions of the pairs, none of which has a reason. Shape (M,).
        weights: Token weights.
        work: Where the work of the device is counted; None to begin a new count.
    """
    work = Work() if work is None else work
    positions = rows.tolist()
    tokenized = scorer.tokenize(
        [candidate for row in positions if isinstance(candidate := texts.candidates[row], str)],
        [only_strings(texts.references[row]) for row in positions],
    )
    scores = scorer.score_tokenized(tokenized, weights, work)
    return ScoredRows(rows=rows, scores=scores, reasons=_score_reasons(scores), work=work)


def _score_reasons(scores: Scores) -> list[str | None]:
    """Return the reason of each encoded pair, None without one."""
    reasons = np.full(len(scores), None, dtype=object)
    reasons[scores.counted_as_empty] = Reason.COUNTED_AS_EMPTY
    reasons[scores.only_special] = Reason.ONLY_SPECIAL_TOKENS
    reasons[scores.unweighted] = Reason.NO_WEIGHTED_TOKEN
    reasons[scores.empty_reference] = Reason.EMPTY_REFERENCE
    reasons[scores.empty_candidate] = Reason.EMPTY_CANDIDATE
    reasons[scores.too_long] = Reason.TOO_LONG
    return reasons.tolist()
