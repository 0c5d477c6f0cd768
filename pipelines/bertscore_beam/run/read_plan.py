"""Read a saved plan on a worker."""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam

from bertscore_beam.dump.runs import RunSize, SplitRun, split_runs
from bertscore_beam.dump.saved_plan import splits_from_bytes
from bertscore_beam.files.read import read_bytes


@dataclass
class ReadPlan(beam.PTransform):
    """The splits of a saved plan, read on one worker and put into runs.

    The job contains only the plan's path: runners limit the size of a job. Spread the runs before a
    step that takes long: otherwise it is fused with the reading, and runs on one worker.

    Attributes:
        path: The plan.
        workers: How many runs are worked on at the same time; None if that is not known.
    """

    path: str
    workers: int | None

    def expand(self, root: beam.Pipeline) -> beam.PCollection[SplitRun]:
        """Read the plan."""
        return (
            root
            | "PlanPath" >> beam.Create([self.path])
            | "ReadSplits" >> beam.FlatMap(_read_runs, self.workers).with_output_types(SplitRun)
        )


def _read_runs(path: str, workers: int | None) -> Iterator[SplitRun]:
    data = read_bytes(path)
    size = RunSize.of(splits_from_bytes(data, path), workers)
    return split_runs(splits_from_bytes(data, path), size)
