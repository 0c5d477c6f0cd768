"""Write a text file as Parquet, streamed once from its start to its end, in bounded memory."""

import platform
from collections.abc import Callable, Iterator
from typing import BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.formats import Codec, Format
from bertscore_beam.dump.text.lines import LINE_COLUMN, PARSER_KEY
from bertscore_beam.dump.text.records import Records, read_records
from bertscore_beam.dump.text.source import check_version, file_changed, open_text
from bertscore_beam.dump.text.tables import to_table, with_line_column

_PYTHON = ".".join(platform.python_version_tuple()[:2])
PARSER = f"1, orjson {orjson.__version__}, Python {_PYTHON}"
"""Version of everything that decides a value. Files of another one must be written again."""
ROWS = 20_000
"""Most rows of a row group."""
GROUP_BYTES = 32 * 1024 * 1024
"""About the most bytes of a row group, before compression."""


def text_to_parquet(
    path: str,
    kind: Format,
    codec: Codec,
    schema: pa.Schema,
    sink: str | BinaryIO,
    *,
    size: int | None = None,
    version: str = "",
    told: Callable[[int], None] | None = None,
) -> int:
    """Write all rows of a text file.

    Args:
        path: Path of the file.
        kind: Its format.
        codec: Its compression.
        schema: Its columns, of `read_columns`.
        sink: A local path, or an open binary file, where the Parquet file goes. After an error
            what it holds must be thrown away: readers may take it for a whole file.
        size: Size of the file when it was planned, None if it is not known.
        version: Its version when it was planned, "" if it is not known.
        told: Called now and then with the number of stored bytes that have been read; None for
            nothing.

    Returns:
        The number of rows.

    Raises:
        InputError: It is damaged, not of this format, or has changed since it was planned.
        OSError: It cannot be reached.
    """
    rows = 0
    with (
        open_text(path, kind, codec, size=size, version=version) as stream,
        _writer(sink, schema) as writer,
    ):
        records = read_records(stream.blocks, kind)
        if kind.has_header:
            records = _without_header(path, records, schema)
        for group in _groups(records, schema):
            writer.write_table(group, row_group_size=ROWS)
            rows += group.num_rows
            if told is not None:
                told(stream.place())
        check_version(path, version)
    return rows


def _writer(sink: str | BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
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


def _without_header(path: str, records: Iterator[Records], schema: pa.Schema) -> Iterator[Records]:
    """Check that the header is the one that was planned, and yield what follows."""
    first = next(records, None)
    header, rest = ([], None) if first is None else first.split_header()
    if rest is None or header != schema.names:
        raise file_changed(path, "another header", "the same one")
    yield rest
    yield from records


def _groups(records: Iterator[Records], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables of whole row groups."""
    waiting: list[pa.Table] = []
    rows = num_bytes = 0
    for some in records:
        table = to_table(some, schema)
        waiting.append(table)
        rows += len(table)
        num_bytes += table.nbytes
        if rows >= ROWS or num_bytes >= GROUP_BYTES:
            whole = pa.concat_tables(waiting)
            kept = rows % ROWS if num_bytes < GROUP_BYTES else 0
            yield whole.slice(0, rows - kept)
            waiting = [whole.slice(rows - kept)] if kept else []
            rows, num_bytes = kept, sum(table.nbytes for table in waiting)
    if rows:
        yield pa.concat_tables(waiting)
