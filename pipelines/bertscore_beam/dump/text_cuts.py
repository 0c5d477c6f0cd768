"""Cut text files into pieces that begin and end between two records.

A plain file of lines is cut by bytes without being read: a piece owns the lines that begin in it.
A compressed file, and CSV, in which a quoted field may hold line breaks, are read once from the
start, block by block, to find places where a record ends. Every run cuts alike: the cut depends on
the file and the targets only.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from bertscore_beam.dump.formats import Codec, Format
from bertscore_beam.dump.framing import MAX_RECORD_BYTES, Offsets, find_frames

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of bytes of a text file, decompressed.

    Attributes:
        start: First byte.
        stop: One past the last byte.
        rows: About how many rows.
    """

    start: int
    stop: int
    rows: int


def is_cut_blindly(kind: Format, codec: Codec) -> bool:
    """Tell whether a file can be cut at any byte: a line begins after each line break."""
    return not codec and not kind.is_quoted


def even_pieces(
    size: int, mean_bytes: float, *, target_rows: int, target_bytes: int
) -> list[Piece]:
    """Cut a plain file of lines into pieces of equal size.

    Args:
        size: Its size in bytes.
        mean_bytes: Mean size of a line, from the first lines.
        target_rows: About the most rows in a piece.
        target_bytes: Most bytes in a piece.
    """
    wanted = min(target_bytes, max(1, int(target_rows * mean_bytes)))
    count = max(1, math.ceil(size / wanted))
    bounds = [number * size // count for number in range(count + 1)]
    return [
        Piece(start=start, stop=stop, rows=math.ceil((stop - start) / mean_bytes))
        for start, stop in itertools.pairwise(bounds)
    ]


def scanned_pieces(
    blocks: Iterable[bytes], kind: Format, *, target_rows: int, target_bytes: int
) -> list[Piece]:
    """Cut a file between its records by reading it; memory holds a few blocks.

    Args:
        blocks: All its bytes, decompressed.
        kind: Its format.
        target_rows: Most rows in a piece.
        target_bytes: Most bytes in a piece of more than one record.
    """
    cutter = _Cutter(target_rows, target_bytes, rows=-1 if kind.has_header else 0)
    carry, offset, is_long = b"", 0, False
    for block, final in _with_last(blocks):
        data = carry + block if carry else block
        if not offset and data.startswith(BOM):
            data, offset = data[len(BOM) :], len(BOM)
        if is_long:
            rest = data.find(b"\n") + 1
            if not rest and not final:
                offset, carry = offset + len(data), b""
                continue
            rest = rest or len(data)
            data, offset, is_long = data[rest:], offset + rest, False
            cutter.add_alone(offset)
        frames = find_frames(data, kind, final=final)
        cutter.add(frames.stops + offset)
        carry, offset = data[frames.consumed :], offset + frames.consumed
        if len(carry) >= MAX_RECORD_BYTES and not frames.consumed:
            cutter.close()
            carry, offset, is_long = b"", offset + len(carry), True
    return cutter.finish()


def _with_last(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield every block with False, then nothing more with True."""
    for block in blocks:
        yield block, False
    yield b"", True


@dataclass
class _Cutter:
    """Puts records together until one of the targets is reached."""

    target_rows: int
    target_bytes: int
    pieces: list[Piece] = field(default_factory=list)
    start: int = 0
    stop: int = 0
    rows: int = 0

    def add(self, stops: Offsets) -> None:
        """Add records by where they end."""
        while len(stops):
            by_bytes = int(np.searchsorted(stops, self.start + self.target_bytes, side="right"))
            fit = min(by_bytes, self.target_rows - self.rows)
            if fit <= 0 and self.rows > 0:
                self.close()
                continue
            taken = stops[: max(fit, 1)]
            self.rows, self.stop = self.rows + len(taken), int(taken[-1])
            stops = stops[len(taken) :]

    def add_alone(self, stop: int) -> None:
        """Add a record that is too long as a piece of its own."""
        self.stop, self.rows = stop, 1
        self.close()

    def close(self) -> None:
        """End the piece, if it holds a record."""
        if self.stop > self.start:
            rows = max(self.rows, 0)
            self.pieces.append(Piece(start=self.start, stop=self.stop, rows=rows))
            self.start, self.rows = self.stop, 0

    def finish(self) -> list[Piece]:
        """Return all pieces; an empty file is one."""
        self.close()
        return self.pieces or [Piece(start=0, stop=0, rows=0)]
