"""Rescale a finished run with a baseline: new scores from its raw scores, without a model.

    RUN --prepare--> RescalePlan --begin--> RescaleJob --conclude--> OUT, as `score` would write it

It is a job without a pipeline: what there is to compute is a subtraction and a division a row, so a
few threads are faster than workers could start. Lock, dry run and resume are those of every job.
"""

import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.candidates import input_rows
from bertscore_beam.dump.columns import CANDIDATE_FROM
from bertscore_beam.dump.parquet import SETTINGS_KEY, footer_digest_of
from bertscore_beam.dump.reasons import MARKS
from bertscore_beam.dump.types import has_utc_times
from bertscore_beam.files.checked import digest_of, to_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import before_work, reaching
from bertscore_beam.files.read import in_parallel
from bertscore_beam.files.versions import NOT_THERE
from bertscore_beam.idf.idf_tables import note_path
from bertscore_beam.options.score_options import RescaleOptions
from bertscore_beam.records.finished import FinishedRun, open_finished, open_part
from bertscore_beam.records.group_notes import GroupedBy
from bertscore_beam.records.groups import (
    GROUPS_FILE,
    caveat_messages_in,
    group_rows,
    groups_note,
    groups_to_bytes,
    merge_statistics,
    statistics_of_parts,
    summary_of,
)
from bertscore_beam.records.record import PartRecord, is_whole, part_to_bytes, read_record
from bertscore_beam.records.records import (
    IDF_FILE,
    FoundParts,
    StagedParts,
    entries_of,
    find_parts,
    own_file,
    part_staged,
    place_of,
)
from bertscore_beam.records.rejects import REJECTS_FOLDER
from bertscore_beam.records.show_groups import show_groups_scored
from bertscore_beam.records.summary import described_means, plain_caveats
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import (
    RUN_FILE,
    SUMMARY_FILE,
    OutputFolder,
    nan_to_null,
    run_to_bytes,
)
from bertscore_beam.run.identity import check_same_run, identity_digest, read_same_command
from bertscore_beam.run.job import Run, Say
from bertscore_beam.run.loading import read_baseline
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_beam.run.output import Outcome, TextTable
from bertscore_beam.run.publication import Entry, Head, publish, settled_head, staging, sweep
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.rows import rows_of_part, taken_rows
from bertscore_beam.score.scored_table import ScoredPairs, part_metadata, score_columns
from bertscore_beam.score.show_run import show_summary
from bertscore_core.baseline import idf_mismatch
from bertscore_core.errors import ConfigError
from bertscore_core.signature import Signature
from bertscore_core.stats.score_statistics import ScoreSummary
from bertscore_core.tokens import FloatArray


def _rescaled_part(
    source: FinishedRun, record: PartRecord, row: FloatArray, signature: Signature
) -> tuple[pa.Table, bool, ScoreSummary]:
    with open_part(source.folder, record, whole=True) as file:
        table, utc_times = file.read(), has_utc_times(file.schema)
    inputs, before = columns.split_scores(table, source.metrics)
    rows = rows_of_part(before)
    taken, _ = taken_rows(rows, np.flatnonzero(rows.found), row)
    reasons = rows.reasons.tolist()
    marks = {row: own for row, own in enumerate(reasons) if own in MARKS}
    pairs = ScoredPairs.joined(reasons, [taken], marks)
    after = score_columns(
        pairs,
        rescaled=True,
        windowed=columns.WINDOWS in before,
        listed=columns.BEST_REFERENCE in before,
        input_rows=input_rows(table[CANDIDATE_FROM]) if columns.UTILITY in before else None,
    )
    names = columns.metric_columns(source.metrics)
    after |= {name: before[name] for name in (columns.KEY, *names) if name in before}
    settings = {SETTINGS_KEY: table.schema.metadata[SETTINGS_KEY.encode()].decode()}
    scored = columns.append_scores(inputs, after, part_metadata(signature) | settings)
    return scored, utc_times, summary_of(scored)


_IDF_FILES = (IDF_FILE, note_path(IDF_FILE))
"""The idf tables of a run, and what is noted of them."""

