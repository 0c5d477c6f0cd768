"""The elements inside the fused scoring stage: the rows of a split, then its scored rows.

Neither crosses a stage boundary. They still need a coder: Beam samples the size of elements on
every edge, and without `estimate_size` it would pickle the whole table.
"""

import pickle
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from bertscore_beam.dump.lines import Lines
from bertscore_beam.dump.row_digests import RowDigests
from bertscore_beam.dump.splits import Split
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.score.scored_table import ScoredTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A split with its rows, their lines in a file of text, digests, and idf tables.

    `replaces` tells whether an earlier part of the split has a record.
    """

    split: Split
    table: pa.Table
    lines: Lines | None
    digests: RowDigests
    idf: IdfTables | None
    replaces: bool = False

    def __len__(self) -> int:
        """Return the number of rows, which RunInference reports as inferences."""
        return len(self.table)

    @property
    def nbytes(self) -> int:
        """Size of the rows in memory, in bytes."""
        return int(self.table.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredChunk:
    """A split with its scored rows, their lines, digests, fingerprint of idf tables, and seconds.

    `idf` is "" without tables. `replaces` is that of the chunk.
    """

    split: Split
    scored: ScoredTable
    lines: Lines | None
    digests: RowDigests
    idf: str
    seconds: float
    replaces: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the rows in memory, in bytes."""
        return int(self.scored.table.nbytes)


class ChunkCoder(beam.coders.Coder):
    """Pickle, with the size taken from the table instead."""

    def encode(self, value: Any) -> bytes:
        """Return the chunk's bytes."""
        return pickle.dumps(value)

    def decode(self, encoded: bytes) -> Any:
        """Return the chunk."""
        return pickle.loads(encoded)  # noqa: S301 - it comes from a worker of the same job

    def estimate_size(self, value: Any) -> int:
        """Return the size of the chunk's table in bytes."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """Chunks are never keys."""
        return False


beam.coders.registry.register_coder(Chunk, ChunkCoder)
beam.coders.registry.register_coder(ScoredChunk, ChunkCoder)
