"""The idf job: document frequencies over the references of a dump, saved as one table."""

import uuid
from dataclasses import dataclass

import apache_beam as beam

from bertscore_core import ConfigError, IdfTable, ScorerConfig
from bertscore_core.config import settle_tokenizer
from pipelines.io.files import absolute, delete, exists, read_bytes, write_atomically
from pipelines.io.inputs import expand_inputs
from pipelines.io.reach import reaching
from pipelines.options import IdfOptions
from pipelines.planning import Plan, check_all_reached, plan_inputs, plan_to_bytes
from pipelines.score import ReadPlan
from pipelines.scorer import scorer_config
from pipelines.transforms.idf import CountDocumentFrequencies, SaveIdf, load_idf


@dataclass(frozen=True, slots=True, kw_only=True)
class IdfJob:
    """A counting run, checked and planned.

    Attributes:
        output: File of the table.
        config: Names the tokenizer and its truncation.
        reference_column: Column of references.
        plan: What to count.
        run: Tells the files of this run from those of another.
    """

    output: str
    config: ScorerConfig
    reference_column: str
    plan: Plan
    run: str

    @property
    def plan_path(self) -> str:
        """Where the plan is handed to the workers: beside the table, hidden, for the while."""
        return self._beside("plan.pq")

    @property
    def counted_path(self) -> str:
        """Where the workers put the table, until it is known to be whole."""
        return self._beside("npz")

    def _beside(self, suffix: str) -> str:
        folder, _, name = self.output.rpartition("/")
        return f"{folder}/.{name}.{self.run}.{suffix}"


def prepare_idf(options: IdfOptions) -> IdfJob:
    """Check everything and plan it.

    Raises:
        BertScoreError: whatever cannot work, before any work is done.
        OSError: something to be counted cannot be reached at the moment.
    """
    config = scorer_config(options)
    settle_tokenizer(config)
    with reaching("output", options.output):
        output = absolute(options.output)
        there = exists(output)
    if there and not options.overwrite:
        raise ConfigError(
            f"{options.output} is there already; expected a new file. Choose another --output, or "
            "use --overwrite."
        )
    with reaching("input", *options.input):
        plan = plan_inputs(
            expand_inputs(options.input),
            candidate_column=None,
            reference_column=options.reference_column,
            target_rows=options.split_rows,
            target_bytes=options.split_bytes,
        )
    check_all_reached(plan)
    return IdfJob(
        output=output,
        config=config,
        reference_column=options.reference_column,
        plan=plan,
        run=uuid.uuid4().hex[:12],
    )


def start_idf(job: IdfJob) -> None:
    """Write the plan for the workers."""
    write_atomically(job.plan_path, plan_to_bytes(job.plan))


def build_idf_pipeline(root: beam.Pipeline, job: IdfJob) -> None:
    """Add the counting job to a pipeline; `start_idf` must have written the plan it reads."""
    _ = (
        root
        | "ReadPlan" >> ReadPlan(job.plan_path)
        | "CountDocumentFrequencies"
        >> CountDocumentFrequencies(job.config, job.reference_column, job.plan.digest)
        | "SaveIdf" >> SaveIdf(job.counted_path)
    )


def finish_idf(job: IdfJob) -> IdfTable | None:
    """Put the table in its place and clear up; return it, or None when a file was left out."""
    delete(job.plan_path)
    if not exists(job.counted_path):
        return None
    write_atomically(job.output, read_bytes(job.counted_path))
    delete(job.counted_path)
    return load_idf(job.output)
