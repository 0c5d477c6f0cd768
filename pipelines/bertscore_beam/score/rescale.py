"""Rescale a finished run with a baseline: new scores from its raw scores, without a model.

    RUN --plan--> RescaleSpec --begin, phases--> OUT, as `score` would write it

The parts of RUN take the place of splits, and the last phases are those of `score`. They run in a
plain loop without Beam: what there is to compute is a subtraction and a division a row, so that a
few threads are faster than workers could start.
"""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.candidates import input_rows
from bertscore_beam.dump.columns import CANDIDATE_FROM
from bertscore_beam.dump.parquet import SETTINGS_KEY
from bertscore_beam.dump.reasons import MARKS
from bertscore_beam.dump.types import has_utc_times
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.read import in_parallel
from bertscore_beam.idf.idf_tables import note_path
from bertscore_beam.options.score_options import RescaleOptions
from bertscore_beam.records.finished import FinishedRun, open_finished, open_part
from bertscore_beam.records.groups import PartStatistics, caveat_messages_in, summary_of
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import (
    IDF_FILE,
    FoundParts,
    StagedParts,
    find_parts,
    is_whole_with,
    made_of,
)
from bertscore_beam.records.rejects import FILES_FILE, rows_path
from bertscore_beam.records.show_groups import show_groups_scored
from bertscore_beam.records.summary import RunStart, Totals, described_sums, described_work
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.identity import identity_digest, read_same_run
from bertscore_beam.run.job import Run
from bertscore_beam.run.loading import STORED_TABLES
from bertscore_beam.run.output import Outcome, TextTable
from bertscore_beam.run.phases import Phase
from bertscore_beam.run.publication import check_not_overtaken, readable_head
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.conclude import end_of_run, last_phases
from bertscore_beam.score.finish import (
    add_groups,
    begin_to_publish,
    entries_of_parts,
    rows_of_groups,
)
from bertscore_beam.score.rows import rows_of_part, taken_rows
from bertscore_beam.score.scored_table import ScoredPairs, part_metadata, score_columns
from bertscore_beam.score.show_run import show_summary
from bertscore_beam.score.spec import RunSpec
from bertscore_beam.score.steps import TriedSplits, stage_part
from bertscore_core.baseline import idf_mismatch, read_baseline
from bertscore_core.errors import ConfigError
from bertscore_core.signature import Signature
from bertscore_core.tokens import FloatArray

_COPIED = (FILES_FILE, IDF_FILE, note_path(IDF_FILE))
"""Files of the run that stay as they are."""

_OF_ITS_COMMAND = ("reuse_failures", "replaced", "parts_of_earlier_runs", "parts_unreadable")
"""What the summary of the run says of the parts that its last command has met."""

# Parts rescaled at the same time, each of them in memory.
_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleSpec(RunSpec):
    """A run that is being rescaled, checked.

    Attributes:
        options: What was asked for.
        source: The run.
        signature: That of the new scores.
        row: The row of the baseline.
        notice: What a reader should know of the baseline; None for nothing.
    """

    options: RescaleOptions
    source: FinishedRun
    signature: Signature
    row: FloatArray
    notice: str | None


def rescale_job(options: RescaleOptions, run: Run) -> Outcome:
    """Rescale the parts of a run, and publish them.

    Raises:
        BertScoreError: The run cannot be rescaled so.
    """
    spec = _plan_rescale(options, run.runner)
    if options.dry_run:
        return Outcome(shown=_show_rescale(spec), is_answer=True)
    folder = run.take(spec.folder.root)
    with run.first_writing():
        spec, found = _begin_rescale(spec)
    if spec.notice is not None:
        run.say(f"Notice: {spec.notice}")
    run.do([*rescale_phases(spec, found)], runner=replace(run.runner, children=0), plainly=True)
    summary = end_of_run(spec)
    return Outcome(
        shown=(show_summary(summary, folder.shown), *show_groups_scored(summary)),
        document={"output": folder.shown, "summary": summary},
        notices=caveat_messages_in(summary),
    )


