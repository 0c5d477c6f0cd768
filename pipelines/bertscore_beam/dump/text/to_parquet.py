"""Write a text file as Parquet, streamed once from its start to its end, in bounded memory."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, takewhile, tee
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import text_field
from bertscore_beam.dump.inputs import Format
from bertscore_beam.dump.splits import RowGroup
from bertscore_beam.dump.text.arrays import infer_schema, object_arrays, text_arrays
from bertscore_beam.dump.text.parsers import (
    LINE_COLUMN,
    LINE_TYPE,
    MOST_DROPPED,
    OTHER_FIELDS,
    PARSER,
    PARSER_KEY,
    BadLine,
    Record,
    lines_of,
    read_records,
)
from bertscore_beam.dump.text.text_source import PACKED, TextFile, TextStream, open_text
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files import mask_credentials
from bertscore_core.errors import InputError

SAMPLE_BYTES = 1024 * 1024
"""Bytes of a file, decompressed, in which its columns and their types are found."""
PIECE_BYTES = 256 * 1024
"""About the bytes that become arrays at a time."""
ROWS = 20_000
"""Most rows of a row group."""
GROUP_BYTES = 32 * 1024 * 1024
"""About the most bytes of a row group, before compression."""


def write_rows(text: TextFile, sink: BinaryIO, told: Callable[[int], None] | None = None) -> None:
    """Write all rows of a text file as Parquet.

    Args:
        text: The file.
        sink: Where the Parquet file goes. After an error what it holds must be thrown away: readers
            may take it for a whole file.
        told: Called now and then with the number of stored bytes that have been read; None for
            nothing.

    Raises:
        InputError: It is damaged, not of its format, or has changed since it was found.
        OSError: It cannot be reached.
    """
    with open_text(text) as stream:
        schema, _, records = _begun(text, stream)
        if text.kind.has_header:
            next(records)
        with _writer(sink, schema) as writer:
            for group in _groups(_tables(records, schema, text.kind)):
                writer.write_table(group, row_group_size=ROWS)
                if told is not None:
                    told(stream.count)


def read_columns(text: TextFile) -> tuple[pa.Schema, RowGroup]:
    """Return the columns of a text file, and its estimated size as Parquet, by its first rows.

    The estimate is 0 where the size of the file is not known.
    """
    with open_text(text) as stream:
        schema, sample, _ = _begun(text, stream)
        num_bytes = (stream.size or 0) * (PACKED if text.codec else 1)
    rows = min(num_bytes, 1)
    if len(sample) > 1:
        rows = math.ceil(num_bytes * (len(sample) - 1) / (sample[-1][1] - sample[0][1]))
    return schema, RowGroup(num_rows=rows, num_bytes=num_bytes)


def _begun(text: TextFile, stream: TextStream) -> tuple[pa.Schema, list[Record], Iterator[Record]]:
    """Return the columns of a file, its first records, and all of them."""
    blank = b" \t\r\n" if text.kind is Format.JSONL else b"\r\n"
    lines = lines_of(stream.blocks())
    full = (line for line in lines if line[2] is None or line[2].strip(blank))
    first = next(full, None)
    records, ahead = tee(read_records(lines if first is None else chain([first], lines), text.kind))
    end = SAMPLE_BYTES + (first[1] if first else 0)
    sample = list(takewhile(lambda record: record[1] < end, ahead))
    if text.kind.has_header:
        schema = _header_schema(text, sample)
    elif first is not None:
        schema = _json_schema(text, (first[2] or b"").strip(), sample)
    else:
        schema = pa.schema([text_field(column) for column in text.columns])
    taken = [name for name in schema.names if name.partition(".")[0] == LINE_COLUMN]
    if taken:
        raise InputError(
            f"{mask_credentials(text.path)!r} has a column of a name that is ours: got "
            f"{taken[0]!r}; expected other names than {LINE_COLUMN!r}. Rename it."
        )
    return schema, sample, records


def _header_schema(text: TextFile, sample: Sequence[Record]) -> pa.Schema:
    header = sample[0][2] if sample and sample[0][0] == 1 else []
    shown = mask_credentials(text.path)
    if isinstance(header, BadLine) or not header:
        got = "an empty first line"
        if isinstance(header, BadLine):
            is_long = header.reason is Reason.LINE_TOO_LONG
            got = "a line that is too long" if is_long else header.message or "no valid first line"
        raise InputError(
            f"{shown!r} has no header: got {got}; expected a first line of {text.kind} with the "
            "names of the columns, in UTF-8. Write one."
        )
    names = list(header)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"the header of {shown!r} names columns twice: got {twice}; expected each once. "
            "Rename them."
        )
    return pa.schema([(name, pa.string()) for name in names])


def _json_schema(text: TextFile, start: bytes, sample: Sequence[Record]) -> pa.Schema:
    rows = [row for _, _, row in sample if isinstance(row, dict)]
    if rows and start not in (b"", b"["):  # too long; an array with an object a line
        return infer_schema(rows)
    got, cure = {
        b"[": ("an array of JSON", "Convert it: jq -c '.[]' ARRAY > dump.jsonl"),
        b"{": ("an object over several lines", "Convert it: jq -c . FILE > dump.jsonl"),
    }.get(start[:1], ("other text", "Name other formats with --input-format."))
    raise InputError(
        f"{mask_credentials(text.path)!r} does not hold lines of JSON: got {got}; expected one "
        f"object a line. {cure}"
    )


def _writer(sink: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    # Numbers that rise, by steps that are alike.
    rising = {f"{LINE_COLUMN}.{name}": "DELTA_BINARY_PACKED" for name in ("byte", "line")}
    return pq.ParquetWriter(
        sink,
        with_line_column(schema).with_metadata({PARSER_KEY: PARSER}),
        compression="zstd",
        use_dictionary=False,  # zstd finds what repeats
        column_encoding=rising,
        write_statistics=False,
    )


def _groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = num_bytes = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        num_bytes += table.nbytes
        if rows >= ROWS or num_bytes >= GROUP_BYTES:
            whole = pa.concat_tables(waiting)
            kept = rows % ROWS if num_bytes < GROUP_BYTES else 0
            yield whole.slice(0, rows - kept)
            waiting = [whole.slice(rows - kept)] if kept else []
            rows, num_bytes = kept, sum(part.nbytes for part in waiting)
    if rows:
        yield pa.concat_tables(waiting)


def with_line_column(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file with `LINE_COLUMN` behind them."""
    return schema.append(pa.field(LINE_COLUMN, LINE_TYPE, nullable=False))


