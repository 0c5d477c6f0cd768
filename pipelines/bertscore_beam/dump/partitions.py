"""Columns whose values stand in the names of folders, as Hive writes them: `dt=2026-01-01/`.

And those that the log of a table adds to a file, or has in another type than the file.
"""

import json
import re
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


def partitions_of(path: str) -> str:
    """Return the partition columns in a path, in order, as JSON; "" without any.

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
    return json.dumps(list(values.items()), ensure_ascii=True) if values else ""


def logged_column(name: str, kind: pa.DataType) -> dict[str, str]:
    """Return a column as the log of a table has it, for `with_partitions`.

    Files may have it in another type. With a `value`, a text or None, it has that in all rows.

    Raises:
        KeyError: No column can be made of this type.
    """
    words = str(kind)
    _type_named(words)
    return {"name": name, "type": words}


def _type_named(words: str) -> pa.DataType:
    """Return the type that `str` gave these words of."""
    decimal = _DECIMAL.fullmatch(words)
    return pa.decimal128(*map(int, decimal.groups())) if decimal else _TYPES[words]


def with_partitions(table: pa.Table, partitions: str) -> pa.Table:
    """Add partition columns after the columns of a file, and give others the types of their table.

    A column of the file comes before one of a path, but not before one of the log of a table.
    """
    for column in json.loads(partitions or "[]"):
        match column:
            case {"name": name, "type": kind, "value": value}:
                if name in table.column_names:
                    table = table.drop_columns(name)
                table = _with_constant(table, name, value, _type_named(kind))
            case {"name": name, "type": kind}:
                if name in table.column_names:
                    place = table.column_names.index(name)
                    table = table.set_column(place, name, table[name].cast(_type_named(kind)))
            case [name, value]:
                if name not in table.column_names:
                    table = _with_constant(table, name, value, pa.string())
    return table


def _with_constant(table: pa.Table, name: str, value: str | None, kind: pa.DataType) -> pa.Table:
    scalar = pa.scalar(value, pa.string()).cast(kind)
    return table.append_column(name, pa.repeat(scalar, table.num_rows))
