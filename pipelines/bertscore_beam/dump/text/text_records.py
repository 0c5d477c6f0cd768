"""Cut the bytes of a text file into records, in bounded memory, with the place of each.

What a record holds does not depend on how the bytes arrive or on how many are looked at at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.inputs import Format
from bertscore_beam.dump.text.parsers import BadLine, Parsed, parse_csv, parse_json, parse_raw
from bertscore_beam.dump.texts import Reason

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of the largest record that is read. A larger one is a rejected row."""
PIECE_BYTES = 256 * 1024
"""Bytes that are parsed at a time, by default."""
BOM = b"\xef\xbb\xbf"

_NEWLINE = ord("\n")
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Some records of a file, one after the other.

    Attributes:
        kind: Format of the file.
        rows: Of each record its object, or the number of its fields; None for one that is no row.
        cells: The fields of all records of CSV, one after the other.
        bad: Why these are none, by position.
        offsets: First byte of each in the file, decompressed. Shape (records,).
        numbers: Number of its first line, from 1. Shape (records,).
        data: The bytes, also of blank lines.
    """

    kind: Format
    rows: list[Any] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    bad: dict[int, BadLine] = field(default_factory=dict)
    offsets: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    data: bytes = b""

    def split_header(self) -> tuple[list[str], "Records"]:
        """Return the fields of the first record, none if it is bad, and the other records."""
        width = self.rows[0] or 0
        return self.cells[:width], Records(
            kind=self.kind,
            rows=self.rows[1:],
            cells=self.cells[width:],
            bad={row - 1: line for row, line in self.bad.items() if row},
            offsets=self.offsets[1:],
            numbers=self.numbers[1:],
            data=self.data,
        )


def read_records(
    blocks: Iterator[bytes], kind: Format, piece_bytes: int | None = None
) -> Iterator[Records]:
    """Yield all records of a file, some at a time: the header first, then all that are not blank.

    Args:
        blocks: Its bytes, decompressed.
        kind: Its format.
        piece_bytes: Bytes to parse at a time, unless a record is larger; `PIECE_BYTES` by default.
    """
    window = _Window(blocks)
    window.fill(len(BOM))
    if window.view(len(BOM)) == BOM:
        window.drop(len(BOM), lines=0)
    keep_blank = kind.has_header  # a blank first line is an empty header
    want = 0
    while True:
        want = min(max(want, piece_bytes or PIECE_BYTES), MAX_RECORD_BYTES)
        window.fill(want + 1)
        is_last = len(window) <= want
        data = window.view(len(window) if is_last else window.whole_lines(want))
        if is_last and not data:
            return
        is_full = want >= MAX_RECORD_BYTES
        parsed = _parse(data, kind, is_last=is_last, is_full=is_full) if data else Parsed()
        if parsed.taken:
            records = _placed(parsed, kind, data, window, keep_blank=keep_blank)
            keep_blank, want = False, 0
            yield records
        elif is_full:
            keep_blank, want = False, 0
            yield _too_long(kind, window)
        else:
            want *= 2


def _parse(data: bytes, kind: Format, *, is_last: bool, is_full: bool) -> Parsed:
    if kind is Format.JSONL:
        return parse_json(data)
    if not kind.is_quoted:
        return parse_raw(data, kind.delimiter)
    return parse_csv(data, kind.delimiter, is_last=is_last, is_full=is_full)


def _placed(
    parsed: Parsed, kind: Format, data: bytes, window: "_Window", *, keep_blank: bool
) -> Records:
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
    starts = np.concatenate([np.zeros(1, np.int64), newlines + 1])
    stop = int(starts[parsed.taken]) if parsed.taken < len(starts) else len(data)
    rows, lines, bad = parsed.rows, parsed.lines, parsed.bad
    blank = parsed.blank - {0} if keep_blank else parsed.blank
    if blank:
        kept = [row for row in range(len(rows)) if row not in blank]
        rows, lines = [rows[row] for row in kept], [lines[row] for row in kept]
        bad = {new: bad[old] for new, old in enumerate(kept) if old in bad}
    at = np.array(lines, dtype=np.int64)
    records = Records(
        kind=kind,
        rows=rows,
        cells=parsed.cells,
        bad=bad,
        offsets=starts[at] + window.offset,
        numbers=at + window.line,
        data=data[:stop],
    )
    window.drop(stop, lines=parsed.taken)
    return records


def _too_long(kind: Format, window: "_Window") -> Records:
    line = BadLine(
        reason=Reason.LINE_TOO_LONG, message=f"expected at most {MAX_RECORD_BYTES} bytes"
    )
    records = Records(
        kind=kind,
        rows=[None],
        bad={0: line},
        offsets=np.array([window.offset], dtype=np.int64),
        numbers=np.array([window.line], dtype=np.int64),
        data=window.view(1),
    )
    window.drop_line()
    return records


@dataclass(slots=True)
class _Window:
    """The bytes of a file from some place on, as far as they have been read.

    Attributes:
        offset: That place.
        line: Number of the line there.
    """

    _blocks: Iterator[bytes]
    offset: int = 0
    line: int = 1
    _data: bytes = b""
    _start: int = 0

    def __len__(self) -> int:
        return len(self._data) - self._start

    def fill(self, length: int) -> None:
        size = len(self)
        if size >= length:
            return
        parts = [self._data[self._start :]]
        while size < length and (block := next(self._blocks, b"")):
            parts.append(block)
            size += len(block)
        self._data, self._start = b"".join(parts), 0

    def view(self, length: int) -> bytes:
        return self._data[self._start : self._start + length]

    def whole_lines(self, length: int) -> int:
        stop = self._data.rfind(b"\n", self._start, self._start + length) + 1
        return max(0, stop - self._start)

    def drop(self, length: int, lines: int) -> None:
        self._start += length
        self.offset += length
        self.line += lines

    def drop_line(self) -> None:
        while (found := self._data.find(b"\n", self._start)) < 0 and len(self):
            self.drop(len(self), lines=0)
            self.fill(1)
        self.drop(found + 1 - self._start if found >= 0 else 0, lines=1)
