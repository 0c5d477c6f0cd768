"""The end of a run: what its splits have become is judged, and published if it may be."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from bertscore_beam.dump.plan_file import read_plan
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.idf.idf_tables import IdfTables, note_path
from bertscore_beam.idf.table_notes import describe_tables
from bertscore_beam.metrics.table import described
from bertscore_beam.records.groups import (
    GroupRow,
    PartStatistics,
    caveats_of_metrics,
    group_rows,
    groups_to_bytes,
    merge_statistics,
    metrics_of,
    no_groups_warning,
    statistics_of_parts,
)
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import (
    GROUPS_FILE,
    IDF_FILE,
    FoundParts,
    entries_of,
    find_parts,
    own_file,
)
from bertscore_beam.records.rejects import FILES_FILE, rejected_files
from bertscore_beam.records.resume import FolderDiff, compare_with_plan
from bertscore_beam.records.settings import EVERY_LANGUAGE
from bertscore_beam.records.summary import summarize, summary_of_languages
from bertscore_beam.run import pool
from bertscore_beam.run.folder import RUN_FILE, SUMMARY_FILE, nan_to_null
from bertscore_beam.run.output import event
from bertscore_beam.run.publication import (
    WORK_FOLDER,
    Entry,
    check_not_overtaken,
    publish,
    stage_files,
)
from bertscore_beam.score.idf_table import tables_of_run
from bertscore_beam.score.spec import NOTES, PLAN, RunSpec, ScoreSpec
from bertscore_beam.score.steps import TriedSplits

logger = logging.getLogger(__name__)

FAILED_FOLDER = f"{WORK_FOLDER}/failed"
"""Where the summary of a run lies that is no success, in a folder that holds one."""


def look_over(spec: ScoreSpec, idf: IdfTables | None, made: Collection[PartRecord]) -> FolderDiff:
    """Compare a run with its plan when all splits have been tried.

    It is done where groups are read, and again where the run is judged, by another worker perhaps:
    what it finds may be as large as the plan, and only small things pass from phase to phase.

    Args:
        spec: The run.
        idf: Its idf tables.
        made: The records of the parts that its workers have made, or kept.

    Returns:
        The comparison, whose parts are those that may be published: what is published, and what the
        run has made or kept.
    """
    folder = spec.folder
    path, digest = spec.plan(PLAN)
    plan = read_plan(folder.read(own_file(spec.run, PLAN)), digest, path)
    names = {record.part_name for record in made}
    found = find_parts(folder, spec.before, made, alone=spec.replaces)
    fingerprint = "" if idf is None else idf.fingerprint
    given = plan, found, spec.digest, fingerprint, spec.settings.labels
    return compare_with_plan(*given, made=names)


def valid_records(spec: ScoreSpec, tried: TriedSplits) -> Iterator[PartRecord]:
    """Return the records of the parts of a run that are valid when all splits have been tried."""
    return look_over(spec, tables_of_run(spec)[0], tried.records).records()


def judge_run(spec: ScoreSpec, tried: TriedSplits, groups: PartStatistics | None) -> None:
    """Judge a run and begin to publish it.

    The totals of the workers are not enough: every part must have a record with this run's settings
    and idf table. With an idf table that leaves out a file the run is not a success.

    Args:
        spec: The run.
        tried: What has become of its splits.
        groups: The statistics of its rows and groups; None to read them from the parts.

    Raises:
        OvertakenError: Another run has published since.
    """
    idf, problem = tables_of_run(spec)
    run = look_over(spec, idf, tried.records)
    check_not_overtaken(spec.folder, spec.before, spec.run)  # what was published may be gone by now
    missing, records = run.to_do, run.found.records
    untouched = (records[split.part_name] for split in missing if split.part_name in records)
    signatures = spec.settings.signatures(idf)
    summary = summarize(
        spec.start,
        tried.totals,
        signatures.get(EVERY_LANGUAGE),
        restarts=pool.restarts(),
        missing=len(missing),
        untouched_rows=sum(record.num_rows for record in untouched),
        whole_idf=not problem,
    )
    if spec.settings.by_column:
        total = spec.start.carried + tried.totals
        summary["languages"] = summary_of_languages(total, signatures)
    files: dict[str, bytes] = {}
    if spec.has_groups:
        rows = rows_of_groups(spec, run.records(), groups)
        if spec.metric_names:
            summary["metrics"] = _describe_metrics(spec, run, rows)
        files |= add_groups(summary, spec, rows)
    if spec.idf.path:
        summary["idf"] = _describe(spec, idf)
    if run.plan.rejected_files or missing:
        failures = dict(tried.totals.failures)
        files[FILES_FILE] = rejected_files(run.plan.rejected_files, missing, failures)
    entries = chain(_entries_of_run(spec, run), _entries_of_idf(run.found, spec.idf.name))
    begin_to_publish(spec, run.found, entries, files, summary, spec.settings.signed(idf))


def begin_to_publish(
    spec: RunSpec,
    found: FoundParts,
    entries: Iterable[Entry],
    files: Mapping[str, bytes],
    summary: Mapping[str, Any],
    signed: Mapping[str, object],
) -> None:
    """Begin to publish a run. One that is no success leaves one that is published as it is.

    Args:
        spec: The run.
        found: What is in its folder.
        entries: What is published of parts.
        files: What is published beside parts and summary, by name.
        summary: Its summary.
        signed: What `_SUCCESS` says of its settings.
    """
    folder, is_success = spec.folder, bool(summary["success"])
    if spec.is_over_success and not is_success:
        content = to_json(nan_to_null({**summary, "run": spec.run}), indent=2)
        failed = {**files, SUMMARY_FILE: content}
        folder.write_all({f"{FAILED_FOLDER}/{name}": failed[name] for name in failed})
        return
    files = {**files, SUMMARY_FILE: to_json(nan_to_null(summary), indent=2)}
    staged = stage_files(folder, spec.run, files)
    entries = chain(entries, staged, [Entry(RUN_FILE, own_file(spec.run, NOTES))])
    earlier = sorted(found.published.union(found.unlisted))
    given = folder, spec.before, spec.run, entries, earlier
    publish(*given, signed if is_success else None, moves=False)


def entries_of_parts(found: FoundParts, names: Iterable[str], below: str) -> Iterator[Entry]:
    """Yield what is published of parts: of those that are staged, and of those that stay."""
    for name in names:
        record = found.records.get(name)
        if record is not None and record.staged:
            yield from entries_of(record, below)
        else:
            yield from found.entries(name)


def _entries_of_run(spec: ScoreSpec, run: FolderDiff) -> Iterator[Entry]:
    """Return what is to be published of parts.

    Parts of missing inputs stay, and those whose splits could not be scored this time.
    """
    planned = (split.part_name for split in run.plan.splits)
    names = (name for name in planned if not spec.replaces or name in run.found.records)
    return entries_of_parts(run.found, chain(names, run.stay(spec.tables)), spec.below)


def _entries_of_idf(found: FoundParts, idf: str) -> Iterator[Entry]:
    """Yield the idf tables and their note; there are none without all files."""
    for name, at in ((IDF_FILE, idf), (note_path(IDF_FILE), note_path(idf))):
        if idf in found.files and (stored := found.files.get(at)) is not None:
            yield Entry(name, at if at != name else "", stored.size, stored.content)


def rows_of_groups(
    spec: RunSpec, records: Iterable[PartRecord], groups: PartStatistics | None
) -> list[GroupRow]:
    """Return the rows of the table of groups; None of `groups` reads the parts."""
    if groups is None:
        parts = statistics_of_parts(records, folder=spec.folder, how=spec.grouped_by)
        groups = merge_statistics(parts)
    return group_rows(groups)


def add_groups(summary: dict[str, Any], spec: RunSpec, rows: list[GroupRow]) -> dict[str, bytes]:
    """Add the groups to the summary; return their table."""
    summary["caveats"] += caveats_of_metrics(rows[0])
    table, content = groups_to_bytes(rows, spec.group_by)
    summary |= content
    if spec.detached and (words := no_groups_warning(summary, spec.group_by)):
        logger.warning(event("no_groups", reason=words))
    return {GROUPS_FILE: table} if table else {}


def _describe_metrics(spec: ScoreSpec, run: FolderDiff, rows: list[GroupRow]) -> dict[str, Any]:
    """Return the other metrics over all rows, and how they were made."""
    languages, sole = sorted(spec.settings.by_language), spec.settings.sole
    languages = languages if sole is None else [sole.config.language or ""]
    listed = any(record.digests.has_lists for record in run.records())
    made = described(spec.metrics, languages, listed=listed, own=spec.own_metrics)
    return {name: {**values, **made[name]} for name, values in metrics_of(rows[0]).items()}


def _describe(spec: ScoreSpec, idf: IdfTables | None) -> dict[str, Any]:
    """Return how the tables were counted; an earlier run may know more than their file says."""
    if idf is None:
        return spec.folder.read_json(note_path(spec.idf.name))
    described = describe_tables(idf)
    data = spec.folder.read_if_there(note_path(spec.idf.name)) if spec.idf.name else None
    with suppress(ValueError):  # a damaged note
        noted: dict[str, Any] = {} if data is None else from_json(data)
        if idf.repeats is None and noted.get("fingerprint") == idf.fingerprint:
            return {**described, **noted}
    return described