def _tables(records: Iterable[Record], schema: pa.Schema, kind: Format) -> Iterator[pa.Table]:
    for _, some in groupby(records, lambda record: record[1] // PIECE_BYTES):
        yield to_table(list(some), schema, kind)


def to_table(records: Sequence[Record], schema: pa.Schema, kind: Format) -> pa.Table:
    """Return a row for each record, with `LINE_COLUMN`."""
    numbers, starts, rows = zip(*records, strict=True)
    arrays, found = (object_arrays if kind is Format.JSONL else text_arrays)(rows, schema)
    reasons, messages, names = (
        pa.nulls(len(rows), LINE_TYPE.field(part).type) for part in ("reason", "message", "dropped")
    )
    if found.bad:
        told = [found.bad.get(row) for row in range(len(rows))]
        reasons = pa.array([line and str(line.reason) for line in told], pa.string())
        messages = pa.array([line and line.message for line in told], pa.string())
    if found.dropped:
        dropped = map(found.dropped.get, range(len(rows)))
        names = pa.array([line and _names(line) for line in dropped], names.type)
    lines = pa.StructArray.from_arrays(
        [pa.array(starts), pa.array(numbers), reasons, messages, names], fields=list(LINE_TYPE)
    )
    return pa.Table.from_arrays([*arrays, lines], schema=with_line_column(schema))


def _names(dropped: set[str]) -> list[str]:
    first = sorted(dropped)[:MOST_DROPPED]
    return first + [OTHER_FIELDS] * (len(dropped) - len(first))
