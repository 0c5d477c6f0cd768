"""Write a text file as Parquet, streamed once from its start to its end, in bounded memory."""

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice, tee, zip_longest
from pathlib import PurePath
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.formats import Format, format_of
from bertscore_beam.dump.input_names import cut_name
from bertscore_beam.dump.lines import (
    LINE_COLUMN,
    LINE_TYPE,
    MOST_DROPPED,
    OTHER_FIELDS,
    PARSER,
    PARSER_KEY,
    SOURCE_KEY,
    BadLine,
)
from bertscore_beam.dump.parquet import sealed_writer
from bertscore_beam.dump.paths import example_of
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.splits import RowGroup
from bertscore_beam.dump.text import parsers
from bertscore_beam.dump.text.arrays import Drifts, object_arrays, text_arrays, widened
from bertscore_beam.dump.text.one_object import check_is_row, jq_command, lines_cure
from bertscore_beam.dump.text.schema import infer_schema
from bertscore_beam.dump.text.text_records import read_records
from bertscore_beam.dump.text.text_source import PACKED, TextFile, open_text
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute, join
from bertscore_core.errors import InputError

SAMPLE_BYTES = 1024 * 1024
"""Bytes of a file, decompressed, in which its columns and their types are found."""
_ROWS = 20_000
"""Most rows of a row group."""
GROUP_BYTES = 32 * 1024 * 1024
"""About the most bytes of a row group, before compression."""


def write_rows(
    text: TextFile, sink: BinaryIO, on_progress: Callable[[int], None] | None = None
) -> None:
    """Write all rows of a text file as Parquet.

    The file is read once; if values behind its first megabyte do not fit the types that were found
    there, it is read again, with types that take them.

    Args:
        text: The file.
        sink: Where the Parquet file goes, a stream that can be cut. After an error what it holds
            must be thrown away: readers may take it for a whole file.
        on_progress: Called now and then with the number of stored bytes that have been read;
            None for nothing.

    Raises:
        InputError: It is damaged, not of its format, or has changed since it was found.
        OSError: It cannot be reached.
    """
    schema = _write_rows(text, sink, None, on_progress)
    while schema is not None:
        sink.seek(0)
        sink.truncate()
        schema = _write_rows(text, sink, schema, on_progress)


def parsed(text: TextFile) -> pa.Table:
    """Return all rows of a small text file, as `write_rows` writes them; the same errors."""
    made = io.BytesIO()
    write_rows(text, made)
    return pq.ParquetFile(made).read()


def _write_rows(
    text: TextFile,
    sink: BinaryIO,
    schema: pa.Schema | None,
    on_progress: Callable[[int], None] | None,
) -> pa.Schema | None:
    """Write the rows in some types; return wider ones if these do not take all values."""
    drifts: Drifts = {}
    with open_text(text) as stream:
        blocks, sample = tee(stream.blocks())
        first, is_alone = _first_records(text, sample)
        del sample  # else blocks would wait for it in memory
        schema = _columns(text, first, is_alone=is_alone) if schema is None else schema
        records = read_records(blocks, text.kind)
        tables: Iterator[pa.Table] = (to_table(piece, schema, text, drifts) for piece in records)
        if text.kind.has_header:
            tables = chain([next(tables).slice(1)], tables)
        with _writer(sink, schema) as writer:
            for group in _groups(tables):
                if not drifts:
                    writer.write_table(group, row_group_size=_ROWS)
                if on_progress is not None:
                    on_progress(stream.count)
    return widened(schema, drifts) if drifts else None


def read_columns(text: TextFile) -> tuple[pa.Schema, RowGroup]:
    """Return the columns of a text file, and its estimated size as Parquet, by its first rows.

    The estimate is 0 where the size of the file is not known.
    """
    with open_text(text) as stream:
        first, is_alone = _first_records(text, stream.blocks())
        schema = _columns(text, first, is_alone=is_alone)
        text_bytes = (stream.size or 0) * (PACKED if text.codec else 1)
    mean_bytes = max(1.0, len(first.data) / max(1, len(first.rows))) if first else 1.0
    rows = math.ceil(text_bytes / mean_bytes)
    return schema, RowGroup(num_rows=rows, num_bytes=math.ceil(rows * mean_bytes))


def _first_records(
    text: TextFile, blocks: Iterator[bytes]
) -> tuple[parsers.ParsedRecords | None, bool]:
    """Return the first records of a file, and whether they are one, and the only one."""
    pieces = (piece for piece in read_records(blocks, text.kind, SAMPLE_BYTES) if piece.rows)
    first = next(pieces, None)
    return first, first is not None and len(first.rows) == 1 and next(pieces, None) is None


def _columns(text: TextFile, first: parsers.ParsedRecords | None, *, is_alone: bool) -> pa.Schema:
    if text.kind.has_header:
        schema = _header_schema(text, first)
    elif first is not None:
        schema = _json_schema(text, first)
        if is_alone:
            check_is_row(first.rows[0], schema, text)
    else:
        schema = infer_schema([example_of(text.columns)])
    taken = [name for name in schema.names if name.partition(".")[0] == LINE_COLUMN]
    if taken:
        raise InputError(
            f"{mask_credentials(text.path)!r} has a column with a reserved name: got "
            f"{taken[0]!r}; expected any name but {LINE_COLUMN!r}. Rename it."
        )
    return schema


