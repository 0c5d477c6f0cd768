"""Digests of values, of the rows of a split, and of the texts of a row.

Equal values of equal shape give equal digests, whatever the chunks, the dictionaries, the offsets
into buffers, and the bytes below nulls. A column is taken apart into streams (which values are
there, lengths of texts and lists, bytes), each of which is hashed on its own from chunk to chunk.
"""

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.paths import is_list
from bertscore_beam.dump.texts import Rows, groups_of_texts, raw_texts

_DIGITS = 32
# Bytes of a dictionary column that are decoded at a time.
_SPELLED_BYTES = 16 * 1024 * 1024

_BINARY = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}

_Streams: TypeAlias = "defaultdict[str, hashlib._Hash]"


def digest_columns(*columns: pa.ChunkedArray) -> str:
    """Digest the values of columns, in this order; 32 hexadecimal digits.

    All text types count as one type, and so do all kinds of lists. The number of rows matters.
    """
    whole = hashlib.sha256()
    for column in columns:
        streams: _Streams = defaultdict(hashlib.sha256)
        for chunk in column.chunks:
            _feed(streams, "", chunk)
        words = [f"{name}:{stream.hexdigest()}" for name, stream in sorted(streams.items())]
        whole.update(f"{len(column)} rows {' '.join(words)}\n".encode())
    return whole.hexdigest()[:_DIGITS]


def digest_table(table: pa.Table) -> str:
    """Digest all rows of a table with its schema: names, types, metadata. 32 hexadecimal digits."""
    whole = hashlib.sha256(table.schema.serialize())
    whole.update(digest_columns(*table.columns).encode())
    return whole.hexdigest()[:_DIGITS]


def _feed(streams: _Streams, name: str, array: pa.Array) -> None:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        _feed(streams, name, array.storage)
    elif isinstance(array, pa.DictionaryArray):
        _feed_dictionary(streams, name, array)
    elif pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
        _feed(streams, name, pc.cast(array, pa.list_(pa.struct(fields))))
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        _feed(streams, name, pc.cast(array, pa.large_binary()))
    else:
        _update(streams, f"{name}?", _fixed_width_bytes(pc.cast(array.is_valid(), pa.uint8())))
        _feed_valid(streams, name, array)


def _feed_valid(streams: _Streams, name: str, array: pa.Array) -> None:
    kind = array.type
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        # flatten() skips the values under null lists; Arrow cannot drop nulls from lists of views.
        _feed_lengths(streams, f"{name}[]", pc.list_value_length(array).drop_null())
        _feed(streams, f"{name}.item", array.flatten())
        return
    array = array.drop_null() if array.null_count else array
    if not len(array) or pa.types.is_null(kind):
        return
    if kind in _BINARY:
        _feed_lengths(streams, name, pc.binary_length(array))
        _update(streams, name, _data_bytes(array))
    elif pa.types.is_struct(kind):
        for number, child in enumerate(array.flatten()):
            _feed(streams, f"{name}.{number}", child)
    elif pa.types.is_boolean(kind):
        _update(streams, name, _fixed_width_bytes(pc.cast(array, pa.uint8())))
    else:
        _update(streams, name, _fixed_width_bytes(array))


def _feed_dictionary(streams: _Streams, name: str, array: pa.DictionaryArray) -> None:
    """Hash the values that the indices refer to, some at a time: spelled out they may be large."""
    ends, start = np.arange(len(array)), 0
    if array.dictionary.type in _BINARY:
        lengths = pc.binary_length(array.dictionary).take(array.indices).fill_null(0)
        ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    while start < len(array):
        spelled = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, spelled + _SPELLED_BYTES, side="right")))
        _feed(streams, name, array.slice(start, stop - start).dictionary_decode())
        start = stop


def _feed_lengths(streams: _Streams, name: str, lengths: pa.Array) -> None:
    _update(streams, f"{name}#", _fixed_width_bytes(pc.cast(lengths, pa.int64())))


def _update(streams: _Streams, name: str, data: memoryview) -> None:
    """Hash bytes into a stream. A stream that gets no bytes is not created."""
    if len(data):
        streams[name].update(data)


def _data_bytes(array: pa.Array) -> memoryview:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)
    first, last = ends[array.offset], ends[array.offset + len(array)]
    return memoryview(data if data is not None else b"")[first:last]


def _fixed_width_bytes(array: pa.Array) -> memoryview:
    width = array.type.bit_width // 8
    data: Any = array.buffers()[1]
    view = memoryview(data if data is not None else b"")
    return view[array.offset * width : (array.offset + len(array)) * width]


