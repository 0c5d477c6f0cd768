"""The end of a run: part records added up, the summary and, last of all, the success marker."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_core import IdfTable, Signature
from pipelines import manifest
from pipelines.io.files import delete, join, read_bytes, write_atomically
from pipelines.lock import RunLock
from pipelines.manifest import PartRecord
from pipelines.planning import plan_from_bytes
from pipelines.rejects import FILES_FILE, rejected_files
from pipelines.scoring import final_signature
from pipelines.totals import FailedSplit, RunGoal, RunTotals, judge


@dataclass
class FinishRun(beam.PTransform):
    """(part records, failed splits) -> summary, written with the success marker.

    Attributes:
        output: Folder of the run.
        goal: What was planned.
        signature: How the scores were made, up to the idf table.
        idf: Singleton with the idf table, or None.
        lock: What must be held to write; None leaves that unchecked.
    """

    output: str
    goal: RunGoal
    signature: Signature
    idf: beam.PCollection[IdfTable] | None = None
    lock: RunLock | None = None

    @no_annotations  # Beam has no type hint for several inputs
    def expand(
        self, results: tuple[beam.PCollection[PartRecord], beam.PCollection[FailedSplit]]
    ) -> beam.PCollection[RunTotals]:
        """Add up, then write; a single element comes through."""
        records, failures = results
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        return (
            (
                records | "OfRecord" >> beam.Map(RunTotals.of_record),
                failures | "OfFailure" >> beam.Map(RunTotals.of_failure),
            )
            | "Flatten" >> beam.Flatten()
            | "AddUp" >> beam.CombineGlobally(SumTotals())
            | "WriteSummary"
            >> beam.Map(
                _finish,
                idf,
                output=self.output,
                goal=self.goal,
                signature=self.signature,
                lock=self.lock,
            )
        )


class SumTotals(beam.CombineFn):
    """Add up run totals."""

    def create_accumulator(self) -> RunTotals:
        """Start from nothing."""
        return RunTotals()

    def add_input(self, accumulator: RunTotals, element: RunTotals) -> RunTotals:
        """Add one."""
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[RunTotals]) -> RunTotals:
        """Add up several."""
        return RunTotals.sum(accumulators)

    def extract_output(self, accumulator: RunTotals) -> RunTotals:
        """Return the sum."""
        return accumulator


def finish_run(
    output: str, goal: RunGoal, new: RunTotals, signature: str, lock: RunLock | None = None
) -> None:
    """Write `_summary.json`, and `_SUCCESS` after it when the run deserves it.

    What the workers reported is not taken on trust: the folder is listed and held against the plan.

    Raises:
        FolderLostError: the folder belongs to another run by now.
    """
    plan = plan_from_bytes(read_bytes(join(output, manifest.PLAN_FILE)), output)
    planned = {split.part_name for split in plan.splits}
    there = manifest.read_part_sizes(output, planned)
    missing = [split for split in plan.splits if split.part_name not in there]
    summary = judge(
        goal,
        new,
        signature,
        missing=[split.part_name for split in missing],
        doubled=manifest.stale_parts(plan, there),
    )
    if lock is not None:
        lock.check()
    if plan.rejected_files or missing:
        rejects = rejected_files(plan.rejected_files, missing, dict(new.failures))
        write_atomically(join(output, FILES_FILE), rejects)
    else:
        delete(join(output, FILES_FILE))
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    write_atomically(join(output, manifest.SUMMARY_FILE), text.encode())
    if summary["success"]:
        write_atomically(join(output, manifest.SUCCESS_FILE), b"")


def _finish(
    totals: RunTotals,
    idf: IdfTable | None,
    *,
    output: str,
    goal: RunGoal,
    signature: Signature,
    lock: RunLock | None,
) -> RunTotals:
    finish_run(output, goal, totals, final_signature(signature, idf).format(), lock)
    return totals
