"""`bertscore-beam explain`: the score of rows of a run, or of two texts, token by token."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bertscore_beam.cli.show import output_mode, report, say
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.write import write_atomically
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_beam.options.answer_options import ExplainOptions
from bertscore_beam.options.row_options import IDF_WORDS
from bertscore_beam.options.values import check_ending
from bertscore_beam.pages.explain_rows import (
    StoredRow,
    explain_row,
    extreme_rows,
    named_rows,
    read_idf,
    read_stored,
    row_config,
)
from bertscore_beam.pages.explain_terminal import explanation_tables
from bertscore_beam.records.finished import FinishedRun, RowPlace, open_finished
from bertscore_beam.run.loading import scorer_config
from bertscore_beam.run.output import Outcome, TextTable
from bertscore_beam.run.runner import usable_cores
from bertscore_core.errors import ConfigError
from bertscore_core.explanations.explanation import Explanation, explain, page
from bertscore_core.scorer import BertScorer


class _Explained(NamedTuple):
    """An explanation with its heading, notes for people, and what JSON says beside it.

    Warnings are notes, too: in which ways the explanation is not that of the run.
    """

    heading: str
    notes: Sequence[str]
    explanation: Explanation
    facts: dict[str, Any]
    warnings: Sequence[str] = ()


def explain_rows(options: ExplainOptions) -> int:
    """Explain rows of a run, or two texts."""
    if options.output is not None:
        check_ending(options.output, "html", "htm")
    explained = _explain_texts(options) if options.run is None else _explain_run(options)
    shown: tuple[TextTable, ...] = ()
    if options.output is None:
        shown = tuple(_tables(explained))
    else:
        data = page([row[:3] for row in explained], "BERTScore, explained").encode()
        write_atomically(absolute(options.output), data)
        say(f"{mask_credentials(options.output)} is written.")
    is_noted = options.output is None and not output_mode().json
    warnings = (
        ()
        if is_noted
        else tuple(f"{row.heading}: {words}" for row in explained for words in row.warnings)
    )
    document = {"explanations": [{**row.facts, **row.explanation.as_dict()} for row in explained]}
    return report(Outcome(shown=shown, document=document, warnings=warnings, is_answer=True))


def _explain_texts(options: ExplainOptions) -> list[_Explained]:
    table = None
    if options.idf not in IDF_WORDS:
        table = load_idf(options.idf).only(mask_credentials(options.idf))
    scorer = BertScorer(scorer_config(options, usable_cores()))
    explanation = explain(scorer, str(options.candidate), options.reference, idf=table)
    signature = scorer.signature(table).format()
    facts = {"signature": signature}
    return [_Explained("Two texts", [f"signature: {signature}"], explanation, facts)]


def _explain_run(options: ExplainOptions) -> list[_Explained]:
    run = open_finished(str(options.run))
    rows = read_stored(run, _places(options, run))
    tables = read_idf(run, None if options.idf == "none" else options.idf)
    scorers: dict[tuple[str | None, str], BertScorer] = {}
    explained = []
    for row in rows:
        key = row.language, row.signature.format()
        if key not in scorers:
            scorers[key] = BertScorer(row_config(run, row, options))
        explained.append(_of_row(row, *explain_row(run, row, scorers[key], tables)))
    return explained


def _places(options: ExplainOptions, run: FinishedRun) -> list[RowPlace]:
    places = named_rows(run, options.row)
    if options.worst is not None:
        places += extreme_rows(run, options.worst, worst=True)
    if options.best is not None:
        places += extreme_rows(run, options.best, worst=False)
    if not places:
        raise ConfigError(
            f"the run in {run.folder.shown!r} has no row with a score; expected one to explain."
        )
    return list(dict.fromkeys(places))


def _of_row(row: StoredRow, explanation: Explanation, differences: list[str]) -> _Explained:
    stored = row.scores
    notes = [
        f"in the run: precision {stored.precision:.6f}, recall {stored.recall:.6f}, F1 "
        f"{stored.f1:.6f}"
    ]
    if row.reason is not None:
        notes.append(f"bertscore_error: {row.reason}")
    warnings = [f"not as in the run: {words}" for words in differences]
    notes += [*warnings, f"signature: {row.signature.format()}"]
    facts = {
        "file": row.place.input_name,
        "row": row.place.row,
        "language": row.language,
        "signature": row.signature.format(),
        "error": row.reason,
        "stored": stored._asdict(),
        "differences": differences,
    }
    return _Explained(str(row.place), notes, explanation, facts, warnings)


def _tables(explained: Sequence[_Explained]) -> Iterator[TextTable]:
    for row in explained:
        yield TextTable("", ("",), [(row.heading,)])
        yield from explanation_tables(row.explanation)
        yield TextTable("", ("",), [(note,) for note in row.notes])
