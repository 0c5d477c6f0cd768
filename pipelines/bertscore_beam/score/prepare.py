"""Prepare a scoring run: check and plan it, then compare the plan with the output folder.

    options --plan_score--> ScorePlan --resume_score--> ScoreSpec, and what is to do

No model is loaded, and nothing is written but the imports of text that a plan needs.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bertscore_beam.dump.census import check_references, first_splits, take_census
from bertscore_beam.dump.columns import CANDIDATE_FROM, TableFields
from bertscore_beam.dump.inputs import InputFile, expand_inputs, tables_in, tables_of
from bertscore_beam.dump.plan import Imports, Plan, Resources, check_all_reached, plan_inputs
from bertscore_beam.dump.reference_file import find_references
from bertscore_beam.dump.splits import MOST_SPLIT_BYTES
from bertscore_beam.dump.text.text_source import TextFile, texts_among
from bertscore_beam.files.paths import absolute, join
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf, load_idf
from bertscore_beam.metrics.own import OwnMetric, find_metrics
from bertscore_beam.metrics.table import check_metrics, identity_of
from bertscore_beam.options.row_options import IDF_WORDS
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.earlier_run import UNCOUNTED, ReusableRun, find_reuse
from bertscore_beam.records.records import FoundParts, find_parts, longest
from bertscore_beam.records.rejects import rows_path
from bertscore_beam.records.resume import (
    FolderDiff,
    check_same_job,
    compare_with_plan,
    input_of,
    job_identity,
    language_identity,
    with_languages_of_both,
)
from bertscore_beam.records.same_texts import check_same_texts
from bertscore_beam.records.settings import SettingsByLanguage, check_given_idf
from bertscore_beam.records.summary import SHOWN_FAILURES, Gates, RunStart, Totals
from bertscore_beam.run.folder import OutputFolder, given_split_rows
from bertscore_beam.run.identity import check_same_run, identity_digest, read_same_command
from bertscore_beam.run.loading import describe_unknown_device
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_beam.run.publication import check_not_overtaken, is_success, readable_head
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.text_import import ImportTexts, check_before_import, lacking_imports
from bertscore_beam.score.idf_table import find_idf
from bertscore_beam.score.kept_plan import kept_name, read_kept
from bertscore_beam.score.loaded_scorers import ModelMemory
from bertscore_beam.score.settle import check_rejects, settle_languages, settle_named
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core.errors import ConfigError

_NO_PLAN = Plan(splits=(), rejected_files=(), split_rows=0, digest="")
"""The plan of a run before there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePlan:
    """A scoring run, checked and planned, before it is compared with its output folder.

    Attributes:
        options: The options of the run.
        settings: How the rows of each language are scored.
        files: Input files, rejected ones included.
        texts: Those of text.
        given_idf: The idf tables of `--idf PATH`; None without.
        started: When the run began, in seconds since the epoch.
        own_metrics: What is known of the metrics of one's own.
        plan: The splits of the files.
        kept_as: Name under which the plan is kept for later runs; None if it is not.
        reuse: The earlier run to take scores from; None for none.
        reuse_note: What to tell the user about `--reuse`; None without it.
    """

    options: ScoreOptions
    runner: Runner
    output: str
    settings: SettingsByLanguage
    fields: TableFields
    files: tuple[InputFile, ...]
    texts: tuple[TextFile, ...]
    given_idf: IdfTables | None
    started: float
    own_metrics: tuple[OwnMetric, ...]
    plan: Plan = _NO_PLAN
    kept_as: str | None = None
    reuse: ReusableRun | None = None
    reuse_note: str | None = None

    @property
    def device_note(self) -> str | None:
        """What to say of the backend if the device was left to the workers; None otherwise."""
        setting = next(iter(self.settings.by_language.values()), None)
        if setting is None:  # no language is known before text is imported
            return None
        return describe_unknown_device(self.options, self.runner.threads, setting)


