"""Prepare a scoring run: check and plan it, then compare the plan with the output folder.

    options --plan_score--> ScorePlan --resume_score--> ScoreJob

No model is loaded and nothing is written.
"""

import time
import uuid
from dataclasses import dataclass, replace

from bertscore_core import ConfigError, ScorerConfig, Settings
from pipelines.dump.columns import TableFields
from pipelines.dump.inputs import expand_inputs
from pipelines.dump.plan import Plan, check_all_reached
from pipelines.dump.plan_files import plan_inputs
from pipelines.dump.splits import Split
from pipelines.files.listing import list_files
from pipelines.files.paths import absolute, join
from pipelines.files.reach import reaching
from pipelines.idf.job import idf_columns
from pipelines.idf.steps import load_idf
from pipelines.idf.tables import IdfTables
from pipelines.options.score import IDF_WORDS, ScoreOptions
from pipelines.run.folder import OutputFolder, read_run
from pipelines.run.identity import check_same_command, check_same_run, identity_digest
from pipelines.run.neighbours import check_stands_alone
from pipelines.run.runner import Runner
from pipelines.run.split_size import given_split_rows
from pipelines.runs.row_scores import rows_file
from pipelines.runs.source import UNCOUNTED, Reuse, find_reuse
from pipelines.score.idf_table import IdfSource, find_idf
from pipelines.score.records import read_parts, record_path
from pipelines.score.rejects import rows_path
from pipelines.score.resume import Standing, check_same_job, input_of, job_identity, standing_of
from pipelines.score.settings import RowSetting, RunSettings
from pipelines.score.spec import ScoreSpec
from pipelines.score.summary import SHOWN_FAILURES, RunGoal, RunTotals
from pipelines.scorer import scorer_config, settle_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePlan:
    """A scoring run, checked and planned, before it is compared with its output folder.

    Attributes:
        options: The options of the run.
        runner: Its runner.
        output: The output folder.
        config: How to score.
        settings: The settings that follow from the config.
        fields: The columns of texts.
        num_files: Input files, rejected ones included.
        plan: All splits.
        given_idf: The idf tables of `--idf PATH`; None without.
        started: When the run began, in seconds since the epoch.
        reuse: What `--reuse` leads to; None without it.
    """

    options: ScoreOptions
    runner: Runner
    output: str
    config: ScorerConfig
    settings: Settings
    fields: TableFields
    num_files: int
    plan: Plan
    given_idf: IdfTables | None
    started: float
    reuse: Reuse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreJob:
    """A scoring run compared with its output folder.

    Attributes:
        spec: The settings for its workers.
        options: The options of the run.
        runner: Its runner.
        plan: All splits.
        standing: The result of the comparison.
        superseded: Parts to delete first: stale ones, and with --overwrite those of missing inputs.
        kept: Parts that stay, at least until workers compare them.
        idf: Where the idf table is.
    """

    spec: ScoreSpec
    options: ScoreOptions
    runner: Runner
    plan: Plan
    standing: Standing
    superseded: tuple[str, ...]
    kept: frozenset[str]
    idf: IdfSource

    @property
    def work(self) -> tuple[Split, ...]:
        """The splits to score or to compare, in the order of the plan."""
        names = {split.part_name for split in (*self.standing.pending, *self.standing.unsure)}
        return tuple(split for split in self.plan.splits if split.part_name in names)


def plan_score(options: ScoreOptions, runner: Runner) -> ScorePlan:
    """Check everything a run needs and plan it; no model is loaded and nothing is written.

    Raises:
        BertScoreError: The run cannot work.
        OSError: No file can be reached, or not every file that idf must count.
    """
    started = time.time()
    config, settings = settle_workers(scorer_config(options, runner), runner)
    with reaching("output", options.output):
        output = absolute(options.output)
        runner.check_output(output)
        # Before the lock is written: it must not be written into another run's folder.
        check_stands_alone(output, list_files(output))
        target_rows = given_split_rows(options, OutputFolder(output))
    given_idf = None
    if options.idf not in IDF_WORDS:
        with reaching("idf", options.idf):
            given_idf = load_idf(options.idf)
        given_idf.check_fits(settings.tokenizer.fingerprint, settings.tokenizer.max_length)
        _check_groups(given_idf, options.idf_group)
    with reaching("input", *options.input):
        files = expand_inputs(options.input, exclude=output, input_format=options.input_format)
        plan = plan_inputs(
            files,
            candidate_column=options.candidate_column,
            reference_column=options.reference_column,
            target_rows=target_rows,
            target_bytes=options.split_bytes,
            workers=runner.expected_workers,
            choosing=table_fields(options).idf.options,
            written=lambda part: [
                join(output, name)
                for name in (part, record_path(part), rows_path(part), rows_file(part))
            ],
        )
    if options.idf == "corpus":
        check_all_reached(plan)
    return ScorePlan(
        options=options,
        runner=runner,
        output=output,
        config=config,
        settings=settings,
        fields=table_fields(options),
        num_files=len(files),
        plan=plan,
        given_idf=given_idf,
        started=started,
        reuse=_find_reuse(options, output, settings, given_idf),
    )


