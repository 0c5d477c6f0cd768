"""The idf job: document frequencies over the references of a dump, saved as one table.

    OUT.npz                        the table, written last
    .OUT.npz.run/counts/...        the counts of each split, kept until the table is written
    .OUT.npz.run/_manifest/...     the plan of the run

After a run was killed, the next one counts only the splits that have no counts yet.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from bertscore_beam.dump.census import take_census
from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import InputFile, expand_inputs
from bertscore_beam.dump.languages import codes_first
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.plan import (
    Imports,
    Plan,
    Resources,
    check_all_reached,
    few_rows_message,
    grouped,
    plan_inputs,
    rows_note,
)
from bertscore_beam.dump.plan_file import plan_to_bytes
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.splits import Split, reading_note
from bertscore_beam.dump.text.text_source import TextFile, texts_among
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.checked import digest_of, from_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute, is_remote, join
from bertscore_beam.files.read import exists, is_file, read_bytes
from bertscore_beam.files.versions import NOT_THERE, rename_or_copy, replace_version, sync_folders
from bertscore_beam.idf.count_phases import count_phases, save_phase
from bertscore_beam.idf.counting import COUNTS_FOLDER, Counting
from bertscore_beam.idf.idf_tables import note_path
from bertscore_beam.idf.owners import num_buckets
from bertscore_beam.idf.repeats import Repeats, repeats_warning
from bertscore_beam.idf.table_notes import table_warnings
from bertscore_beam.options.score_options import IdfOptions
from bertscore_beam.run.alone import LOCK_FILE
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import (
    PLAN_FILE,
    RUN_FILE,
    SPLIT_ROWS,
    OutputFolder,
    given_split_rows,
    write_run,
)
from bertscore_beam.run.job import Run, Say
from bertscore_beam.run.lease import LEASE_FILE
from bertscore_beam.run.loading import nothing_settled, scorer_config, settle_each, vocabulary_of
from bertscore_beam.run.output import (
    BROKEN,
    DONE,
    TOO_MANY_REJECTS,
    Outcome,
    TextTable,
    escape_line,
)
from bertscore_beam.run.phases import Items, Phase, chunks_of
from bertscore_beam.run.pool import ask
from bertscore_beam.run.progress import Expected
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.text_import import (
    ImportTexts,
    check_before_import,
    delete_other_imports,
    lacking_imports,
    slow_text_warning,
)
from bertscore_core.errors import ConfigError, UnknownLanguageError
from bertscore_core.scorer_config import Vocabulary

# A look at some rows of the plan: do references repeat much, although every row would count?

_SPLITS = 8


def repeats_in_sample(splits: Sequence[Split], fields: TableFields) -> str | None:
    """Return the warning about references that repeat in a sample; None without cause.

    The sample is the first splits of the first eight files: systems on one test set are usually in
    files of their own, in the same order. With fewer files it is more splits of each. With a key
    there is no warning.
    """
    if fields.key:
        return None
    sample = sorted(splits, key=lambda split: (split.row_offset, split.input_name))[:_SPLITS]
    seen = []
    for split in sample:
        with suppress(*UNREADABLE):  # the run says so
            rows = Rows(read_split(split, [fields.reference_column]), fields)
            seen.append(Repeats.of([group for group in rows.countable if group is not None]))
    repeats = Repeats.merge(seen)
    return repeats_warning(repeats.rows, repeats.distinct, keyed=False, sampled=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdfPlan:
    """A counting run, checked and planned.

    `output` is a folder beside the table, for the files of the run; `table_file` is the table
    there, which no other run writes. `texts` are the input files of text. Each language has its
    own vocabulary; under "" is that of all rows.
    """

    options: IdfOptions
    runner: Runner
    table: str
    output: str
    vocabularies: Mapping[str, Vocabulary]
    texts: tuple[TextFile, ...]
    plan: Plan
    table_file: str = field(default_factory=lambda: f"table-{uuid.uuid4().hex}.npz")

    @property
    def is_too_small(self) -> bool:
        """Whether the input has fewer rows than --min-rows."""
        rows = self.plan.num_rows
        return rows is not None and rows < self.options.min_rows

    def counting(self, folder: OutputFolder) -> Counting:
        """Return what is counted, with the folder of the run that keeps the counts."""
        return Counting(
            vocabularies=self.vocabularies,
            fields=self.options.table_fields,
            corpus=self.plan.digest,
            buckets=num_buckets(self.plan.about_rows),
            kept=folder,
        )


def idf_job(options: IdfOptions, run: Run) -> Outcome:
    """Count the references of a dump, and put the table in its place.

    Raises:
        BertScoreError: The run cannot work.
        OSError: A file to be counted cannot be reached at the moment.
    """
    planned = plan_idf(options, run.runner, None if options.dry_run else run.import_texts)
    if options.dry_run:
        return Outcome(shown=_show_idf(planned), is_answer=True)
    if planned.is_too_small:
        run.forget_texts()
        return _too_small(planned)
    folder = run.take(planned.output)
    with run.first_writing():
        phases, expected = begin_idf(planned, folder, run.say)
    run.do(phases, expected, plainly=len(expected.amounts) == 1)
    return _conclude_idf(planned, folder)


def plan_idf(
    options: IdfOptions, runner: Runner, import_texts: ImportTexts | None = None
) -> IdfPlan:
    """Check everything and plan it.

    Args:
        options: The options of the run.
        runner: Its runner.
        import_texts: Imports files of text that are not imported; None to estimate their rows.

    Raises:
        BertScoreError: The run cannot work.
        OSError: A file to be counted cannot be reached at the moment.
    """
    vocabularies = {} if options.language_column else _vocabularies(options, runner, ())
    table = absolute(options.output)
    runner.check_output(table.rpartition("/")[0])
    work_folder = _work_folder(table)
    _check_table(table, work_folder, options)
    target_rows = given_split_rows(options, OutputFolder(work_folder))
    found = expand_inputs(options.input, input_format=options.input_format)
    fields = options.table_fields
    imports = Imports(folder=work_folder, needs_rows=True)

    def planned(files: Sequence[InputFile]) -> Plan:
        resources = Resources(workers=runner.expected_workers, imports=imports)
        return plan_inputs(files, fields=fields, target_rows=target_rows, resources=resources)

    texts = texts_among(found, fields.named(), fields.lists)
    if import_texts is not None:
        lacking = lacking_imports(imports, texts)
        check_before_import(planned, found, lacking)
        import_texts(work_folder, lacking, lambda _: _check_table(table, work_folder, options))
        imports = replace(imports, are_made=True)
    plan = planned(found)
    if options.language_column and not plan.is_estimated:
        census = take_census(plan.splits, options.language_column, ())
        vocabularies = _vocabularies(options, runner, codes_first(census.languages))
    check_all_reached(plan)
    return IdfPlan(
        options=options,
        runner=runner,
        table=table,
        output=work_folder,
        vocabularies=vocabularies,
        texts=texts,
        plan=plan,
    )


def _check_table(table: str, work_folder: str, options: IdfOptions) -> None:
    """Check that the table may be written.

    It may be there beside the folder of a run that was cut off before it had cleaned up. Whether it
    is the table of this command is known when that is counted: see `_put`.
    """
    if not exists(table):
        return
    if not is_file(table):
        raise ConfigError(
            f"output {mask_credentials(table)!r} is a folder; expected a file for the table. "
            "Choose another --output."
        )
    if not options.overwrite and not exists(join(work_folder, RUN_FILE)):
        raise _exists_already_error(options)


def _exists_already_error(options: IdfOptions) -> ConfigError:
    return ConfigError(
        f"{mask_credentials(options.output)} exists already; expected a new file. Choose another "
        "--output, or use --overwrite."
    )


def _vocabularies(
    options: IdfOptions, runner: Runner, languages: Collection[str]
) -> dict[str, Vocabulary]:
    """Return the tokenizer of each language that has one; others are not counted."""
    own = options.by_language(languages)
    found, errors = settle_each(
        own,
        lambda language: ask(vocabulary_of, scorer_config(own[language], runner.threads)),
        skipped=[UnknownLanguageError],  # the rows of it will not be scored either
    )
    if not found:
        raise nothing_settled(options.language_column, languages, errors)
    return found


def _work_folder(table: str) -> str:
    """Return the folder for the files of a run: hidden, beside the table."""
    folder, _, name = table.rpartition("/")
    return f"{folder}/.{name}.run"


def _show_idf(planned: IdfPlan) -> tuple[TextTable, ...]:
    """Describe what a run would do."""
    options, plan = planned.options, planned.plan
    rows = {
        **{
            f"tokenizer {language}".strip(): vocabulary.tokenizer
            for language, vocabulary in planned.vocabularies.items()
        },
        "input files": f"{plan.num_files:,}",
        "rows": rows_note(plan.splits)
        + (f", fewer than {options.min_rows:,}" if planned.is_too_small else ""),
        "splits": f"{len(plan.splits):,}, of at most {plan.split_rows:,} rows",
        "rows read": reading_note(plan.splits, planned.runner.num_chunks),
        "output": mask_credentials(planned.table),
    }
    rejected = [("file rejected", line) for line in _rejected(plan)]
    found: list[str | None] = [slow_text_warning(planned.texts)]
    if not plan.is_estimated:
        found.append(repeats_in_sample(plan.splits, options.table_fields))
    warned = [("warning", warning) for warning in found if warning]
    return (TextTable("Plan", ("", ""), [*rows.items(), *rejected, *warned]),)


def _too_small(planned: IdfPlan) -> Outcome:
    """Return how the command ends if the input has too few rows."""
    few = few_rows_message(planned.plan.about_rows, planned.options.min_rows)
    return Outcome(
        status=TOO_MANY_REJECTS,
        warnings=(*_rejected_messages(planned.plan), f"{few} No table was saved."),
    )


def begin_idf(
    planned: IdfPlan, folder: OutputFolder, say: Say
) -> tuple[tuple[Phase, ...], Expected]:
    """Write the plan for the workers, and delete what an earlier run left and none can use.

    Returns:
        The phases, and what they will do.

    Raises:
        ConfigError: Another run has saved the table since it was checked.
    """
    _check_table(planned.table, planned.output, planned.options)
    folder.delete_temporary()
    delete_other_imports(folder, planned.texts, folder.files())
    write_run(folder, {SPLIT_ROWS: planned.plan.split_rows})
    plan = plan_to_bytes(planned.plan)
    folder.write(PLAN_FILE, plan)
    counting, splits = planned.counting(folder), planned.plan.splits
    # Without a version of the file it cannot be told whether the rows are the same.
    wanted = {counting.count_name(split) for split in splits if split.file_version}
    counted = folder.files(COUNTS_FOLDER).keys()
    folder.delete(*(f"{COUNTS_FOLDER}/{name}" for name in counted - wanted))
    for message in _rejected_messages(planned.plan):
        say(message)
    if reused := counted & wanted:
        say(f"{len(reused)} splits were counted by an earlier run and are reused.")
    rows = {counting.count_name(split): split.about_rows for split in splits}
    chunks = chunks_of(folder.path(PLAN_FILE), digest_of(plan), planned.runner.num_chunks)
    expected = Expected(folder=COUNTS_FOLDER, amounts=rows, unit="rows")
    return idf_phases(chunks, counting, folder, planned.table_file), expected


def idf_phases(
    chunks: Items, counting: Counting, folder: OutputFolder, table_file: str
) -> tuple[Phase, ...]:
    """Return the phases of the job: the plan is counted, and the table saved."""
    return (*count_phases(chunks, counting), save_phase(folder, table_file))


def _conclude_idf(planned: IdfPlan, folder: OutputFolder) -> Outcome:
    """Put the table in its place and clean up; without a table the counts are kept."""
    plan, table_file = planned.plan, planned.table_file
    with worker_errors():
        counted = from_json(folder.read(note_path(table_file)))
        is_put = not counted["problem"] and _put(planned, folder, folder.read(table_file))
    if counted["problem"]:
        folder.delete(PLAN_FILE)
        message = f"{counted['problem']}: no table was saved. Run the same command again."
        return Outcome(status=BROKEN, warnings=(message,))
    if not is_put:
        raise _exists_already_error(planned.options)
    _clean_up(folder)
    shown = escape_line(mask_credentials(planned.table))
    documents = f"{counted['documents']:,} references of {plan.num_files:,} files"
    if counted["group_columns"]:
        documents += f" in {counted['tables']:,} tables"
    if counted["key_columns"]:
        documents += f", without {counted['rows_left_out']:,} rows of keys counted already"
    return Outcome(
        status=TOO_MANY_REJECTS if plan.rejected_files else DONE,
        text=f"{documents}: {shown} ({counted['fingerprint']})",
        document={"output": mask_credentials(planned.table), "idf": counted},
        warnings=tuple(table_warnings(counted)),
    )


def _put(planned: IdfPlan, folder: OutputFolder, data: bytes) -> bool:
    """Put the table in its place; False if another one is there, and is not to be replaced."""
    table, overwrite = planned.table, planned.options.overwrite
    if is_remote(table) and not overwrite:
        return replace_version(table, data, NOT_THERE)
    if not overwrite and exists(table):
        return read_bytes(table) == data
    rename_or_copy(folder.path(planned.table_file), table)
    sync_folders([table])
    return True


def _clean_up(folder: OutputFolder) -> None:
    """Delete the files of the run, but for those of the command.

    While `_run.json` is there, the same command cleans up what is left, also beside its table.
    """
    names = (name for name in folder.files() if name not in (RUN_FILE, LOCK_FILE, LEASE_FILE))
    folder.delete(*names)
    folder.delete(RUN_FILE)
    folder.delete_empty_folders()


def _rejected(plan: Plan) -> list[str]:
    return grouped([(file.path, file.message) for file in plan.rejected_files])


def _rejected_messages(plan: Plan) -> list[str]:
    return [f"rejected {escape_line(line)}" for line in _rejected(plan)]
