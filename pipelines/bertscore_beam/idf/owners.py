"""Which row of each key is counted, without moving a text: only digests leave the split.

    split --keyed_rows--> KeyedRows, cut into buckets of keys --choose_owners--> Owned, by split

The first row of a key counts: that of the input whose name comes first, and in it the first row.
So the choice depends on the data alone, not on workers, order or the cut into splits.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import values_as_text
from bertscore_beam.idf.row_keys import NO_KEY, row_keys
from bertscore_beam.idf.tables import IdfKey

ROWS_OF_A_BUCKET = 250_000
"""Rows whose keys are compared at a time; each takes 28 bytes."""

_MOST_BUCKETS = 4096

Digests = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedRows:
    """The keys of R rows of a split.

    Attributes:
        run: Name of the split's run.
        part_name: Name of the split's part.
        input_name: Name of its input.
        offset: Its first row, counted in the input, or its first byte.
        positions: Position of each row in the split, ascending. Shape (R,), int32.
        keys: Digest of each row's key. Shape (R, 2), uint64.
        references: Digest of each row's references. Shape (R,), uint64.
    """

    run: str
    part_name: str
    input_name: str
    offset: int
    positions: Positions
    keys: Digests
    references: Digests

    def buckets(self, number: int) -> Iterator[tuple[int, "KeyedRows"]]:
        """Yield the rows of each bucket of keys that has some."""
        places = self.keys[:, 0] % np.uint64(number)
        for bucket in np.unique(places):
            rows = places == bucket
            yield (
                int(bucket),
                replace(
                    self,
                    positions=self.positions[rows],
                    keys=self.keys[rows],
                    references=self.references[rows],
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Owned:
    """Rows of a split, by position.

    Attributes:
        rows: Rows to count.
        conflicts: Rows not counted whose references differ from those of the counted row.
        without_key: Rows without a value in a key column; they are counted, each for itself.
    """

    rows: Positions
    conflicts: Positions
    without_key: Positions

    @classmethod
    def merge(cls, parts: Iterable["Owned"]) -> "Owned":
        """Put together what different buckets say of one split."""
        kept = list(parts)
        return cls(
            rows=_joined([part.rows for part in kept]),
            conflicts=_joined([part.conflicts for part in kept]),
            without_key=_joined([part.without_key for part in kept]),
        )

    @property
    def digest(self) -> str:
        """Digest of what is counted and how; 32 hexadecimal digits."""
        lists = (self.rows, self.conflicts, self.without_key)
        text = b"".join(b"%d:" % len(rows) + rows.astype("<i4").tobytes() for rows in lists)
        return hashlib.sha256(text).hexdigest()[:32]


def num_buckets(rows: int) -> int:
    """Return into how many buckets the keys of so many rows are cut."""
    return min(max(rows // ROWS_OF_A_BUCKET, 1), _MOST_BUCKETS)


def keyed_rows(
    split: Split,
    run: str,
    table: pa.Table,
    columns: IdfColumns,
    references: Sequence[Sequence[str] | None],
) -> tuple[KeyedRows, Owned]:
    """Digest the keys of the rows that can be counted; those without a key are counted anyway.

    Args:
        split: The split.
        run: Name of its run.
        table: Its rows, with the columns of keys and groups.
        columns: The columns of keys and groups.
        references: The references of each row, None if they are rejected.
    """
    tables = row_keys(table, columns)
    values = zip(*(values_as_text(column_of(table, name)) for name in columns.key), strict=True)
    positions: list[int] = []
    without_key: list[int] = []
    keys, texts = bytearray(), bytearray()
    rows = zip(tables.codes.tolist(), values, references, strict=True)
    for position, (code, key, group) in enumerate(rows):
        if code == NO_KEY or group is None:
            continue
        known = [value for value in key if value is not None]
        if len(known) < len(key):
            without_key.append(position)
            continue
        positions.append(position)
        keys += key_digest(tables.keys[code], known)
        texts += text_digest(group)
    found = KeyedRows(
        run=run,
        part_name=split.part_name,
        input_name=split.input_name,
        offset=split.row_offset,
        positions=np.array(positions, dtype=np.int32),
        keys=np.frombuffer(bytes(keys), dtype="<u8").astype(np.uint64).reshape(-1, 2),
        references=np.frombuffer(bytes(texts), dtype="<u8").astype(np.uint64),
    )
    alone = np.array(without_key, dtype=np.int32)
    return found, Owned(rows=alone, conflicts=alone[:0], without_key=alone)


def choose_owners(parts: Iterable[KeyedRows]) -> Iterator[tuple[str, tuple[str, Owned]]]:
    """Choose the row that counts for every key of a bucket.

    Args:
        parts: All rows of the bucket's keys, over the whole corpus, in any order.

    Yields:
        Name of a run, and of a part in it with the rows of that split.
    """
    kept = sorted(parts, key=lambda part: (part.input_name, part.offset))
    keys = np.concatenate([part.keys for part in kept])
    references = np.concatenate([part.references for part in kept])
    # Stable: rows of one key keep their order, so that the first of them comes first.
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    owner = order[np.flatnonzero(first)[np.cumsum(first) - 1]]
    is_owner, differs = np.empty_like(first), np.empty_like(first)
    is_owner[order] = first
    differs[order] = references[order] != references[owner]
    start = 0
    for part in kept:
        rows = slice(start, start := start + len(part.positions))
        owned = Owned(
            rows=part.positions[is_owner[rows]],
            conflicts=part.positions[differs[rows]],
            without_key=part.positions[:0],
        )
        yield part.run, (part.part_name, owned)


def key_digest(table: IdfKey, values: Sequence[str]) -> bytes:
    """Digest the key of a row within its table. 16 bytes."""
    return _digest((table.language, *table.group, *values), 16)


def text_digest(references: Sequence[str]) -> bytes:
    """Digest the references of a row. 8 bytes."""
    return _digest(references, 8)


def _digest(words: Iterable[str], size: int) -> bytes:
    digest = hashlib.blake2b(digest_size=size)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))  # the lengths say where one word ends
        digest.update(data)
    return digest.digest()


def _joined(parts: Sequence[Positions]) -> Positions:
    joined: Positions = np.sort(np.concatenate([np.zeros(0, dtype=np.int32), *parts]))
    return joined
