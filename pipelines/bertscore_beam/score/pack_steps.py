"""Pack the records of a run in its pipeline, so that its end need not read a file for each part."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TypeAlias

import apache_beam as beam

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.score.record_packs import num_packs, pack_of, write_pack
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.summary import FailedSplit, ReusedPart, SplitResult

_Accumulator: TypeAlias = tuple[list[bytes], list[bytes]]
_LINES_AT_ONCE = 1000
"""Lines of a pack that wait in memory before they are compressed: about a megabyte of them."""


@dataclass
class PackRecords(beam.PTransform):
    """SplitResults -> names of the packs written of the records.

    The single records stay until the run is finished: they tell what is done if it is not.

    Attributes:
        spec: The run.
    """

    spec: ScoreSpec

    def expand(self, results: beam.PCollection[SplitResult]) -> beam.PCollection[str]:
        """Spread the records over the packs; they cross the stage boundary compressed."""
        spec = self.spec
        write = beam.Map(_write, folder=spec.folder, generation=spec.record_generation)
        return (
            results
            # (number of the pack, record as a line)
            | "ChoosePack" >> beam.FlatMap(_in_pack, num_packs(spec.goal.parts))
            | "GroupByPack" >> beam.CombinePerKey(CompressLines())
            | "WritePack" >> write
        )


def _in_pack(result: SplitResult, packs: int) -> Iterator[tuple[int, bytes]]:
    if not isinstance(result, FailedSplit):
        record = result.record if isinstance(result, ReusedPart) else result
        yield pack_of(record.part_name, packs), record.to_json()


class CompressLines(beam.CombineFn):
    """Lines of bytes -> gzip members that hold them, in any order.

    A line compressed by itself stays twice as large. An accumulator is (members, lines).
    """

    def create_accumulator(self) -> _Accumulator:
        """Return an accumulator without lines."""
        return [], []

    def add_input(self, accumulator: _Accumulator, line: bytes) -> _Accumulator:
        """Add a line, which contains no line break."""
        accumulator[1].append(line)
        return accumulator if len(accumulator[1]) < _LINES_AT_ONCE else self.compact(accumulator)

    def merge_accumulators(self, accumulators: Iterable[_Accumulator]) -> _Accumulator:
        """Return an accumulator with the lines of all."""
        members, lines = self.create_accumulator()
        for one in accumulators:
            members += one[0]
            lines += one[1]
        return members, lines

    def compact(self, accumulator: _Accumulator) -> _Accumulator:
        """Compress the lines that are not compressed yet."""
        members, lines = accumulator
        if lines:
            members = [*members, gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)]
        return members, []

    def extract_output(self, accumulator: _Accumulator) -> bytes:
        """Return gzip members, one after the other, with a line break after each line."""
        return b"".join(self.compact(accumulator)[0])


def _write(pack: tuple[int, bytes], *, folder: OutputFolder, generation: int) -> str:
    number, members = pack
    with gzip.open(BytesIO(members)) as file:  # `gzip.decompress` copies the rest for each member
        return write_pack(folder, generation, number, file.read().splitlines())
