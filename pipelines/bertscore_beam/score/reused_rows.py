"""Which rows of a part took the scores of an earlier run, packed for its record."""

import base64
import binascii
import zlib

import numpy as np

from bertscore_core.tokens import BoolArray


def packed_rows(chosen: BoolArray) -> str:
    """Return which rows are chosen: a bit each, compressed, as ASCII. "" for none or all.

    20,000 rows take at most 3.4 kB.

    Args:
        chosen: Shape (rows,).
    """
    if chosen.all() or not chosen.any():
        return ""
    return base64.b85encode(zlib.compress(np.packbits(chosen).tobytes())).decode()


def unpacked_rows(packed: str, rows: int, number: int) -> BoolArray | None:
    """Return which rows are chosen; None if that is not known.

    Args:
        packed: What `packed_rows` returned, or "".
        rows: Rows of the part.
        number: How many of them are chosen.

    Returns:
        Shape (rows,).
    """
    if number in (0, rows):
        return np.full(rows, number > 0, dtype=np.bool_)
    try:
        bits = np.frombuffer(zlib.decompress(base64.b85decode(packed)), dtype=np.uint8)
    except (ValueError, binascii.Error, zlib.error):
        return None
    chosen = np.unpackbits(bits, count=rows).astype(np.bool_) if len(bits) * 8 >= rows else None
    return chosen if chosen is not None and int(chosen.sum()) == number else None
