"""What `bertscore-beam score` and `bertscore-beam idf` do, once their options are known."""

import json
import sys
import threading
from contextlib import ExitStack
from functools import partial

import apache_beam as beam
from rich.console import Console

from bertscore_core import EMBEDDED_MODEL, model_for_language
from pipelines import manifest
from pipelines.blueprint import print_job
from pipelines.estimate import estimate_run
from pipelines.exit_status import BROKEN, DONE, TOO_MANY_REJECTS
from pipelines.idf import build_idf_pipeline, finish_idf, prepare_idf, start_idf
from pipelines.io.files import join, mask_credentials, read_bytes
from pipelines.io.reach import before_work, reaching
from pipelines.lock import RunLock, hold
from pipelines.options import IdfOptions, JobOptions, ScoreOptions
from pipelines.planning import grouped
from pipelines.prepare import ScoreJob, plan_score, resume_score
from pipelines.printing import escape_line, escape_text
from pipelines.progress import RunProgress, show_progress
from pipelines.rejects import REJECTS_FOLDER
from pipelines.report import (
    few_rows_words,
    gate_words,
    show,
    show_plan,
    show_summary,
    truncated_words,
)
from pipelines.runners import check_waits, job_pipeline
from pipelines.running import (
    end_for,
    first_writing,
    local_workers,
    original_terminal,
    share_cores,
    worker_errors,
)
from pipelines.score import build_score_pipeline, start_run
from pipelines.sketch import sketch_idf, sketch_score
from pipelines.streams import printed
from pipelines.success import SUCCESS_FILE
from pipelines.totals import RunTotals
from pipelines.transforms.finish import finish_run
from pipelines.transforms.idf import load_idf


def score(options: ScoreOptions) -> int:
    """Check, plan, run, report."""
    if options.print_job:
        print(print_job(sketch_score(options)))
        return printed()
    console = Console(stderr=True)
    _announce_model(options, console)
    pipeline = job_pipeline(options)
    with before_work():
        planned = plan_score(options)
        if options.dry_run:
            with reaching("output", options.output):
                job = resume_score(planned)
            show(show_plan(job, estimate_run(job, job.goal.carried).words()))
            return printed()

    def say(words: str) -> None:
        console.print(escape_text(words), soft_wrap=True, highlight=False, markup=False)

    handed_over = threading.Event()
    with ExitStack() as stack:
        terminal = stack.enter_context(original_terminal())
        with first_writing(options):
            lock = stack.enter_context(
                hold(
                    planned.output,
                    say=say,
                    lost=partial(end_for, terminal=terminal),
                    handed_over=handed_over,
                )
            )
            # The folder is looked at only now: before, another run may have been at work on it.
            job = resume_score(planned)
            strange = len(manifest.strange_records(job.output))
            start_run(job, options, lock)
        if strange:
            say(
                f"The folder has records of {strange} part(s) by an earlier version of "
                "bertscore-beam, which this one does not read: their rows are scored again."
            )
        if job.unsure:
            say(
                f"{len(job.unsure)} earlier parts may still hold good: they are compared with the "
                "input, and scored again only where its texts have changed."
            )
        if not job.work:
            say("Everything is scored already; only the summary is made anew.")
        if job.superseded:
            say(
                f"{len(job.superseded)} earlier parts did not fit the input as it is cut now "
                "(other --split-rows or --split-bytes, changed files, or inputs that are gone): "
                "they were deleted, and their rows are scored again where they are still given."
            )
        _run(job, options, pipeline, lock)
        if job.detached:
            handed_over.set()
            say(
                f"The job was submitted and goes on by itself; it succeeds or fails with the run. "
                f"{mask_credentials(join(job.output, SUCCESS_FILE))} is written last."
            )
            return DONE
        return _conclude(job, lock)


