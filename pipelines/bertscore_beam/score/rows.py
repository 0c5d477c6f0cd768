"""Score pairs that can be scored, take earlier scores, and give a reason for the others.

`score_table` takes a table through four stages:

1. `PairTexts.of_rows`: the texts of every row, or the reason why it cannot be scored;
2. `rows_by_setting`: the rows that can be scored, by the setting of their language and their idf
   table; a row without a table gets a reason before;
3. `_score_subsets`: the scores of the rows of each setting; rows that an earlier run has scored
   alike take its scores instead;
4. `ScoredPairs.joined`: all rows in their order; their columns are appended to the table.

`bertscore_beam.pairs.handler` uses the stages 1, 3 and 4. This module does not use Beam.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.digests import Digests, digest_texts, key_column
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.texts import Rows, Text, candidate_reason, only_strings, reference_reason
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.idf.owners import NO_KEY, RowKeys, row_keys
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.metrics.table import num_tokenized
from bertscore_beam.records.lookup import FoundRows
from bertscore_beam.records.row_scores import KEPT, SignedRows, reasons_of, values_in
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.score.loaded_scorers import LoadedScorers
from bertscore_beam.score.scored_table import ScoredPairs, ScoredRows, ScoredTable, with_scores
from bertscore_core.baseline import rescale
from bertscore_core.idf import IdfTable
from bertscore_core.scorer_config import WorkerSettings
from bertscore_core.signature import Signature
from bertscore_core.stats.scores import Scores
from bertscore_core.work import Work

# Scores that rows take from an earlier run, and what a part offers to later runs.
#
#     digests --find--> FoundRows --taken_rows--> ScoredRows     instead of the encoder
#     a part --rows_of_part--> FoundRows --taken_rows            to rescale it without its input
#
# Raw scores are taken, and rescaled as the scorer does it. So the baselines may differ.

Find: TypeAlias = Callable[[Digests, SignedRows], FoundRows]
"""Looks the rows of a table up: by the digests of their texts, and how they are to be scored."""


def rows_of_part(scores: Mapping[str, pa.Array]) -> FoundRows:
    """Return the score columns of a part as earlier rows; rows that were not encoded have none."""
    values, reasons = values_in(scores)
    return FoundRows(
        found=scores[columns.CANDIDATE_TOKENS].is_valid().to_numpy(zero_copy_only=False),
        values=values,
        reasons=reasons_of(values["reason"], reasons),
    )


def taken_rows(
    found: FoundRows, rows: npt.NDArray[np.int64], baseline: npt.ArrayLike | None
) -> tuple[ScoredRows, npt.NDArray[np.int64]]:
    """Return those of some rows that have earlier scores, and the positions of the others."""
    is_found = found.found[rows]
    values = found.values[rows[is_found]]
    reasons = found.reasons[rows[is_found]]
    raw = np.stack([values[f"raw_{name}"] for name in columns.SCORES], axis=-1)
    final = raw if baseline is None else rescale(raw, np.array(baseline, np.float32))
    scores = Scores(
        **dict(zip(columns.SCORES, final.T, strict=True)),
        **{name: values[name].copy() for name in KEPT},
        too_long=np.zeros(len(values), dtype=np.bool_),  # such rows have no scores to take
        empty_candidate=reasons == Reason.EMPTY_CANDIDATE,
        empty_reference=reasons == Reason.EMPTY_REFERENCE,
        counted_as_empty=reasons == Reason.COUNTED_AS_EMPTY,
        only_special=reasons == Reason.ONLY_SPECIAL_TOKENS,
        unknown_weighs_nothing=np.zeros(len(values), dtype=np.bool_),
    )
    taken = ScoredRows(rows=rows[is_found], scores=scores, work=Work())
    return taken, rows[~is_found]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTexts:
    """The texts of N pairs.

    Attributes:
        candidates: One text each. Shape (N,).
        references: The references of each candidate, None for a null. Shape (N,).
        reasons: Why a pair cannot be scored; None if it can. Shape (N,).
        marks: Reasons of pairs to be careful with that can be scored, by position.
    """

    candidates: Sequence[Text]
    references: Sequence[Sequence[Text] | None]
    reasons: Sequence[str | None]
    marks: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        candidates: Sequence[Text],
        references: Sequence[Sequence[Text] | None],
        marks: Mapping[int, str],
    ) -> "PairTexts":
        """Find the reason of each pair that cannot be scored."""
        reasons: list[str | None] = [None] * len(candidates)
        if not _all_are_texts(candidates, references):
            reasons = [
                candidate_reason(candidate) or reference_reason(group)
                for candidate, group in zip(candidates, references, strict=True)
            ]
        return cls(candidates=candidates, references=references, reasons=reasons, marks=marks)

    @classmethod
    def of_rows(cls, rows: Rows, settings: SettingsByLanguage) -> "PairTexts":
        """Read the texts of rows; that a row has none to read comes before other reasons."""
        candidates, marks = rows.answers
        texts = cls.of(candidates, rows.reference_texts, marks)
        if rows.fields.language is not None:
            texts = texts.in_languages(rows.languages, settings)
        reasons = list(texts.reasons)
        for row, reason in rows.unreadable.items():
            reasons[row] = reason
        return replace(texts, reasons=reasons)

    def in_languages(self, languages: Sequence[str], settings: SettingsByLanguage) -> "PairTexts":
        """Give pairs whose language has no setting their reason."""
        missing = {language: settings.reason(language) for language in set(languages)}
        pairs = zip(self.reasons, languages, strict=True)
        return replace(self, reasons=[reason or missing[language] for reason, language in pairs])

    @property
    def usable(self) -> npt.NDArray[np.int64]:
        """Positions of the pairs that can be scored, ascending. Shape (M,)."""
        rows = [row for row, reason in enumerate(self.reasons) if reason is None]
        return np.array(rows, dtype=np.int64)


def _all_are_texts(candidates: Sequence[Text], references: Sequence[Sequence[Text] | None]) -> bool:
    # Loops inside the interpreter, which hold up other threads ten times less than one in Python.
    if not all(references):
        return False
    every = chain(candidates, chain.from_iterable(references))  # type: ignore[arg-type] # no None
    return set(map(type, every)) <= {str}


@dataclass(frozen=True, slots=True, eq=False)
class _RowsOfSetting:
    """The positions of rows that are scored with one setting and one idf table, ascending."""

    setting: WorkerSettings
    idf: IdfTable | None
    rows: npt.NDArray[np.int64]

    @property
    def signature(self) -> Signature:
        return self.setting.final_signature(None if self.idf is None else self.idf.fingerprint)


class RowProgress:
    """How much of a table is scored. Another thread may ask for it meanwhile."""

    def __init__(self, rows: int) -> None:
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
    scorers: LoadedScorers,
    rows: Rows,
    *,
    settings: SettingsByLanguage,
    idf: IdfTables | None,
    find: Find | None = None,
    progress: "RowProgress | None" = None,
    metrics: MetricProcesses | None = None,
) -> ScoredTable:
    """Score every row that can be scored; no row is dropped and the order is kept.

    Args:
        scorers: Needed only for rows that are not found in an earlier run.
        rows: The input, with all its columns.
        settings: How the rows of each language are scored.
        idf: The idf tables, if the scorers use idf weights.
        find: Looks rows up in an earlier run; None without one.
        progress: Follows the work, if given.
        metrics: Scores rows with other metrics meanwhile, if given; also those that are found.

    Raises:
        ConfigError: The table has score columns already.
    """
    texts = PairTexts.of_rows(rows, settings)
    texts, subsets = rows_by_setting(scorers, texts, row_keys(rows), settings, idf)
    of_metrics = None if metrics is None else _begin_metrics(metrics, texts, rows, settings)
    digests = digest_texts(rows.candidates, rows.references)
    signed = SignedRows.of(len(rows), [(subset.rows, subset.signature) for subset in subsets])
    found = None if find is None else find(digests, signed)
    pairs = _score_subsets(scorers, texts, subsets, found, progress)
    return with_scores(
        rows,
        pairs,
        settings=settings,
        idf=idf,
        found=found,
        signed=signed,
        more={columns.KEY: key_column(digests), **({} if of_metrics is None else of_metrics())},
        tokenized=0 if metrics is None else num_tokenized(metrics.names, texts.candidates),
    )


def _begin_metrics(
    metrics: MetricProcesses, texts: PairTexts, rows: Rows, settings: SettingsByLanguage
) -> Callable[[], dict[str, pa.Array]]:
    sole = settings.sole
    language = "" if sole is None else sole.config.language or ""
    languages = rows.languages if sole is None else [language] * len(rows)
    pairs = texts.candidates, texts.references, texts.usable
    return metrics.begin(*pairs, languages.__getitem__, rows.sources if metrics.own else ())


def score_texts(
    scorers: LoadedScorers,
    texts: PairTexts,
    keys: RowKeys,
    *,
    settings: SettingsByLanguage,
    idf: IdfTables | None,
) -> ScoredPairs:
    """Score every pair that can be scored, each with the setting and the idf table of its key."""
    texts, subsets = rows_by_setting(scorers, texts, keys, settings, idf)
    return _score_subsets(scorers, texts, subsets)


def _score_subsets(
    scorers: LoadedScorers,
    texts: PairTexts,
    subsets: Sequence[_RowsOfSetting],
    found: FoundRows | None = None,
    progress: RowProgress | None = None,
) -> ScoredPairs:
    """Score the rows of each setting, and put all rows together.

    Rows that `found` has, of an earlier run that has scored them alike, take its scores.
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
            scorer, work = scorers(subset.setting), progress.begin(len(rows))
            weights = scorer.token_weights(subset.idf)
            positions = rows.tolist()
            scores = scorer.score_tokenized(
                scorer.tokenize(
                    [text for row in positions if isinstance(text := texts.candidates[row], str)],
                    [only_strings(texts.references[row]) for row in positions],
                ),
                weights,
                work,
            )
            scored.append(ScoredRows(rows=rows, scores=scores, work=work))
    return ScoredPairs.joined(texts.reasons, scored, texts.marks)


