"""A table with score columns after its own: scores, reasons and signatures as Arrow columns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.languages import count_other_scripts
from bertscore_beam.dump.parquet import SETTINGS_KEY, SIGNATURE_KEY, SIGNATURES_KEY
from bertscore_beam.dump.paths import is_list
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.groups import grouped_rows
from bertscore_beam.records.lookup import FoundRows
from bertscore_beam.records.record import LanguageRows
from bertscore_beam.records.row_scores import SignedRows
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_core.signature import Signature
from bertscore_core.stats.score_statistics import (
    NOT_COUNTED,
    GroupedRows,
    ScoreSummary,
    summary_by_group,
)
from bertscore_core.stats.scores import Scores
from bertscore_core.tokens import BoolArray, IntArray, first_highest
from bertscore_core.work import Work

# Pairs with scores or a reason: some of them, scored with one setting, and all of a table.
#
#     several ScoredRows --ScoredPairs.joined--> ScoredPairs --by_column--> score columns
#
# This module does not use Beam.

ScoreColumn: TypeAlias = "np.ma.MaskedArray[Any, Any]"
"""Values of a score column, masked where there are none. Shape (N,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredRows:
    """The M rows of a table that were scored with one setting, by their positions, ascending."""

    rows: npt.NDArray[np.int64]
    scores: Scores
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
    def joined(
        cls, reasons: Sequence[str | None], subsets: Sequence[ScoredRows], marks: Mapping[int, str]
    ) -> "ScoredPairs":
        """Put scored rows, disjoint sets of a table, together in the order of the table.

        Args:
            reasons: Why a row was not scored at all. Shape (N,).
            subsets: The rows that were scored.
            marks: Reasons of rows, by position, that have no other.
        """
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *(part.rows for part in subsets)])
        order = np.argsort(rows)
        scores = Scores.joined([part.scores for part in subsets]).select(order)
        of_rows = np.array(reasons, dtype=object)
        of_rows[rows[order]] = _score_reasons(scores)
        for row, mark in marks.items():
            of_rows[row] = of_rows[row] or mark
        return cls(
            rows=rows[order],
            scores=scores,
            reasons=[None if reason is None else str(reason) for reason in of_rows],
            work=sum((part.work for part in subsets), Work()),
        )

    def __len__(self) -> int:
        return len(self.reasons)

    def rejected(self) -> dict[int, str]:
        """Return the reason of each pair without scores, by its position."""
        scored = set(self.rows[self.scores.scored].tolist())
        return {
            row: reason
            for row, reason in enumerate(self.reasons)
            if reason is not None and row not in scored
        }

    def by_column(self, *, rescaled: bool, windowed: bool = False) -> dict[str, ScoreColumn]:
        """Return the scores of all N pairs by column, without the reasons; see `score_columns`."""
        scores, scored = self.scores, self.scores.scored
        seen = ~self.scores.too_long  # the tokens of others were not counted to the end
        measures = {column: name for name, column in columns.SCORES.items()}
        if rescaled:
            measures |= {column: f"raw_{name}" for name, column in columns.RAW_SCORES.items()}
        result = {
            column: self.lay_out(getattr(scores, name), scored) for column, name in measures.items()
        }
        result[columns.BEST_REFERENCE] = self.lay_out(scores.best_reference, scored)
        result[columns.CANDIDATE_TOKENS] = self.lay_out(scores.candidate_tokens, seen)
        result[columns.REFERENCE_TOKENS] = self.lay_out(scores.reference_tokens, seen)
        counted = seen & (scores.text_tokens != NOT_COUNTED)
        result[columns.TEXT_TOKENS] = self.lay_out(scores.text_tokens, counted)
        share = scores.unknown_share
        result[columns.UNKNOWN] = self.lay_out(share, seen & ~np.isnan(share))
        result[columns.TRUNCATED] = self.lay_out(scores.truncated, seen)
        if windowed:
            result[columns.WINDOWS] = self.lay_out(scores.windows, seen)
        return result

    def lay_out(self, values: npt.NDArray[Any], filled: npt.NDArray[np.bool_]) -> ScoreColumn:
        """Return M values, masked where they are not `filled`, as a column of all N pairs."""
        laid_out = np.zeros(len(self), dtype=values.dtype)
        missing = np.ones(len(self), dtype=np.bool_)
        laid_out[self.rows] = values
        missing[self.rows] = ~filled
        return np.ma.MaskedArray(laid_out, mask=missing)


