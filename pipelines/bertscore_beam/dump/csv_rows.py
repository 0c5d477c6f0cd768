"""Parse a block of CSV or TSV records into a table: with Arrow, or one by one where it refuses.

Every column is a string, and an empty field is an empty string: CSV has neither types nor nulls.
"""

import csv
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pc

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.framing import MAX_RECORD_BYTES, Frames
from bertscore_beam.dump.lines import BadLine, Lines
from bertscore_beam.dump.texts import Reason

csv.field_size_limit(MAX_RECORD_BYTES)


def parse_csv(
    data: bytes, frames: Frames, schema: pa.Schema, kind: Format
) -> tuple[pa.Table, Lines]:
    """Parse whole records.

    Args:
        data: The bytes of the records.
        frames: Where they begin and end. None is blank.
        schema: The columns, all of them strings.
        kind: CSV or a TSV.

    Returns:
        A row for each record, and what there is to say about the records.
    """
    table = None if frames.broken else _with_arrow(data, frames, schema, kind)
    if table is not None:
        return table, Lines(offsets=frames.starts)
    columns: list[list[str | None]] = [[] for _ in schema]
    bad: dict[int, BadLine] = {}
    for number, start in enumerate(frames.starts.tolist()):
        is_broken = number in frames.broken
        fields = _fields(data[start : frames.stops[number]], kind, len(columns), is_broken)
        if isinstance(fields, BadLine):
            bad[number] = fields
        for column, value in enumerate(columns):
            value.append(None if isinstance(fields, BadLine) else fields[column])
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.Table.from_arrays(arrays, schema=schema), Lines(offsets=frames.starts, bad=bad)


def parse_record(record: bytes, kind: Format) -> list[str] | BadLine:
    """Return the fields of one record, or why it has none."""
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError:
        return BadLine(reason=Reason.INVALID_UTF8)
    text = text.removesuffix("\n").removesuffix("\r")
    if not kind.is_quoted:
        if "\r" in text:
            return _BAD_RETURN
        return text.split(kind.delimiter)
    try:
        rows = list(
            csv.reader(io.StringIO(text, newline=""), delimiter=kind.delimiter, strict=True)
        )
    except csv.Error:
        return BadLine(
            reason=Reason.BAD_LINE, message="its quotes or line ends are not those of CSV"
        )
    return rows[0] if len(rows) == 1 else _BAD_RETURN


_BAD_RETURN = BadLine(reason=Reason.BAD_LINE, message="it holds a carriage return outside quotes")


def _fields(record: bytes, kind: Format, expected: int, is_broken: bool) -> Sequence[str] | BadLine:
    """Return the fields of one record, or why it is no row."""
    if is_broken:
        return BadLine(reason=Reason.BAD_LINE, message="a quote is not closed")
    fields = parse_record(record, kind)
    if not isinstance(fields, BadLine) and len(fields) != expected:
        return BadLine(
            reason=Reason.BAD_LINE, message=f"got {len(fields)} fields; expected {expected}"
        )
    return fields


def _with_arrow(data: bytes, frames: Frames, schema: pa.Schema, kind: Format) -> pa.Table | None:
    """Parse records with Arrow; None if it refuses, or might read them otherwise."""
    if data.count(b"\r") != data.count(b"\r\n"):
        return None
    try:
        table = pc.read_csv(
            pa.BufferReader(data),
            read_options=pc.ReadOptions(
                column_names=schema.names, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=pc.ParseOptions(
                delimiter=kind.delimiter,
                quote_char='"' if kind.is_quoted else False,
                newlines_in_values=kind.is_quoted,
            ),
            convert_options=pc.ConvertOptions(
                column_types={name: pa.string() for name in schema.names}
            ),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == len(frames.stops) else None