def rows_by_setting(
    scorers: LoadedScorers,
    texts: PairTexts,
    keys: RowKeys,
    settings: SettingsByLanguage,
    idf: IdfTables | None,
) -> tuple[PairTexts, list[_RowsOfSetting]]:
    """Return the rows that can be scored, by the setting and the idf table they are scored with.

    Languages whose models are loaded come first, and those of one model one after the other, so
    that a worker loads models as rarely as possible.

    Returns:
        The texts, where a row without an idf table has a reason now; and the rows.
    """
    if idf is not None:
        without = [code for code, key in enumerate(keys.keys) if key not in idf.tables]
        lacking = {NO_KEY: Reason.NO_IDF_GROUP} | dict.fromkeys(without, Reason.NO_IDF_TABLE)
        of_rows = zip(texts.reasons, keys.codes.tolist(), strict=True)
        texts = replace(texts, reasons=[reason or lacking.get(code) for reason, code in of_rows])
    usable = texts.usable
    codes = keys.codes[usable]
    # One sort finds the rows of all keys, of which there may be thousands. Stable: rows ascend.
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(keys.keys) + 1))
    subsets = [
        _RowsOfSetting(
            settings.by_language[key.language],
            None if idf is None else idf.tables.get(key),
            usable[order[start:stop]],
        )
        for key, start, stop in sorted(zip(keys.keys, bounds[:-1], bounds[1:], strict=True))
        if stop > start
    ]

    def turn(subset: _RowsOfSetting) -> tuple[object, ...]:
        signature = subset.setting.signature
        return not scorers.has(subset.setting), signature.model, signature.weights

    return texts, sorted(subsets, key=turn)
