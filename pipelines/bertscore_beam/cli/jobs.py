"""The commands that run a job.

Each imports its own job when it is called: another one may need packages that are not installed.
"""

import os
from dataclasses import replace
from pathlib import PurePath

from bertscore_beam.cli.show import named, output_mode, report, say, warn
from bertscore_beam.dump.text.to_parquet import write_line_files
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import before_work, reaching
from bertscore_beam.options.run_options import DumpOptions, RunOptions
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.loading import check_models
from bertscore_beam.run.output import NOTHING_KEPT, Outcome
from bertscore_beam.run.temporary import temporary_folder
from bertscore_core.errors import ConfigError
from bertscore_core.registry import EMBEDDED_MODEL, model_for_language


def run_command(job: str, options: RunOptions) -> int:
    """Run a job and print its outcome; return the exit status."""
    options.check_packages()
    if not options.beam:  # a runner has placeholders, and may not be here
        options.check_input()
        check_models(options)
    if isinstance(options, ScoreOptions) and options.candidates:
        return report(_score_lines(job, options))
    return report(_outcome_of(job, options))


def _score_lines(job: str, options: ScoreOptions) -> Outcome:
    """Score files with one text per line: as Parquet files that are deleted at the end."""
    if options.beam:
        raise ConfigError(
            "files with one text per line are scored on this machine only: got Beam's "
            f"{mask_credentials(options.beam[0])!r}; expected no option of Beam. Leave it out, or "
            "write the texts to a Parquet file and give that as --input."
        )
    with temporary_folder() as folder:
        with before_work(), reaching("candidates and references", *options.input):
            dump = write_line_files(options.candidates, options.references, folder)
        options = replace(options, input=dump, input_format="parquet")
        if options.is_kept:
            return _outcome_of(job, options)
        return _only_printed(job, options, folder)


def _only_printed(job: str, options: ScoreOptions, folder: str) -> Outcome:
    """Run a job whose output folder nobody will see."""
    try:
        outcome = _outcome_of(job, replace(options, output=f"{folder}/scores"))
    except Exception as error:
        error.add_note(NOTHING_KEPT)
        raise
    document = outcome.document and {"summary": outcome.document["summary"]}
    return replace(
        outcome,
        shown=tuple(
            replace(table, rows=[row for row in table.rows if row[0] != "output"])
            for table in outcome.shown
        ),
        document=document,
        warnings=tuple(
            words.replace(
                f"They are listed in {folder}/scores/_rejects; the scores are kept.", NOTHING_KEPT
            )
            for words in outcome.warnings
        ),
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
    output = PurePath(_whole(options.output))
    for path in options.input:
        folder = _whole(path).partition("/**")[0]
        if any(place.match(folder) for place in (output, *output.parents)):
            warn(
                f"--output {mask_credentials(options.output)} is in the input "
                f"{mask_credentials(path)}: this command leaves it out, but others that read this "
                "input will read it, too. Choose a folder beside it."
            )


def _whole(path: str) -> str:
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


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
