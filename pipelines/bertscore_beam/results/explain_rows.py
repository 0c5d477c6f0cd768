"""The score of a row of a finished run, worked out with the run's own settings.

RowPlace --read_stored--> StoredRow --row_config--> ScorerConfig --explain_row--> RowExplanation
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.languages import languages_of
from bertscore_beam.dump.texts import only_strings, reference_texts, texts_from_column
from bertscore_beam.idf.row_keys import NO_KEY, row_keys
from bertscore_beam.idf.saved import load_idf
from bertscore_beam.idf.tables import WHOLE, IdfTables
from bertscore_beam.options.languages import language_map
from bertscore_beam.options.score import IDF_WORDS
from bertscore_beam.results.comparable import noise_of
from bertscore_beam.score.finished import FinishedRun, RowPlace, read_rows
from bertscore_beam.score.records import IDF_FILE
from bertscore_core import (
    Baseline,
    BertScorer,
    IdfError,
    IdfTable,
    ScorerConfig,
    Signature,
    explain,
)
from bertscore_core.errors import InputError
from bertscore_core.explanation import Explanation, Measures

PROGRAM = ("backend", "batch_tokens", "version", "torch", "transformers")
"""Fields of a signature that say by what program scores were made; most move nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row of a run.

    Attributes:
        place: Where it is.
        candidate: Its candidate.
        references: Its references.
        language: Its language; None if all rows are scored alike.
        signature: How it was scored.
        scores: Its scores, as they are stored.
        raw: The same before rescaling.
        reason: Its `bertscore_error`; None without one.
        table: The row itself.
    """

    place: RowPlace
    candidate: str
    references: tuple[str, ...]
    language: str | None
    signature: Signature
    scores: Measures
    raw: Measures
    reason: str | None
    table: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """What a user gives for a run whose files are elsewhere now; None to take the run's.

    Attributes:
        model: Model to load.
        revision: Its revision.
        baseline: Table to rescale with.
        idf: The idf table.
        device: Where the encoder runs.
        backend: What runs it.
        allow_pickle_weights: Whether pickled weights, which can run code, may be loaded. The run
            cannot allow it.
    """

    model: str | None = None
    revision: str | None = None
    baseline: str | None = None
    idf: str | None = None
    device: str | None = None
    backend: str | None = None
    allow_pickle_weights: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplanation:
    """The explanation of a row.

    Attributes:
        row: The row.
        explanation: Its scores, worked out now.
        differences: In which ways they are not those of the run; empty if they are.
    """

    row: StoredRow
    explanation: Explanation
    differences: tuple[str, ...]


def read_stored(run: FinishedRun, places: Sequence[RowPlace]) -> list[StoredRow]:
    """Read rows of a run with their texts.

    Raises:
        InputError: The run has no such row, or a row has no texts to explain.
    """
    names = (run.run["identity"]["candidate_column"], run.run["identity"]["reference_column"])
    chosen = _idf_columns(run)
    wanted = [*names, *chosen.names, *columns.OUTPUT_COLUMNS]
    tables = read_rows(run, places, wanted)
    return [_stored(run, place, table, names) for place, table in zip(places, tables, strict=True)]


def _idf_columns(run: FinishedRun) -> IdfColumns:
    """Return the columns that say how a row is scored, from the identity of the run."""
    identity = run.run["identity"]
    group = identity.get("idf_group")
    return IdfColumns(
        group=() if group is None else tuple(json.loads(group)),
        language=identity.get("language_column") or None,
    )


def _stored(
    run: FinishedRun, place: RowPlace, table: pa.Table, names: tuple[str, str]
) -> StoredRow:
    (candidate,) = texts_from_column(column_of(table, names[0]))
    (group,) = reference_texts(column_of(table, names[1]))
    (reason,) = table[columns.ERROR].to_pylist()
    if not isinstance(candidate, str) or not group or len(only_strings(group)) != len(group):
        raise InputError(
            f"row {str(place)!r} cannot be explained: got {columns.ERROR} {reason!r}; expected a "
            "candidate and its references. Choose another row."
        )
    by = _idf_columns(run).language
    language = None if by is None else languages_of(column_of(table, by))[0]
    is_rescaled = columns.RAW_F1 in table.column_names
    return StoredRow(
        place=place,
        candidate=candidate,
        references=tuple(only_strings(group)),
        language=language,
        signature=_signature(run, place, table, reason),
        scores=_measures(table, columns.SCORES),
        raw=_measures(table, columns.RAW_SCORES if is_rescaled else columns.SCORES),
        reason=reason,
        table=table,
    )


def _measures(table: pa.Table, names: Mapping[str, str]) -> Measures:
    values = (table[name].to_pylist()[0] for name in names.values())
    return Measures(*(math.nan if value is None else float(value) for value in values))


def _signature(run: FinishedRun, place: RowPlace, table: pa.Table, reason: str | None) -> Signature:
    """Return how a row was scored.

    Raises:
        InputError: It was not.
    """
    text = run.summary.get("signature")
    if columns.SIGNATURE in table.column_names:
        (text,) = table[columns.SIGNATURE].to_pylist()
    if not isinstance(text, str):
        raise InputError(
            f"row {str(place)!r} cannot be explained: it was not scored, got {columns.ERROR} "
            f"{reason!r}; expected a row with a signature. Choose another row."
        )
    return Signature.parse(text)


def row_config(
    run: FinishedRun,
    row: StoredRow,
    changes: RowChanges,
    read_baseline: Callable[[str, StoredRow, str | None], Baseline],
) -> ScorerConfig:
    """Return how a row was scored, from its signature and from the options of its run.

    Args:
        run: The run.
        row: The row.
        changes: What the user gives instead.
        read_baseline: Reads a table, or chooses it from a folder of tables by row and language.
    """
    signature, options = row.signature, run.run.get("options", {})
    entry = _language_entry(options, row.language)
    rescale = signature.baseline != "none"
    length = signature.max_length
    language = row.language or options.get("language")
    baseline = None
    path = changes.baseline or entry.get("baseline") or options.get("baseline")
    if rescale and path is not None:
        baseline = read_baseline(path, row, language)
    model = changes.model or entry.get("model") or options.get("model") or signature.model
    return ScorerConfig(
        model=model,
        num_layers=int(signature.num_layers),
        language=language,
        idf=signature.idf != "none",
        rescale=rescale,
        baseline=baseline,
        max_length="unlimited" if length == "unlimited" else int(length),
        long_text=signature.long_text,
        empty=signature.empty,
        dtype=signature.dtype,
        attention=signature.attention,
        device=changes.device or "auto",
        backend=changes.backend or signature.backend.partition("-")[0],
        max_batch_tokens=options.get("max_batch_tokens"),
        revision=changes.revision or entry.get("revision") or options.get("revision"),
        # Never from the run: whoever can write into its folder could run code here.
        allow_pickle_weights=bool(changes.allow_pickle_weights),
    )


def _language_entry(options: dict[str, Any], language: str | None) -> dict[str, Any]:
    """Return what the run was told about a language."""
    given = options.get("languages")
    if language is None or not given:
        return {}
    entry = language_map(given, "the run's options").find(language)
    return {} if entry is None else entry.given()


def read_idf(run: FinishedRun, changes: RowChanges) -> IdfTables | None:
    """Read the idf tables of a run; None if its scores are not weighted.

    Raises:
        IdfError: They cannot be read.
    """
    if run.run["identity"].get("idf", "none") == "none":
        return None
    if changes.idf is not None:
        return load_idf(changes.idf)
    if run.folder.exists(IDF_FILE):
        return load_idf(run.folder.path(IDF_FILE))
    path = run.run.get("options", {}).get("idf")
    if path is None or path in IDF_WORDS:
        raise IdfError(
            f"the idf table of the run in {run.folder.shown!r} cannot be found: got no {IDF_FILE} "
            "and no path of one; expected the table that weighed its scores. Give --idf PATH."
        )
    return load_idf(path)


def explain_row(
    run: FinishedRun, row: StoredRow, scorer: BertScorer, tables: IdfTables | None
) -> RowExplanation:
    """Work out the scores of a row, and compare them with those of the run.

    Args:
        run: The run.
        row: The row.
        scorer: A scorer with the settings of `row_config`.
        tables: The idf tables of the run; None if its scores are not weighted.

    Raises:
        IdfError: There is no idf table for the row.
    """
    table = None if tables is None else _table_of(run, row, tables)
    explanation = explain(scorer, row.candidate, row.references, idf=table)
    own = None if tables is None else tables.for_language(row.language or WHOLE.language)
    now = replace(scorer.signature(), idf="none" if own is None else own.fingerprint)
    return RowExplanation(
        row=row,
        explanation=explanation,
        differences=(
            *_setting_differences(row.signature, now),
            *_score_differences(row, explanation, now),
        ),
    )


def _table_of(run: FinishedRun, row: StoredRow, tables: IdfTables) -> IdfTable:
    keys = row_keys(row.table, _idf_columns(run))
    code = int(keys.codes[0])
    table = None if code == NO_KEY else tables.get(keys.keys[code])
    if table is None:
        raise IdfError(
            f"row {str(row.place)!r} cannot be explained: there is no idf table for it; expected "
            "the one it was scored with. Choose another row, or give --idf PATH."
        )
    return table


def _setting_differences(then: Signature, now: Signature) -> list[str]:
    """Return the settings that are not those of the run."""
    before, after = then.fields(), now.fields()
    return [
        f"{name} is {after.get(name)!r} here and was {before.get(name)!r} in the run"
        for name in dict.fromkeys([*before, *after])
        if name not in PROGRAM and before.get(name) != after.get(name)
    ]


def _score_differences(row: StoredRow, explanation: Explanation, now: Signature) -> list[str]:
    """Return the raw scores that differ by more than rounding, and what may be the reason."""
    noise = noise_of(now.dtype)
    found = [
        f"raw {name} is {here:.7f} here and was {there:.7f} in the run"
        for name, here, there in zip(Measures._fields, explanation.raw, row.raw, strict=True)
        if not (abs(here - there) <= noise or (math.isnan(here) and math.isnan(there)))
    ]
    if found:
        before, after = row.signature.fields(), now.fields()
        found += [
            f"{name} is {after[name]!r} here and was {before[name]!r} in the run"
            for name in PROGRAM
            if before[name] != after[name]
        ]
    return found
