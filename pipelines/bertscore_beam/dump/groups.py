"""The groups of rows: which rows belong together by the values of some columns.

A group is the values of these columns as texts: equal numbers are equal texts, whatever their type.
A null, a NaN and a text that is not UTF-8 are one value, None. So is every row of a table that does
not have the column.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import can_choose, column_of, has_column
from bertscore_beam.dump.texts import dictionary_of, values_as_text
from bertscore_core.errors import InputError
from bertscore_core.tokens import IntArray

Group: TypeAlias = tuple[str | None, ...]
"""The values of the group columns, as texts; None for no value."""

MOST_GROUPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroups:
    """The groups of N rows.

    Attributes:
        groups: The groups that have rows.
        codes: Position of each row's group in `groups`. Shape (N,).
    """

    groups: tuple[Group, ...]
    codes: IntArray


def groups_of(table: pa.Table, by: Sequence[str]) -> RowGroups:
    """Return the group of every row.

    Args:
        table: The rows.
        by: Names or dotted paths of the group columns. Of one that the table does not have, all
            values are None.

    Raises:
        InputError: A column holds values that cannot be groups.
    """
    codes = np.zeros(table.num_rows, dtype=np.int64)
    keys: list[Group] = [()]
    for name in by:
        own, words = _coded(table, name)
        # Pairs of a group so far and a value, numbered anew: never more than there are rows.
        pairs, codes = np.unique(codes * len(words) + own, return_inverse=True)
        keys = [(*keys[pair // len(words)], words[pair % len(words)]) for pair in pairs.tolist()]
    return RowGroups(groups=tuple(keys) if table.num_rows else (), codes=codes.astype(np.int64))


def _coded(table: pa.Table, name: str) -> tuple[IntArray, list[str | None]]:
    """Return a column as codes, and the text that each code stands for."""
    if not has_column(table.schema, name):
        return np.zeros(table.num_rows, dtype=np.int64), [None]
    if (count := table.column_names.count(name)) > 1:
        raise InputError(
            f"the column {name!r} cannot be used for groups: got {count} columns of that name; "
            "expected one. Rename the others."
        )
    column = column_of(table, name)
    if not can_choose(column.type):
        raise InputError(
            f"the column {name!r} cannot be used for groups: got type {column.type}; expected "
            "texts, numbers, booleans or dates. Convert the column, or name another one."
        )
    encoded = dictionary_of(column)
    # Different values may have the same text, such as 1 and 1.0: numbered by their texts.
    numbers: dict[str | None, int] = {None: 0}
    of_value = [
        numbers.setdefault(text, len(numbers))
        for text in values_as_text(pa.chunked_array([encoded.dictionary]))
    ]
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(of_value)).to_numpy()
    return np.array([*of_value, 0], dtype=np.int64)[indices], list(numbers)


def check_number(groups: Collection[Group], by: Sequence[str], option: str) -> None:
    """Check that there are not too many groups.

    Args:
        groups: The groups.
        by: Their columns.
        option: The option that names the columns, for the message.

    Raises:
        InputError: There are more than `MOST_GROUPS`.
    """
    if len(groups) <= MOST_GROUPS:
        return
    values = [len({group[place] for group in groups}) for place in range(len(by))]
    worst = max(range(len(by)), key=values.__getitem__)
    each = ", ".join(f"{name!r} {n:,}" for name, n in zip(by, values, strict=True))
    raise InputError(
        f"too many groups: got more than {MOST_GROUPS:,}; expected at most that. The column "
        f"{by[worst]!r} has the most values (values seen so far: {each}). Leave it out of {option}."
    )