def _score_reasons(scores: Scores) -> npt.NDArray[np.object_]:
    reasons = np.full(len(scores), None, dtype=object)
    reasons[scores.counted_as_empty] = Reason.COUNTED_AS_EMPTY
    reasons[scores.only_special] = Reason.ONLY_SPECIAL_TOKENS
    reasons[scores.unweighted] = Reason.NO_WEIGHTED_TOKEN
    reasons[scores.empty_reference] = Reason.EMPTY_REFERENCE
    reasons[scores.empty_candidate] = Reason.EMPTY_CANDIDATE
    reasons[scores.too_long] = Reason.TOO_LONG
    return reasons


_UNKNOWN_WEIGHS_NOTHING = (
    "The model knows no token of the candidate or of a reference, and the unknown token weighs 0, "
    "since every reference that was counted for idf holds it. Choose a model that knows the "
    "language."
)

_SCHEMA_VERSION = "1"
"""Version of the names and meanings of the score columns, in every part's metadata.

A new column leaves it; one that is renamed, or means something else, raises it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTable:
    """A table with score columns after its own, and the sums over its rows.

    Attributes:
        table: All rows, in their order.
        rejected: Reason of each row without scores, by its position in the table.
        messages: A sentence about some of these rows, by their position.
        work: The work of the device.
        languages: The rows of each language; empty if all rows are scored alike.
        other_scripts: Rows whose references are plainly in another script than the language of the
            baseline, in a run that scores all rows alike.
        tokenized: Candidates that look tokenized, in a run with BLEU.
        reused: Which rows took the scores of an earlier run. Shape (rows,).
        reuse_failures: Damaged earlier parts that were met, and look-ups that failed.
    """

    table: pa.Table
    summary: ScoreSummary
    rejected: Mapping[int, str]
    messages: Mapping[int, str]
    work: Work
    languages: Mapping[str, LanguageRows]
    other_scripts: int
    tokenized: int
    reused: BoolArray
    reuse_failures: int


def with_scores(
    rows: Rows,
    pairs: ScoredPairs,
    *,
    settings: SettingsByLanguage,
    idf: IdfTables | None,
    found: FoundRows | None,
    signed: SignedRows,
    more: Mapping[str, pa.Array],
    tokenized: int,
) -> ScoredTable:
    """Append the score columns, and `more`, to the columns of the input.

    `signed` says how the rows were scored, for later runs that look for their scores.
    """
    added = {**more} | score_columns(
        pairs,
        rescaled=settings.rescaled,
        windowed=settings.windowed,
        listed=is_list(rows.references.type),
        input_rows=rows.input_rows if rows.fields.compares_samples else None,
    )
    languages = rows.languages
    if settings.sole is None:
        signatures = settings.signatures(idf)
        added[columns.SIGNATURE] = _signature_column(pairs, languages, signatures)
        present = signatures.keys() & set(languages)
        metadata = metadata_by_language({name: signatures[name] for name in sorted(present)})
    else:
        fingerprint = None if idf is None else idf.fingerprint
        metadata = part_metadata(settings.sole.final_signature(fingerprint))
    others = 0
    if settings.script_language:
        firsts = [group[0] for group in rows.countable if group]
        others = count_other_scripts(firsts, settings.script_language)
    metadata[SETTINGS_KEY] = signed.note()
    table = columns.append_scores(rows.table, added, metadata)
    to_add_up = grouped_rows(table)
    (summary,) = summary_by_group(to_add_up)
    return ScoredTable(
        table=table,
        summary=summary,
        rejected=pairs.rejected(),
        messages=dict.fromkeys(
            pairs.rows[pairs.scores.unknown_weighs_nothing].tolist(), _UNKNOWN_WEIGHS_NOTHING
        ),
        work=pairs.work,
        languages=_by_language(to_add_up, languages, settings),
        other_scripts=others,
        tokenized=tokenized,
        reused=np.zeros(len(rows), dtype=np.bool_) if found is None else found.found,
        reuse_failures=0 if found is None else found.failures,
    )


def score_columns(
    pairs: ScoredPairs,
    *,
    rescaled: bool,
    windowed: bool,
    listed: bool,
    input_rows: IntArray | None = None,
) -> dict[str, pa.Array]:
    """Return the scores and reasons of pairs as Arrow columns by name.

    `rescaled` runs also have the raw scores, `windowed` ones the number of windows, and `listed`
    references the best of them. Samples that were scored with the others of their `input_rows`,
    (N,), also have what `compares_samples` returns.
    """
    by_column = pairs.by_column(rescaled=rescaled, windowed=windowed)
    if not listed:
        del by_column[columns.BEST_REFERENCE]
    if input_rows is not None:
        by_column |= compares_samples(pairs, input_rows)
    added = {name: pa.array(column.data, mask=column.mask) for name, column in by_column.items()}
    return {**added, columns.ERROR: pa.array(pairs.reasons, type=pa.string())}


def compares_samples(pairs: ScoredPairs, input_rows: IntArray) -> dict[str, ScoreColumn]:
    """Return the utility of samples, which one of a row is best, and how the row's samples differ.

    The utility is the mean F1 with the other samples of the row, and diversity is 1 - the mean F1
    of its pairs of samples; the best has the highest utility, of those within 1e-6 the first.

    Args:
        pairs: N samples, each scored with the others of its row.
        input_rows: Position of the row of each sample, ascending. Shape (N,).
    """
    scored = pairs.scores.scored
    f1, raw = pairs.scores.f1[scored].astype(np.float64), pairs.scores.raw_f1[scored]
    _, group = np.unique(input_rows[pairs.rows[scored]], return_inverse=True)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    best = np.zeros(len(f1), dtype=np.bool_)
    best[starts + first_highest(raw[None], starts)[0]] = True  # rescaling may round two to one
    # Each pair is in the utilities of both.
    diversity = (1 - np.bincount(group, f1) / np.bincount(group))[group].astype(np.float32)

    def laid_out(values: npt.NDArray[Any]) -> ScoreColumn:
        every = np.zeros(len(scored), dtype=values.dtype)
        every[scored] = values
        return pairs.lay_out(every, scored)

    return {
        columns.UTILITY: pairs.lay_out(pairs.scores.f1, scored),
        columns.BEST: laid_out(best),
        columns.DIVERSITY: laid_out(diversity),
    }


def _signature_column(
    pairs: ScoredPairs, languages: Sequence[str], signatures: Mapping[str, str]
) -> pa.DictionaryArray:
    rows = pairs.rows.tolist()
    texts = sorted({signatures[languages[row]] for row in rows})
    number = {text: index for index, text in enumerate(texts)}
    of_rows = np.full(len(pairs), -1, dtype=np.int32)
    of_rows[pairs.rows] = [number[signatures[languages[row]]] for row in rows]
    indices = pa.array(of_rows, mask=of_rows < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _by_language(
    rows: GroupedRows, languages: Sequence[str], settings: SettingsByLanguage
) -> dict[str, LanguageRows]:
    found, labels = sorted(set(languages)), settings.labels
    places = {language: place for place, language in enumerate(found)}
    codes = np.array([places[language] for language in languages], dtype=np.int64)
    sums = summary_by_group(rows.in_groups(codes, len(found))) if found else []
    return {
        language: LanguageRows(label=labels.get(language, ""), summary=summary)
        for language, summary in zip(found, sums, strict=True)
    }


def metadata_by_language(signatures: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a table whose rows have languages: the signature of each of them."""
    return {
        "bertscore.schema_version": _SCHEMA_VERSION,
        SIGNATURES_KEY: json.dumps(dict(signatures)),
    }


def part_metadata(signature: Signature) -> dict[str, str]:
    """Return the metadata of a part whose rows are all scored alike."""
    return {
        "bertscore.schema_version": _SCHEMA_VERSION,
        SIGNATURE_KEY: signature.format(),
        "bertscore.hash": signature.upstream_hash(),
    }
