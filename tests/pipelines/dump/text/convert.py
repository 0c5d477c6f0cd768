"""Write bytes as a text file, and read the rows that it becomes."""

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.formats import Format, format_of
from bertscore_beam.dump.text.columns import read_columns
from bertscore_beam.dump.text.lines import PARSER_KEY, Lines, take_lines
from bertscore_beam.dump.text.records import read_records
from bertscore_beam.dump.text.tables import to_table
from bertscore_beam.dump.text.to_parquet import PARSER, text_to_parquet


def convert(path: Path | str, input_format: str = "auto") -> tuple[pa.Table, Lines]:
    """Return the rows of a file by way of Parquet."""
    kind, codec = format_of(str(path), input_format)
    columns = read_columns(str(path), kind, codec, ["candidate", "reference"])
    sink = io.BytesIO()
    rows = text_to_parquet(str(path), kind, codec, columns.schema, sink, size=columns.size)
    table, lines = take_lines(pq.read_table(sink))
    assert len(table) == len(lines.offsets) == len(lines.numbers) == rows
    assert table.schema.equals(columns.schema)
    return table, lines


def in_blocks(data: bytes, size: int) -> Iterator[bytes]:
    """Yield bytes in blocks."""
    return (data[start : start + size] for start in range(0, len(data), size))


def parse(
    data: bytes, kind: Format, schema: pa.Schema, *, block: int = 1 << 22, piece: int = 1 << 18
) -> tuple[pa.Table, Lines]:
    """Return the rows of some bytes, without a file; the header counts as one."""
    tables = [to_table(some, schema) for some in read_records(in_blocks(data, block), kind, piece)]
    if not tables:
        return schema.empty_table(), Lines()
    table, lines = take_lines(
        pa.concat_tables(tables).replace_schema_metadata({PARSER_KEY: PARSER})
    )
    assert lines is not None
    return table, lines