# Digests of a split's rows, which show a later run whether their scores are still valid.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigests:
    """Digests of the values of some rows, however the file stores them.

    Attributes:
        references: Of the column of references, of columns that decide on the weights, and of that
            of sources.
        rows: Of all columns, with their names, types and the file's metadata, and of where the rows
            of a file of text stand.
    """

    references: str
    rows: str

    @classmethod
    def of(cls, rows: Rows, *, utc_times: bool = False) -> "RowDigests":
        """Digest the rows of a split.

        The rejected rows of a file of text are listed by where they stand: rows in other places are
        other rows. `utc_times`: whether the file marks its times of day as UTC; Arrow does not.
        """
        places = "" if rows.lines is None else f"-{rows.lines.digest()}"
        return cls(
            references=_digest_references(rows),
            rows=f"{digest_table(rows.table)}{'-utc' if utc_times else ''}{places}",
        )

    @property
    def has_lists(self) -> bool:
        """Whether the rows have lists of references."""
        return self.references.startswith("lists-")


def _digest_references(rows: Rows) -> str:
    """Digest references, and further columns on which their weights depend.

    Lists get one more score column than single texts, so the kind matters.
    """
    kind = "lists" if is_list(rows.references.type) else "texts"
    deciding = [*rows.deciding, *rows.source_columns]
    others = f"-{digest_columns(*deciding)}" if deciding else ""
    return f"{kind}-{digest_columns(rows.references)}{others}"


# A digest of the texts of each row, by which equal rows of different files are recognised.
#
# The digest of a row depends on its candidate, on its references in their order, and on which of
# them are null; not on the file, the position or the Arrow type. A single reference and a list of
# one are the same, since they are scored alike.

Digests: TypeAlias = "npt.NDArray[np.uint64]"
"""128 bits for each row, as a high and a low half. Shape (rows, 2)."""

_BYTES = 16
# Changes every digest. Raise the number when rows are put together in another way.
_PERSON = b"bertscore-row-1"
_NULL = -1
_OF_TWO = struct.Struct("<3q")


def digest_texts(candidates: pa.ChunkedArray, references: pa.ChunkedArray) -> Digests:
    """Digest the texts of each row.

    Two rows of different texts have equal digests with probability 2^-128. Among 10^8 rows compared
    with 10^8 others that gives 3e-23, and nobody knows a way to make two such texts on purpose.

    Args:
        candidates: Column of texts.
        references: Column of texts, or of lists of texts.
    """
    texts = (text for chunk in candidates.chunks for text in raw_texts(chunk))
    groups = groups_of_texts(references, raw_texts)
    return digest_each(starmap(_framed, zip(texts, groups, strict=True)))


def digest_words(rows: Iterable[Iterable[str]]) -> Digests:
    """Digest the words of each row, such as its key; equal as seldom as in `digest_texts`."""
    return digest_each(
        # The lengths say where each word ends.
        "".join([f"{len(word)}:{word}" for word in words]).encode("utf-8", "surrogatepass")
        for words in rows
    )


def digest_each(rows: Iterable[bytes]) -> Digests:
    """Digest the bytes of each row with BLAKE2b."""
    digests = [blake2b(row, digest_size=_BYTES, person=_PERSON).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def key_column(digests: Digests) -> pa.Array:
    """Return digests as a column of keys, 16 bytes each.

    Not of a type of fixed width: Spark's tables in memory have none.
    """
    data = pa.py_buffer(digests.astype("<u8").tobytes())
    fixed = pa.Array.from_buffers(pa.binary(_BYTES), len(digests), [None, data])
    return fixed.cast(pa.binary())


def digests_in(keys: pa.ChunkedArray) -> Digests:
    """Return the digests in a column of keys.

    Raises:
        ValueError: It is no such column.
    """
    if keys.type != pa.binary() or keys.null_count:
        raise ValueError(f"keys of type {keys.type}, {keys.null_count} of them null")
    fixed = keys.cast(pa.binary(_BYTES))  # refuses other lengths
    data = b"".join(map(_fixed_width_bytes, fixed.chunks))
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2).astype(np.uint64)


def _framed(candidate: bytes | None, group: Sequence[bytes | None] | None) -> bytes:
    """Return a row as bytes that no other row has: all lengths, then all texts."""
    if candidate is not None and group and len(group) == 1 and (text := group[0]) is not None:
        return _OF_TWO.pack(1, len(candidate), len(text)) + candidate + text  # the same, faster
    texts = [candidate, *(group or ())]
    lengths = [_NULL if text is None else len(text) for text in texts]
    count = _NULL if group is None else len(group)
    frame = struct.pack(f"<{len(lengths) + 1}q", count, *lengths)
    return frame + b"".join(text for text in texts if text is not None)
