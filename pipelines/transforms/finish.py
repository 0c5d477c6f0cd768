"""The end of a run: part records added up, the summary and, last of all, the success marker."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_core import IdfTable, Signature
from pipelines import manifest
from pipelines.io.files import join, write_atomically
from pipelines.manifest import PartRecord
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
    """

    output: str
    goal: RunGoal
    signature: Signature
    idf: beam.PCollection[IdfTable] | None = None

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
            >> beam.Map(_finish, idf, output=self.output, goal=self.goal, signature=self.signature)
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


def finish_run(output: str, goal: RunGoal, new: RunTotals, signature: str) -> None:
    """Write `_summary.json`, and `_SUCCESS` after it when the run deserves it."""
    summary = judge(goal, new, signature)
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    write_atomically(join(output, manifest.SUMMARY_FILE), text.encode())
    if summary["success"]:
        write_atomically(join(output, manifest.SUCCESS_FILE), b"")


def _finish(
    totals: RunTotals, idf: IdfTable | None, *, output: str, goal: RunGoal, signature: Signature
) -> RunTotals:
    finish_run(output, goal, totals, final_signature(signature, idf).format())
    return totals
