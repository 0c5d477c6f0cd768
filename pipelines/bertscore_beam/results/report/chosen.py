"""Rows that are shown by themselves: their scores, and their texts if the page holds texts."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import column_of
from bertscore_beam.dump.language_codes import NO_CODE, language_of
from bertscore_beam.dump.texts import Text, UnreadableText, reference_texts, texts_from_column
from bertscore_beam.results.comparison import MovedRow
from bertscore_beam.results.report.data import ChosenRow, Texts
from bertscore_beam.results.report.gather import Extreme, language_column
from bertscore_beam.score.finished import FinishedRun, RowPlace, read_rows

_UNREADABLE = {
    UnreadableText.INVALID_UTF8: "(not valid UTF-8)",
    UnreadableText.NOT_TEXT: "(not a text)",
}


def extreme_rows(
    run: FinishedRun, extremes: Sequence[Extreme], *, with_texts: bool
) -> tuple[ChosenRow, ...]:
    """Return rows with the lowest or highest F1 as they are shown."""
    places = [RowPlace(one.file, one.row) for one in extremes]
    texts = _texts(run, places) if with_texts else [None] * len(places)
    return tuple(
        ChosenRow(
            file=one.file,
            row=one.row,
            group=one.group,
            precision=one.scores[0],
            recall=one.scores[1],
            f1=one.scores[2],
            tokens=one.tokens,
            reason=one.reason,
            texts=text,
        )
        for one, text in zip(extremes, texts, strict=True)
    )


def moved_rows(
    run: FinishedRun, against: FinishedRun, moved: Iterable[MovedRow], *, with_texts: bool
) -> tuple[ChosenRow, ...]:
    """Return rows that have moved as they are shown, in the order given."""
    every = list(moved)
    places = [RowPlace(one.file, one.row) for one in every]
    scores = read_rows(run, places, [*_SCORES, columns.CANDIDATE_TOKENS, columns.ERROR])
    texts: Sequence[Texts | None] = [None] * len(every)
    if with_texts:
        earlier = [RowPlace(one.against_file, one.against_row) for one in every]
        texts = [
            _with_candidate(here, there)
            for here, there in zip(_texts(run, places), _texts(against, earlier), strict=True)
        ]
    return tuple(
        ChosenRow(
            file=one.file,
            row=one.row,
            group=one.group,
            precision=_value(row, columns.PRECISION),
            recall=_value(row, columns.RECALL),
            f1=one.score,
            tokens=_value(row, columns.CANDIDATE_TOKENS),
            reason=_value(row, columns.ERROR),
            before=one.against_score,
            texts=text,
        )
        for one, row, text in zip(every, scores, texts, strict=True)
    )


_SCORES = (columns.PRECISION, columns.RECALL)


def _with_candidate(here: Texts, there: Texts) -> Texts:
    """Return the texts of a row with the candidate that it had in another run."""
    return Texts(
        candidate=here.candidate,
        references=here.references,
        against=there.candidate,
        language=here.language,
    )


def _value(row: pa.Table, name: str) -> Any:
    """Return the value of a row; None if it has no such column."""
    return row[name][0].as_py() if name in row.schema.names else None


def _texts(run: FinishedRun, places: Sequence[RowPlace]) -> list[Texts]:
    """Read the texts of rows."""
    identity = run.run["identity"]
    candidate = str(identity.get("candidate_column", "candidate"))
    reference = str(identity.get("reference_column", "reference"))
    language = language_column(run)
    wanted = [candidate, reference, *([language] if language else [])]
    return [
        Texts(
            candidate=_shown(texts_from_column(column_of(row, candidate))[0]),
            references=_references(row, reference),
            language=_code(row, language),
        )
        for row in read_rows(run, places, wanted)
    ]


def _references(row: pa.Table, name: str) -> tuple[str, ...]:
    given = reference_texts(column_of(row, name))[0]
    return ("(null)",) if given is None else tuple(map(_shown, given))


def _code(row: pa.Table, name: str | None) -> str | None:
    """Return the language code of a row; None if it is not known."""
    code = NO_CODE if name is None else language_of(column_of(row, name)[0].as_py())
    return None if code in ("", NO_CODE) else code.replace("_", "-")


def _shown(text: Text) -> str:
    if isinstance(text, str):
        return text
    return "(null)" if text is None else _UNREADABLE[text]
