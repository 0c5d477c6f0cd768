"""Columns whose values stand in the names of folders, as Hive writes them: `dt=2026-01-01/`."""

import json
import re
from urllib.parse import unquote

import pyarrow as pa

_PAIR = re.compile(r"([^=/?#]+)=([^/?#]*)")
# What Hive and Spark call the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partitions_of(path: str) -> str:
    """Return the partition columns in a path, in order, as JSON; "" without any.

    Every folder on the way named `key=value` counts, wherever the search began, so that the columns
    do not depend on how the input was given. Values are strings, URL-decoded. Of equal keys the
    deepest counts.
    """
    found = {}
    for folder in _folders(path):
        pair = _PAIR.fullmatch(folder)
        if pair is not None:
            value = unquote(pair[2])
            found[unquote(pair[1])] = None if value == _NULL else value
    return json.dumps(list(found.items()), ensure_ascii=True) if found else ""


def above_partitions(folder: str) -> str:
    """Return the deepest folder on the way to a folder that is above all partition columns."""
    names = folder.split("/")
    found = (place for place, name in enumerate(names) if _PAIR.fullmatch(name))
    return "/".join(names[: next(found, len(names))])


def partition_schema(schema: pa.Schema, partitions: str) -> pa.Schema:
    """Add partition columns after the columns of a file. A column of the file comes first."""
    for name, _ in _pairs(partitions):
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_partitions(table: pa.Table, partitions: str) -> pa.Table:
    """Add partition columns to rows; see `partition_schema`."""
    for name, value in _pairs(partitions):
        if name not in table.column_names:
            column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
            table = table.append_column(name, column)
    return table


def _folders(path: str) -> list[str]:
    """Return the names of the folders on the way to a file."""
    scheme, separator, below = path.partition("://")
    if not separator:
        return path.split("/")[:-1]
    if scheme in ("http", "https"):
        below = below.partition("?")[0]
    return below.split("/")[1:-1]


def _pairs(partitions: str) -> list[tuple[str, str | None]]:
    return [(name, value) for name, value in json.loads(partitions)] if partitions else []