def plan_score(
    options: ScoreOptions, runner: Runner, import_texts: ImportTexts | None = None
) -> ScorePlan:
    """Check everything a run needs and plan it; no model is loaded, and only texts are imported.

    Args:
        options: The options of the run.
        runner: Its runner.
        import_texts: Imports files of text; None to estimate their rows.

    Raises:
        BertScoreError: The run cannot work.
        OSError: No file can be reached, or not every file that idf must count.
    """
    asked = _asked(options, runner)
    if options.language_column is None:  # otherwise the settings are not all known yet
        asked = _with_given_runs(asked)
    folder = OutputFolder(asked.output)
    split_rows = given_split_rows(options, folder)
    # Without a number of rows it is chosen by the rows of all files, so these must be opened.
    kept_as = _kept_as(asked, split_rows) if split_rows else None
    plan = read_kept(folder, kept_as, asked.files)
    if plan is None:
        idf = options.idf if asked.given_idf is None else asked.given_idf.fingerprint
        has_joins = asked.fields.references is not None
        needs_rows = has_joins or bool(options.language_column or options.group_by)
        imports = Imports(folder=asked.output, needs_rows=needs_rows)
        if import_texts is not None:
            lacking = lacking_imports(imports, asked.texts)
            check_before_import(_files_planned(asked, imports, split_rows), asked.files, lacking)
            import_texts(asked.output, lacking, lambda folder: _same_run(asked, folder, idf))
            imports = replace(imports, are_made=True)
        plan = _new_plan(asked, imports, split_rows)
        kept_as = _kept_as(asked, plan.split_rows)
    languages = plan.census.languages
    settings = settle_languages(options, runner.threads, asked.settings, languages)
    check_metrics(options.library_metrics, sorted(settings.by_language))
    check_rejects(options, plan, settings)
    if options.idf == "corpus":
        check_all_reached(plan)
    planned = replace(asked, settings=settings, kept_as=kept_as, plan=plan)
    return planned if options.language_column is None else _with_given_runs(planned)


def _asked(options: ScoreOptions, runner: Runner) -> ScorePlan:
    """Check all that can be checked before rows are known; nothing is planned yet."""
    started = time.time()
    fields = options.table_fields
    check_metrics(options.library_metrics, [options.language or ""], refuse_scripts=True)
    has_sources = options.source_column is not None
    own_metrics = find_metrics(options.own_metrics, has_sources=has_sources)
    named = settle_named(options, runner.threads)
    output = runner.lone_output(str(options.output))
    given_idf = None
    if options.idf not in IDF_WORDS:
        given_idf = load_idf(options.idf)
        given_idf.check_groups(options.idf_group)
    fields = _with_references(fields, options)
    files = expand_inputs(options.input, exclude=output, input_format=options.input_format)
    return ScorePlan(
        options=options,
        runner=runner,
        output=output,
        settings=named,
        fields=fields,
        files=tuple(files),
        texts=texts_among(files, fields.named(options.group_by), fields.lists),
        given_idf=given_idf,
        started=started,
        own_metrics=own_metrics,
    )


def _with_given_runs(asked: ScorePlan) -> ScorePlan:
    """Check the table of `--idf` and the run of `--reuse` against the settings."""
    if asked.given_idf is not None:
        check_given_idf(asked.given_idf, asked.settings)
    reuse, note = _find_reuse(asked.options, asked.output, asked.settings, asked.given_idf)
    return replace(asked, reuse=reuse, reuse_note=note)


def _kept_as(asked: ScorePlan, split_rows: int) -> str | None:
    """Return the name under which the plan is kept; None if it is not."""
    fields, options = asked.fields, asked.options
    if fields.references is not None:  # a kept plan holds no paths, not even theirs
        return None
    candidates = fields.several or fields.candidate_column
    columns: tuple[object, ...] = (candidates, fields.reference_column, fields.choosing)
    columns += (fields.source, fields.added) if fields.added else ()
    columns += tuple(text.data for text in asked.texts)  # splits name their imports
    settings = (*columns, options.group_by, options.drop_columns, MOST_SPLIT_BYTES, asked.output)
    return kept_name(asked.files, *settings, split_rows)


