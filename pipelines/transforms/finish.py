"""The end of a run: part records added up, the summary and, last of all, the success marker."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_core import IdfTable, Signature
from pipelines import manifest
from pipelines.io.files import (
    delete,
    join,
    mask_credentials,
    read_bytes,
    write_atomically,
)
from pipelines.lock import RunLock, check_held
from pipelines.manifest import PartRecord
from pipelines.planning import plan_from_bytes
from pipelines.rejects import FILES_FILE, rejected_files
from pipelines.scoring import final_signature
from pipelines.standing import is_done, stale_parts
from pipelines.success import SUCCESS_FILE, declare_success, is_marked_by
from pipelines.totals import FailedSplit, ReusedPart, RunGoal, RunTotals, judge
from pipelines.transforms.idf import is_incomplete


@dataclass
class FinishRun(beam.PTransform):
    """(part records, parts reused, failed splits) -> summary, written with the success marker.

    Attributes:
        output: Folder of the run.
        goal: What was planned.
        signature: How the scores were made, up to the idf table.
        job_digest: Identity of the run's settings, as every record has it.
        idf: Singleton with the idf table, or None.
        run: Identifies the run, as in `_run.json`.
        lock: What must be held to write; None leaves that unchecked.
        alone: The job is detached, so no launcher turns the summary into an exit status and cleans
            up: fail the job if the run was no success, and otherwise clean up the folder.
    """

    output: str
    goal: RunGoal
    signature: Signature
    job_digest: str
    run: str
    idf: beam.PCollection[IdfTable] | None = None
    lock: RunLock | None = None
    alone: bool = False

    @no_annotations  # Beam has no type hint for several inputs
    def expand(
        self,
        results: tuple[
            beam.PCollection[PartRecord],
            beam.PCollection[ReusedPart],
            beam.PCollection[FailedSplit],
        ],
    ) -> beam.PCollection[RunTotals]:
        """Add up, then write; a single element comes through."""
        records, reused, failures = results
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        return (
            (
                records | "OfRecord" >> beam.Map(RunTotals.of_record),
                reused | "OfReused" >> beam.Map(RunTotals.of_reused),
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
                job_digest=self.job_digest,
                run=self.run,
                lock=self.lock,
                alone=self.alone,
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
    output: str,
    goal: RunGoal,
    new: RunTotals,
    signature: Signature,
    *,
    job_digest: str,
    run: str,
    idf: IdfTable | None,
    lock: RunLock | None,
) -> bool:
    """Write `_summary.json`, and `_SUCCESS` after it when the run deserves it.

    What the workers reported is not taken on trust: every part in the folder must have a record of
    this job's settings and idf table, and the size recorded. An idf table that leaves out a file
    spoils the run.

    Returns:
        Whether it was a success.

    Raises:
        FolderLostError: the folder belongs to another run by now.
    """
    plan = plan_from_bytes(read_bytes(join(output, manifest.PLAN_FILE)), output)
    records, sizes = manifest.read_parts(output, plan)
    name = "" if idf is None else idf.fingerprint
    missing = [
        split
        for split in plan.splits
        if not is_done(split, records.get(split.part_name), job_digest, name, sizes)
    ]
    signed = final_signature(signature, idf).format()
    summary = judge(
        goal,
        new,
        signed,
        missing=[split.part_name for split in missing],
        doubled=stale_parts(plan, sizes),
        whole_idf=not is_incomplete(idf),
    )
    _check(lock)
    if plan.rejected_files or missing:
        rejects = rejected_files(plan.rejected_files, missing, dict(new.failures))
        write_atomically(join(output, FILES_FILE), rejects)
    else:
        delete(join(output, FILES_FILE))
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    _check(lock)
    write_atomically(join(output, manifest.SUMMARY_FILE), text.encode())
    if summary["success"]:
        declare_success(output, run, lock, signature=signed)
    else:
        delete(join(output, SUCCESS_FILE))  # a late one of an earlier run
    return bool(summary["success"])


def _check(lock: RunLock | None) -> None:
    check_held(lock)


def _finish(
    totals: RunTotals,
    idf: IdfTable | None,
    *,
    output: str,
    goal: RunGoal,
    signature: Signature,
    job_digest: str,
    run: str,
    lock: RunLock | None,
    alone: bool,
) -> RunTotals:
    if alone and is_marked_by(output, run):
        return totals  # a bundle that is done again: the plan may be deleted
    success = finish_run(
        output, goal, totals, signature, job_digest=job_digest, run=run, idf=idf, lock=lock
    )
    if alone and not success:
        raise RuntimeError(
            f"the run is not a success: see {mask_credentials(join(output, manifest.SUMMARY_FILE))}"
        )
    if alone:
        manifest.delete_plans(output)
        if lock is not None:
            lock.release()
    return totals
