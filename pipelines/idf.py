"""The idf job: document frequencies over the references of a dump, saved as one table."""

from dataclasses import dataclass

import apache_beam as beam

from bertscore_core import ConfigError, IdfTable, ScorerConfig, settle
from pipelines.io.files import absolute, delete, exists, write_atomically
from pipelines.io.inputs import expand_inputs
from pipelines.options import IdfOptions
from pipelines.planning import Plan, plan_inputs, plan_to_bytes
from pipelines.prepare import scorer_config
from pipelines.score import ReadPlan
from pipelines.transforms.idf import INCOMPLETE, CountDocumentFrequencies, SaveIdf, load_idf


@dataclass(frozen=True, slots=True, kw_only=True)
class IdfJob:
    """A counting run, checked and planned.

    Attributes:
        output: File of the table.
        config: Names the tokenizer and its truncation.
        reference_column: Column of references.
        plan: What to count.
    """

    output: str
    config: ScorerConfig
    reference_column: str
    plan: Plan

    @property
    def plan_path(self) -> str:
        """Where the plan is handed to the workers: beside the table, hidden, for the while."""
        folder, _, name = self.output.rpartition("/")
        return f"{folder}/.{name}.plan.pq"


def prepare_idf(options: IdfOptions) -> IdfJob:
    """Check everything and plan it.

    Raises:
        BertScoreError: whatever cannot work, before any work is done.
    """
    config = scorer_config(options)
    settle(config)
    output = absolute(options.output)
    if exists(output) and not options.overwrite:
        raise ConfigError(
            f"{options.output} is there already; expected a new file. Choose another --output, or "
            "use --overwrite."
        )
    plan = plan_inputs(
        expand_inputs(options.input),
        candidate_column=None,
        reference_column=options.reference_column,
        target_rows=options.split_rows,
        target_bytes=options.split_bytes,
    )
    return IdfJob(
        output=output, config=config, reference_column=options.reference_column, plan=plan
    )


def build_idf_pipeline(root: beam.Pipeline, job: IdfJob) -> None:
    """Add the counting job to a pipeline, and write the plan it reads."""
    write_atomically(job.plan_path, plan_to_bytes(job.plan))
    _ = (
        root
        | "ReadPlan" >> ReadPlan(job.plan_path)
        | "CountDocumentFrequencies"
        >> CountDocumentFrequencies(job.config, job.reference_column, job.plan.digest)
        | "SaveIdf" >> SaveIdf(job.output)
    )


def finish_idf(job: IdfJob) -> IdfTable | None:
    """Clear up after the pipeline; return the table, or None when it had to be thrown away.

    A table that leaves out a file would give every token a wrong weight, so it is not kept.
    """
    delete(job.plan_path)
    table = load_idf(job.output)
    if table.corpus.startswith(INCOMPLETE):
        delete(job.output)
        return None
    return table