def _files_planned(
    asked: ScorePlan, imports: Imports, split_rows: int | None
) -> Callable[[Sequence[InputFile]], Plan]:
    """Return what plans files, as far as rows are not needed."""
    return partial(
        plan_inputs,
        fields=asked.fields,
        target_rows=split_rows,
        resources=Resources(
            workers=asked.runner.expected_workers,
            imports=imports,
            group_by=asked.options.group_by,
            drop=asked.options.drop_columns,
        ),
        written=lambda part: [
            join(asked.output, name) for name in (part, rows_path(part), longest(part))
        ],
    )


def _new_plan(asked: ScorePlan, imports: Imports, split_rows: int | None) -> Plan:
    options, references = asked.options, asked.fields.references
    plan = _files_planned(asked, imports, split_rows)(asked.files)
    if plan.is_estimated:
        return plan
    if references is not None:
        warning = check_references(plan.splits, references)
        plan = replace(plan, notes=(*plan.notes, *filter(None, [warning])))
    census = take_census(plan.splits, options.language_column, ())
    by = tuple(name for name in options.group_by if name != CANDIDATE_FROM)  # of no input
    groups = take_census(first_splits(plan.splits), None, by).num_groups
    return replace(plan, census=replace(census, num_groups=groups))


def _with_references(fields: TableFields, options: ScoreOptions) -> TableFields:
    if options.reference_file is None:
        return fields
    named = fields.named(options.group_by)
    references = find_references(
        options.reference_file, str(options.join), fields.reference_column, named, fields.lists
    )
    return replace(fields, references=references)


def _find_reuse(
    options: ScoreOptions, output: str, settings: SettingsByLanguage, given_idf: IdfTables | None
) -> tuple[ReusableRun | None, str | None]:
    if options.reuse is None:
        return None, None
    if given_idf is not None:
        signatures = [
            settings.by_language[key.language].final_signature(table.fingerprint)
            for key, table in given_idf.tables.items()
            if key.language in settings.by_language
        ]
    else:
        signatures = [setting.signature for setting in settings.by_language.values()]
        if options.idf == "corpus":
            signatures = [replace(signature, idf=UNCOUNTED) for signature in signatures]
    return find_reuse(options.reuse, output, signatures)


def resume_score(planned: ScorePlan, folder: OutputFolder) -> tuple[ScoreSpec, FolderDiff]:
    """Compare a planned run with its output folder.

    Returns:
        What the workers need to know of the run; and which splits are done, and which to do.

    Raises:
        ConfigError: The folder is inside another run's folder or around one, or it holds scores of
            other texts.
        SignatureError: The folder holds scores made with other settings.
    """
    options, plan = planned.options, planned.plan
    head = readable_head(folder)
    found = find_parts(folder, head)
    kept = found.records
    check_stands_alone(folder.root, found.others)  # another may have begun since it was planned
    run = uuid.uuid4().hex
    idf, label = _saved_idf(planned, folder, found.files, run)
    settings = planned.settings.with_idf(label)
    identity, digest, before = _same_run(planned, folder, label)
    if not options.overwrite:
        if before is None:
            check_same_job(kept.values(), digest)
        if not plan.is_estimated:
            try:
                check_same_texts(folder, plan, [*kept.values()], planned.fields, before)
            except ConfigError:
                check_not_overtaken(folder, head, "")  # the parts may have been replaced meanwhile
                raise
    # With --overwrite nothing stays that was published, so nothing is left to be asked about.
    there = replace(found, records={}) if options.overwrite else found
    fingerprint = None if idf.must_count else idf.fingerprint
    diff = compare_with_plan(plan, there, digest, fingerprint, settings.labels)
    tables = _earlier_tables(planned.files, before)
    spec = ScoreSpec(
        run=run,
        before=head,
        is_over_success=is_success(folder, head) and found.is_whole,
        replaces=options.overwrite,
        folder=folder,
        settings=settings,
        identity=identity,
        fields=planned.fields,
        digest=digest,
        start=_run_start(planned, found, diff, _certainly_gone(plan, diff.stay(tables))),
        model_memory=ModelMemory(
            limit=options.model_memory, processes=planned.runner.workers_of_a_device
        ),
        detached=planned.runner.detached,
        reuse=planned.reuse,
        group_by=options.group_by,
        metrics=options.library_metrics,
        own_metrics=planned.own_metrics,
        num_chunks=planned.runner.num_chunks,
        corpus=plan.digest,
        tables=tables,
        accelerator=options.accelerator,
        keep_input=options.keep_input,
        idf=idf,
        notes=plan.notes,
    )
    return spec, diff


