"""The scoring job: planned, begun, done in phases, and concluded.

plan --> count idf --> save idf --> score the pending splits --> the last phases
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from bertscore_beam.dump.inputs import tables_in, tables_of
from bertscore_beam.dump.plan_file import plan_to_bytes
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.count_phases import count_phases, save_phase
from bertscore_beam.idf.job import repeats_in_sample
from bertscore_beam.idf.table_notes import table_warnings
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.groups import caveat_messages_in
from bertscore_beam.records.records import own_file, place_of
from bertscore_beam.records.rejects import REJECTS_FOLDER
from bertscore_beam.records.resume import FolderDiff
from bertscore_beam.records.score_tables import list_earlier
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import RUN_FILE, SPLIT_ROWS, SUCCESS_FILE, OutputFolder
from bertscore_beam.run.job import Run, Say
from bertscore_beam.run.output import BROKEN, DONE, TOO_MANY_REJECTS, Outcome, TextTable
from bertscore_beam.run.phases import Phase, chunks_of
from bertscore_beam.run.progress import Expected
from bertscore_beam.run.temporary import is_temporary
from bertscore_beam.run.text_import import delete_other_imports, missing_imports, slow_text_warning
from bertscore_beam.score.conclude import end_of_run, end_without_work, has_ended, last_phases
from bertscore_beam.score.finish import FAILED_FOLDER, judge_run, valid_records
from bertscore_beam.score.idf_table import counting_of, with_idf
from bertscore_beam.score.kept_plan import keep_plan
from bertscore_beam.score.prepare import ScorePlan, plan_score, resume_score
from bertscore_beam.score.settle import without_setting_warning
from bertscore_beam.score.show_run import (
    gate_messages,
    run_warnings,
    show_languages_planned,
    show_plan,
    show_scores,
)
from bertscore_beam.score.spec import PENDING, PLAN, ScoreSpec
from bertscore_beam.score.steps import ScoreSplits, TriedSplits
from bertscore_core.baseline import Baseline, idf_mismatch


def score_job(options: ScoreOptions, run: Run) -> Outcome:
    """Score a dump, or what is left of it, and publish its scores.

    Raises:
        BertScoreError: The run cannot work.
        OSError: No file can be reached, or not every file that idf must count.
    """
    planned = plan_score(options, run.runner, None if options.dry_run else run.import_texts)
    if options.dry_run:
        return Outcome(shown=_show_score(planned), is_answer=True)
    folder = run.take(planned.output)
    with run.first_writing():
        spec, diff = begin_score(planned, folder, run.say)
    is_small, expected = len(planned.plan.splits) == 1, expected_of(spec, diff)
    texts = missing_imports(planned.texts, diff.to_do, diff.found.others)
    # A detached job is submitted in any case: its sender waits for the state of the job.
    has_work = bool(diff.to_do) or spec.detached
    del planned, diff  # they are large when there are many splits
    run.import_texts(folder.root, texts)
    if has_work:
        run.do([*score_phases(spec)], expected, plainly=is_small)
    return conclude_score(spec)


def _show_score(planned: ScorePlan) -> tuple[TextTable, ...]:
    """Describe what a run would do."""
    spec, diff = resume_score(planned, OutputFolder(planned.output))
    repeats = None
    if spec.idf.must_count and not planned.plan.is_estimated:
        repeats = repeats_in_sample(planned.plan.splits, planned.fields)
    missing = without_setting_warning(planned.plan, planned.settings)
    found = (repeats, missing, slow_text_warning(planned.texts), *planned.plan.notes)
    warnings = [text for text in found if text]
    languages = show_languages_planned(planned.settings, planned.plan.census.languages)
    return show_plan(planned, spec, diff.to_do, warnings), *languages


def begin_score(planned: ScorePlan, folder: OutputFolder, say: Say) -> tuple[ScoreSpec, FolderDiff]:
    """Compare the plan with the folder, and start the run.

    Raises:
        SignatureError: The folder holds scores made with other settings.
    """
    spec, diff = resume_score(planned, folder)
    if warning := without_setting_warning(planned.plan, planned.settings):
        say(warning)
    spec = start_run(planned, spec, diff)
    delete_other_imports(folder, planned.texts, diff.found.others)
    keep_plan(folder, planned.kept_as, planned.plan, planned.files)
    for notice in _idf_notices(planned):
        say(f"Notice: {notice}")
    for note in _table_notes(planned, folder):
        say(note)
    if planned.device_note is not None:
        say(f"The encoder runs on {planned.device_note}")
    if planned.reuse_note is not None:
        say(planned.reuse_note)
    for note in _folder_notes(spec, diff):
        say(note)
    return spec, diff


def _folder_notes(spec: ScoreSpec, diff: FolderDiff) -> Iterator[str]:
    """Say what the folder has of the plan."""
    start, done = spec.start, len(diff.done)
    if not diff.to_do:
        yield "Everything is scored already; only the summary is written again."
    elif done:
        yield f"{done:,} of {start.parts:,} parts are done."
    if start.rows_at_risk:
        rows = f"The folder has {start.rows_at_risk:,} rows of other earlier parts"
        how = "scores are kept where texts and settings are the same and nothing is damaged"
        yield f"{rows}: {'--overwrite replaces them' if spec.replaces else how}."


def _idf_notices(planned: ScorePlan) -> list[str]:
    weighted = planned.options.idf != "none"
    baselines = (own.config.baseline for own in planned.settings.by_language.values())
    tables = (table for table in baselines if isinstance(table, Baseline))
    notices = (idf_mismatch(table, idf=weighted) for table in tables)
    return list(dict.fromkeys(notice for notice in notices if notice is not None))


def _table_notes(planned: ScorePlan, folder: OutputFolder) -> Iterator[str]:
    """Say at which version each Delta table is read, and at which it was read before."""
    earlier = tables_in(folder.read_json(RUN_FILE)) if (tables := tables_of(planned.files)) else {}
    for table, now in tables.items():
        version, before = now["version"], earlier.get(table, now)
        if before.get("id") != now["id"]:
            yield f"{table!r} is another Delta table than before: it was created again."
        changed = before.get("version") != version
        then = f", before at {before.get('version')}" if changed else ""
        yield f"The Delta table {table!r} is read at version {version}{then}."


def start_run(planned: ScorePlan, spec: ScoreSpec, diff: FolderDiff) -> ScoreSpec:
    """Write the plan of the run; nothing that is published changes.

    Returns:
        The same run, which knows the plans that were written.
    """
    folder, plan, tables = spec.folder, diff.plan, tables_of(planned.files)
    others = [part for part in diff.left if not part.startswith(spec.tables)]
    for table in tables.values():
        if any(part.startswith(str(table["names"])) for part in others):
            del table["names"]  # they do not tell whose these parts are
    folder.delete_temporary()
    if spec.reuse is not None and diff.to_do:
        listed = list_earlier(folder, OutputFolder(spec.reuse.root))
        spec = replace(spec, reuse=replace(spec.reuse, listed=listed))
    digests = {}
    for name, splits in {PLAN: plan.splits, PENDING: diff.to_do}.items():
        data = plan_to_bytes(replace(plan, splits=splits))
        folder.write(own_file(spec.run, name), data)
        digests[name] = digest_of(data)
    spec.write_notes(
        {
            **spec.settings.signed(None),
            "options": planned.options.describe(),
            "corpus": plan.digest,
            "tables": tables,
            "rows": plan.num_rows,
            "parts": len(plan.splits),
            SPLIT_ROWS: plan.split_rows,
            "started": spec.start.started,
            "reused": None if spec.reuse is None else spec.reuse.describe(),
        }
    )
    return replace(spec, plans=digests)


def expected_of(spec: ScoreSpec, diff: FolderDiff) -> Expected:
    """Return what the phases of a run will have done, for people who wait."""
    plan = diff.plan
    rows = {place_of(split.part_name): split.about_rows for split in diff.to_do}
    return Expected(
        folder=spec.below,
        amounts=rows,
        has_stems=True,
        before=plan.about_rows - sum(rows.values()),
        first=(plan.about_rows if spec.idf.must_count else 0, "rows counted for idf"),
        unit="rows",
    )


def score_phases(spec: ScoreSpec) -> Iterator[Phase]:
    """Yield the phases of a run; they read the plan that `start_run` writes.

    Only splits, the idf table and part records cross from phase to phase, never a text or a score.
    """
    pending = chunks_of(*spec.plan(PENDING), spec.num_chunks)
    if spec.idf.must_count:
        all_splits = chunks_of(*spec.plan(PLAN), spec.num_chunks)
        yield from count_phases(all_splits, counting_of(spec))
        yield save_phase(spec.folder, spec.idf.name)
    yield Phase(
        name="ScoreSplits",
        items=partial(with_idf, pending, spec.idf),
        step=ScoreSplits(spec),
        fold=TriedSplits.merge,
        by_key=True,
        accelerator=spec.accelerator,
        divisible=True,
    )
    yield from last_phases(spec, valid_records, judge_run)


def conclude_score(spec: ScoreSpec) -> Outcome:
    """Return the exit status and the texts that the summary leads to."""
    folder = spec.folder
    if spec.detached:
        marker = mask_credentials(folder.path(SUCCESS_FILE))
        note = (
            "The job was submitted and runs without this command; it succeeds or fails with the "
            f"run. {marker} is written last."
        )
        return Outcome(warnings=(note, *spec.notes))
    if spec.start.is_complete:  # no pipeline has run, so none has published
        with worker_errors():
            end_without_work(spec, judge_run)
    summary = end_of_run(spec)
    status, warnings = _verdict(spec, summary)
    warnings = [
        *run_warnings(summary, spec),
        *table_warnings(summary.get("idf") or {}),
        *spec.notes,
        *warnings,
    ]
    place = "" if is_temporary(folder) else folder.root
    return Outcome(
        status=status,
        shown=show_scores(summary, place),
        document={**({"output": mask_credentials(place)} if place else {}), "summary": summary},
        warnings=tuple(warnings),
        notices=caveat_messages_in(summary),
    )


def _verdict(spec: ScoreSpec, summary: dict[str, Any]) -> tuple[int, list[str]]:
    folder = spec.folder
    if summary["success"]:
        return DONE, []
    rejects, kept = mask_credentials(folder.path(REJECTS_FOLDER)), []
    if is_temporary(folder):
        rejects = ""
    elif not has_ended(spec):
        rejects = mask_credentials(folder.path(f"{spec.below}/rejects"))
        failed = mask_credentials(folder.path(FAILED_FOLDER))
        rejects = f"{rejects} and {failed}"
        kept = [
            f"The scores of the last success stay in {folder.shown}: this run has published "
            f"nothing. Its summary is in {failed}."
        ]
    if summary["complete"]:
        return TOO_MANY_REJECTS, [*gate_messages(summary, rejects), *kept]
    message = (
        f"{summary['missing_parts']} splits and {summary['num_unreachable_files']} files could not "
        "be read; repair or remove them and run the same command again."
    )
    if rejects:
        message += f" They are listed in {rejects}."
    if not summary["whole_idf"]:
        message += f" No row was scored: {summary['idf']['problem']}."
    return BROKEN, [message, *kept]
