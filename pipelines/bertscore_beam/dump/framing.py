"""Where the records of a text file begin and end: lines, or CSV records with quoted line breaks.

A CSV record whose quotes are not closed properly is its first line alone: the next record begins
on the next line. So one bad line costs one row. Frames do not depend on how much of the file is
looked at, up to `MAX_RECORD_BYTES`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.formats import Format

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of the largest record that is read. A larger one is a rejected row."""

# Longest line that may count as blank.
_MAX_BLANK_BYTES = 16
_NEWLINE, _QUOTE, _RETURN = b'\n"\r'

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Records in some bytes.

    Attributes:
        starts: First byte of each record. Shape (records,).
        stops: End of each record, after its line break. Shape (records,).
        broken: Positions of the records with quotes that are not closed properly.
    """

    starts: Offsets
    stops: Offsets
    broken: frozenset[int] = frozenset()

    @classmethod
    def of(cls, stops: Offsets, broken: Iterable[int] = ()) -> "Frames":
        """Return records that follow each other from the first byte on."""
        starts = np.concatenate([np.zeros(1, np.int64), stops])[: len(stops)]
        return cls(starts=starts, stops=stops, broken=frozenset(broken))

    @property
    def consumed(self) -> int:
        """Bytes up to the end of the last record."""
        return int(self.stops[-1]) if len(self.stops) else 0

    def take(self, first: int, stop: int) -> "Frames":
        """Return some of the records, counted from where the first of them begins."""
        base = self.starts[first] if first < stop else 0
        return Frames(
            starts=self.starts[first:stop] - base,
            stops=self.stops[first:stop] - base,
            broken=frozenset(row - first for row in self.broken if first <= row < stop),
        )

    def without_first(self) -> "Frames":
        """Leave out the first record."""
        return Frames(
            starts=self.starts[1:],
            stops=self.stops[1:],
            broken=frozenset(row - 1 for row in self.broken if row),
        )

    def without_blank(self, data: bytes, kind: Format) -> "Frames":
        """Leave out blank lines: white space in JSON, nothing at all in CSV."""
        blank = b" \t\r\n" if kind is Format.JSONL else b"\r\n"
        # Only short records are looked at one by one: a long one of white space is a bad line.
        short = np.flatnonzero(self.stops - self.starts <= _MAX_BLANK_BYTES)
        gone = {row for row in short.tolist() if not data[self._slice(row)].strip(blank)}
        if not gone:
            return self
        kept = np.array([row for row in range(len(self.stops)) if row not in gone], dtype=np.int64)
        at = {int(row): number for number, row in enumerate(kept)}
        return Frames(
            starts=self.starts[kept],
            stops=self.stops[kept],
            broken=frozenset(at[row] for row in self.broken if row in at),
        )

    def _slice(self, row: int) -> slice:
        return slice(int(self.starts[row]), int(self.stops[row]))


def find_frames(data: bytes, kind: Format, *, final: bool) -> Frames:
    """Find the whole records at the beginning of some bytes.

    Args:
        data: Bytes from the beginning of a record on.
        kind: Format of the file.
        final: Whether the file ends here, so that the last record needs no line break.
    """
    array = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(array == _NEWLINE)
    if not kind.is_quoted or b'"' not in data:
        return Frames.of(_with_rest(newlines + 1, len(data), final=final))
    quotes = np.flatnonzero(array == _QUOTE)
    if not _is_regular(array, quotes, ord(kind.delimiter), final=final):
        return _walk(data, kind.delimiter.encode(), final=final)
    outside = np.searchsorted(quotes, newlines) % 2 == 0
    frames = Frames.of(_with_rest(newlines[outside] + 1, len(data), final=final))
    too_long = not frames.consumed and len(data) >= MAX_RECORD_BYTES
    return _walk(data, kind.delimiter.encode(), final=final) if too_long else frames


def _with_rest(stops: Offsets, length: int, *, final: bool) -> Offsets:
    """Add what follows the last line break as a record, at the end of a file."""
    if final and length > (stops[-1] if len(stops) else 0):
        stops = np.append(stops, length)
    return stops.astype(np.int64)


def _is_regular(
    array: npt.NDArray[np.uint8], quotes: Offsets, delimiter: int, *, final: bool
) -> bool:
    """Tell whether every quote opens a field, closes one, or is doubled inside one."""
    if final and len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    before = np.where(opening > 0, array[opening - 1], _NEWLINE)
    opens = np.isin(before, [delimiter, _NEWLINE])
    opens[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    after = np.where(
        closing + 1 < len(array), array[np.minimum(closing + 1, len(array) - 1)], _NEWLINE
    )
    closes = np.isin(after, [delimiter, _NEWLINE, _RETURN, _QUOTE])
    return bool(opens.all() and closes.all())


def _walk(data: bytes, delimiter: bytes, *, final: bool) -> Frames:
    """Find records one by one, also those with stray quotes."""
    stops: list[int] = []
    broken: list[int] = []
    position = 0
    while position < len(data):
        stop, is_whole = _record_stop(data, position, delimiter)
        if not is_whole:
            may_go_on = stop < 0 and not final and len(data) - position < MAX_RECORD_BYTES
            if may_go_on:
                break
            stop = data.find(b"\n", position) + 1
            broken.append(len(stops))
        stop = stop or (len(data) if final else 0)
        if not stop:
            if not is_whole:
                broken.pop()
            break
        stops.append(stop)
        position = stop
    return Frames.of(np.array(stops, dtype=np.int64), broken)


def _record_stop(data: bytes, position: int, delimiter: bytes) -> tuple[int, bool]:
    """Find the end of the record at a position.

    Returns:
        The end after the line break, 0 if there is no line break; and whether the quotes are
        right. -1 stands for a quoted field that is still open.
    """
    while True:
        if data[position : position + 1] == b'"':
            position = _close(data, position + 1)
            if position < 0:
                return -1, False
            if data[position : position + 1] not in (b"", delimiter, b"\r", b"\n"):
                return 0, False
        newline = data.find(b"\n", position)
        found = data.find(delimiter, position, len(data) if newline < 0 else newline)
        if found < 0:
            return newline + 1, True
        position = found + 1


def _close(data: bytes, position: int) -> int:
    """Return the position after the quote that closes a field, -1 if it is not closed."""
    while (found := data.find(b'"', position)) >= 0:
        if data[found + 1 : found + 2] != b'"':
            return found + 1
        position = found + 2
    return -1
