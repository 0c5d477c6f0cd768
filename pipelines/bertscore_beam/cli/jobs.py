"""The commands that run a job.

Each imports its own job when it is called: another one may need packages that are not installed.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from fsspec.utils import glob_translate

from bertscore_beam.cli.show import named, output_mode, report, say, warn
from bertscore_beam.dump.formats import HEAD_BYTES, Format, suffix_of
from bertscore_beam.dump.input_names import common_folder, input_names
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.text.to_parquet import write_line_files
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import is_pattern
from bertscore_beam.files.paths import real_place
from bertscore_beam.files.reach import before_work, silenced
from bertscore_beam.files.write import check_can_write, copy_atomically
from bertscore_beam.options.run_options import STANDARD, DumpOptions, RunOptions
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.text_rows import PublishedRows
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.loading import check_models
from bertscore_beam.run.output import DONE, NOTHING_KEPT, TOO_MANY_REJECTS, Outcome, TextTable
from bertscore_beam.run.temporary import temporary_folder
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.registry import EMBEDDED_MODEL, model_for_language


def run_command(job: str, options: RunOptions) -> int:
    """Run a job and print its outcome; return the exit status."""
    options.check_packages()
    if not options.beam:  # a runner has placeholders, and may not be here
        options.check_input()
        check_models(options)
    if isinstance(options, ScoreOptions):
        return _score(job, options)
    return report(_outcome_of(job, options))


def _score(job: str, options: ScoreOptions) -> int:
    """Score, and keep the folder; or print or write its rows at the end, and delete it.

    Files with one text per line are scored as Parquet files that are deleted at the end, too.
    """
    if options.is_kept and not options.candidates:
        return report(_outcome_of(job, options))
    if options.beam:
        what = "files with one text per line" if options.candidates else "without a folder rows"
        raise ConfigError(
            f"{what} are scored on this machine only: got Beam's "
            f"{mask_credentials(options.beam[0])!r}; expected no option of Beam. Leave it out, or "
            "give the texts in a Parquet file as --input, and a folder as --output."
        )
    if options.output_ending:
        with before_work():
            _check_file(options)
    if options.output == STANDARD and output_mode().json:
        raise ConfigError(
            "--output - prints lines, and --json one document: got both; expected one of them. "
            "Leave one out; with --json the rows can go to a file: --output x.jsonl."
        )
    with temporary_folder() as folder:
        inputs = () if options.candidates or options.is_kept else _names_as_given(options)
        if options.candidates:
            options = _with_dump(options, folder)
            inputs = tuple(input_names(options.input).values())
        if options.is_kept:
            return report(_systems_first(options, _outcome_of(job, options)))
        return _score_into(job, options, folder, inputs)


def _names_as_given(options: ScoreOptions) -> tuple[str, ...]:
    """Return the names of the input files as the run makes them, in the order of the options."""
    of_run = silenced("bertscore_beam.dump.inputs")  # the run says again what it warns of
    with before_work(), of_run:
        found = expand_inputs(options.input, input_format=options.input_format)
        if len(options.input) > 1:
            places: dict[str, int] = {}
            for path in options.input:
                for file in expand_inputs([path], input_format=options.input_format):
                    places.setdefault(file.path, len(places))
            found.sort(key=lambda file: places.get(file.path, len(places)))
    names = input_names([file.path for file in found], common_folder([file.root for file in found]))
    return tuple(names.values())


def _with_dump(options: ScoreOptions, folder: str) -> ScoreOptions:
    """Write files with one text per line as Parquet files, those of the options that are returned.

    Standard input, which can be read once, becomes a file first.
    """
    sides = options.candidates, options.references
    spooled = _spooled(f"{folder}/texts") if any(STANDARD in side for side in sides) else STANDARD
    candidates, references = (
        tuple(spooled if path == STANDARD else path for path in side) for side in sides
    )
    try:
        with before_work():
            dump = write_line_files(candidates, references, folder)
    except InputError as error:
        if spooled == STANDARD:
            raise
        raise InputError(str(error).replace(spooled, "standard input")) from error
    return replace(
        options, candidates=candidates, references=references, input=dump, input_format="parquet"
    )


def _spooled(folder: str) -> str:
    """Write standard input to a file, named by its compression, and return its path."""
    os.mkdir(folder)
    with open(0, "rb", closefd=False) as source:
        head = source.read(HEAD_BYTES)
        path = f"{folder}/stdin{suffix_of(head)}"
        with open(path, "wb") as sink:
            sink.write(head)
            shutil.copyfileobj(source, sink)
    return path


def _systems_first(options: ScoreOptions, outcome: Outcome) -> Outcome:
    """Return an outcome that shows several systems one by one, and then all of them together."""
    several = len(options.candidates) > 1
    shown = (*outcome.shown[1:], *outcome.shown[:1]) if several else outcome.shown
    return replace(outcome, shown=shown)


def _check_file(options: ScoreOptions) -> None:
    """Check that the one file of the result can be written, before hours of work.

    Raises:
        ConfigError: It cannot, or would be read as input by the same command.
    """
    output = str(options.output)
    path, shown = real_place(output), mask_credentials(output)
    if os.path.isdir(path) or ("://" in path and OutputFolder(path).exists(RUN_FILE)):
        raise ConfigError(
            f"--output {shown!r} is a folder: got a name that stands for a file; expected a file, "
            f"which may be there. Choose another name, or write {shown}/ to go on in the folder."
        )
    check_can_write(output)
    files = (options.reference_file, options.registry, options.baseline, options.idf)
    read = (*options.input, *options.candidates, *options.references, *files)
    is_glob = not options.candidates
    if inside := [one for one in read if one and _reads(one, path, is_glob=is_glob)]:
        raise ConfigError(
            f"--output {shown!r} is in the input {mask_credentials(inside[0])!r}: got a file that "
            "this command would read the next time; expected one elsewhere. Choose another "
            "--output."
        )


def _score_into(job: str, options: ScoreOptions, folder: str, inputs: Sequence[str]) -> int:
    """Run a job whose output folder nobody will see, and print or write what it holds."""
    below, output = f"{folder}/scores", str(options.output)
    is_printed = options.output == STANDARD
    try:
        outcome = _outcome_of(job, replace(options, output=below))
        is_scored = not options.dry_run and outcome.status in (DONE, TOO_MANY_REJECTS)
        if is_scored and options.output_ending:
            with open(f"{folder}/rows", "wb") as sink:
                PublishedRows.of(below, inputs).write(sink, Format(options.output_ending))
            copy_atomically(output, f"{folder}/rows")
        if is_scored and is_printed:
            for line in PublishedRows.of(below, inputs).lines():
                print(line)
    except Exception as error:
        error.add_note(NOTHING_KEPT)
        raise
    target = mask_credentials(output) if options.output_ending else ""
    shown = _systems_first(options, outcome)
    if target and is_scored:
        shown = _with_file(shown, target)
    elif outcome.status != DONE:
        shown = replace(shown, warnings=(*shown.warnings, NOTHING_KEPT))
    if len(options.candidates) == 1 and outcome.document and not target and not is_printed:
        summary = outcome.document["summary"]
        means = (summary[name] for name in ("precision", "recall", "f1"))
        words = ("none" if mean is None else f"{mean:.6f}" for mean in means)
        line = "  ".join(map("{} {}".format, ("P", "R", "F1"), words))
        shown = replace(shown, shown=(TextTable("Scores", ("",), [(line,)]), *shown.shown))
    is_answer = outcome.status == DONE and not target
    return report(replace(shown, is_answer=is_answer), aside=is_printed)


def _with_file(outcome: Outcome, target: str) -> Outcome:
    """Return an outcome that names the file of the rows."""
    rows = (
        f"The rows without scores are in {target}, each with its reason. It has no rows of "
        "rejected files."
    )
    failed = outcome.document["summary"]["failed_gates"] if outcome.document else ()
    told = (rows,) if "max_reject_fraction" in failed else ()
    return replace(
        outcome,
        shown=(*outcome.shown, TextTable("File", ("", ""), [("output", target)])),
        document={"output": target, **outcome.document},
        warnings=(*outcome.warnings, *told),
    )


def _outcome_of(job: str, options: RunOptions) -> Outcome:
    from bertscore_beam.run.job import run_job  # here, since it takes time
    from bertscore_beam.run.runner import usable_cores  # here, since it takes time

    if isinstance(options, ScoreOptions):
        _warn_of_output(options)
    if isinstance(options, DumpOptions):
        _announce_model(options)
    if options.first_note:
        say(options.first_note)
    if not options.beam and options.workers != "auto" and options.workers > usable_cores():
        warn(
            f"--workers {options.workers:,} is more than the {usable_cores()} cores of this "
            "machine. That is not faster, and each worker takes the memory of a model."
        )
    return run_job(named(job), options, say, quiet=output_mode().quiet)


def _warn_of_output(options: ScoreOptions) -> None:
    """Warn of an output where other commands that read the same input will find it."""
    for path in options.input:
        if _reads(path, f"{real_place(str(options.output))}/part.parquet"):
            warn(
                f"--output {mask_credentials(str(options.output))} is in the input "
                f"{mask_credentials(path)}: this command leaves it out, but others that read this "
                "input will read it, too. Choose a folder beside it."
            )


def _reads(pattern: str, path: str, *, is_glob: bool = True) -> bool:
    """Tell whether a file is what is read, below it, or matches it or is below a match."""
    whole, places = real_place(pattern), [path, *map(str, PurePath(path).parents)]
    if whole in places:
        return True
    if not is_glob or not is_pattern(whole):
        return False
    matching = re.compile(glob_translate(whole))
    return any(map(matching.match, places))


def _announce_model(options: DumpOptions) -> None:
    """Print which model is used, if the user has named none."""
    if options.model is not None or options.language_column is not None:
        return
    if options.language is None:
        say(
            f"No model and no language given: the embedded default {EMBEDDED_MODEL} is used. For "
            "the model most papers use on English: --model roberta-large --language en."
        )
    else:
        say(f"Model for language {options.language}: {model_for_language(options.language)}.")
