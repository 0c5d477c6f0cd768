"""What the first megabyte of a text file says: its columns, fixed for the whole file."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.dump.columns import text_field
from bertscore_beam.dump.formats import Codec, Format
from bertscore_beam.dump.text.json_types import infer_schema
from bertscore_beam.dump.text.lines import LINE_COLUMN
from bertscore_beam.dump.text.records import Records, read_records
from bertscore_beam.dump.text.source import open_text
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import InputError

PACKED = 3
"""About how many times smaller compressed texts are."""
SAMPLE_BYTES = 1024 * 1024
"""Bytes of a file, decompressed, in which its columns and their types are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumns:
    """What the first rows of a text file say.

    Attributes:
        schema: Its columns.
        mean_bytes: Mean size of a record.
        size: Size of the file as it is stored, in bytes; None if its server does not say.
        about_rows: Rows of the file, estimated from the first ones; 0 if its size is not known.
    """

    schema: pa.Schema
    mean_bytes: float
    size: int | None
    about_rows: int


def read_columns(path: str, kind: Format, codec: Codec, text_columns: Iterable[str]) -> TextColumns:
    """Read the first rows of a text file.

    Args:
        path: Path of the file.
        kind: Its format.
        codec: Its compression.
        text_columns: Columns to assume in a JSON file without any row.

    Raises:
        InputError: It is not of this format.
        OSError: It cannot be reached.
    """
    with _sample(path, kind, codec) as (first, size):
        mean_bytes = 1.0
        if first is not None:
            mean_bytes = max(1.0, len(first.data) / max(1, len(first.rows)))
        if kind.has_header:
            schema = _header_schema(path, first, kind)
        elif first is not None:
            schema = _json_schema(path, first)
        else:
            schema = pa.schema([text_field(column) for column in text_columns])
    taken = [name for name in schema.names if name.partition(".")[0] == LINE_COLUMN]
    if taken:
        raise InputError(
            f"{mask_credentials(path)!r} has a column of a name that is ours: got {taken[0]!r}; "
            f"expected other names than {LINE_COLUMN!r}. Rename it."
        )
    text_bytes = (size or 0) * (PACKED if codec else 1)
    return TextColumns(
        schema=schema,
        mean_bytes=mean_bytes,
        size=size,
        about_rows=math.ceil(text_bytes / mean_bytes),
    )


@contextlib.contextmanager
def _sample(path: str, kind: Format, codec: Codec) -> Iterator[tuple[Records | None, int | None]]:
    """Yield the first records of a file, if it has any, and its size."""
    with open_text(path, kind, codec) as stream:
        pieces = read_records(stream.blocks, kind, SAMPLE_BYTES)
        yield next((piece for piece in pieces if piece.rows), None), stream.size


def _header_schema(path: str, first: Records | None, kind: Format) -> pa.Schema:
    """Return the columns that the first record names, all of them strings."""
    names = first.split_header()[0] if first is not None else []
    shown = mask_credentials(path)
    if not names:
        got = "an empty first line"
        if first is not None and first.bad:
            bad = first.bad[0]
            is_long = bad.reason is Reason.LINE_TOO_LONG
            got = "a line that is too long" if is_long else bad.message or "no valid first line"
        raise InputError(
            f"{shown!r} has no header: got {got}; expected a first line of {kind} with the names "
            "of the columns, in UTF-8. Write one."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"the header of {shown!r} names columns twice: got {twice}; expected each once. "
            "Rename them."
        )
    return pa.schema([(name, pa.string()) for name in names])


def _json_schema(path: str, first: Records) -> pa.Schema:
    """Return the columns of the first lines."""
    rows = [row for row in first.rows if row is not None]
    if rows:
        return infer_schema(rows)
    start = first.data.lstrip()[:1]
    got = {b"[": "an array of JSON", b"{": "an object over several lines"}.get(start, "other text")
    raise InputError(
        f"{mask_credentials(path)!r} does not hold lines of JSON: got {got}; expected one object a "
        "line. Convert it, for example with `jq -c`."
    )