def _header_schema(text: TextFile, first: parsers.ParsedRecords | None) -> pa.Schema:
    header = first if first is not None and first.numbers[0] == 1 else parsers.ParsedRecords()
    names = header.cells[: header.rows[0] or 0] if header.rows else []
    shown = mask_credentials(text.path)
    if not names:
        got = "an empty first line"
        if bad := header.bad.get(0):
            is_long = bad.reason is Reason.LINE_TOO_LONG
            why = (
                f"a line that cannot be read ({bad.message})"
                if bad.message
                else "no valid first line"
            )
            got = "a line that is too long" if is_long else why
        raise InputError(
            f"{shown!r} has no header: got {got}; expected a first line of {text.kind} with the "
            "names of the columns, in UTF-8. Write one."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"the header of {shown!r} names columns twice: got {twice}; expected each name once. "
            "Rename them."
        )
    return pa.schema([(name, pa.string()) for name in names])


_FROM_PYTHON = (
    'Convert it: python -c "import ast, json, sys; '
    '[print(json.dumps(ast.literal_eval(row))) for row in sys.stdin]" < FILE > dump.jsonl'
)


def _json_schema(text: TextFile, first: parsers.ParsedRecords) -> pa.Schema:
    rows = [row for row in first.rows if row is not None]
    start = first.data.lstrip()[:2]
    if rows and start not in (b"[\n", b"[\r"):  # an array with an object a line
        schema = infer_schema(rows)
        while drifts := object_arrays(rows, schema, text)[1].drifts:
            schema = widened(schema, drifts)
        return schema
    line = first.data.lstrip().partition(b"\n")[0]
    known = {
        rb".*\},$": (
            "a comma after each object",
            "Remove the commas: sed 's/,$//' FILE > dump.jsonl",
        ),
        rb"\[": ("an array of JSON", f"Convert it: {jq_command('.[]', text)}"),
        rb"\{'": ("objects of Python", _FROM_PYTHON),
        rb"\{": ("an object over several lines", lines_cure(first.data, text)),
        rb"": ("other text", "Name other formats with --input-format."),
    }
    got, cure = next(said for start, said in known.items() if re.match(start, line))
    raise InputError(
        f"{mask_credentials(text.path)!r} does not hold lines of JSON: got {got}; expected one "
        f"object per line. {cure}"
    )


