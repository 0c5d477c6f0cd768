"""Read the rows of files with judgements; each file keeps its own types."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import column_of
from bertscore_beam.dump.read_split import SplitRows
from bertscore_beam.dump.texts import Text, reference_texts, texts_from_column, values_as_text
from bertscore_beam.options.tune import TuneOptions
from bertscore_core.agreement.inputs import Doubles
from bertscore_core.errors import InputError

One = TypeVar("One")

_TRUTH = {"true": "1", "false": "0"}
"""How truth values are written in files of text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRows:
    """N rows as they were read, usable or not.

    Attributes:
        candidates: One text each.
        references: The references of each; None for a null.
        bad_lines: Why a line could not be read, by row.
        people: Scores of people, NaN for none; None without a column of them. Shape (N,).
        labels: Labels, NaN for none; None without a column of them. Shape (N,).
        keys: Values of the columns of groups, systems and items that are given, by what they are.
    """

    candidates: Sequence[Text]
    references: Sequence[Sequence[Text] | None]
    bad_lines: Mapping[int, str]
    people: Doubles | None
    labels: Doubles | None
    keys: Mapping[str, Sequence[str | None]]

    @classmethod
    def of(cls, rows: SplitRows, options: TuneOptions) -> Self:
        """Take what is needed of some rows.

        Args:
            rows: The rows.
            options: The columns.

        Raises:
            InputError: A column does not hold what it should.
        """
        table, bad = rows.table, {} if rows.lines is None else rows.lines.reasons
        scores, labels = options.score_column, options.label_column
        keys = {
            "group": options.by, "system": options.system_column, "item": options.item_column,
        }  # fmt: skip
        return cls(
            candidates=texts_from_column(column_of(table, options.candidate_column)),
            references=reference_texts(column_of(table, options.reference_column)),
            bad_lines=bad,
            people=None if scores is None else _numbers(table, scores, "--score-column"),
            labels=None if labels is None else _labels(table, labels),
            keys={what: _keys(table, name) for what, name in keys.items() if name is not None},
        )

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Self:
        """Return the rows of one or more pieces, one after the other."""
        begins = np.cumsum([0, *(len(piece.candidates) for piece in pieces)]).tolist()
        return cls(
            candidates=_joined(piece.candidates for piece in pieces),
            references=_joined(piece.references for piece in pieces),
            bad_lines={
                begin + row: reason
                for begin, piece in zip(begins, pieces, strict=False)
                for row, reason in piece.bad_lines.items()
            },
            people=_joined_numbers([piece.people for piece in pieces]),
            labels=_joined_numbers([piece.labels for piece in pieces]),
            keys={what: _joined(piece.keys[what] for piece in pieces) for what in pieces[0].keys},
        )


def _joined(lists: Iterable[Sequence[One]]) -> list[One]:
    return list(chain.from_iterable(lists))


def _joined_numbers(pieces: Sequence[Doubles | None]) -> Doubles | None:
    known = [piece for piece in pieces if piece is not None]
    return np.concatenate(known) if known else None


def _keys(table: pa.Table, name: str) -> list[str | None]:
    """Return the values of a column of keys. An empty text is none: files of text have no null."""
    return [value or None for value in values_as_text(_plain(table, name))]


def _plain(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column without a dictionary."""
    column = column_of(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def _labels(table: pa.Table, name: str) -> Doubles:
    """Return labels as 0.0 or 1.0, NaN for null. Shape (rows,)."""
    values = _numbers(table, name, "--label-column")
    wrong = np.isfinite(values) & ~np.isin(values, (0.0, 1.0))
    if wrong.any():
        raise InputError(
            f"the column {name!r} holds no labels: got {values[wrong][0]:g} in {wrong.sum()} rows; "
            "expected 0 or 1, or false or true. Convert it, or name another one with "
            "--label-column."
        )
    return values


def _numbers(table: pa.Table, name: str, option: str) -> Doubles:
    """Return numbers, NaN for null. Shape (rows,)."""
    column = _plain(table, name)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, name, option)
    try:
        values = pc.cast(column, pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the column {name!r} holds no numbers: got type {column.type}; expected a number in "
            f"each row, or null. Convert it, or name another one with {option}."
        ) from error
    return np.array(values, dtype=np.float64)


def _parsed(column: pa.ChunkedArray, name: str, option: str) -> pa.ChunkedArray:
    """Read numbers and truth values that are written as texts; an empty text is null."""
    texts = [None if text is None else text.strip().lower() for text in column.to_pylist()]
    values: list[float | None] = []
    wrong = []
    for row, text in enumerate(texts):
        try:
            values.append(float(_TRUTH.get(text, text)) if text else None)
        except ValueError:
            wrong.append(row)
    if wrong:
        raise InputError(
            f"the column {name!r} holds texts that are no numbers: got {len(wrong):,} of them in "
            f"{len(texts):,} rows, the first in row {wrong[0]:,} (counted from 0 in its part of "
            f"the input); expected a number in each row, or none. Mend it, or name another one "
            f"with {option}."
        )
    return pa.chunked_array([pa.array(values, pa.float64())])
