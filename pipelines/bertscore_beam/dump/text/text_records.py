"""Cut the bytes of a text file into records, in bounded memory, with the place of each.

What a record holds does not depend on how the bytes arrive or on how many are looked at at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.lines import BadLine
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.dump.text.parsers import (
    MARK,
    ParsedRecords,
    parse_csv,
    parse_json,
    parse_raw,
    parse_texts,
)

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of the largest record that is read. A larger one is a rejected row."""
PIECE_BYTES = 256 * 1024
"""Bytes that are parsed at a time, by default."""

_NEWLINE = ord("\n")


def read_records(
    blocks: Iterator[bytes], kind: Format, piece_bytes: int | None = None
) -> Iterator[ParsedRecords]:
    """Yield all records of a file that are not blank, some at a time.

    A record may be larger than a piece. The first text of a file of lines may begin with a mark.
    """
    window = _Window(blocks)
    window.fill(len(MARK))
    if kind is not Format.LINES and window.view(len(MARK)) == MARK:
        window.drop(len(MARK), lines=0)
    want = 0
    while True:
        want = min(max(want, piece_bytes or PIECE_BYTES), MAX_RECORD_BYTES)
        window.fill(want + 1)
        is_last = len(window) <= want
        data = window.view(len(window) if is_last else window.whole_lines(want))
        if is_last and not data:
            return
        is_full = want >= MAX_RECORD_BYTES
        records = _parse(data, kind, is_last=is_last, is_full=is_full) if data else ParsedRecords()
        if not records.taken and not is_full:
            want *= 2
            continue
        want = 0
        yield _placed(records, data, window) if records.taken else _too_long(window)


def _parse(data: bytes, kind: Format, *, is_last: bool, is_full: bool) -> ParsedRecords:
    if kind is Format.JSONL:
        return parse_json(data)
    if kind is Format.LINES:
        return parse_texts(data)
    if not kind.is_quoted:
        return parse_raw(data, kind.delimiter)
    return parse_csv(data, kind.delimiter, is_last=is_last, is_full=is_full)


def _placed(records: ParsedRecords, data: bytes, window: "_Window") -> ParsedRecords:
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
    starts = np.concatenate([np.zeros(1, np.int64), newlines + 1])
    stop = int(starts[records.taken]) if records.taken < len(starts) else len(data)
    lines = np.array(records.lines, dtype=np.int64)
    records.offsets = starts[lines] + window.offset
    records.numbers = lines + window.line
    records.data = data[:stop]
    window.drop(stop, lines=records.taken)
    return records


def _too_long(window: "_Window") -> ParsedRecords:
    message = f"expected at most {MAX_RECORD_BYTES} bytes"
    records = ParsedRecords(data=window.view(1))
    records.add(BadLine(reason=Reason.LINE_TOO_LONG, message=message))
    records.offsets = np.array([window.offset], dtype=np.int64)
    records.numbers = np.array([window.line], dtype=np.int64)
    window.drop_line()
    return records


@dataclass(slots=True)
class _Window:
    """The bytes of a file from an offset on, as far as they have been read."""

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
