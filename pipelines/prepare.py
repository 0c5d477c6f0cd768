"""Prepare a scoring job: check everything, plan it, and hold it against the output folder.

    options --> plan_score --> PlannedScore --> resume_score --> ScoreJob

No model is loaded and nothing is written.
"""

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace

from bertscore_core import (
    ConfigError,
    IdfError,
    IdfTable,
    ScorerConfig,
    Settings,
    Signature,
    settle,
)
from bertscore_core.encoder import resolve_device
from pipelines import manifest
from pipelines.identity import (
    check_same_command,
    check_same_job,
    check_same_run,
    identity_digest,
    job_identity,
)
from pipelines.io.files import (
    absolute,
    can_write_below,
    is_file,
    join,
    list_files,
    mask_credentials,
)
from pipelines.io.inputs import expand_inputs
from pipelines.io.reach import reaching
from pipelines.neighbours import check_stands_alone
from pipelines.options import IDF_WORDS, RunOptions, ScoreOptions
from pipelines.planning import Plan, check_all_reached, plan_inputs, shape_digest
from pipelines.rejects import rows_path
from pipelines.runners import is_detached, is_local
from pipelines.scorer import scorer_config
from pipelines.scoring import TableFields
from pipelines.splits import Split
from pipelines.standing import Standing, input_of, standing_of
from pipelines.totals import SHOWN_FAILURES, RunGoal, RunTotals
from pipelines.transforms.idf import load_idf, split_corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreJob:
    """A scoring run, checked and planned.

    Attributes:
        run: Identifies this run; another one each time.
        output: Folder of the run.
        config: How to score.
        fields: Where the texts are.
        signature: How the scores are made, up to the idf table.
        digest: Identity of the job's settings, kept in every part's record.
        plan: All splits.
        pending: Splits that still have to be scored.
        unsure: Splits whose parts workers compare with the rows first.
        superseded: Parts to delete first: of splits with other bounds, or of missing inputs.
        outdated: Parts to be made again, also to delete first.
        kept: Parts that stay, at least until workers compare them.
        idf_path: Saved idf table, when there is one or there will be; None without idf.
        count_idf: Whether the table still has to be counted.
        compare_idf: Whether there is a table that the references are compared with first.
        goal: What the run is judged against.
        accelerator: GPU to ask the runner for where pairs are scored; None for none.
        detached: Whether no launcher waits for the end of the job.
    """

    run: str
    output: str
    config: ScorerConfig
    fields: TableFields
    signature: Signature
    digest: str
    plan: Plan
    pending: tuple[Split, ...]
    unsure: tuple[Split, ...]
    superseded: tuple[str, ...]
    outdated: tuple[str, ...]
    kept: frozenset[str]
    idf_path: str | None
    count_idf: bool
    goal: RunGoal
    compare_idf: bool = False
    accelerator: str | None = None
    detached: bool = False

    @property
    def work(self) -> tuple[Split, ...]:
        """All that workers have to look at, in the order of the plan."""
        names = {split.part_name for split in (*self.pending, *self.unsure)}
        return tuple(split for split in self.plan.splits if split.part_name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScore:
    """A scoring run, checked and planned, before a look at what its output folder holds."""

    options: ScoreOptions
    output: str
    config: ScorerConfig
    settings: Settings
    fields: TableFields
    files: int
    plan: Plan
    given_idf: IdfTable | None
    started: float


def plan_score(options: ScoreOptions) -> PlannedScore:
    """Check everything a run needs and plan it; no model is loaded and nothing is written.

    Raises:
        BertScoreError: whatever cannot work, before any work is done.
        OSError: no file can be reached, or not all of those to be counted for idf.
    """
    started = time.time()
    config = scorer_config(options)
    settings = settle(config)
    if is_local(options):
        resolve_device(config.device)
    with reaching("output", options.output):
        output = absolute(options.output)
        check_output(options, output)
        # Before the lock is written, which is a file in another run's folder otherwise.
        check_stands_alone(output, list_files(output))
    given_idf = None
    if options.idf not in IDF_WORDS:
        with reaching("idf", options.idf):
            given_idf = load_idf(options.idf)
        given_idf.check_fits(settings.tokenizer.fingerprint, settings.tokenizer.max_length)
    with reaching("input", *options.input):
        files = expand_inputs(options.input, exclude=output)
        plan = plan_inputs(
            files,
            candidate_column=options.candidate_column,
            reference_column=options.reference_column,
            target_rows=options.split_rows,
            target_bytes=options.split_bytes,
            written=lambda part: [
                join(output, part),
                manifest.record_path(output, part),
                rows_path(output, part),
            ],
        )
    if options.idf == "corpus":
        check_all_reached(plan)
    fields = TableFields(
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
    )
    return PlannedScore(
        options=options,
        output=output,
        config=replace(config, backend=settings.backend),  # the same for every worker
        settings=settings,
        fields=fields,
        files=len(files),
        plan=plan,
        given_idf=given_idf,
        started=started,
    )


def resume_score(planned: PlannedScore) -> ScoreJob:
    """Compare a planned run with its output folder: what is done, and what prevents the run.

    Raises:
        ConfigError: the folder holds another run's folder, or is inside one.
        SignatureError: the folder holds scores made otherwise.
    """
    options, plan, output = planned.options, planned.plan, planned.output
    listing = list_files(output)
    check_stands_alone(output, listing)
    idf = _find_idf(planned)
    signature = replace(planned.settings.signature(), idf=idf.label)
    identity = job_identity(signature, planned.fields)
    digest = identity_digest(identity)
    check_same_command(output, identity)
    records, sizes = manifest.read_parts(output, plan, listing)
    if not options.overwrite:
        previous = manifest.read_run(output)
        check_same_run(previous, identity)
        if previous is None:
            check_same_job(records.values(), digest)
    standing = standing_of(plan, records, sizes, digest, idf.fingerprint)
    rejected = {file.path: file.message for file in plan.rejected_files[:SHOWN_FAILURES]}
    gone = _gone(plan, standing)
    orphans = () if options.overwrite else gone
    left = frozenset(standing.orphans).difference(gone if options.overwrite else ())
    return ScoreJob(
        run=uuid.uuid4().hex,
        output=output,
        config=planned.config,
        fields=planned.fields,
        signature=signature,
        digest=digest,
        plan=plan,
        pending=standing.pending,
        unsure=standing.unsure,
        superseded=(*standing.stale, *(gone if options.overwrite else ())),
        outdated=standing.outdated,
        kept=frozenset(record.part_name for record in standing.done).union(
            (split.part_name for split in standing.unsure), left
        ),
        idf_path=idf.path,
        count_idf=idf.must_count,
        compare_idf=idf.may_hold,
        accelerator=options.accelerator,
        detached=is_detached(options),
        goal=RunGoal(
            parts=len(plan.splits),
            rows=plan.num_rows,
            files=planned.files,
            num_rejected_files=len(plan.rejected_files),
            num_unreachable_files=len(plan.unreachable_files),
            rejected_files=rejected,
            min_rows=options.min_rows,
            max_reject_fraction=options.max_reject_fraction,
            max_truncated_fraction=options.max_truncated_fraction,
            num_orphan_parts=len(orphans),
            orphan_parts=orphans[:SHOWN_FAILURES],
            started=planned.started,
            carried=RunTotals.sum(map(RunTotals.of_record, standing.done)),
        ),
    )


def _gone(plan: Plan, standing: Standing) -> tuple[str, ...]:
    """Return parts whose inputs are known to be missing: none while a folder cannot be listed."""
    away = {file.input_name for file in plan.unreachable_files}
    return tuple(p for p in standing.orphans if plan.is_whole and input_of(p) not in away)


def prepare_score(options: ScoreOptions) -> ScoreJob:
    """Check, plan, and look at the output folder; nothing is written.

    Raises:
        BertScoreError: whatever cannot work, before any work is done.
    """
    return resume_score(plan_score(options))


def check_output(options: RunOptions, output: str) -> None:
    """Check that workers can write where the output goes.

    Raises:
        ConfigError: it lies in the memory of a process that others cannot reach, or is a file.
    """
    if output.startswith("memory://") and (options.workers > 1 or not is_local(options)):
        raise ConfigError(
            f"output {output!r} lies in this process's memory, which other worker processes cannot "
            "reach; expected a folder or an object store. Use one worker, or another --output."
        )
    if is_file(output):
        raise ConfigError(
            f"output {mask_credentials(output)!r} is a file; expected a folder. Choose another "
            "--output."
        )
    if not can_write_below(output):
        raise ConfigError(
            f"output {mask_credentials(output)!r} cannot be written: got no permission, or a file "
            "on the way there; expected a folder where files can be made. Choose another --output."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdfSource:
    """Where a job's idf table is.

    Attributes:
        path: Its file, there or to be made; None without idf.
        must_count: Whether it must still be counted.
        may_hold: Whether a table lies there that need not be, if the references are still the same.
        fingerprint: Its fingerprint, "" without idf, None before it is counted.
        label: Its name in the job's identity.
    """

    path: str | None
    must_count: bool
    may_hold: bool = False
    fingerprint: str | None
    label: str


def _find_idf(planned: PlannedScore) -> _IdfSource:
    """Settle where the idf table is and whether it must be counted.

    The table is counted over the whole corpus once and kept, never over what a resumed run still
    has to score. It is known to be valid if all files have the versions that were counted;
    otherwise workers compare the references first. In the job's identity the corpus is represented
    by its names and rows.
    """
    idf = planned.options.idf
    if idf == "none":
        return _IdfSource(path=None, must_count=False, fingerprint="", label="none")
    if planned.given_idf is not None:
        name = planned.given_idf.fingerprint
        return _IdfSource(path=idf, must_count=False, fingerprint=name, label=name)
    path = join(planned.output, manifest.IDF_FILE)
    column = planned.fields.reference_column
    label = f"corpus@{shape_digest(planned.plan.splits, column)}"
    may_hold = False
    with suppress(IdfError):  # none, or a damaged one, is counted again
        table = load_idf(path)
        tokenizer = planned.settings.tokenizer
        table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
        versions, _ = split_corpus(table.corpus)
        if planned.plan.has_versions and versions == planned.plan.digest:
            name = table.fingerprint
            return _IdfSource(path=path, must_count=False, fingerprint=name, label=label)
        may_hold = True
    return _IdfSource(path=path, must_count=True, may_hold=may_hold, fingerprint=None, label=label)
