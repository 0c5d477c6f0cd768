"""Columns whose values stand in the names of folders, as Hive writes them: `dt=2026-01-01/`.

And those that the log of a table adds to a file, or has in another type than the file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from bertscore_beam.dump.input_names import split_scheme
from bertscore_beam.files.paths import without_query

_PAIR = re.compile(r"([^=/?#]+)=([^/?#]*)")
# What Hive and Spark call the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_TYPES = {
    str(kind): kind
    for kind in (
        *(pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.float32(), pa.float64()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC")),
    )
}
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Partition:
    """A column that a path or the log of a table gives to a file.

    Attributes:
        name: Its name.
        value: Its value in all rows, a text or None.
        kind: Its type, as `str` writes it, where the log of a table says it; "" for a path.
        is_in_file: Whether its values are in the file: then only the type is from the log.
    """

    name: str
    value: str | None = None
    kind: str = ""
    is_in_file: bool = False


def partitions_of(path: str) -> tuple[Partition, ...]:
    """Return the partition columns in a path, in order.

    Every folder on the way named `key=value` counts, wherever the search began, so that the columns
    do not depend on how the input was given. Values are strings, URL-decoded. Of equal keys the
    deepest counts.
    """
    values = {}
    scheme, _, below = split_scheme(without_query(path))
    for folder in below.split("/")[bool(scheme) : -1]:
        pair = _PAIR.fullmatch(folder)
        if pair is not None:
            value = unquote(pair[2])
            values[unquote(pair[1])] = None if value == _NULL else value
    return tuple(Partition(name, value) for name, value in values.items())


def logged_column(name: str, kind: pa.DataType) -> Partition:
    """Return a column as the log of a table has it: files may have it in another type.

    Raises:
        KeyError: No column can be made of this type.
    """
    words = str(kind)
    _type_named(words)
    return Partition(name, kind=words, is_in_file=True)


def _type_named(words: str) -> pa.DataType:
    """Return the type that `str` gave these words of."""
    decimal = _DECIMAL.fullmatch(words)
    return pa.decimal128(*map(int, decimal.groups())) if decimal else _TYPES[words]


def with_partitions(table: pa.Table, partitions: Sequence[Partition]) -> pa.Table:
    """Add partition columns after the columns of a file, and give others the types of their table.

    A column of the file comes before one of a path, but not before one of the log of a table.
    """
    for column in partitions:
        name, is_there = column.name, column.name in table.column_names
        kind = _type_named(column.kind or "string")
        if column.is_in_file:
            if is_there:
                place = table.column_names.index(name)
                table = table.set_column(place, name, table[name].cast(kind))
        elif column.kind or not is_there:
            table = table.drop_columns(name) if is_there else table
            scalar = pa.scalar(column.value, pa.string()).cast(kind)
            table = table.append_column(name, pa.repeat(scalar, table.num_rows))
    return table
