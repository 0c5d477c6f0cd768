"""Read a saved plan on a worker."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from bertscore_beam.dump.saved_plan import plan_from_bytes
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.read import read_bytes


@dataclass
class ReadPlan(beam.PTransform):
    """The splits of a saved plan, spread over the workers.

    The job contains only the plan's path: runners limit the size of a job.

    Attributes:
        path: The plan.
        each: A quick step that every split goes through before it is spread; None for none.
    """

    path: str
    each: beam.PTransform | None = None

    def expand(self, root: beam.Pipeline) -> beam.PCollection[Any]:
        """Read the plan on one worker, then spread its splits, or what `each` makes of them."""
        splits = (
            root
            | "PlanPath" >> beam.Create([self.path])
            | "ReadSplits" >> beam.FlatMap(_read_splits).with_output_types(Split)
        )
        if self.each is not None:
            splits = splits | "Each" >> self.each
        # Without it the splits stay fused with the one path that they come from, and one worker
        # does all the work.
        return splits | "Spread" >> beam.Reshuffle()


def _read_splits(path: str) -> tuple[Split, ...]:
    return plan_from_bytes(read_bytes(path), path).splits
