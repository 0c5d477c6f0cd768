"""Rows of a finished run, chosen and worked out with the run's own settings.

RowPlace --read_stored--> StoredRow --row_config--> ScorerConfig --explain_row--> Explanation
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.compare.settings import noise_of
from bertscore_beam.dump import columns
from bertscore_beam.dump.texts import Rows, only_strings
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import names_host
from bertscore_beam.idf.idf_tables import WHOLE, IdfTables, load_idf
from bertscore_beam.idf.owners import NO_KEY, row_keys
from bertscore_beam.options.language_map import find_language, language_map
from bertscore_beam.options.row_options import IDF_WORDS, RowOptions
from bertscore_beam.pages.one_pass import lowest_rows
from bertscore_beam.records.finished import (
    FinishedRun,
    RowPlace,
    StatedOptions,
    read_columns,
    read_rows,
)
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.run.loading import STORED_TABLES
from bertscore_core.baseline import read_baseline
from bertscore_core.errors import ConfigError, IdfError, InputError
from bertscore_core.explanations.explanation import Explanation, Measures, explain
from bertscore_core.idf import IdfTable
from bertscore_core.model.resolve import resolve_model
from bertscore_core.scorer import BertScorer
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.signature import Signature, moving_fields

# Choose rows of a finished run: those that a user names, or those with the extreme scores.


def named_rows(run: FinishedRun, names: Sequence[str]) -> list[RowPlace]:
    """Return the places of rows that are named `FILE:N`.

    FILE is the name of an input file as in the output folder, or the end of it if only one ends so;
    N is the position of the row, from 0.

    Raises:
        ConfigError: A name has another form.
        InputError: The run has no such file, or several.
    """
    inputs = dict.fromkeys(record.input_name for record in run.records)
    places = []
    for name in names:
        file, _, number = name.rpartition(":")
        if not file or not number.isdecimal():
            raise ConfigError(
                f"{name!r} names no row: expected FILE:N, an input file of the run and the "
                "position of a row in it, counted from 0."
            )
        matching = [file] if file in inputs else [one for one in inputs if one.endswith(f"/{file}")]
        if len(matching) != 1:
            shown = ", ".join((matching or list(inputs))[:5])
            raise InputError(
                f"the run in {run.folder.shown!r} has {len(matching) or 'no'} input files "
                f"{file!r}: expected one. It has {shown}. Give the name as it is in the output "
                "folder."
            )
        places.append(RowPlace(matching[0], int(number)))
    return places


def extreme_rows(run: FinishedRun, count: int, *, worst: bool) -> list[RowPlace]:
    """Return the rows with the lowest or the highest F1, the most extreme first.

    Rows without a score are left out; of equal scores the first are taken. One column is read, part
    by part, and `count` rows are kept.
    """
    sign = 1 if worst else -1
    extremes: list[tuple[float, RowPlace]] = []
    for part in read_columns(run, [columns.F1]):
        f1 = part.table[columns.F1].to_numpy(zero_copy_only=False)  # NaN for a null
        extremes = lowest_rows(extremes, part, sign * f1, count)
    return [place for _, place in extremes]


_PROGRAM = ("backend", "batch_tokens", "version", "torch", "transformers")
"""Fields of a signature that say by what program scores were made; most move nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row of a run.

    Attributes:
        language: Its language; None if all rows are scored alike.
        signature: How it was scored.
        scores: Its scores, as they are stored; the raw ones are those before rescaling.
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


def read_stored(run: FinishedRun, places: Sequence[RowPlace]) -> list[StoredRow]:
    """Read rows of a run with their texts.

    Raises:
        InputError: The run has no such row, a row has no texts to explain, or its samples were
            compared with each other.
    """
    fields = run.notes.fields
    if fields.compares_samples:
        raise InputError(
            f"rows of {run.folder.shown!r} cannot be explained: got samples that `select` has "
            "compared with each other; expected rows with references of their own. Explain two of "
            "them with -c TEXT and -r TEXT."
        )
    wanted = [*fields.shown, *columns.OUTPUT_COLUMNS]
    rows = (Rows(table, fields) for table in read_rows(run, places, wanted))
    return [_stored(run, place, row) for place, row in zip(places, rows, strict=True)]


