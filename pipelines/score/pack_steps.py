"""Pack the records of a run in its pipeline, so that its end need not read a file for each part."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import apache_beam as beam
from apache_beam.typehints import no_annotations

from pipelines.run.folder import OutputFolder
from pipelines.score.part_record import PartRecord
from pipelines.score.record_packs import num_packs, pack_of, write_pack
from pipelines.score.spec import ScoreSpec
from pipelines.score.summary import FailedSplit, ReusedPart

SplitResults: TypeAlias = tuple[
    beam.PCollection[PartRecord],
    beam.PCollection[ReusedPart],
    beam.PCollection[FailedSplit],
]
"""The result of each split: a new part, a part that is reused, or a failure."""


@dataclass
class PackRecords(beam.PTransform):
    """(part records, parts reused, failed splits) -> names of the packs written of the records.

    The single records stay until the run is finished: they tell what is done if it is not.

    Attributes:
        spec: The run.
    """

    spec: ScoreSpec

    @no_annotations  # Beam has no type hint for several inputs
    def expand(self, results: SplitResults) -> beam.PCollection[str]:
        """Spread the records over the packs: about a kilobyte each crosses the stage boundary."""
        records, reused, _ = results
        spec = self.spec
        write = beam.Map(_write, folder=spec.folder, generation=spec.record_generation)
        return (
            (records, reused | "RecordOfReused" >> beam.Map(lambda part: part.record))
            | "FlattenRecords" >> beam.Flatten()
            # (number of the pack, record as a line)
            | "ChoosePack" >> beam.Map(_in_pack, num_packs(spec.goal.parts))
            | "GroupByPack" >> beam.GroupByKey()
            | "WritePack" >> write
        )


def _in_pack(record: PartRecord, packs: int) -> tuple[int, bytes]:
    return pack_of(record.part_name, packs), record.to_json()


def _write(pack: tuple[int, Iterable[bytes]], *, folder: OutputFolder, generation: int) -> str:
    number, lines = pack
    return write_pack(folder, generation, number, lines)