def _same_run(
    planned: ScorePlan, folder: OutputFolder, idf: str
) -> tuple[dict[str, str], str, dict[str, Any] | None]:
    """Check that the folder is of the same settings, as far as they are known.

    Returns:
        The identity of the run, its digest, and what `_run.json` says of the earlier run.

    Raises:
        SignatureError: The folder is of another command or of other settings.
    """
    options, settings = planned.options, planned.settings.with_idf(idf)
    identity = job_identity(settings, planned.fields, idf)
    identity |= identity_of(
        options.library_metrics, options.language or "", planned.own_metrics, options.source_column
    )
    digest = identity_digest(identity)
    before = read_same_command(folder, identity, may_be_damaged=options.overwrite)
    previous: Mapping[str, Any] | None = None if options.overwrite else before
    previous, identity = with_languages_of_both(previous, identity | language_identity(settings))
    check_same_run(previous, identity)
    return identity, digest, before


def _run_start(
    planned: ScorePlan, found: FoundParts, diff: FolderDiff, gone: Sequence[str]
) -> RunStart:
    options, plan = planned.options, planned.plan
    carried = Totals.of_records(diff.records())
    left = sum(found.records[name].num_rows for name in diff.left)
    earlier = sum(record.num_rows for record in found.records.values())
    return RunStart(
        parts=len(plan.splits),
        # With as many candidates as rows, each row has one.
        rows=plan.num_rows if plan.num_rows == plan.about_rows else None,
        about_rows=plan.about_rows,
        files=len(planned.files),
        num_rejected_files=len(plan.rejected_files),
        num_unreachable_files=len(plan.unreachable_files),
        rejected_files={f.path: f.message for f in plan.rejected_files[:SHOWN_FAILURES]},
        gates=Gates(**{name: getattr(options, name) for name in Gates.__slots__}),
        num_parts_gone=len(gone),
        parts_gone=tuple(gone[:SHOWN_FAILURES]),
        started=planned.started,
        carried=carried,
        parts_damaged=len(found.damaged),
        rows_at_risk=earlier - left - carried.summary.rows,
    )


def _certainly_gone(plan: Plan, parts: Iterable[str]) -> list[str]:
    """Return those of some parts whose inputs are missing: none if a folder cannot be listed."""
    unreachable = {file.input_name for file in plan.unreachable_files}
    return [part for part in parts if plan.is_whole and input_of(part) not in unreachable]


def _earlier_tables(
    files: Sequence[InputFile], before: Mapping[str, object] | None
) -> tuple[str, ...]:
    """Return how the names of files of Delta tables begin, if they did so in the run before."""
    earlier, known = tables_in(before), tables_of(files).items()
    starts = {one: str(table["names"]) for one, table in known if one in earlier}
    return tuple(name for one, name in starts.items() if earlier[one].get("names") == name)


def _saved_idf(
    planned: ScorePlan, folder: OutputFolder, files: Iterable[str], run: str
) -> tuple[SavedIdf, str]:
    """Return the idf tables of a run, and their name in its identity."""
    if planned.options.idf == "none":
        return SavedIdf(), "none"
    if planned.given_idf is not None:
        name = planned.given_idf.fingerprint
        # Workers may have another working folder.
        return SavedIdf(path=absolute(planned.options.idf), fingerprint=name), name
    given = planned.plan, planned.fields.reference_column, planned.settings
    return find_idf(folder, files, run, *given)
