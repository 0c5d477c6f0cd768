"""Parse a block of JSON lines into a table: with Arrow, or line by line where Arrow refuses.

What Arrow accepts, the way line by line reads alike. Arrow is only asked where that is certain: it
would take two objects on one line for two rows, and crashes on very deep nesting.
"""

import json
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from bertscore_beam.dump.framing import Frames
from bertscore_beam.dump.json_types import (
    DriftError,
    LoneSurrogateError,
    fitted,
    unknown_fields,
)
from bertscore_beam.dump.lines import BadLine, Lines
from bertscore_beam.dump.texts import Reason

_MAX_DEPTH = 64
# Arrow takes "Inf" for a number, JSON parsers do not.
_SHORT_INFINITY = re.compile(rb"[:\[,\s-]Inf(?!inity)")
_OPEN, _CLOSE, _RETURN = b"{}\r"
_LIST, _LIST_END = b"[]"


def parse_json(data: bytes, frames: Frames, schema: pa.Schema) -> tuple[pa.Table, Lines]:
    """Parse whole lines.

    Args:
        data: The bytes of the lines.
        frames: Where they begin and end. No line is blank.
        schema: The columns.

    Returns:
        A row for each line, and what there is to say about the lines.
    """
    table = _with_arrow(data, frames, schema) if _is_plain(data, frames) else None
    if table is not None:
        return table, Lines(offsets=frames.starts)
    rows: list[dict[str, Any]] = []
    bad: dict[int, BadLine] = {}
    dropped: Counter[str] = Counter()
    kind = pa.struct(list(schema))
    for start, stop in zip(frames.starts.tolist(), frames.stops.tolist(), strict=True):
        parsed = parse_object(data[start:stop])
        row = _fitted(parsed, kind) if isinstance(parsed, dict) else parsed
        if isinstance(row, BadLine):
            bad[len(rows)] = row
            row = {}
        else:
            dropped.update(set(unknown_fields(parsed, kind)))
        rows.append(row)
    return (
        pa.Table.from_pylist(rows, schema=schema),
        Lines(offsets=frames.starts, bad=bad, dropped=dropped),
    )


def parse_object(line: bytes) -> dict[str, Any] | BadLine:
    """Parse one line, of equal keys the last; or say why it is no JSON object."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return BadLine(reason=Reason.INVALID_UTF8)
    try:
        row = json.loads(text, parse_float=_finite)
    except (ValueError, RecursionError):
        return BadLine(reason=Reason.BAD_LINE, message="it is not JSON")
    if not isinstance(row, dict):
        return BadLine(reason=Reason.BAD_LINE, message="it is JSON, but not an object")
    return row


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large for a float64")
    return number


def _fitted(row: dict[str, Any], kind: pa.DataType) -> dict[str, Any] | BadLine:
    """Return a row as the columns store it, or why they cannot store it."""
    try:
        stored: dict[str, Any] = fitted(row, kind, "")
    except DriftError as error:
        return BadLine(reason=Reason.TYPE_DRIFT, message=str(error))
    except LoneSurrogateError as error:
        return BadLine(reason=Reason.INVALID_UTF8, message=str(error))
    return stored


def _is_plain(data: bytes, frames: Frames) -> bool:
    """Tell whether each line begins and ends like an object and nests little."""
    if not len(frames.stops) or (b"Inf" in data and _SHORT_INFINITY.search(data)):
        return False
    array = np.frombuffer(data, dtype=np.uint8)
    ends = frames.stops - (array[frames.stops - 1] == ord("\n"))
    ends = ends - (array[np.maximum(ends - 1, 0)] == _RETURN)
    shaped = (array[frames.starts] == _OPEN) & (array[np.maximum(ends - 1, 0)] == _CLOSE)
    if not shaped.all():
        return False
    openings = np.cumsum((array == _OPEN) | (array == _LIST), dtype=np.int32)
    before = np.where(frames.starts > 0, openings[frames.starts - 1], 0)
    is_flat = (openings[frames.stops - 1] - before).max() <= _MAX_DEPTH
    return is_flat or _is_shallow(array)


def _is_shallow(array: npt.NDArray[np.uint8]) -> bool:
    """Tell whether few brackets are open at once, those inside texts counted too."""
    opened = (array == _OPEN) | (array == _LIST)
    closed = (array == _CLOSE) | (array == _LIST_END)
    depth = np.cumsum(opened.astype(np.int32) - closed)
    return bool(depth.max() - depth.min() <= _MAX_DEPTH)


def _with_arrow(data: bytes, frames: Frames, schema: pa.Schema) -> pa.Table | None:
    """Parse lines with Arrow; None if it refuses."""
    try:
        data.decode("utf-8")
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return table if table.num_rows == len(frames.stops) else None
