"""The index of a run: the scores of all its rows, sorted by the digests of their texts.

    OUT/_manifest/index.json                    which tables there are; written last
    OUT/_manifest/index/<id>/00-00003.keys      the high halves of the digests of a bucket, sorted
    OUT/_manifest/index/<id>/00-00003.rows      the low halves and the scores, in the same order

There is a table for each signature, cut into buckets by the first bits of the digests. A look-up is
a binary search in keys, and reads one entry of the rows when it hits. Both files are arrays of one
width, so that they can be mapped into memory and only what is touched is read.

It is built from the pieces of the parts (`runs.row_scores`), which are too many to be searched.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from pipelines.run.folder import OutputFolder
from pipelines.runs.row_scores import NO_REASON, VALUES, RowScores, rows_file, rows_from_bytes

INDEX_FILE = "_manifest/index.json"
INDEX_FOLDER = "_manifest/index"

ROW = np.dtype([("low", "<u8"), *[(name, VALUES[name]) for name in VALUES.names or ()]])
"""An entry of a file of rows."""
KEY = np.dtype("<u8")

BUCKET_ROWS = 1_000_000
"""Rows that a bucket has on average, at most: about 42 MB, which are sorted in memory."""

_ENTRY = np.dtype([("high", KEY), *[(name, ROW[name]) for name in ROW.names or ()]])
_FORMAT = 1
# Pieces held in memory at a time, about 1 MB each.
_PIECES_AT_ONCE = 32
# Buckets that are sorted and written at the same time.
_WRITERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTable:
    """The table of one signature.

    Attributes:
        signature: How its scores were made.
        name: First part of the names of its files.
        bits: Bits of a digest that choose the bucket.
        rows: Rows of each bucket.
    """

    signature: str
    name: str
    bits: int
    rows: tuple[int, ...]

    def bucket_of(self, high: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the bucket of each digest, by its high half."""
        return bucket_of(high, self.bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What `index.json` says.

    Attributes:
        folder: Folder of the files, below the output folder.
        source: Digest of what it was built from.
        reasons: The words that the reasons of rows stand for.
        tables: A table for each signature.
    """

    folder: str
    source: str
    reasons: tuple[str, ...]
    tables: tuple[IndexTable, ...]

    def keys_file(self, table: IndexTable, bucket: int) -> str:
        """Return the path of a bucket's keys, below the output folder."""
        return f"{self.folder}/{table.name}-{bucket:05d}.keys"

    def rows_file(self, table: IndexTable, bucket: int) -> str:
        """Return the path of a bucket's rows, below the output folder."""
        return f"{self.folder}/{table.name}-{bucket:05d}.rows"


def bucket_of(high: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    """Return the first bits of digests, by their high halves."""
    if not bits:
        return np.zeros(len(high), dtype=np.int64)
    return (high >> np.uint64(64 - bits)).astype(np.int64)


def read_index(folder: OutputFolder) -> Index | None:
    """Read which tables the index of a run has; None without an index that can be read."""
    found = folder.read_json(INDEX_FILE)
    with suppress(KeyError, TypeError, ValueError):
        if found["format"] == _FORMAT:
            return Index(
                folder=f"{INDEX_FOLDER}/{found['id']}",
                source=str(found["source"]),
                reasons=tuple(map(str, found["reasons"])),
                tables=tuple(
                    IndexTable(**{**table, "rows": tuple(map(int, table["rows"]))})
                    for table in found["tables"]
                ),
            )
    return None


def write_index(folder: OutputFolder, parts: Sequence[tuple[str, str]], num_rows: int) -> None:
    """Build the index of a run's parts from their pieces, unless it is there already.

    Memory is bounded by a bucket and some pieces, whatever the number of rows. Meanwhile all rows
    are on the local disk, in temporary files of about 50 bytes a row.

    Args:
        folder: Folder of the run.
        parts: Name of each part, with a digest of what it holds, in the order of the plan. A part
            without a piece is left out.
        num_rows: Rows of all parts.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    source = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    earlier = read_index(folder)
    if earlier is not None and earlier.source == source:
        return
    bits = max(0, int(np.ceil(np.log2(max(1, num_rows) / BUCKET_ROWS))))
    with tempfile.TemporaryDirectory(prefix="bertscore-index-") as spill:
        sorter = _Sorter(Path(spill), bits)
        for rows in _pieces(folder, [name for name, _ in parts]):
            sorter.add(rows)
        index = Index(
            folder=f"{INDEX_FOLDER}/{source}", source=source, reasons=sorter.reasons, tables=()
        )
        tables = [asdict(table) for table in sorter.write(folder, index)]
    about = {"format": _FORMAT, "id": source, "source": source, "reasons": sorter.reasons}
    folder.write_json(INDEX_FILE, {**about, "tables": tables})
    others = [name for name in folder.files(INDEX_FOLDER) if not name.startswith(f"{source}/")]
    folder.delete(*(f"{INDEX_FOLDER}/{name}" for name in others))
    folder.delete_empty_folders(INDEX_FOLDER)


def _pieces(folder: OutputFolder, parts: Sequence[str]) -> Iterator[RowScores]:
    """Read the pieces of parts, some at a time; what is missing or damaged is left out."""
    for start in range(0, len(parts), _PIECES_AT_ONCE):
        names = [rows_file(part) for part in parts[start : start + _PIECES_AT_ONCE]]
        for name, data in zip(names, folder.read_if_there(*names), strict=True):
            if data is not None:
                with suppress(InputError):
                    yield rows_from_bytes(data, name)


class _Sorter:
    """Sorts more rows than fit in memory: into buckets on the disk first, then each bucket."""

    def __init__(self, spill: Path, bits: int) -> None:
        self._spill = spill
        self._bits = bits
        self._tables: dict[str, int] = {}
        self._reasons: dict[str, int] = {}

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._reasons)

    def add(self, rows: RowScores) -> None:
        """Append the scored rows of a piece to the files of their buckets."""
        entries = np.empty(len(rows), dtype=_ENTRY)
        entries["high"], entries["low"] = rows.digests.T
        for name in VALUES.names or ():
            entries[name] = rows.values[name]
        entries["reason"] = self._renumbered(rows)
        for code, signature in enumerate(rows.signatures):
            wanted = rows.scored & (rows.settings == code)
            table = self._tables.setdefault(signature, len(self._tables))
            self._append(table, entries[wanted])

    def _renumbered(self, rows: RowScores) -> npt.NDArray[np.uint8]:
        codes = np.arange(NO_REASON + 1, dtype=np.uint8)
        for code, word in enumerate(rows.reasons):
            codes[code] = self._reasons.setdefault(word, len(self._reasons))
        renumbered: npt.NDArray[np.uint8] = codes[rows.values["reason"]]
        return renumbered

    def _append(self, table: int, entries: npt.NDArray[np.void]) -> None:
        buckets = bucket_of(entries["high"], self._bits)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(2**self._bits), side="right")
        for bucket, some in enumerate(np.split(entries[order], ends[:-1])):
            if len(some):
                with self._path(table, bucket).open("ab") as file:
                    file.write(some.tobytes())

    def _path(self, table: int, bucket: int) -> Path:
        return self._spill / f"{table}-{bucket}"

    def write(self, folder: OutputFolder, index: Index) -> list[IndexTable]:
        """Sort and write the buckets, several at a time for the sake of object stores."""
        tables = []
        for signature, number in self._tables.items():
            table = IndexTable(signature=signature, name=f"{number:02d}", bits=self._bits, rows=())

            def write(bucket: int, table: IndexTable = table, number: int = number) -> int:
                return self._write_bucket(folder, index, table, number, bucket)

            with ThreadPoolExecutor(_WRITERS) as pool:
                rows = tuple(pool.map(write, range(2**self._bits)))
            tables.append(IndexTable(**{**asdict(table), "rows": rows}))
        return tables

    def _write_bucket(
        self, folder: OutputFolder, index: Index, table: IndexTable, number: int, bucket: int
    ) -> int:
        """Sort and write one bucket; of rows with equal texts it keeps the first."""
        path = self._path(number, bucket)
        if not path.exists():
            return 0
        entries = _sorted_once(np.fromfile(path, dtype=_ENTRY))
        rows = np.empty(len(entries), dtype=ROW)
        for name in ROW.names or ():
            rows[name] = entries[name]
        folder.write_all(
            {
                index.keys_file(table, bucket): np.ascontiguousarray(entries["high"]).tobytes(),
                index.rows_file(table, bucket): rows.tobytes(),
            }
        )
        path.unlink()
        return len(entries)


def _sorted_once(entries: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Sort entries by their digests, and keep the first of equal ones."""
    order = np.lexsort((entries["low"], entries["high"]))  # stable
    entries = entries[order]
    first = np.ones(len(entries), dtype=np.bool_)
    first[1:] = (entries["high"][1:] != entries["high"][:-1]) | (
        entries["low"][1:] != entries["low"][:-1]
    )
    return entries[first]