def _writer(sink: BinaryIO, schema: pa.Schema) -> AbstractContextManager[pq.ParquetWriter]:
    # Numbers that rise, by steps that are alike.
    rising = {f"{LINE_COLUMN}.{name}": "DELTA_BINARY_PACKED" for name in ("byte", "line")}
    return sealed_writer(
        sink,
        _with_line_column(schema).with_metadata({PARSER_KEY: PARSER}),
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
        if rows >= _ROWS or num_bytes >= GROUP_BYTES:
            whole = pa.concat_tables(waiting)
            kept = rows % _ROWS if num_bytes < GROUP_BYTES else 0
            yield whole.slice(0, rows - kept)
            waiting = [whole.slice(rows - kept)] if kept else []
            rows, num_bytes = kept, sum(part.nbytes for part in waiting)
    if rows:
        yield pa.concat_tables(waiting)


def _with_line_column(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file with `LINE_COLUMN` behind them."""
    return schema.append(pa.field(LINE_COLUMN, LINE_TYPE, nullable=False))


def to_table(
    records: parsers.ParsedRecords, schema: pa.Schema, text: TextFile, drifts: Drifts
) -> pa.Table:
    """Return a row for each record, with `LINE_COLUMN`; add to what does not fit the columns."""
    if text.kind is Format.JSONL:
        arrays, found = object_arrays(records.rows, schema, text)
        for path, kinds in found.drifts.items():
            drifts.setdefault(path, set()).update(kinds)
    else:
        arrays, found = text_arrays(records.rows, records.cells, schema)
    lines = _line_array(records, records.bad | found.bad, found.dropped)
    return pa.Table.from_arrays([*arrays, lines], schema=_with_line_column(schema))


def _line_array(
    records: parsers.ParsedRecords, bad: dict[int, BadLine], dropped: dict[int, set[str]]
) -> pa.Array:
    count = len(records.rows)
    reasons, messages, names = (pa.nulls(count, LINE_TYPE.field(part).type) for part in (2, 3, 4))
    if bad:
        lines = [bad.get(row) for row in range(count)]
        reasons = pa.array([line and str(line.reason) for line in lines], pa.string())
        messages = pa.array([line and line.message for line in lines], pa.string())
    if dropped:
        names = pa.array([_names(dropped.get(row)) for row in range(count)], names.type)
    return pa.StructArray.from_arrays(
        [pa.array(records.offsets), pa.array(records.numbers), reasons, messages, names],
        fields=list(LINE_TYPE),
    )


def _names(dropped: set[str] | None) -> list[str] | None:
    if dropped is None:
        return None
    first = sorted(dropped)[:MOST_DROPPED]
    return first + [OTHER_FIELDS] * (len(dropped) - len(first))


# Files with one text per line, candidates in one and references in others, become Parquet files.

_SYSTEM_BYTES = 255 - len(".parquet")
"""Most bytes of the name of a Parquet file, without its suffix."""


def write_line_files(
    candidates: Sequence[str], references: Sequence[str], folder: str
) -> tuple[str, ...]:
    """Write a Parquet file for each file of candidates, a row a line.

    Its columns are `candidate`, `reference` (a list if there are several files of references),
    `line`, from 1, and `system` if there are several files of candidates: the name of the file
    without its ending.

    Args:
        candidates: Files of candidates, one a system.
        references: Files of references of all systems.
        folder: A local folder for the Parquet files.

    Returns:
        The Parquet files, in the order of the candidates.

    Raises:
        InputError: Two systems have one name, the numbers of lines differ, or a file is damaged or
            not UTF-8.
        OSError: A file cannot be read.
    """
    systems = list(map(_system_of, candidates))
    if twice := sorted({name for name in systems if systems.count(name) > 1}):
        raise InputError(
            f"files of candidates have the same name: got {', '.join(twice)} more than once; "
            "expected different names, since they go into the column `system`. Rename the files, "
            "or give links to them."
        )
    short = (cut_name(name, name, _SYSTEM_BYTES) for name in systems)
    targets = tuple(join(folder, f"{name}.parquet") for name in short)
    for path, system, target in zip(candidates, systems, targets, strict=True):
        _write_lines((path, *references), system if len(systems) > 1 else None, target)
    return targets


def _system_of(path: str) -> str:
    _, codec = format_of(path, Format.LINES)
    name = PurePath(path)
    return PurePath(name.stem).stem if codec else name.stem


def _write_lines(paths: Sequence[str], system: str | None, target: str) -> None:
    several, text = len(paths) > 2, pa.string()
    reference = pa.list_(text) if several else text
    schema = pa.schema([("candidate", text), ("reference", reference), ("line", pa.int64())])
    if system is not None:
        schema = schema.append(pa.field("system", text))
    source = {PARSER_KEY: PARSER, SOURCE_KEY: mask_credentials(absolute(paths[0]))}
    schema = _with_line_column(schema).with_metadata(source)
    numbers, first = np.zeros(len(paths), dtype=np.int64), 1
    rows = zip_longest(*map(_lines, paths), fillvalue=(0, None))
    with pq.ParquetWriter(target, schema) as writer:
        while some := list(islice(rows, _ROWS)):
            starts = [{"byte": row[0][0], "line": line} for line, row in enumerate(some, first)]
            texts = [[text for _, text in column] for column in zip(*some, strict=True)]
            numbers += [len(some) - column.count(None) for column in texts]
            columns = {
                "candidate": texts[0],
                "reference": list(zip(*texts[1:], strict=True)) if several else texts[1],
                "line": range(first, first + len(some)),
                "system": [system] * len(some),
                LINE_COLUMN: starts,
            }
            writer.write_table(pa.table({name: columns[name] for name in schema.names}, schema))
            first += len(some)
    if len(set(numbers)) > 1:
        counts = ", ".join(map("{:,} in {!r}".format, numbers, map(mask_credentials, paths)))
        raise InputError(
            f"files with one text per line do not fit together: got these numbers of lines: "
            f"{counts}; expected the same number, since line N of one file belongs to line N of "
            "the others. Compare their ends: an empty text is an empty line."
        )


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the first byte of each line, decompressed, and its text."""
    _, codec = format_of(path, Format.LINES)
    text = TextFile(
        path=absolute(path), size=0, version="", kind=Format.LINES, codec=codec, columns=()
    )
    with open_text(text) as stream:
        for records in read_records(stream.blocks(), Format.LINES):
            for place, line in records.bad.items():
                raise _bad_line(path, line, int(records.numbers[place]))
            if records.numbers[0] == 1:
                if "\r" in records.rows[0] and b"\n" not in records.data:
                    raise InputError(
                        f"{mask_credentials(path)!r} has no line feeds: got carriage returns; "
                        f"expected lines that end in line feeds. Convert it: {parsers.END_LINES}"
                    )
                records.rows[0] = records.rows[0].removeprefix(parsers.MARK.decode())
            yield from zip(records.offsets.tolist(), records.rows, strict=True)


def _bad_line(path: str, line: BadLine, number: int) -> InputError:
    if line.reason is Reason.LINE_TOO_LONG:
        return InputError(
            f"a line of {mask_credentials(path)!r} is too long: got more in line {number:,}; "
            f"{line.message}. Give a file with one text per line."
        )
    return InputError(
        f"{mask_credentials(path)!r} is not UTF-8: got other bytes in line {number:,}; "
        "expected UTF-8. Convert it, such as with iconv."
    )
