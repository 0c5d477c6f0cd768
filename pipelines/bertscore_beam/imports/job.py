"""The import job: each file of text as one Parquet file.

OUT/<input name>/part-000000000000.parquet      the rows
OUT/_manifest/imports/<key>.pq                  the footer of that, named by the version it is of
OUT/_manifest/imports/<key>.json                why a file could not be turned into Parquet
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.input_names import common_folder, input_names
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.partitions import above_partitions
from bertscore_beam.dump.plan import (
    FileReason,
    Imports,
    Notes,
    RejectedError,
    RejectedFile,
    check_place,
    grouped,
    rejected_file,
)
from bertscore_beam.dump.splits import part_name
from bertscore_beam.dump.text.arrays import json_columns
from bertscore_beam.dump.text.text_source import IMPORTS_FOLDER, TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import HIDDEN_PREFIXES, list_files
from bertscore_beam.files.paths import FILES_IN_FLIGHT, absolute, join
from bertscore_beam.files.reach import reaching
from bertscore_beam.files.read import exists, in_parallel
from bertscore_beam.options.score_options import ImportOptions
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, OutputFolder, declare_success
from bertscore_beam.run.identity import read_same_command
from bertscore_beam.run.job import JobKind, Say, import_stage
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_beam.run.output import (
    BROKEN,
    DONE,
    TOO_MANY_REJECTS,
    Outcome,
    TextTable,
    escape_line,
)
from bertscore_beam.run.progress import Stage
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.text_import import delete_input, slow_text_warning
from bertscore_core.errors import ConfigError, InputError

_IDENTITY = {"command": "import"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """An import, checked."""

    options: ImportOptions
    runner: Runner
    output: str
    texts: tuple[TextFile, ...]
    rejected: tuple[RejectedFile, ...]
    num_parquet: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportJob:
    """An import that holds its folder.

    Attributes:
        orphans: Parquet files of inputs that are not there any more.
    """

    plan: ImportPlan
    folder: OutputFolder
    run: str
    orphans: tuple[str, ...]


def _plan_import(options: ImportOptions, runner: Runner) -> ImportPlan:
    """Find the files, and check their names and the output folder."""
    with reaching("output", options.output):
        output = absolute(options.output)
        runner.check_output(output)
        there = list_files(output)
        check_stands_alone(output, there)
        read_same_command(OutputFolder(output), _IDENTITY, may_be_damaged=True)
        _check_is_ours(output, there)
    with reaching("input", *options.input):
        found = expand_inputs(options.input, exclude=output, input_format=options.input_format)
    paths = [file.path for file in found]
    # From above their partition columns, so that the output has these, too.
    names = input_names(paths, above_partitions(common_folder([file.root for file in found])))
    # A JSON file without any row has these.
    fields = TableFields(
        candidate_column=options.candidate_column[0],
        several=options.candidate_column if len(options.candidate_column) > 1 else (),
        reference_column=options.reference_column,
    )
    texts, rejected, num_parquet = [], [], 0
    for file in found:
        folder, slash, last = names[file.path].rpartition("/")
        name = f"{folder}{slash}{last.replace('=', '%3D')}"  # becomes a folder, and no column
        target = part_name(name, 0)
        try:
            check_place(file, name, lambda part: [join(output, part)])
        except RejectedError as error:
            rejected.append(rejected_file(file.path, name, error))
            continue
        text = TextFile.of(file, fields.named(options.columns), fields.lists)
        if text is None:
            num_parquet += 1
        else:
            texts.append(replace(text, target=target))
    if not texts and not rejected:
        raise InputError(
            f"no file of text: got {num_parquet:,} files, all of them Parquet; expected JSON "
            "lines, CSV or TSV. Parquet needs no import: give it to the job as it is."
        )
    return ImportPlan(
        options=options,
        runner=runner,
        output=output,
        texts=tuple(texts),
        rejected=tuple(rejected),
        num_parquet=num_parquet,
    )


def _check_is_ours(output: str, names: Iterable[str]) -> None:
    foreign = sorted(name for name in names if name.endswith(".parquet"))
    if foreign and not exists(join(output, RUN_FILE)):
        raise ConfigError(
            f"output {mask_credentials(output)!r} holds Parquet files that no import has "
            f"written: got {foreign[0]!r}; expected a new folder, or one of `import`. Choose "
            "another --output."
        )


def _show_import(plan: ImportPlan) -> tuple[TextTable, ...]:
    """Describe what a run would do."""
    rows: list[tuple[str, ...]] = [
        ("files of text", f"{len(plan.texts):,}"),
        ("bytes", f"{sum(text.size for text in plan.texts):,}"),
        *[("file rejected", line) for line in _rejected_lines(plan.rejected)],
        *[("warning", warning) for warning in [slow_text_warning(plan.texts)] if warning],
        ("output", mask_credentials(plan.output)),
    ]
    return (TextTable("Plan", ("", ""), rows),)


def _begin_import(
    plan: ImportPlan, folder: OutputFolder, say: Say
) -> tuple[ImportJob, tuple[Stage, ...]]:
    """Delete what earlier runs have made of other versions, and find out what is left to do."""
    read_same_command(folder, _IDENTITY, may_be_damaged=True)
    name = uuid.uuid4().hex
    folder.delete(SUCCESS_FILE)
    folder.write_json(RUN_FILE, {"run": name, "identity": _IDENTITY})
    folder.delete_temporary()
    overwrite = plan.options.overwrite
    noted = {f"{IMPORTS_FOLDER}/{name}" for name in folder.files(IMPORTS_FOLDER)}
    kept = {text.footer for text in plan.texts if text.version and not overwrite}
    parquet = folder.files(suffix=".parquet")
    there = {name for name in parquet if not name.startswith(HIDDEN_PREFIXES)}
    current = kept & noted
    done = {text.target for text in plan.texts if text.footer in current} & there
    wanted = {text.target for text in plan.texts}
    orphans = tuple(sorted(there - wanted))
    deleted = (there & wanted) - done
    # If a folder could not be listed, no file counts as missing.
    if overwrite and all(file.reason is not FileReason.UNLISTED for file in plan.rejected):
        deleted, orphans = deleted | set(orphans), ()
    # The rows first: a footer without them is made again.
    folder.delete(*deleted)
    folder.delete(*(noted - kept))
    for name in deleted:
        folder.delete_empty_folders(name.rpartition("/")[0])
    delete_input(folder)  # of another command that was refused here
    for line in _rejected_lines(plan.rejected):
        say(f"rejected {escape_line(line)}")
    if warning := slow_text_warning(plan.texts):
        say(warning)
    if done:
        say(f"{len(done):,} files have not changed since they were imported.")
    texts = tuple(text for text in plan.texts if text.target not in done)
    stages = (import_stage(texts, plan.runner, folder),) if texts else ()
    return ImportJob(plan=plan, folder=folder, run=name, orphans=orphans), stages


def _conclude_import(job: ImportJob) -> Outcome:
    """Add up the rows, and write the marker if every file was imported."""
    plan, folder = job.plan, job.folder
    imports = Imports(folder=folder.root, are_made=True)

    notes = Notes()

    def rows_of(text: TextFile) -> int | RejectedFile:
        try:
            layout = imports.layout(text)
        except RejectedError as error:
            return rejected_file(text.path, text.target.rpartition("/")[0], error)
        if layout is None:
            return 0
        notes.as_json.update(json_columns(layout.schema))
        return layout.num_rows

    results = list(in_parallel(rows_of, plan.texts, FILES_IN_FLIGHT))
    late = tuple(result for result in results if isinstance(result, RejectedFile))
    rows = sum(result for result in results if isinstance(result, int))
    rejected = (*plan.rejected, *late)
    if any(file.reason.is_out_of_reach for file in rejected):
        status = BROKEN
    else:
        status = TOO_MANY_REJECTS if rejected or job.orphans else DONE
    if status == DONE:
        declare_success(folder, job.run)
    number = len(plan.texts) - len(late)
    return Outcome(
        status=status,
        text=f"{number:,} files of text, {rows:,} rows: {mask_credentials(folder.root)}",
        document={
            "output": mask_credentials(folder.root),
            "files": number,
            "rows": rows,
            "rejected": {file.path: file.message for file in rejected},
        },
        warnings=(
            *(f"rejected {escape_line(line)}" for line in _rejected_lines(late)),
            *notes.messages,
            *_notices(job),
        ),
    )


def _notices(job: ImportJob) -> Iterator[str]:
    if job.orphans:
        yield (
            f"{len(job.orphans):,} Parquet files are of inputs that are not there now, such as "
            f"{escape_line(job.orphans[0])!r}: they are still in the output. --overwrite "
            "deletes them, and imports all others again."
        )
    if job.plan.num_parquet:
        yield (
            f"{job.plan.num_parquet:,} of the files are Parquet already and are not copied: give "
            "them to the job beside the output."
        )


def _rejected_lines(rejected: Sequence[RejectedFile]) -> list[str]:
    return grouped([(file.path, file.message) for file in rejected])


IMPORT = JobKind(
    prepare=_plan_import, show=_show_import, begin=_begin_import, conclude=_conclude_import
)