def _find_reuse(
    options: ScoreOptions, output: str, settings: Settings, given_idf: IdfTables | None
) -> Reuse | None:
    """Find the earlier run of `--reuse`, before any model runs."""
    if options.reuse is None:
        return None
    if given_idf is None:
        one = settings.signature()
        now = [replace(one, idf=UNCOUNTED) if options.idf == "corpus" else one]
    else:
        now = [settings.signature(table) for table in given_idf.tables.values()]
    with reaching("reuse", options.reuse):
        return find_reuse(options.reuse, output, now)


def table_fields(options: ScoreOptions) -> TableFields:
    """Return the columns of texts."""
    return TableFields(
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        idf=idf_columns(options),
    )


def _check_groups(tables: IdfTables, group: tuple[str, ...]) -> None:
    """Check that the groups of a saved table are those of the run.

    Raises:
        ConfigError: They are not.
    """
    if tables.group_columns == group:
        return
    there, given = " ".join(tables.group_columns), " ".join(group)
    cure = f"Add --idf-group {there}." if there else "Leave --idf-group out, or count with it."
    raise ConfigError(
        f"the idf table was counted {f'by groups of {there}' if there else 'without groups'}: got "
        f"{f'--idf-group {given}' if given else 'no --idf-group'}; expected the same. {cure}"
    )


def resume_score(planned: ScorePlan, folder: OutputFolder) -> ScoreJob:
    """Compare a planned run with its output folder.

    Raises:
        ConfigError: The folder is inside another run's folder, or around one.
        SignatureError: The folder holds scores made with other settings.
    """
    options, plan = planned.options, planned.plan
    listing = folder.files()
    check_stands_alone(folder.root, listing)
    idf = _idf_source(planned, folder)
    signature = replace(planned.settings.signature(), idf=idf.label)
    identity = job_identity(signature, planned.fields)
    digest = identity_digest(identity)
    check_same_command(folder, identity)
    records, sizes = read_parts(folder, plan, listing)
    if not options.overwrite:
        previous = read_run(folder)
        check_same_run(previous, identity)
        if previous is None:
            check_same_job(records.values(), digest)
    standing = standing_of(plan, records, sizes, digest, idf.fingerprint)
    gone = _parts_of_missing_inputs(plan, standing)
    to_delete, to_report = (gone, ()) if options.overwrite else ((), gone)
    kept = [record.part_name for record in standing.done]
    kept += [split.part_name for split in standing.unsure]
    return ScoreJob(
        spec=ScoreSpec(
            run=uuid.uuid4().hex,
            folder=folder,
            settings=RunSettings.of_all_rows(
                RowSetting(
                    config=planned.config,
                    signature=signature,
                    max_length=planned.settings.tokenizer.max_length,
                    baseline=_baseline_row(planned.settings),
                )
            ),
            fields=planned.fields,
            digest=digest,
            goal=_goal(planned, standing, to_report),
            detached=planned.runner.detached,
            reuse=None if planned.reuse is None else planned.reuse.source,
        ),
        options=options,
        runner=planned.runner,
        plan=plan,
        standing=standing,
        superseded=(*standing.stale, *to_delete),
        kept=frozenset(kept).union(standing.orphans).difference(to_delete),
        idf=idf,
    )


def _baseline_row(settings: Settings) -> tuple[float, float, float] | None:
    """Return what raw scores are rescaled with; float32 numbers, which Python's floats hold."""
    if settings.baseline is None:
        return None
    precision, recall, f1 = settings.baseline.row(settings.num_layers).tolist()
    return precision, recall, f1


def _goal(planned: ScorePlan, standing: Standing, orphans: tuple[str, ...]) -> RunGoal:
    """Return what the totals of the run are compared with at its end."""
    options, plan = planned.options, planned.plan
    return RunGoal(
        parts=len(plan.splits),
        rows=plan.num_rows,
        about_rows=plan.about_rows,
        files=planned.num_files,
        num_rejected_files=len(plan.rejected_files),
        num_unreachable_files=len(plan.unreachable_files),
        rejected_files={f.path: f.message for f in plan.rejected_files[:SHOWN_FAILURES]},
        min_rows=options.min_rows,
        max_reject_fraction=options.max_reject_fraction,
        max_truncated_fraction=options.max_truncated_fraction,
        num_orphan_parts=len(orphans),
        orphan_parts=orphans[:SHOWN_FAILURES],
        started=planned.started,
        carried=RunTotals.sum(map(RunTotals.of_record, standing.done)),
    )


def _parts_of_missing_inputs(plan: Plan, standing: Standing) -> tuple[str, ...]:
    """Return parts of inputs that are certainly missing: none if a folder cannot be listed."""
    if not plan.is_whole:
        return ()
    unreachable = {file.input_name for file in plan.unreachable_files}
    return tuple(part for part in standing.orphans if input_of(part) not in unreachable)


def _idf_source(planned: ScorePlan, folder: OutputFolder) -> IdfSource:
    """Find out where the idf table is and whether it must be counted."""
    if planned.options.idf == "none":
        return IdfSource()
    if planned.given_idf is not None:
        name = planned.given_idf.fingerprint
        return IdfSource(path=planned.options.idf, fingerprint=name, label=name)
    return find_idf(folder, planned.plan, planned.fields.reference_column, planned.settings)
