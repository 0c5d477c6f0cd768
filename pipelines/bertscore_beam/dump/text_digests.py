"""A digest of the texts of each row, by which equal rows of different files are recognised.

The digest of a row depends on its candidate, on its references in their order, and on which of them
are null; not on the file, the position or the Arrow type. A single reference and a list of one are
the same, since they are scored alike.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.columns import is_list

Digests: TypeAlias = "npt.NDArray[np.uint64]"
"""128 bits for each row, as a high and a low half. Shape (rows, 2)."""

_BYTES = 16
# Changes every digest. Raise the number when rows are put together in another way.
_PERSON = b"bertscore-row-1"
_NULL = -1


def digest_texts(candidates: pa.ChunkedArray, references: pa.ChunkedArray) -> Digests:
    """Digest the texts of each row with BLAKE2b.

    Two rows of different texts have equal digests with probability 2^-128. Among 10^8 rows compared
    with 10^8 others that gives 3e-23, and nobody knows a way to make two such texts on purpose.

    Args:
        candidates: Column of texts.
        references: Column of texts, or of lists of texts.
    """
    groups = _groups_from(references)
    digests = [
        blake2b(_framed(candidate, group), digest_size=_BYTES, person=_PERSON).digest()
        for candidate, group in zip(_bytes_from(candidates), groups, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def _framed(candidate: bytes | None, group: Sequence[bytes | None] | None) -> bytes:
    """Return a row as bytes that no other row has: all lengths, then all texts."""
    texts = [candidate, *(group or ())]
    lengths = [_NULL if text is None else len(text) for text in texts]
    count = _NULL if group is None else len(group)
    frame = struct.pack(f"<{len(lengths) + 1}q", count, *lengths)
    return frame + b"".join(text for text in texts if text is not None)


def _bytes_from(column: pa.ChunkedArray) -> list[bytes | None]:
    """Return the texts of a column as they are stored, valid UTF-8 or not."""
    return [text for chunk in column.chunks for text in _texts(chunk)]


def _groups_from(column: pa.ChunkedArray) -> list[Sequence[bytes | None] | None]:
    """Return the references of each row; None for a null."""
    if not is_list(column.type):
        return [None if text is None else (text,) for text in _bytes_from(column)]
    groups: list[Sequence[bytes | None] | None] = []
    for chunk in column.chunks:
        flat = _texts(chunk.flatten())  # leaves out what is stored under null lists
        start = 0
        for length in pc.list_value_length(chunk).to_pylist():
            groups.append(None if length is None else flat[start : start + length])
            start += length or 0
    return groups


def _texts(array: pa.Array) -> list[bytes | None]:
    if isinstance(array, pa.DictionaryArray):
        values = _texts(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    is_view = pa.types.is_string_view(array.type)
    texts: list[bytes | None] = pc.cast(
        array, pa.binary_view() if is_view else pa.large_binary()
    ).to_pylist()
    return texts