def count_idf(options: IdfOptions) -> int:
    """Count the references of a dump and save the table."""
    if options.print_job:
        print(print_job(sketch_idf(options)))
        return printed()
    _announce_model(options, Console(stderr=True))
    check_waits(options)
    pipeline = job_pipeline(options)
    with before_work():
        job = prepare_idf(options)
    for line in grouped([(file.path, file.message) for file in job.plan.rejected_files]):
        print(f"bertscore-beam: rejected {escape_line(line)}", file=sys.stderr)
    if options.dry_run:
        print(f"would count {job.plan.num_rows:,} rows of {job.plan.num_files:,} files")
        return printed()
    if job.plan.num_rows < options.min_rows:
        words = few_rows_words(job.plan.num_rows, options.min_rows)
        print(f"bertscore-beam: {words} No table was saved.", file=sys.stderr)
        return TOO_MANY_REJECTS
    share_cores(options)
    with first_writing(options):
        start_idf(job)
    build_idf_pipeline(pipeline, job)
    with local_workers(options):
        pipeline.run().wait_until_finish()
    table = finish_idf(job)
    if table is None:
        print("bertscore-beam: a file could not be read; no table was saved.", file=sys.stderr)
        return BROKEN
    documents = f"{table.frequencies.num_documents:,} references of {job.plan.num_files:,} files"
    print(f"{documents}: {escape_line(job.output)} ({table.fingerprint})")
    return TOO_MANY_REJECTS if job.plan.rejected_files else DONE


def _run(job: ScoreJob, options: ScoreOptions, pipeline: beam.Pipeline, lock: RunLock) -> None:
    """Run the pipeline with progress; with nothing left to score only the end is written.

    One that is only submitted is submitted anyway: its sender waits for its state.
    """
    if not job.work and not job.detached:
        with worker_errors():
            finish_run(
                job.output,
                job.goal,
                RunTotals(),
                job.signature,
                job_digest=job.digest,
                run=job.run,
                idf=None if job.idf_path is None else load_idf(job.idf_path),
                lock=lock,
            )
        return
    share_cores(options)
    progress = RunProgress.of_splits(job.output, job.pending, job.goal.started)
    build_score_pipeline(pipeline, job, lock)
    if job.detached:
        with worker_errors():
            pipeline.run()
        return
    with local_workers(options) as terminal, show_progress(progress, Console(file=terminal)):
        pipeline.run().wait_until_finish()


def _conclude(job: ScoreJob, lock: RunLock) -> int:
    """Print the summary and turn it into an exit status.

    Raises:
        FolderLostError: the folder, and the plans in it, belong to another run by now.
    """
    lock.check()
    manifest.delete_plans(job.output)
    summary = json.loads(read_bytes(join(job.output, manifest.SUMMARY_FILE)))
    show(show_summary(summary, job.output))
    if warning := truncated_words(summary, job.signature.max_length):
        print(f"bertscore-beam: {escape_text(warning)}", file=sys.stderr)
    if summary["success"]:
        return DONE
    if not summary["complete"]:
        doubled = summary["doubled_parts"]
        print(
            f"bertscore-beam: {summary['missing_parts']} splits and "
            f"{summary['num_unreachable_files']} files could not be read; mend or remove them and "
            f"run the same command again. {_rejects_words(job)}"
            + (f" {doubled} parts hold rows twice; the next run deletes them." if doubled else "")
            + (
                "" if summary["whole_idf"] else " The idf table left a file out: nothing is scored."
            ),
            file=sys.stderr,
        )
        return BROKEN
    for words in gate_words(summary, mask_credentials(join(job.output, REJECTS_FOLDER))):
        print(f"bertscore-beam: {escape_text(words)}", file=sys.stderr)
    return TOO_MANY_REJECTS


def _rejects_words(job: ScoreJob) -> str:
    folder = mask_credentials(join(job.output, REJECTS_FOLDER))
    return f"They are listed in {escape_line(folder)}."


def _announce_model(options: JobOptions, console: Console) -> None:
    """Print a message when a model was chosen for the user."""
    if options.model is not None:
        return
    if options.lang is None:
        words = (
            f"No model and no language given: the embedded default {EMBEDDED_MODEL} is used. For "
            "the model most papers use on English: --model roberta-large --lang en."
        )
    else:
        words = f"Model for language {options.lang}: {model_for_language(options.lang)}."
    console.print(words, highlight=False, markup=False, soft_wrap=True)
