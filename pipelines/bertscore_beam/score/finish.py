"""The end of a run: its folder is looked over, and summary and success marker are written."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.plan_file import read_plan
from bertscore_beam.files.checked import from_json
from bertscore_beam.idf.idf_tables import IdfTables, note_path
from bertscore_beam.idf.table_notes import describe_tables
from bertscore_beam.metrics.table import described
from bertscore_beam.records.groups import (
    PartStatistics,
    caveats_of_metrics,
    group_rows,
    merge_statistics,
    metrics_of,
    no_groups_warning,
    statistics_of_parts,
    write_groups,
)
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import IDF_FILE, FoundParts, find_parts, write_manifest
from bertscore_beam.records.rejects import FILES_FILE, rejected_files
from bertscore_beam.records.resume import FolderDiff, compare_with_plan
from bertscore_beam.records.settings import EVERY_LANGUAGE
from bertscore_beam.records.summary import Totals, summarize, summary_of_languages
from bertscore_beam.run import pool
from bertscore_beam.run.folder import (
    PLAN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    OutputFolder,
    declare_success,
)
from bertscore_beam.run.output import event
from bertscore_beam.score.spec import ScoreSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRun:
    """The folder of a run whose splits have all been tried, compared with its plan."""

    plan: Plan
    found: FoundParts
    diff: FolderDiff

    def records(self) -> Iterator[PartRecord]:
        """Yield the records of the parts that are there and valid."""
        return (self.found.records[split.part_name] for split in self.diff.done)


def look_over(spec: ScoreSpec, idf: IdfTables | None) -> TriedRun:
    """Compare the folder with the plan when all splits have been tried.

    That is done for groups, and again at the very end: only what is seen then is a success.
    """
    folder = spec.folder
    path, digest = spec.plan(PLAN_FILE)
    plan = read_plan(folder.read(PLAN_FILE), digest, path)
    found = find_parts(folder, (split.part_name for split in plan.splits))
    fingerprint = "" if idf is None else idf.fingerprint
    given = plan, found, spec.digest, fingerprint, spec.settings.labels
    return TriedRun(plan=plan, found=found, diff=compare_with_plan(*given, at_end=True))


def finish_run(
    spec: ScoreSpec, new: Totals, idf: IdfTables | None, groups: PartStatistics | None = None
) -> bool:
    """Write `_summary.json`, and `_SUCCESS` after it if the run is a success; tell whether it is.

    The totals of the workers are not enough: every part in the folder must have a record with this
    run's settings and idf table. With an idf table that leaves out a file the run is not a success.

    Args:
        spec: The run.
        new: Totals of this run.
        idf: The tables that the tokens were weighted with.
        groups: The statistics of its rows and groups; None to read them from the parts.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    folder = spec.folder
    run = look_over(spec, idf)
    missing = run.diff.work
    signatures = spec.settings.signatures(idf)
    summary = summarize(
        spec.start,
        new,
        signatures.get(EVERY_LANGUAGE),
        restarts=pool.restarts(),
        missing=len(missing),
        doubled=len(run.diff.stale),
        untouched_rows=run.diff.rows_at_risk,
        whole_idf=idf is None or not idf.problem,
    )
    if spec.settings.by_column:
        total = spec.start.carried + new
        summary["languages"] = summary_of_languages(total, signatures)
    if spec.has_groups:
        _add_groups(summary, spec, run, groups)
    if idf is not None:
        summary["idf"] = _describe(folder, idf)
    if run.plan.rejected_files or missing:
        rejects = rejected_files(run.plan.rejected_files, missing, dict(new.failures))
        folder.write(FILES_FILE, rejects)
    else:
        folder.delete(FILES_FILE)
    write_manifest(folder, run.found.records)
    folder.write_json(SUMMARY_FILE, summary)
    if summary["success"]:
        declare_success(folder, spec.run, **spec.settings.signed(idf))
    else:
        folder.delete(SUCCESS_FILE)  # an earlier run's, which an object store wrote late
    return bool(summary["success"])


def _add_groups(
    summary: dict[str, Any], spec: ScoreSpec, run: TriedRun, groups: PartStatistics | None
) -> None:
    """Write the groups, and add them to the summary, with the other metrics over all rows."""
    if groups is None:
        parts = statistics_of_parts(
            run.records(),
            folder=spec.folder,
            by=spec.group_by,
            language=spec.fields.language,
            metrics=spec.metric_names,
        )
        groups = merge_statistics(parts)
    rows = group_rows(groups)
    if spec.metric_names:
        sole = spec.settings.sole
        languages = sorted(spec.settings.by_language)
        languages = languages if sole is None else [sole.config.language or ""]
        listed = any(record.digests.has_lists for record in run.records())
        made = described(spec.metrics, languages, listed=listed, own=spec.own_metrics)
        metrics = metrics_of(rows[0]).items()
        summary["metrics"] = {name: {**values, **made[name]} for name, values in metrics}
        summary["caveats"] += caveats_of_metrics(rows[0])
    summary |= write_groups(spec.folder, rows, spec.group_by)
    if spec.detached and (words := no_groups_warning(summary, spec.group_by)):
        logger.warning(event("no_groups", reason=words))


def _describe(folder: OutputFolder, idf: IdfTables) -> dict[str, Any]:
    """Return how the tables were counted; an earlier run may know more than their file says."""
    described = describe_tables(idf)
    data = folder.read_if_there(note_path(IDF_FILE))
    with suppress(ValueError):  # a damaged note
        noted: dict[str, Any] = {} if data is None else from_json(data)
        if idf.repeats is None and noted.get("fingerprint") == idf.fingerprint:
            return {**described, **noted}
    return described
