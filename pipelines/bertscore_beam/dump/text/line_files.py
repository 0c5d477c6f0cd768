"""Files with a text a line, candidates in one and references in others, become Parquet files."""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.inputs import Format, format_of
from bertscore_beam.dump.text.parsers import (
    LINE_COLUMN,
    MAX_RECORD_BYTES,
    PARSER,
    PARSER_KEY,
    SOURCE_KEY,
    lines_of,
)
from bertscore_beam.dump.text.text_source import TextFile, open_text
from bertscore_beam.dump.text.to_parquet import ROWS, with_line_column
from bertscore_beam.files import absolute, join, mask_credentials
from bertscore_core.errors import InputError


def write_line_files(
    candidates: Sequence[str], references: Sequence[str], folder: str
) -> tuple[str, ...]:
    """Write a Parquet file for each file of candidates, a row a line.

    Its columns are `candidate`, `reference` (a list if there are several files of references), and
    `system` if there are several files of candidates: the name of the file without its ending.

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
    systems = list(map(_name, candidates))
    if twice := sorted({name for name in systems if systems.count(name) > 1}):
        raise InputError(
            f"files of candidates have one name: got {', '.join(twice)} more than once; expected a "
            "name for each, which the column `system` holds. Rename or link them."
        )
    targets = tuple(join(folder, f"{name}.parquet") for name in systems)
    for path, system, target in zip(candidates, systems, targets, strict=True):
        _write((path, *references), system if len(systems) > 1 else None, target)
    return targets


def _name(path: str) -> str:
    _, codec = format_of(path, Format.LINES)
    name = PurePath(path)
    return PurePath(name.stem).stem if codec else name.stem


def _write(paths: Sequence[str], system: str | None, target: str) -> None:
    several, text = len(paths) > 2, pa.string()
    schema = pa.schema([("candidate", text), ("reference", pa.list_(text) if several else text)])
    if system is not None:
        schema = schema.append(pa.field("system", text))
    source = {PARSER_KEY: PARSER, SOURCE_KEY: mask_credentials(absolute(paths[0]))}
    schema = with_line_column(schema).with_metadata(source)
    numbers, first = np.zeros(len(paths), dtype=np.int64), 1
    rows = zip_longest(*map(_lines, paths), fillvalue=(0, None))
    with pq.ParquetWriter(target, schema) as writer:
        while some := list(islice(rows, ROWS)):
            starts = [{"byte": row[0][0], "line": line} for line, row in enumerate(some, first)]
            texts = [[text for _, text in column] for column in zip(*some, strict=True)]
            numbers += [len(some) - column.count(None) for column in texts]
            columns = {
                "candidate": texts[0],
                "reference": list(zip(*texts[1:], strict=True)) if several else texts[1],
                "system": [system] * len(some),
                LINE_COLUMN: starts,
            }
            writer.write_table(pa.table({name: columns[name] for name in schema.names}, schema))
            first += len(some)
    if len(set(numbers)) > 1:
        counts = ", ".join(map("{:,} in {!r}".format, numbers, map(mask_credentials, paths)))
        raise InputError(
            f"files with a text a line do not fit each other: got lines {counts}; expected as many "
            "in each, so that line N of one belongs to line N of the others. Compare their ends: "
            "an empty text is an empty line."
        )


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the first byte of each line, decompressed, and its text."""
    _, codec = format_of(path, Format.LINES)
    text = TextFile(
        path=absolute(path), size=0, version="", kind=Format.LINES, codec=codec, columns=()
    )
    with open_text(text) as stream:
        for number, start, line in lines_of(stream.blocks()):
            if line is None:
                raise InputError(
                    f"{mask_credentials(path)!r} has a line that is too long: got line {number:,}; "
                    f"expected at most {MAX_RECORD_BYTES} bytes. Cut it."
                )
            try:
                yield start, line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise InputError(
                    f"{mask_credentials(path)!r} is not UTF-8: got other bytes in line {number:,}; "
                    "expected UTF-8. Convert it, such as with iconv."
                ) from None