def _stored(run: FinishedRun, place: RowPlace, row: Rows) -> StoredRow:
    table = row.table
    (candidate,) = row.answers[0]
    (group,) = row.reference_texts
    (reason,) = table[columns.ERROR].to_pylist()
    if not isinstance(candidate, str) or not group or len(only_strings(group)) != len(group):
        raise InputError(
            f"row {str(place)!r} cannot be explained: got {columns.ERROR} {reason!r}; expected a "
            "candidate and its references. Choose another row."
        )
    is_rescaled = columns.RAW_F1 in table.column_names
    return StoredRow(
        place=place,
        candidate=candidate,
        references=tuple(only_strings(group)),
        language=next(iter(row.languages), None),
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
    text = run.summary.signature
    if columns.SIGNATURE in table.column_names:
        (text,) = table[columns.SIGNATURE].to_pylist()
    if not isinstance(text, str):
        raise InputError(
            f"row {str(place)!r} cannot be explained: it was not scored, got {columns.ERROR} "
            f"{reason!r}; expected a row with a signature. Choose another row."
        )
    return Signature.parse(text)


def row_config(run: FinishedRun, row: StoredRow, given: RowOptions) -> ScorerConfig:
    """Return how a row was scored, from its signature and from the options of its run.

    `given` has options for a run whose files are elsewhere now, or on another machine: whoever
    can write into a run's folder must not decide which hosts are asked.

    Raises:
        ConfigError: The baseline is on another machine, and only a file of the run names it.
        UnknownModelError: The model is not on this machine, and only files of the run name it.
    """
    signature, options = row.signature, run.notes.options
    entry = _language_entry(options, row.language)
    names = ("model", "revision", "baseline")
    chosen = {name: entry.get(name, getattr(options, name)) for name in names}
    if given.model not in (None, chosen["model"], signature.model):
        chosen["revision"] = None  # it is that of another model
    chosen |= {name: getattr(given, name) for name in names if getattr(given, name)}
    if given.model is None:
        _check_model_is_here(chosen["model"] or signature.model, chosen["revision"], given)
    rescale = signature.baseline != "none"
    length = signature.max_length
    language, weighted = row.language or options.language, signature.idf != "none"
    baseline = None
    if rescale and (path := chosen["baseline"]) is not None:
        if given.baseline is None:
            _check_is_here("baseline", path)
        baseline = read_baseline(
            path, language, lambda: signature.model, idf=weighted, files=STORED_TABLES
        )
    return ScorerConfig(
        model=chosen["model"] or signature.model,
        num_layers=int(signature.num_layers),
        language=language,
        idf=weighted,
        rescale=rescale,
        baseline=baseline,
        max_length="unlimited" if length == "unlimited" else int(length),
        long_text=signature.long_text,
        references=signature.references,
        strip_reasoning=signature.reasoning == "stripped",
        empty=signature.empty,
        dtype=signature.dtype.removesuffix("-true"),
        attention=signature.attention,
        device=given.device,
        backend=signature.backend.partition("-")[0] if given.backend == "auto" else given.backend,
        max_batch_tokens=options.max_batch_tokens,
        revision=chosen["revision"],
        # Never from the run: whoever can write into its folder could run code here.
        allow_pickle_weights=given.allow_pickle_weights,
    )


def _check_model_is_here(model: str, revision: str | None, given: RowOptions) -> None:
    pickles = given.allow_pickle_weights
    resolve_model(model, revision=revision, allow_pickle_weights=pickles, from_hub=False)


def _check_is_here(option: str, path: str) -> None:
    if names_host(path):
        raise ConfigError(
            f"the {option} of the run may be on another machine: got {mask_credentials(path)!r}, "
            "which only a file of the run names; expected a path on this one, or your own word. "
            f"Allow it by giving it as --{option}."
        )


def _language_entry(options: StatedOptions, language: str | None) -> dict[str, Any]:
    languages = options.languages
    if language is None or not languages:
        return {}
    entry = find_language(language_map(languages, "the run's options"), language)
    return {} if entry is None else entry.given()


def read_idf(run: FinishedRun, path: str | None) -> IdfTables | None:
    """Read the idf tables of a run; None if its scores are not weighted.

    `path` is where they are now; None to take the run's.

    Raises:
        ConfigError: They are on another machine, and only a file of the run names them.
        IdfError: They cannot be read.
    """
    if run.notes.identity.get("idf", "none") == "none":
        return None
    if path is None and run.folder.exists(IDF_FILE):
        path = run.folder.path(IDF_FILE)
    if path is None and (path := run.notes.options.idf) is not None:
        _check_is_here("idf", path)
    if path is None or path in IDF_WORDS:
        raise IdfError(
            f"the idf table of the run in {run.folder.shown!r} cannot be found: got no {IDF_FILE} "
            "and no path of one; expected the table that weighed its scores. Give --idf PATH."
        )
    return load_idf(path)


def explain_row(
    run: FinishedRun, row: StoredRow, scorer: BertScorer, tables: IdfTables | None
) -> tuple[Explanation, list[str]]:
    """Work out the scores of a row, and say in which ways they are not those of the run.

    The scorer has the settings of `row_config`; the tables are those of the run.

    Raises:
        IdfError: There is no idf table for the row.
    """
    table = None if tables is None else _table_of(run, row, tables)
    explanation = explain(scorer, row.candidate, row.references, idf=table)
    own = None if tables is None else tables.for_language(row.language or WHOLE.language)
    now = replace(scorer.signature(), idf="none" if own is None else own.fingerprint)
    settings = moving_fields(row.signature, now).difference(_PROGRAM)
    differences = _changed(row.signature, now, settings)
    return explanation, differences + _score_differences(row, explanation, now)


def _table_of(run: FinishedRun, row: StoredRow, tables: IdfTables) -> IdfTable:
    keys = row_keys(Rows(row.table, run.notes.fields))
    code = int(keys.codes[0])
    table = None if code == NO_KEY else tables.tables.get(keys.keys[code])
    if table is None:
        raise IdfError(
            f"row {str(row.place)!r} cannot be explained: there is no idf table for it; expected "
            "the one it was scored with. Choose another row, or give --idf PATH."
        )
    return table


def _changed(then: Signature, now: Signature, names: Collection[str]) -> list[str]:
    before, after = then.fields(), now.fields()
    return [
        f"{name} is {after.get(name)!r} here and was {before.get(name)!r} in the run"
        for name in dict.fromkeys([*before, *after])
        if name in names and before.get(name) != after.get(name)
    ]


def _score_differences(row: StoredRow, explanation: Explanation, now: Signature) -> list[str]:
    noise = noise_of(now.dtype)
    differences = [
        f"raw {name} is {now_value:.7f} here and was {stored:.7f} in the run"
        for name, now_value, stored in zip(Measures._fields, explanation.raw, row.raw, strict=True)
        if not np.isclose(now_value, stored, rtol=0, atol=noise, equal_nan=True)
    ]
    return differences + (_changed(row.signature, now, _PROGRAM) if differences else [])
