"""A second file with references, for rows that have none: its columns are added by a key.

    rows: custom_id, response      FILE: custom_id, ideal      --join custom_id
    read: custom_id, response, ideal

The file is read whole, once in each process. Every row of the input needs its key there, once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import types
from bertscore_beam.dump.columns import ReferenceFile, check_choosing_columns, check_columns
from bertscore_beam.dump.inputs import InputFile, expand_inputs, file_changed
from bertscore_beam.dump.keys import keys_of, shown_key
from bertscore_beam.dump.lines import take_lines
from bertscore_beam.dump.parquet import open_parquet, read_layout
from bertscore_beam.dump.paths import column_of, has_column, roots_of
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import parsed, read_columns
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute, resolve
from bertscore_beam.files.read import read_bytes
from bertscore_core.errors import InputError

JOIN_OPTION = "--join"
"""The option that names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The columns of a file to add, and the row of each key in it."""

    table: pa.Table
    rows: Mapping[str, int]


def find_references(
    path: str, key: str, reference_column: str, named: Sequence[str], lists: Sequence[str]
) -> ReferenceFile:
    """Look into a file of references.

    Args:
        path: Path of the file, of any format.
        key: Column that it shares with the input.
        reference_column: Its column of references.
        named: All columns that the run names. Those that the file has are added to the rows.
        lists: Those that may hold texts in some lines of JSON and lists in others.

    Raises:
        InputError: A column is missing or has a wrong type; a key is missing, or is there twice; or
            a line cannot be read.
        OSError: The file cannot be reached.
    """
    path = absolute(path)
    file = _file_at(path)
    text = TextFile.of(file, named, lists)
    schema = read_layout(file.path).schema if text is None else read_columns(text)[0]
    try:
        check_choosing_columns(schema, {key: JOIN_OPTION})
        check_columns(schema, None, reference_column)
    except InputError as error:
        raise InputError(f"{mask_credentials(path)!r}: {error}") from error
    references = ReferenceFile(
        path=path,
        digest=digest_of(read_bytes(path)),
        key=key,
        names=tuple(name for name in named if name != key and has_column(schema, name)),
        lists=tuple(lists),
    )
    load(references)
    return references


def with_references(table: pa.Table, references: ReferenceFile | None) -> pa.Table:
    """Return rows with the columns of the rows of a file that have the same key; null without one.

    Raises:
        InputError: The file has changed.
    """
    if references is None:
        return table
    loaded = load(references)
    words = keys_of(column_of(table, references.key)).of_rows
    found = [-1 if word is None else loaded.rows.get(word, -1) for word in words]
    places = np.array(found, dtype=np.int64)
    taken = loaded.table.take(pa.array(places, mask=places < 0))
    for field, column in zip(taken.schema, taken.columns, strict=True):
        table = table.append_column(field, column)
    return table


def _file_at(path: str) -> InputFile:
    found = expand_inputs([path])
    if len(found) != 1 or resolve(found[0].path)[1] != resolve(path)[1]:
        got = f"{len(found):,} files" if len(found) > 1 else "a folder or a pattern"
        raise InputError(
            f"{mask_credentials(path)!r} is not one file: got {got}; expected the path of one file "
            "with all references. Put them together."
        )
    return found[0]


@lru_cache(maxsize=2)  # threads that plan, and a test with another file
def load(references: ReferenceFile) -> Loaded:
    """Read a file of references; see `find_references` for errors."""
    shown = mask_credentials(references.path)
    if digest_of(read_bytes(references.path)) != references.digest:
        raise file_changed(references.path, "other bytes", "those that were planned")
    table = _read(references)
    words = keys_of(column_of(table, references.key)).of_rows
    rows = {word: row for row, word in enumerate(words) if word is not None}
    nulls = words.count(None)
    doubled = len(words) - nulls - len(rows)
    if nulls or doubled:
        again = (word for row, word in enumerate(words) if word is not None and rows[word] != row)
        example = f", such as {shown_key(next(again))}" if doubled else ""
        raise InputError(
            f"the rows of {shown!r} cannot be joined: got {nulls:,} without {references.key!r} and "
            f"{doubled:,} with one that another row has{example}; expected each once. Correct the "
            f"file, or name another column with {JOIN_OPTION}."
        )
    wanted = table.select(roots_of(table.schema, references.names)).combine_chunks()
    return Loaded(table=types.without_views(wanted), rows=rows)


def _read(references: ReferenceFile) -> pa.Table:
    file = _file_at(references.path)
    text = TextFile.of(file, (references.key, *references.names), references.lists)
    if text is None:
        with open_parquet(file.path) as (parquet, _):
            names = roots_of(parquet.schema_arrow, (references.key, *references.names))
            table = parquet.read(names)
            return types.with_text_enums(table, parquet.schema, parquet.schema_arrow)
    table, lines = take_lines(parsed(text))
    if lines is not None and lines.bad:
        row, line = min(lines.bad.items())
        raise InputError(
            f"lines of {mask_credentials(references.path)!r} cannot be read: got "
            f"{len(lines.bad):,}, the first at line {lines.numbers[row]} ({line.reason}); expected "
            "none. Correct them."
        )
    return table