# Parts rescaled at the same time, each of them in memory.
_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePlan:
    """A finished run and the baseline to rescale it with, checked."""

    options: RescaleOptions
    finished: FinishedRun
    output: str
    signature: Signature
    row: FloatArray
    language: str | None
    started: float
    notice: str | None

    @property
    def grouped_by(self) -> GroupedBy:
        """How the rows of the run are grouped, and those of the rescaled run as well."""
        by = tuple(self.finished.notes.options.group_by)
        return GroupedBy(by=by, metrics=self.finished.metrics)

    @property
    def identity(self) -> dict[str, str]:
        """The identity that `score` with this baseline would have."""
        return {**self.finished.notes.identity, "baseline": self.signature.baseline}


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleJob:
    """A run that is being rescaled.

    Attributes:
        before: The head of the folder before.
        below: Where parts are staged.
        found: What is in the folder.
        done: The records of parts that are there under their names, by part name.
        staged: The parts that are staged, by what they are made of.
    """

    planned: RescalePlan
    folder: OutputFolder
    run: str
    before: Head | None
    below: str
    found: FoundParts
    done: dict[str, PartRecord]
    staged: StagedParts


def rescale_job(options: RescaleOptions, run: Run) -> Outcome:
    """Rescale the parts of a run, and publish them.

    Raises:
        BertScoreError: The run cannot be rescaled so.
    """
    with before_work():
        planned = _plan_rescale(options, run.runner)
    if options.dry_run:
        return run.shown(partial(_show_rescale, planned))
    folder = run.take(planned.output)
    with run.first_writing():
        job = _begin_rescale(planned, folder, run.say)
    return _conclude_rescale(job)


def _plan_rescale(options: RescaleOptions, runner: Runner) -> RescalePlan:
    """Check everything; nothing is written."""
    started = time.time()
    finished = open_finished(options.run)
    source = finished.folder
    with reaching("output", options.output):
        output = absolute(options.output)
        if output == source.root:
            raise ConfigError(
                f"--output is the run itself: got {source.shown!r}; expected another folder. A run "
                "is never changed by rescaling it."
            )
        runner.check_output(output)
        check_stands_alone(output, list_files(output))
    signature = _sole_signature(finished)
    language = options.language or finished.notes.options.language
    with reaching("baseline", options.baseline):
        baseline = read_baseline(
            options.baseline,
            language=language,
            model=lambda: signature.model,
            idf=signature.idf != "none",
        )
    row = baseline.row(int(signature.num_layers))  # fails if the table has too few rows
    baseline.check_model(signature.weights)
    return RescalePlan(
        options=options,
        finished=finished,
        output=output,
        signature=replace(signature, baseline=f"{baseline.name}@{baseline.fingerprint}"),
        row=row,
        language=language,
        started=started,
        notice=idf_mismatch(baseline, idf=signature.idf != "none"),
    )


def _sole_signature(finished: FinishedRun) -> Signature:
    if finished.summary.signature is not None and finished.notes.signature is not None:
        return Signature.parse(finished.summary.signature)
    raise ConfigError(
        f"{finished.folder.shown!r} cannot be rescaled: got no signature that all of its "
        "scores share; expected one. Score it again with --rescale, and with --reuse and this "
        "folder: then its raw scores are taken, and no model runs."
    )


def _show_rescale(planned: RescalePlan) -> tuple[TextTable, ...]:
    """Describe what would be written."""
    rows: list[tuple[str, ...]] = [
        ("run", planned.finished.folder.shown),
        ("rows", f"{planned.finished.summary.rows:,}"),
        ("parts", f"{len(planned.finished.records):,}"),
        ("baseline", planned.signature.baseline),
        ("output", mask_credentials(planned.output)),
        ("signature", planned.signature.format()),
    ]
    return (TextTable("Plan", ("", ""), rows),)


def _begin_rescale(planned: RescalePlan, folder: OutputFolder, say: Say) -> RescaleJob:
    """Compare the run with the folder, and start; nothing that is published changes."""
    overwrite, head = planned.options.overwrite, settled_head(folder)
    before = read_same_command(folder, planned.identity, may_be_damaged=overwrite)
    if not overwrite:
        check_same_run(before, planned.identity)
    wanted = {record.part_name: record for record in planned.finished.records}
    found = find_parts(folder, head, wanted)
    digest = identity_digest(planned.identity)
    done = {
        name: record
        for name, record in found.records.items()
        if name in wanted
        and not overwrite
        and (name not in found.unverified or is_whole(folder, record))
        and record.job_digest == digest
        and (record.digests, record.idf) == (wanted[name].digests, wanted[name].idf)
    }
    below = staging(head, overwrite=overwrite)
    job = RescaleJob(
        planned=planned,
        folder=folder,
        run=uuid.uuid4().hex,
        before=head,
        below=below,
        found=found,
        done=done,
        staged=StagedParts.among(below, found.files),
    )
    folder.delete_temporary()
    if head is None:
        folder.replace_version(RUN_FILE, run_to_bytes(_run_notes(job)), NOT_THERE)
    if planned.notice is not None:
        say(f"Notice: {planned.notice}")
    if done:
        say(f"{len(done)} parts are rescaled already.")
    return job


