"""The index of a run: the scores of all its rows, sorted by the digests of their texts.

    OUT/_manifest/index.json                 what the codes in it mean; written last
    OUT/_manifest/index/<id>/00003.keys      the high halves of the digests of a bucket, sorted
    OUT/_manifest/index/<id>/00003.rows      the low halves, settings and scores, in the same order

The first bits of a digest choose its bucket. A look-up is a binary search in keys, and reads an
entry of the rows only when it hits. Both files are arrays of one width, so that they can be mapped
into memory and only what is touched is read.

Few large files, because an object store answers a request in tens of milliseconds; sorted by digest
and with the scores in them, because the rows of a split may be anywhere in the earlier run: from
many small files, or from its parts, every split would have to read nearly all. A join in the
pipeline would read the input twice, and hold all digests in memory on a local runner. The price is
that each worker process fetches the keys of all buckets from an object store, 8 bytes a row, as
soon as it scores rows that have changed.

It is built from the pieces of the parts (`runs.row_scores`), which are too many to be searched.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.files.buckets import Buckets
from bertscore_beam.files.read import read_each
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.runs.row_scores import VALUES, RowScores, rows_file, rows_from_bytes
from bertscore_core.errors import InputError

INDEX_FILE = "_manifest/index.json"
INDEX_FOLDER = "_manifest/index"

ROW = np.dtype(
    [("low", "<u8"), ("setting", "<u2"), *((name, VALUES[name]) for name in VALUES.names or ())]
)
"""An entry of a file of rows."""
KEY = np.dtype("<u8")

BUCKET_ROWS = 1_000_000
"""Rows that a bucket has on average, at most: about 48 MB, which are sorted in memory."""

_ENTRY = np.dtype([("high", KEY), *[(name, ROW[name]) for name in ROW.names or ()]])
_FORMAT = 1
# Pieces that are read at the same time. Five times as many are held, of about 1 MB each.
_READERS = 16
# Buckets that are sorted and written at the same time.
_WRITERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What `index.json` says.

    Attributes:
        id: Digest of what it was built from, and name of the folder of its files.
        signatures: The signatures that `setting` in an entry stands for.
        reasons: The words that `reason` in an entry stands for.
        rows: Rows of each bucket. Shape (2 ** bits,).
    """

    id: str
    signatures: tuple[str, ...]
    reasons: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Bits of a digest that choose its bucket."""
        return len(self.rows).bit_length() - 1

    def keys_file(self, bucket: int) -> str:
        """Return the path of a bucket's keys, below the output folder."""
        return f"{INDEX_FOLDER}/{self.id}/{bucket:05d}.keys"

    def rows_file(self, bucket: int) -> str:
        """Return the path of a bucket's rows, below the output folder."""
        return f"{INDEX_FOLDER}/{self.id}/{bucket:05d}.rows"


def read_index(folder: OutputFolder) -> Index | None:
    """Read what the index of a run is; None without one that can be read."""
    found = folder.read_json(INDEX_FILE)
    with suppress(KeyError, TypeError, ValueError):
        if found["format"] == _FORMAT:
            return Index(
                id=str(found["id"]),
                signatures=tuple(map(str, found["signatures"])),
                reasons=tuple(map(str, found["reasons"])),
                rows=tuple(map(int, found["rows"])),
            )
    return None


