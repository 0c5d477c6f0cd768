"""What the first rows of a text file say: its columns, and where it can be cut.

The columns are fixed here for the whole file. Only the first rows are read, unless cuts must be
found: see `text_cuts`.
"""

import base64
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bertscore_beam.dump.columns import text_field
from bertscore_beam.dump.csv_rows import parse_record
from bertscore_beam.dump.formats import Codec, Format, check_head
from bertscore_beam.dump.framing import MAX_RECORD_BYTES, find_frames
from bertscore_beam.dump.json_rows import parse_object
from bertscore_beam.dump.json_types import infer_schema
from bertscore_beam.dump.lines import BadLine
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text_cuts import BOM, even_pieces, is_cut_blindly, scanned_pieces
from bertscore_beam.dump.text_source import open_text, read_head
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.folders import is_web
from bertscore_core.errors import InputError

# About how many times smaller compressed texts are.
_PACKED = 3
SAMPLE_BYTES = 1024 * 1024
"""Bytes of a file, decompressed, in which its columns and their types are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """What the first rows of a text file say.

    Attributes:
        kind: Its format.
        codec: Its compression.
        schema: Its columns.
        mean_bytes: Mean size of a record.
        file_size: Size of the file as it is stored, in bytes.
    """

    kind: Format
    codec: Codec
    schema: pa.Schema
    mean_bytes: float
    file_size: int

    @property
    def about_rows(self) -> int:
        """Rows of the file, estimated from the first ones."""
        size = self.file_size * (_PACKED if self.codec else 1)
        return math.ceil(size / self.mean_bytes)


def read_text_layout(
    path: str, kind: Format, codec: Codec, text_columns: Iterable[str]
) -> TextLayout:
    """Read the first rows of a text file.

    Args:
        path: Path of the file.
        kind: Its format.
        codec: Its compression.
        text_columns: Columns to assume in a JSON file without any row.

    Raises:
        InputError: It is not of this format.
        OSError: It cannot be reached, or its length is not known and is needed to cut it.
    """
    check_head(path, read_head(path), kind, codec)
    with open_text(path, codec) as source:
        data, is_whole = _sample(source.read, kind)
        size = source.size
    data = data.removeprefix(BOM)
    if data and not size and is_cut_blindly(kind, codec):
        raise OSError(
            "the length of the file is not known: its server does not say how many bytes it has; "
            "expected a server that does. Download the file first, or compress it."
        )
    frames = find_frames(data, kind, final=is_whole)
    if not kind.has_header:  # the first line of the others is the header, also if it is blank
        frames = frames.without_blank(data, kind)
    records = [
        data[start:stop]
        for start, stop in zip(frames.starts.tolist(), frames.stops.tolist(), strict=True)
    ]
    if kind.has_header:
        schema = _header_schema(path, records, kind)
    elif records or not is_whole:
        schema = _json_schema(path, records)
    else:
        schema = pa.schema([text_field(column) for column in text_columns])
    return TextLayout(
        kind=kind,
        codec=codec,
        schema=schema,
        mean_bytes=max(1.0, frames.consumed / max(1, len(records))),
        file_size=size,
    )


def cut_text(
    path: str, layout: TextLayout, blank: Split, *, target_rows: int, target_bytes: int
) -> list[Split]:
    """Cut a text file into splits.

    Args:
        path: Path of the file.
        layout: Its layout.
        blank: A split with everything that the splits of the file share.
        target_rows: Most rows in a split; about that many where a file is cut without being read.
        target_bytes: Most bytes in a split, decompressed.

    Raises:
        InputError: Its compressed bytes are damaged.
        OSError: It cannot be reached, or it has several splits and its server sends no ranges.
    """
    targets = {"target_rows": target_rows, "target_bytes": target_bytes}
    if is_cut_blindly(layout.kind, layout.codec):
        pieces = even_pieces(layout.file_size, layout.mean_bytes, **targets)
    else:
        with open_text(path, layout.codec) as source:
            pieces = scanned_pieces(source.blocks(), layout.kind, **targets)
    if not layout.codec and len(pieces) > 1 and is_web(path):
        with open_text(path, layout.codec) as source:  # raises if the server sends no ranges
            source.skip(pieces[-1].start)
            source.read(1)
    shared = replace(
        blank,
        format=layout.kind.value,
        codec=layout.codec.value,
        schema=schema_to_text(layout.schema),
    )
    return [
        replace(shared, start=piece.start, stop=piece.stop, estimated_rows=piece.rows)
        for piece in pieces
    ]


def schema_to_text(schema: pa.Schema) -> str:
    """Return a schema as text, for a plan."""
    return base64.b64encode(schema.serialize()).decode()


def schema_from_text(text: str) -> pa.Schema:
    """Return the schema that `schema_to_text` was given."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _sample(read: Callable[[int], bytes], kind: Format) -> tuple[bytes, bool]:
    """Return the first bytes with at least one whole record, and whether that is the whole file."""
    data, wanted = b"", SAMPLE_BYTES
    while True:
        piece = read(wanted - len(data))
        data += piece
        if len(data) < wanted:
            return data, True
        if find_frames(data, kind, final=False).consumed or wanted >= MAX_RECORD_BYTES:
            return data, False
        wanted *= 2


def _header_schema(path: str, records: Sequence[bytes], kind: Format) -> pa.Schema:
    """Return the columns that the first record names, all of them strings."""
    names: list[str] | BadLine = BadLine(reason=Reason.BAD_LINE, message="an empty first line")
    if records and records[0].strip(b"\r\n"):
        names = parse_record(records[0], kind)
    shown = mask_credentials(path)
    if isinstance(names, BadLine):
        raise InputError(
            f"{shown!r} has no header: got {names.message or 'no valid first line'}; expected a "
            f"first line of {kind} with the names of the columns, in UTF-8. Write one."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"the header of {shown!r} names columns twice: got {twice}; expected each once. "
            "Rename them."
        )
    return pa.schema([(name, pa.string()) for name in names])


def _json_schema(path: str, records: Sequence[bytes]) -> pa.Schema:
    """Return the columns of the first lines."""
    parsed = [parse_object(record) for record in records]
    rows = [row for row in parsed if isinstance(row, dict)]
    if rows:
        return infer_schema(rows)
    first = records[0].lstrip()[:1] if records else b""
    got = {b"[": "an array of JSON", b"{": "an object over several lines"}.get(first, "other text")
    raise InputError(
        f"{mask_credentials(path)!r} does not hold lines of JSON: got {got}; expected one object a "
        "line. Convert it, for example with `jq -c`."
    )