def _plan_rescale(options: RescaleOptions, runner: Runner) -> RescaleSpec:
    """Check everything; nothing is written."""
    started = time.time()
    source = open_finished(options.run)
    if absolute(options.output) == source.folder.root:
        raise ConfigError(
            f"--output is the run itself: got {source.folder.shown!r}; expected another folder. A "
            "run is never changed by rescaling it."
        )
    output = runner.lone_output(options.output)
    signature, notes = _sole_signature(source), source.notes
    baseline = read_baseline(
        options.baseline,
        language=options.language or notes.options.language,
        model=lambda: signature.model,
        idf=signature.idf != "none",
        files=STORED_TABLES,
    )
    row = baseline.row(int(signature.num_layers))  # fails if the table has too few rows
    baseline.check_model(signature.weights)
    signature = replace(signature, baseline=f"{baseline.name}@{baseline.fingerprint}")
    identity = {**notes.identity, "baseline": signature.baseline}  # as `score` would have it
    return RescaleSpec(
        run=uuid.uuid4().hex,
        before=None,
        folder=OutputFolder(output),
        identity=identity,
        fields=notes.fields,
        digest=identity_digest(identity),
        start=RunStart(parts=len(source.records), started=started),
        replaces=options.overwrite,
        group_by=tuple(notes.options.group_by),
        metrics=source.metrics,
        options=options,
        source=source,
        signature=signature,
        row=row,
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


def _show_rescale(spec: RescaleSpec) -> tuple[TextTable, ...]:
    """Describe what would be written."""
    rows: list[tuple[str, ...]] = [
        ("run", spec.source.folder.shown),
        ("rows", f"{spec.source.summary.rows:,}"),
        ("parts", f"{len(spec.source.records):,}"),
        ("baseline", spec.signature.baseline),
        ("output", mask_credentials(spec.folder.root)),
        ("signature", spec.signature.format()),
    ]
    return (TextTable("Plan", ("", ""), rows),)


def _begin_rescale(spec: RescaleSpec) -> tuple[RescaleSpec, FoundParts]:
    """Look at the folder, and start; nothing that is published changes."""
    folder, overwrite = spec.folder, spec.replaces
    head = readable_head(folder)
    read_same_run(folder, spec.identity, replaces=overwrite)
    found = find_parts(folder, head, alone=overwrite)
    spec = replace(spec, before=head)
    folder.delete_temporary()
    spec.write_notes(_run_notes(spec))
    return spec, found


def _run_notes(spec: RescaleSpec) -> dict[str, Any]:
    source, options = spec.source, spec.options
    before = Signature.parse(source.notes.signature or "")
    return {
        **source.folder.read_json(RUN_FILE),
        "signature": replace(before, baseline=spec.signature.baseline).format(),
        "options": {
            **options.describe(),
            "language": options.language or source.notes.options.language,
            "group_by": list(spec.group_by),
        },
        "started": spec.start.started,
        "rescaled": {"folder": source.folder.shown, "run": source.notes.run},
    }


def rescale_phases(spec: RescaleSpec, found: FoundParts) -> Iterator[Phase]:
    """Yield the phases of a run; threads of this process rescale the parts."""
    items = partial(_rescale_parts, spec, found)
    yield Phase(name="Rescale", items=items, fold=TriedSplits.merge, by_key=True)
    yield from last_phases(spec, lambda _, tried: tried.records, _judge)


def _rescale_parts(spec: RescaleSpec, found: FoundParts, _: Any) -> Iterator[Any]:
    staged = StagedParts.listed(spec.folder, spec.below)
    rescaled = partial(_rescaled, spec, found, staged)
    for totals, record in in_parallel(rescaled, spec.source.records, _THREADS):
        yield [(spec.share_of(record.part_name), TriedSplits(totals, (record,)))]


def _rescaled(
    spec: RescaleSpec, found: FoundParts, staged: StagedParts, record: PartRecord
) -> tuple[Totals, PartRecord]:
    """Return the totals and the record of a part that is rescaled, now or by an earlier command."""
    folder, name, there = spec.folder, record.part_name, found.records.get(record.part_name)
    made = made_of(record, spec.digest, record.idf, {}, record.digests)
    if (
        there is not None
        and made == made_of(there, there.job_digest, there.idf, {}, there.digests)
        and (name not in found.unverified or is_whole_with(folder, there))
    ):
        return Totals.of_kept(there), there
    if (there := staged.read(folder, name, made)) is not None:
        return Totals.of_kept(there), there
    with open_part(spec.source.folder, record, whole=True) as file:
        table, utc_times = file.read(), has_utc_times(file.schema)
    table = _rescaled_table(spec, table)
    sums, rejects = summary_of(table), b""
    if sums.scored < sums.rows:
        rejects = spec.source.folder.read(rows_path(record.part_name))
    now = replace(record, job_digest=spec.digest, summary=sums)
    now = stage_part(spec, made, table, now, rejects, utc_times=utc_times)
    return Totals.of_record(now), now


def _rescaled_table(spec: RescaleSpec, table: pa.Table) -> pa.Table:
    inputs, before = columns.split_scores(table, spec.metrics)
    rows = rows_of_part(before)
    taken, _ = taken_rows(rows, np.flatnonzero(rows.found), spec.row)
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
    names = columns.metric_columns(spec.metrics)
    after |= {name: before[name] for name in (columns.KEY, *names) if name in before}
    settings = {SETTINGS_KEY: table.schema.metadata[SETTINGS_KEY.encode()].decode()}
    return columns.append_scores(inputs, after, part_metadata(spec.signature) | settings)


def _judge(spec: RescaleSpec, tried: TriedSplits, groups: PartStatistics | None) -> None:
    """Begin to publish a run: it is the success that the run before was."""
    found = find_parts(spec.folder, spec.before, tried.records, alone=True)
    check_not_overtaken(spec.folder, spec.before, spec.run)  # what was published may be gone by now
    summary = _summary(spec, tried.totals)
    files = {
        name: spec.source.folder.read(name) for name in _COPIED if spec.source.folder.exists(name)
    }
    if spec.has_groups:
        files |= add_groups(summary, spec, rows_of_groups(spec, tried.records, groups))
    entries = entries_of_parts(found, found.records, spec.below)
    signed = {"signature": spec.signature.format()}
    begin_to_publish(spec, found, entries, files, summary, signed)


def _summary(spec: RescaleSpec, totals: Totals) -> dict[str, Any]:
    """Return the summary: what the source says of its input and rows, and what was done now."""
    return {
        **spec.source.summary.content,
        **described_sums(totals.summary),
        "rejected": spec.source.summary.content["rejected"],
        "reused": totals.summary.scored,  # all scores are those of the source
        "parts_kept": totals.parts_kept,
        **dict.fromkeys(_OF_ITS_COMMAND, 0),
        **described_work(spec.start, totals),
        "signature": spec.signature.format(),
    }
