"""Records of a text file as a table, with a column that says where each stood."""

import pyarrow as pa

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.text.arrays import object_arrays, text_arrays
from bertscore_beam.dump.text.lines import (
    LINE_COLUMN,
    LINE_TYPE,
    MOST_DROPPED,
    OTHER_FIELDS,
    BadLine,
)
from bertscore_beam.dump.text.records import Records


def with_line_column(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file with `LINE_COLUMN` behind them."""
    return schema.append(pa.field(LINE_COLUMN, LINE_TYPE, nullable=False))


def to_table(records: Records, schema: pa.Schema) -> pa.Table:
    """Return a row for each record, with `LINE_COLUMN`.

    Args:
        records: The records, without the header.
        schema: The columns of the file.
    """
    if records.kind is Format.JSONL:
        arrays, found = object_arrays(records.rows, schema)
    else:
        arrays, found = text_arrays(records.rows, records.cells, schema)
    lines = _line_array(records, records.bad | found.bad, found.dropped)
    return pa.Table.from_arrays([*arrays, lines], schema=with_line_column(schema))


def _line_array(
    records: Records, bad: dict[int, BadLine], dropped: dict[int, set[str]]
) -> pa.Array:
    """Return the places of records, and what there is to say about each."""
    count = len(records.rows)
    reasons, messages, names = (pa.nulls(count, LINE_TYPE.field(part).type) for part in (2, 3, 4))
    if bad:
        told = [bad.get(row) for row in range(count)]
        reasons = pa.array([line and str(line.reason) for line in told], pa.string())
        messages = pa.array([line and line.message for line in told], pa.string())
    if dropped:
        names = pa.array([_names(dropped.get(row)) for row in range(count)], names.type)
    return pa.StructArray.from_arrays(
        [pa.array(records.offsets), pa.array(records.numbers), reasons, messages, names],
        fields=list(LINE_TYPE),
    )


def _names(dropped: set[str] | None) -> list[str] | None:
    """Return the first names, and one name for each of the others."""
    if dropped is None:
        return None
    first = sorted(dropped)[:MOST_DROPPED]
    return first + [OTHER_FIELDS] * (len(dropped) - len(first))
