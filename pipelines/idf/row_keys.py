"""Which idf table each row belongs to."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dump.columns import IdfColumns, column_of
from pipelines.idf.tables import WHOLE, IdfKey

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

    A row has no key if a value of a group column is null, NaN or not valid UTF-8.

    Args:
        table: The rows, with the columns of groups.
        columns: The columns that say how references are counted.
    """
    if not columns.group:
        return RowKeys(keys=(WHOLE,), codes=np.zeros(table.num_rows, dtype=np.int64))
    numbers: dict[IdfKey, int] = {}
    codes = np.full(table.num_rows, NO_KEY, dtype=np.int64)
    values = [values_as_text(column_of(table, name)) for name in columns.group]
    for row, group in enumerate(zip(*values, strict=True)):
        known = tuple(value for value in group if value is not None)
        if len(known) == len(group):
            codes[row] = numbers.setdefault(IdfKey(group=known), len(numbers))
    return RowKeys(keys=tuple(numbers), codes=codes)


def values_as_text(column: pa.ChunkedArray) -> list[str | None]:
    """Return the values of a key or group column as texts. Shape (rows,).

    Equal numbers are equal texts, whatever their type. None is a null, NaN or not valid UTF-8.
    """
    return [text for chunk in column.chunks for text in _chunk_as_text(chunk)]


def _chunk_as_text(array: pa.Array) -> list[str | None]:
    if isinstance(array, pa.DictionaryArray):
        values = _chunk_as_text(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if pa.types.is_floating(array.type):
        return [_number_as_text(value) for value in array.to_pylist()]
    if pa.types.is_null(array.type):
        return [None] * len(array)
    texts = pc.cast(array, pa.large_string())
    return [None if raw is None else _decode(raw) for raw in _raw(texts)]


def _raw(texts: pa.Array) -> list[bytes | None]:
    raw: list[bytes | None] = pc.cast(texts, pa.large_binary()).to_pylist()
    return raw


def _number_as_text(value: float | None) -> str | None:
    """Return a number as the integer that it is, if it is one: pandas makes floats of such ids."""
    if value is None or math.isnan(value):
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def _decode(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
