"""The phases that count document frequencies, as a step of a pipeline of another form."""

from dataclasses import dataclass

import apache_beam as beam

from bertscore_beam.dump.splits import RowGroupSplits
from bertscore_beam.idf.count_phases import count_phases
from bertscore_beam.idf.counting import Counting
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.run.run_step import OnBeam


@dataclass
class CountDocumentFrequencies(beam.PTransform):
    """Chunks of splits -> the IdfTables over all their references, one element."""

    counting: Counting

    def expand(self, chunks: beam.PCollection[RowGroupSplits]) -> beam.PCollection[IdfTables]:
        """Count in the stage that reads the splits; only frequencies cross to the combine."""
        found = chunks
        for phase in count_phases(_alone, self.counting):
            found = found | phase.name >> OnBeam(phase)
        return found


def _alone(chunk: RowGroupSplits) -> tuple[RowGroupSplits]:
    return (chunk,)
