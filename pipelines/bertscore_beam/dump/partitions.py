"""Columns whose values stand in the names of folders, as Hive writes them: `dt=2026-01-01/`."""

import json
import re
from urllib.parse import unquote

import pyarrow as pa

from bertscore_beam.dump.input_names import split_scheme

_PAIR = re.compile(r"([^=/?#]+)=([^/?#]*)")
# What Hive and Spark call the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"
IN_LOG = "log"
"""Stands after the name and the value of a column that the log of a table has."""


def partitions_of(path: str) -> str:
    """Return the partition columns in a path, in order, as JSON; "" without any.

    Every folder on the way named `key=value` counts, wherever the search began, so that the columns
    do not depend on how the input was given. Values are strings, URL-decoded. Of equal keys the
    deepest counts.
    """
    values = {}
    scheme, _, below = split_scheme(path)
    if scheme in ("http", "https"):
        below = below.partition("?")[0]
    for folder in below.split("/")[bool(scheme) : -1]:
        pair = _PAIR.fullmatch(folder)
        if pair is not None:
            value = unquote(pair[2])
            values[unquote(pair[1])] = None if value == _NULL else value
    return json.dumps(list(values.items()), ensure_ascii=True) if values else ""


def above_partitions(folder: str) -> str:
    """Return the deepest folder on the way to a folder that is above all partition columns."""
    names = folder.split("/")
    places = (place for place, name in enumerate(names) if _PAIR.fullmatch(name))
    return "/".join(names[: next(places, len(names))])


def with_partitions(table: pa.Table, partitions: str) -> pa.Table:
    """Add partition columns after the columns of a file.

    A column of the file comes before one of a path, but not before one of the log of a table.
    """
    for name, value, *source in json.loads(partitions or "[]"):
        if source == [IN_LOG] and name in table.column_names:
            table = table.drop_columns(name)
        if name not in table.column_names:
            column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
            table = table.append_column(name, column)
    return table