def _run_notes(job: RescaleJob) -> dict[str, Any]:
    planned, source = job.planned, job.planned.finished
    before = Signature.parse(source.notes.signature or "")
    return {
        **source.folder.read_json(RUN_FILE),
        "run": job.run,
        "identity": planned.identity,
        "signature": replace(before, baseline=planned.signature.baseline).format(),
        "options": {
            **planned.options.describe(),
            "language": planned.language,
            "group_by": list(planned.grouped_by.by),
        },
        "started": planned.started,
        "rescaled": {"folder": source.folder.shown, "run": source.notes.run},
    }


def _conclude_rescale(job: RescaleJob) -> Outcome:
    """Stage the parts, and publish them with the rest."""
    planned, folder = job.planned, job.folder
    with worker_errors():
        each = partial(_rescale_one, job)
        written = [*in_parallel(each, planned.finished.records, _THREADS)]
        summary = _summary(planned, written)
        files: dict[str, bytes] = {}
        if by := planned.grouped_by.by:
            statistics = statistics_of_parts(written, folder=folder, how=planned.grouped_by)
            table, content = groups_to_bytes(group_rows(merge_statistics(statistics)), by)
            summary |= content
            files |= {GROUPS_FILE: table} if table else {}
        _publish(job, written, summary, files)
    return Outcome(
        shown=(show_summary(summary, folder.shown), *show_groups_scored(summary)),
        document={"output": folder.shown, "summary": summary},
        notices=caveat_messages_in(summary),
    )


def _publish(
    job: RescaleJob, written: list[PartRecord], summary: dict[str, Any], files: dict[str, bytes]
) -> None:
    folder, source = job.folder, job.planned.finished.folder
    copied = [f"{REJECTS_FOLDER}/{name}" for name in source.files(REJECTS_FOLDER)]
    for name in (*copied, *(name for name in _IDF_FILES if source.exists(name))):
        files[name] = source.read(name)
    files[RUN_FILE] = run_to_bytes(_run_notes(job))
    files[SUMMARY_FILE] = to_json(nan_to_null(summary), indent=2)
    staged = {name: own_file(job.run, name) for name in files}
    folder.write_all({staged[name]: files[name] for name in files})
    entries = [Entry(name, at) for name, at in staged.items()]
    for record in written:
        found = job.found.entries(record.part_name)
        of_part = entries_of(record, job.below) if record.staged else found
        entries += [entry for entry in of_part if entry.name not in files]
    success = {"signature": job.planned.signature.format()}
    publish(folder, job.before, job.run, entries, sorted({*job.found.earlier}), success)
    sweep(folder)


def _rescale_one(job: RescaleJob, record: PartRecord) -> PartRecord:
    """Return the record of a part that is rescaled, now or earlier."""
    if (done := job.done.get(record.part_name)) is not None:
        return done
    planned, name = job.planned, record.part_name
    digest = identity_digest(planned.identity)
    made_of = f"{place_of(name)}.{digest_of(f'{record.texts_digest} {digest}', 16)}"
    if (staged := job.staged.names.get(made_of)) is not None:
        found = read_record(job.folder, name, job.found.files[staged], staged)
        if found is not None and is_whole(job.folder, found):
            return found
    table, utc_times, sums = _rescaled_part(
        planned.finished, record, planned.row, planned.signature
    )
    now = replace(record, job_digest=digest, summary=sums)
    token = uuid.uuid4().hex[:16]
    groups = groups_note(table, planned.grouped_by) if planned.grouped_by.by else None
    staged = part_staged(job.below, made_of, now, token, groups)
    data = part_to_bytes(table, now, token=token, utc_times=utc_times, groups=groups)
    job.folder.write(staged, data)
    digest = footer_digest_of(data)
    return replace(now, part_bytes=len(data), footer_digest=digest, staged=staged)


def _summary(planned: RescalePlan, of_parts: list[PartRecord]) -> dict[str, Any]:
    total = ScoreSummary.merge([record.summary for record in of_parts])
    return {
        **planned.finished.summary.content,
        **described_means(total),
        "clipped": total.clipped,
        "caveats": plain_caveats(total),
        **total.unknown.described(),
        "seconds": round(max(time.time() - planned.started, 0.0), 3),
        "pairs_per_second": None,
        "signature": planned.signature.format(),
    }
