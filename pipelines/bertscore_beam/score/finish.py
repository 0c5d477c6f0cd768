"""The end of a run: totals, the summary and, last of all, the success marker."""

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.record import describe_tables
from bertscore_beam.idf.saved import note_path
from bertscore_beam.idf.steps import is_incomplete
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.run import pool
from bertscore_beam.run.events import event
from bertscore_beam.run.folder import SUCCESS_FILE, SUMMARY_FILE, OutputFolder
from bertscore_beam.run.success import declare_success, is_marked_by
from bertscore_beam.runs.index import delete_index, write_index
from bertscore_beam.score.group_steps import GroupRun
from bertscore_beam.score.group_table import GroupRow
from bertscore_beam.score.index_steps import IndexRun
from bertscore_beam.score.pack_steps import PackRecords
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.records import IDF_FILE, delete_packed, delete_plans
from bertscore_beam.score.rejects import FILES_FILE, rejected_files
from bertscore_beam.score.run_groups import read_groups, write_groups
from bertscore_beam.score.run_parts import indexed_parts, parts_of_run
from bertscore_beam.score.settings import EVERY_LANGUAGE
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.summary import (
    RunTotals,
    SplitResult,
    judge,
    summary_of_languages,
)

logger = logging.getLogger(__name__)


@dataclass
class FinishRun(beam.PTransform):
    """SplitResults -> summary, written with the success marker.

    If the run is detached, no launcher turns the summary into an exit status. So the job fails here
    if the run is not a success, and otherwise cleans up the folder.

    Attributes:
        spec: The run.
        idf: Singleton with the idf tables, or None.
        index_by_bucket: Whether the workers build the index together. Otherwise one process does.
    """

    spec: ScoreSpec
    idf: beam.PCollection[IdfTables] | None = None
    index_by_bucket: bool = False

    def expand(self, results: beam.PCollection[SplitResult]) -> beam.PCollection[RunTotals]:
        """Add up, then write; the output is a single element."""
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        # Nobody needs their names, but whoever looks at the folder waits until they are written.
        packs = beam.pvalue.AsList(results | "PackRecords" >> PackRecords(self.spec))
        each = results | "TotalsOfSplit" >> beam.Map(RunTotals.of)
        totals = each | "AddUp" >> beam.CombineGlobally(RunTotals.sum)
        indexed = None
        if self.index_by_bucket and self.spec.index:
            indexed = beam.pvalue.AsList(totals | "IndexRun" >> IndexRun(self.spec, idf, packs))
        if not self.spec.group_by:
            return totals | "WriteSummary" >> beam.Map(_finish, idf, packs, indexed, spec=self.spec)
        groups = beam.pvalue.AsList(totals | "GroupRun" >> GroupRun(self.spec, idf, packs))
        return totals | "WriteSummary" >> beam.Map(
            _finish, idf, packs, indexed, groups, spec=self.spec
        )


def finish_run(
    spec: ScoreSpec,
    new: RunTotals,
    idf: IdfTables | None,
    groups: Sequence[GroupRow] | None = None,
) -> bool:
    """Write `_summary.json`, and `_SUCCESS` after it if the run is a success.

    The totals of the workers are not enough: every part in the folder must have a record with this
    run's settings and idf table, and the recorded size. With an idf table that leaves out a file
    the run is not a success.

    Args:
        spec: The run.
        new: Totals of this run.
        idf: The tables that the tokens were weighted with.
        groups: The groups of the run, in any order; None to read them from the parts here, if there
            are any to be read.

    Returns:
        Whether the run is a success.

    Raises:
        FolderLostError: Another run has taken the folder over.
        InputError: The input has changed meanwhile, and there are too many groups.
    """
    folder = spec.folder
    parts = parts_of_run(spec, idf)
    plan, missing = parts.plan, parts.missing
    signatures = spec.settings.signatures(idf)
    signature = None if spec.settings.by_column else signatures[EVERY_LANGUAGE]
    summary = judge(
        replace(spec.goal, restarts=pool.restarts()),
        new,
        signature,
        missing=[split.part_name for split in missing],
        doubled=parts.ending.stale,
        untouched_rows=parts.ending.untouched_rows,
        whole_idf=not is_incomplete(idf),
    )
    if spec.settings.by_column:
        total = spec.goal.carried + new
        summary["languages"] = summary_of_languages(total, signatures)
    if spec.group_by:
        if groups is None:
            groups = read_groups(folder, parts.records(), spec.group_by)
        summary["groups"] = write_groups(folder, groups, spec.group_by)
    if idf is not None:
        summary["idf"] = _describe(folder, idf)
    if plan.rejected_files or missing:
        rejects = rejected_files(plan.rejected_files, missing, dict(new.failures))
        folder.write(FILES_FILE, rejects)
    else:
        folder.delete(FILES_FILE)
    if spec.index:
        index_rows(folder, parts.records())
    else:
        delete_index(folder)
    delete_packed(folder, parts.found)
    folder.write_json(SUMMARY_FILE, summary)
    if summary["success"]:
        made = {"signatures": signatures} if signature is None else {"signature": signature}
        declare_success(folder, spec.run, **made)
    else:
        folder.delete(SUCCESS_FILE)  # an earlier run's, which an object store wrote late
    return bool(summary["success"])


def index_rows(folder: OutputFolder, records: Iterable[PartRecord]) -> None:
    """Write the index of a run's rows for later runs, which can also do without it.

    So a local disk without room for it does not keep the run from succeeding.
    """
    try:
        pool.ask(write_index, folder, indexed_parts(records))
    except OSError as error:
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning(event("index_not_written", reason=reason))


def _describe(folder: OutputFolder, idf: IdfTables) -> dict[str, Any]:
    """Return how the tables were counted; an earlier run may know more than their file says."""
    described = describe_tables(idf)
    (data,) = folder.read_if_there(note_path(IDF_FILE))
    with suppress(ValueError):  # a damaged note
        noted: dict[str, Any] = {} if data is None else json.loads(data)
        if idf.repeats is None and noted.get("fingerprint") == idf.fingerprint:
            return {**described, **noted}
    return described


def _finish(
    totals: RunTotals,
    idf: IdfTables | None,
    packs: Sequence[str],
    indexed: Sequence[None] | None,
    groups: Sequence[GroupRow] | None = None,
    *,
    spec: ScoreSpec,
) -> RunTotals:
    if not spec.detached:
        finish_run(spec, totals, idf, groups)
        return totals
    # Beam may repeat a bundle that has done all its work. Then the plan may be deleted already.
    if not is_marked_by(spec.folder, spec.run) and not finish_run(spec, totals, idf, groups):
        raise RuntimeError(
            f"the run is not a success: see {mask_credentials(spec.folder.path(SUMMARY_FILE))}"
        )
    if spec.folder.holds_lock():
        delete_plans(spec.folder)
        spec.folder.release()
    return totals
