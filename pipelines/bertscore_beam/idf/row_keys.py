"""Which idf table each row belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.language_codes import NO_CODE, NO_LANGUAGE
from bertscore_beam.dump.languages import languages_of
from bertscore_beam.dump.texts import values_as_text
from bertscore_beam.idf.tables import WHOLE, IdfKey
from bertscore_beam.options.base import DumpOptions

NO_KEY = -1
"""Code of a row without a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowKeys:
    """The keys of N rows.

    Attributes:
        keys: The distinct keys, in order of appearance.
        codes: Position of each row's key in `keys`; `NO_KEY` for a row without one. Shape (N,).
    """

    keys: tuple[IdfKey, ...]
    codes: npt.NDArray[np.int64]


def row_keys(table: pa.Table, columns: IdfColumns) -> RowKeys:
    """Return the key of every row: the one place that decides which table a row belongs to.

    A row has no key if a value of a group column is null, NaN or not valid UTF-8, or if it has no
    language where languages have their own tables.

    Args:
        table: The rows, with the columns of groups and languages.
        columns: The columns that say how references are counted.
    """
    if not columns.group and columns.language is None:
        return key_of_all(table.num_rows)
    numbers: dict[IdfKey, int] = {}
    codes = np.full(table.num_rows, NO_KEY, dtype=np.int64)
    values = [
        _languages(table, columns),
        *(values_as_text(column_of(table, n)) for n in columns.group),
    ]
    for row, (language, *group) in enumerate(zip(*values, strict=True)):
        known = tuple(value for value in group if value is not None)
        if language is not None and len(known) == len(group):
            key = IdfKey(language=language, group=known)
            codes[row] = numbers.setdefault(key, len(numbers))
    return RowKeys(keys=tuple(numbers), codes=codes)


def keys_of_languages(languages: Sequence[str]) -> RowKeys:
    """Return the key of each row by its language alone, as `language_of` returns it."""
    numbers: dict[IdfKey, int] = {}
    codes = np.full(len(languages), NO_KEY, dtype=np.int64)
    for row, language in enumerate(languages):
        if language not in (NO_LANGUAGE, NO_CODE):
            codes[row] = numbers.setdefault(IdfKey(language=language), len(numbers))
    return RowKeys(keys=tuple(numbers), codes=codes)


def key_of_all(rows: int) -> RowKeys:
    """Return the keys of rows that are all scored alike."""
    return RowKeys(keys=(WHOLE,), codes=np.zeros(rows, dtype=np.int64))


def _languages(table: pa.Table, columns: IdfColumns) -> list[str | None]:
    """Return the language of each row as in `IdfKey`; None for a row without one."""
    if columns.language is None:
        return [WHOLE.language] * table.num_rows
    found = languages_of(column_of(table, columns.language))
    return [None if language in (NO_LANGUAGE, NO_CODE) else language for language in found]


def idf_columns(options: DumpOptions) -> IdfColumns:
    """Return the columns that say how references are counted."""
    return IdfColumns(
        key=options.idf_key, group=options.idf_group, language=options.language_column
    )
