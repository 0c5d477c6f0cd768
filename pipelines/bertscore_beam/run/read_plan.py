"""Read a saved plan on a worker."""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam

from bertscore_beam.dump.saved_plan import splits_from_bytes
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.read import read_bytes


@dataclass
class ReadPlan(beam.PTransform):
    """The splits of a saved plan, read on one worker.

    The job contains only the plan's path: runners limit the size of a job. Spread the splits before
    a step that takes long: otherwise it is fused with the reading, and runs on one worker.

    Attributes:
        path: The plan.
    """

    path: str

    def expand(self, root: beam.Pipeline) -> beam.PCollection[Split]:
        """Read the plan."""
        return (
            root
            | "PlanPath" >> beam.Create([self.path])
            | "ReadSplits" >> beam.FlatMap(_read_splits).with_output_types(Split)
        )


def _read_splits(path: str) -> Iterator[Split]:
    return splits_from_bytes(read_bytes(path), path)