def write_index(folder: OutputFolder, parts: Sequence[tuple[str, str]], num_rows: int) -> None:
    """Build the index of a run's parts from their pieces, unless it is there already.

    Memory is bounded by some buckets and pieces, whatever the number of rows. Meanwhile all rows
    are on the local disk, in temporary files of 48 bytes a row.

    Args:
        folder: Folder of the run.
        parts: Name of each part, with a digest of what it holds, in the order of the plan. A part
            without a piece is left out.
        num_rows: Rows of all parts.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    earlier = read_index(folder)
    if earlier is None or earlier.id != name:
        _build(folder, name, [part for part, _ in parts], num_rows)
    # Also if it was there: the run that has built it may have been cut off before this.
    others = [file for file in folder.files(INDEX_FOLDER) if not file.startswith(f"{name}/")]
    folder.delete(*(f"{INDEX_FOLDER}/{file}" for file in others))
    folder.delete_empty_folders(INDEX_FOLDER)


def _build(folder: OutputFolder, name: str, parts: Sequence[str], num_rows: int) -> None:
    """Build the index of some parts."""
    bits = max(0, math.ceil(math.log2(max(1, num_rows) / BUCKET_ROWS)))
    with tempfile.TemporaryDirectory(prefix="bertscore-index-") as spill:
        sorter = _Sorter(Path(spill), bits)
        for rows in _pieces(folder, parts):
            sorter.add(rows)
        index = sorter.write(folder, name)
    folder.write_json(INDEX_FILE, {"format": _FORMAT, **asdict(index)})


def _pieces(folder: OutputFolder, parts: Sequence[str]) -> Iterator[RowScores]:
    """Read the pieces of parts, some ahead; what is missing or damaged is left out."""
    paths = (folder.path(rows_file(part)) for part in parts)
    for part, data in zip(parts, read_each(paths, _READERS), strict=True):
        if data is not None:
            with suppress(InputError):
                yield rows_from_bytes(data, rows_file(part))


class _Sorter:
    """Sorts more rows than fit in memory: into buckets on the disk first, then each bucket."""

    def __init__(self, spill: Path, bits: int) -> None:
        self._buckets = Buckets(spill, bits)
        self._signatures: dict[str, int] = {}
        self._reasons: dict[str, int] = {}

    def add(self, rows: RowScores) -> None:
        """Append the scored rows of a piece to the files of their buckets."""
        entries = np.empty(len(rows), dtype=_ENTRY)
        entries["high"], entries["low"] = rows.digests.T
        for name in VALUES.names or ():
            entries[name] = rows.values[name]
        # Both are numbered in each piece by itself, and here once for all.
        entries["reason"] = _renumbered(rows.values["reason"], rows.reasons, self._reasons)
        signed = rows.signed
        entries["setting"] = _renumbered(signed.codes, signed.signatures, self._signatures)
        entries = entries[rows.scored]
        self._buckets.add(entries, entries["high"])

    def write(self, folder: OutputFolder, name: str) -> Index:
        """Sort and write the buckets, several at a time for the sake of object stores."""
        index = Index(
            id=name,
            signatures=tuple(self._signatures),
            reasons=tuple(self._reasons),
            rows=(0,) * self._buckets.count,
        )
        with ThreadPoolExecutor(_WRITERS) as pool:
            write = partial(self._write_bucket, folder, index)
            return replace(index, rows=tuple(pool.map(write, range(self._buckets.count))))

    def _write_bucket(self, folder: OutputFolder, index: Index, bucket: int) -> int:
        """Sort and write one bucket; of rows with equal texts and settings it keeps the first."""
        entries = _sorted_once(self._buckets.take(bucket, _ENTRY))
        if not len(entries):
            return 0
        rows = np.empty(len(entries), dtype=ROW)
        for name in ROW.names or ():
            rows[name] = entries[name]
        folder.write_all(
            {
                index.keys_file(bucket): np.ascontiguousarray(entries["high"]).tobytes(),
                index.rows_file(bucket): rows.tobytes(),
            }
        )
        return len(entries)


def _renumbered(
    codes: npt.NDArray[Any], words: Sequence[str], numbers: dict[str, int]
) -> npt.NDArray[Any]:
    """Return the codes of words under other numbers; codes without a word stay."""
    table = np.arange(np.iinfo(codes.dtype).max + 1, dtype=codes.dtype)
    for code, word in enumerate(words):
        table[code] = numbers.setdefault(word, len(numbers))
    renumbered: npt.NDArray[Any] = table[codes]
    return renumbered


def _sorted_once(entries: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Sort entries by digest and setting, and keep the first of equal ones."""
    names = ("setting", "low", "high")
    entries = entries[np.lexsort([entries[name] for name in names])]  # stable
    first = np.ones(len(entries), dtype=np.bool_)
    first[1:] = np.logical_or.reduce([entries[name][1:] != entries[name][:-1] for name in names])
    return entries[first]
