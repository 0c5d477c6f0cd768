"""Write bytes as a text file, and read the rows that it becomes."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.inputs import InputFile
from bertscore_beam.dump.lines import PARSER, PARSER_KEY, Lines, take_lines
from bertscore_beam.dump.text.text_records import read_records
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import to_table, write_rows


def text_file(
    path: Path | str, input_format: str = "auto", *, size: int = 0, version: str = ""
) -> TextFile:
    """Return a file of text, of a format by its name."""
    file = InputFile(path=str(path), size=size, version=version, input_format=input_format)
    text = TextFile.of(file, ["candidate", "reference"], ["reference"])
    assert text is not None
    return text


def convert(path: Path | str, input_format: str = "auto") -> tuple[pa.Table, Lines]:
    """Return the rows of a file by way of Parquet."""
    text, sink = text_file(path, input_format), io.BytesIO()
    write_rows(text, sink)
    table, lines = take_lines(pq.read_table(sink))
    assert lines is not None
    assert len(table) == len(lines.offsets) == len(lines.numbers)
    return table, lines


def paths_of(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Yield all columns, by name or dotted path."""
    for field in fields:
        inner = field.type
        while pa.types.is_list(inner):
            inner = inner.value_type
        yield f"{above}{field.name}"
        if pa.types.is_struct(inner):
            yield from paths_of(inner, f"{above}{field.name}.")


def in_blocks(data: bytes, size: int) -> Iterator[bytes]:
    """Yield bytes in blocks."""
    return (data[start : start + size] for start in range(0, len(data), size))


def parse(
    data: bytes, kind: Format, schema: pa.Schema, *, block: int = 1 << 22, piece: int = 1 << 18
) -> tuple[pa.Table, Lines]:
    """Return the rows of some bytes, without a file; the header counts as one.

    All columns are such as a run names.
    """
    text = replace(text_file("a.jsonl"), kind=kind, columns=tuple(paths_of(schema)), lists=())
    records = read_records(in_blocks(data, block), kind, piece)
    tables = [to_table(some, schema, text, {}) for some in records]
    if not tables:
        return schema.empty_table(), Lines()
    table, lines = take_lines(
        pa.concat_tables(tables).replace_schema_metadata({PARSER_KEY: PARSER})
    )
    assert lines is not None
    return table, lines


def check(table, bad, row, *expected):
    """Check records from a row on: the values of each, or by a tuple why it is bad and all null."""
    names = table.column_names
    for number, one in enumerate(expected, row):
        if isinstance(one, tuple):
            assert (str(bad[number].reason), bad[number].message) == one
        else:
            assert number not in bad
        values = one if isinstance(one, dict) else {}
        if isinstance(one, list):
            values = dict(zip(names, one, strict=True))
        whole = {name: values.get(name) for name in names}
        assert repr(table.slice(number, 1).to_pylist()) == repr([whole])
