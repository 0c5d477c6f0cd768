"""Read the rows of a split of a text file, in memory that the split bounds."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.csv_rows import parse_csv
from bertscore_beam.dump.formats import Codec, Format
from bertscore_beam.dump.framing import MAX_RECORD_BYTES, Frames, find_frames
from bertscore_beam.dump.json_rows import parse_json
from bertscore_beam.dump.lines import BadLine, Lines
from bertscore_beam.dump.read_parquet import file_changed
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text_cuts import BOM, is_cut_blindly
from bertscore_beam.dump.text_layout import schema_from_text
from bertscore_beam.dump.text_source import BLOCK_BYTES, TextSource, open_text
from bertscore_beam.dump.texts import Reason
from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import InputError

# Bytes parsed at a time. If Arrow refuses them, they are parsed line by line.
_PARSED_BYTES = 1024 * 1024
# Bytes fetched behind a split, for the end of its last line.
_LINE_BYTES = 64 * 1024


def read_text(split: Split) -> tuple[pa.Table, Lines]:
    """Read the rows of a split, in order, with all columns of the file.

    Returns:
        A row for each line that is not blank, and what there is to say about the lines.

    Raises:
        InputError: The file has changed since it was planned, or cannot be decompressed.
        OSError: It cannot be reached.
    """
    kind, codec = Format(split.format), Codec(split.codec)
    schema = schema_from_text(split.schema)
    span = (0, split.file_size) if codec else (split.start - 1, split.stop + _LINE_BYTES)
    with open_text(
        split.path, codec, size=split.file_size, version=split.file_version, span=span
    ) as source:
        if source.size != split.file_size:
            raise file_changed(split, f"{source.size} bytes", f"{split.file_size} bytes")
        read = _own_lines if is_cut_blindly(kind, codec) else _whole_piece
        data, offset, too_long = read(source, split)
    if not split.start and data.startswith(BOM):
        data, offset = data[len(BOM) :], offset + len(BOM)
    frames = find_frames(data, kind, final=True)
    if not split.start and kind.has_header:
        frames = frames.without_first()
    frames = frames.without_blank(data, kind)

    def parse(data: bytes, frames: Frames) -> tuple[pa.Table, Lines]:
        if kind is Format.JSONL:
            return parse_json(data, frames, schema)
        return parse_csv(data, frames, schema, kind)

    def long_row(start: int) -> tuple[pa.Table, Lines]:
        return _long_row(schema, start)

    parsed = list(_parsed(data, offset, frames, parse, long_row))
    parsed += map(long_row, too_long)
    lines = Lines.join(lines for _, lines in parsed)
    return pa.concat_tables([schema.empty_table(), *(table for table, _ in parsed)]), lines


def _parsed(
    data: bytes,
    offset: int,
    frames: Frames,
    parse: Callable[[bytes, Frames], tuple[pa.Table, Lines]],
    long_row: Callable[[int], tuple[pa.Table, Lines]],
) -> Iterator[tuple[pa.Table, Lines]]:
    """Parse records block by block; a record of more than a block is one of its own."""
    row, most = 0, min(_PARSED_BYTES, MAX_RECORD_BYTES)
    while row < len(frames.stops):
        base = int(frames.starts[row])
        stop = int(np.searchsorted(frames.stops, base + most, side="right"))
        stop = max(stop, row + 1)
        end = int(frames.stops[stop - 1])
        if end - base > MAX_RECORD_BYTES:
            yield long_row(offset + base)
        else:
            table, lines = parse(data[base:end], frames.take(row, stop))
            offsets = lines.offsets + (offset + base)
            yield table, Lines(offsets=offsets, bad=lines.bad, dropped=lines.dropped)
        row = stop


def _whole_piece(source: TextSource, split: Split) -> tuple[bytes, int, list[int]]:
    """Read a split that begins and ends between two records.

    Returns:
        Its bytes, the position of the first one, and the places of lines that are too long.
    """
    size = split.stop - split.start
    has_header = not split.start and Format(split.format).has_header
    if split.about_rows == 1 and not has_header and size > MAX_RECORD_BYTES + len(BOM):
        return b"", split.start, [split.start]
    source.skip(split.start)
    data = source.read(size)
    if len(data) != size:
        raise InputError(
            f"{mask_credentials(split.path)!r} is shorter than it was planned: got "
            f"{split.start + len(data)} bytes; expected {split.stop}, decompressed. Run the job "
            "again."
        )
    return data, split.start, []


def _own_lines(source: TextSource, split: Split) -> tuple[bytes, int, list[int]]:
    """Read the lines that begin in a split of a plain file; see `_whole_piece`."""
    start = split.start
    if start:
        start = _next_line(source, split.start - 1, split.stop)
    if start >= split.stop:
        return b"", start, []
    source.skip(start)
    data = source.read(split.stop - start)
    if data.endswith(b"\n"):
        return data, start, []
    last = data.rfind(b"\n") + 1
    pieces = [data]
    size = len(data) - last
    while size <= MAX_RECORD_BYTES and (piece := source.read(BLOCK_BYTES)):
        newline = piece.find(b"\n") + 1
        pieces.append(piece[:newline] if newline else piece)
        size += len(pieces[-1])
        if newline:
            break
    if size > MAX_RECORD_BYTES:
        return data[:last], start, [start + last]
    return b"".join(pieces), start, []


def _next_line(source: TextSource, position: int, stop: int) -> int:
    """Return where the first line begins after a line break at or after a position, or `stop`."""
    source.skip(position)
    while position < stop and (piece := source.read(min(BLOCK_BYTES, stop - position))):
        newline = piece.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(piece)
    return stop


def _long_row(schema: pa.Schema, start: int) -> tuple[pa.Table, Lines]:
    """Return the row that stands for a line that is too long."""
    line = BadLine(
        reason=Reason.LINE_TOO_LONG, message=f"expected at most {MAX_RECORD_BYTES} bytes"
    )
    table = pa.Table.from_pylist([{}], schema=schema)
    return table, Lines(offsets=np.array([start], dtype=np.int64), bad={0: line})
