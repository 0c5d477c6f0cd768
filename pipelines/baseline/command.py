"""What `bertscore-beam baseline` does, once its options are known."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from rich.console import Console

from bertscore_core.errors import InputError
from pipelines.baseline import layout
from pipelines.baseline.collect import SampleRecord, TooManyFilesFailedError, collect_samples
from pipelines.baseline.folder import check_folder
from pipelines.baseline.options import BaselineOptions
from pipelines.baseline.prepare import (
    BaselineJob,
    masked_source,
    prepare_baseline,
    source_files,
    table_path,
)
from pipelines.baseline.score import make_pairs, score_pairs
from pipelines.baseline.sketch import sketch_baseline
from pipelines.baseline.stage import Stage
from pipelines.baseline.tables import clear_output, drop_stale_tables, write_table
from pipelines.blueprint import print_job
from pipelines.exit_status import BROKEN, DONE, TOO_MANY_REJECTS
from pipelines.io.files import (
    delete,
    delete_temporary,
    join,
    mask_credentials,
    write_atomically,
)
from pipelines.io.reach import before_work, reaching
from pipelines.lock import RunLock, check_held, hold
from pipelines.printing import escape_text
from pipelines.progress import RunProgress, show_progress
from pipelines.report import Shown, show
from pipelines.runners import check_waits, job_pipeline
from pipelines.running import (
    end_for,
    first_writing,
    local_workers,
    original_terminal,
    share_cores,
)
from pipelines.streams import printed
from pipelines.success import SUCCESS_FILE, declare_success

LARGE_ERROR = 0.005
"""Standard error of F1 above which a table is said to be rough: below it lie some 450 pairs."""


def make_baselines(options: BaselineOptions) -> int:
    """Check, collect, pair, score, write the tables, report."""
    if options.print_job:
        print(print_job(sketch_baseline(options)))
        return printed()
    check_waits(options)
    for chosen in (options, options.for_scoring):
        job_pipeline(chosen)  # what is wrong with Beam's options is said before any work
    with before_work():
        job = prepare_baseline(options)
        with reaching("output", options.output):
            check_folder(job)
        if options.dry_run:
            show(_plan(job))
            return printed()
        sources = source_files(job) if options.overwrite else {}
    console = Console(stderr=True)

    def say(words: str) -> None:
        console.print(escape_text(words), soft_wrap=True, highlight=False, markup=False)

    with ExitStack() as stack:
        terminal = stack.enter_context(original_terminal())
        with first_writing(options):
            lock = stack.enter_context(
                hold(job.output, say=say, lost=partial(end_for, terminal=terminal))
            )
            start_baseline(job, {code: files.digest for code, files in sources.items()}, lock)
        share_cores(options)
        try:
            summary = run_baseline(job, console, lock)
        except TooManyFilesFailedError as error:
            words = escape_text(mask_credentials(str(error)))
            print(f"bertscore-beam: {words}", file=sys.stderr)
            return BROKEN
    show(_result(summary, job.output))
    return _conclude(summary, options)


def start_baseline(
    job: BaselineJob, digests: Mapping[str, str], lock: RunLock | None = None
) -> None:
    """Write down whose folder this is, and take back an earlier success.

    Args:
        job: What is to be done.
        digests: Of the source's files by language, to know what is to be overwritten.
        lock: What must be held to delete and to write; None leaves that unchecked.

    Raises:
        FolderLostError: the folder belongs to another run by now.
        SignatureError: another run has been at work on it since it was looked at.
    """
    before = check_folder(job)
    files = before.get("files", {})
    if job.options.overwrite:
        changed = any(files.get(code, digest) != digest for code, digest in digests.items())
        if before.get("identity") != job.identity or changed:
            unlike_any = {"command": "baseline", "state": "being overwritten"}
            check_held(lock)
            _write_json(job, layout.RUN_FILE, {"identity": unlike_any})
            check_held(lock)
            clear_output(job.output)
            files = {}
    for name in (SUCCESS_FILE, layout.SUMMARY_FILE):
        check_held(lock)
        delete(join(job.output, name))
    check_held(lock)
    delete_temporary(job.output)
    run = {
        "run": job.run,
        "files": files,
        "identity": job.identity,
        "options": job.options.describe(),
    }
    check_held(lock)
    _write_json(job, layout.RUN_FILE, run)


def _write_json(job: BaselineJob, name: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    write_atomically(join(job.output, name), text.encode())


def run_baseline(job: BaselineJob, console: Console, lock: RunLock | None = None) -> dict[str, Any]:
    """Run what of the job is not done yet, and return its summary.

    Raises:
        TooManyFilesFailedError: too many files could not be read.
    """
    started = time.time()

    def say(words: str) -> None:
        console.print(escape_text(words), soft_wrap=True, highlight=False, markup=False)

    def run(stage: Stage) -> None:
        say(f"{stage.words} ...")
        pipeline = job_pipeline(job.options.for_scoring if stage.scores else job.options)
        stage.build(pipeline)
        folder = join(job.output, stage.folder) if stage.folder else job.output
        progress = RunProgress(folder, stage.amounts, time.time(), stage.unit)
        with local_workers(job.options) as terminal, ExitStack() as stack:
            if stage.amounts:
                stack.enter_context(show_progress(progress, Console(file=terminal)))
            pipeline.run().wait_until_finish()

    samples = collect_samples(job, run, say, lock)
    for stale in drop_stale_tables(job.output, samples):
        say(f"{stale} rested on another sample and was deleted.")
    pairs = make_pairs(job, samples, run, lock)
    tables, unusable = [], []
    for model in job.models:
        moments = score_pairs(job, model, pairs, run, lock)
        check_held(lock)
        for language, sums in moments.items():
            try:
                made = write_table(job, model, samples[language], pairs[language], sums)
                tables.append(_row(made))
            except InputError as error:  # no pair with tokens on both sides, or a mean of 1
                table = table_path(language, model.name)
                unusable.append({"table": table, "reason": str(error)})
    summary = {
        "source": masked_source(job),
        "seconds": round(time.time() - started, 1),
        "tables": tables,
        "unusable": unusable,
        "languages": {code: _sample_row(samples[code]) for code in job.languages},
    }
    check_held(lock)
    _write_json(job, layout.SUMMARY_FILE, summary)
    if not unusable and all(sample.found >= 2 for sample in samples.values()):
        declare_success(job.output, job.run, lock)
    return summary


def _row(made: dict[str, Any]) -> dict[str, Any]:
    """Return what the summary says of a table."""
    errors = [layer["f1"]["standard_error"] for layer in made["layers"]]
    known = [error for error in errors if error is not None]
    return {
        "table": table_path(made["language"], made["model"]),
        "pairs": made["pairs"],
        "pairs_without_tokens": made["pairs_without_tokens"],
        "largest_error": None if None in errors else max(known),
        "failed_checks": [check["name"] for check in made["checks"] if check["passed"] is False],
        "skipped_checks": [check["name"] for check in made["checks"] if check["passed"] is None],
    }


def _sample_row(sample: SampleRecord) -> dict[str, Any]:
    return {
        "sentences": sample.found,
        "wanted": sample.wanted,
        "files": len(sample.files),
        "failed_files": len(sample.failed),
    }


def _result(summary: dict[str, Any], output: str) -> Shown:
    rows: list[tuple[str, ...]] = [
        (
            mask_credentials(join(output, table["table"])),
            f"{table['pairs']:,} pairs, standard error of F1 "
            + ("unknown" if table["largest_error"] is None else f"{table['largest_error']:.1e}")
            + " at most",
        )
        for table in summary["tables"]
    ]
    return Shown(title="Baselines", columns=("", ""), rows=rows)


def _plan(job: BaselineJob) -> Shown:
    """Show what a run would do; lists the source's files."""
    files = source_files(job)
    numbers = ", ".join(f"{code} {len(files[code].names):,}" for code in job.languages)
    rows = {
        "languages": ", ".join(job.languages),
        "models": ", ".join(f"{model.name} ({model.signature.weights})" for model in job.models),
        "source": masked_source(job),
        "files listed": numbers,
        "files at most": "all" if job.options.sentences else f"{job.options.max_files:,}",
        "pairs": f"{job.options.pairs:,} for every language",
        "output": mask_credentials(job.output),
    }
    return Shown(title="Plan", columns=("", ""), rows=list(rows.items()))


def _conclude(summary: dict[str, Any], options: BaselineOptions) -> int:
    """Say what is short or strange, and turn it into an exit status."""

    def warn(words: str) -> None:
        print(f"bertscore-beam: {escape_text(words)}", file=sys.stderr)

    hint = "; more --max-files, another crawl or more --sentences-per-host give more"
    if options.sentences:
        hint = ""
    for code, row in summary["languages"].items():
        if row["sentences"] < row["wanted"]:
            warn(
                f"{code}: the sample was too small: got {row['sentences']:,} sentences in "
                f"{row['files']:,} files; expected {row['wanted']:,}. The table rests on what "
                f"there is{hint}."
            )
        if row["failed_files"]:
            warn(f"{code}: {row['failed_files']:,} files could not be read; see _failed/.")
    for table in summary["tables"]:
        if (words := _unsure(table)) is not None:
            warn(words)
        for check in table["failed_checks"]:
            warn(f"{table['table']}: this does not hold: {check}; see its .json.")
        if table["pairs_without_tokens"]:
            warn(
                f"{table['table']}: {table['pairs_without_tokens']:,} pairs are left out, since "
                "the tokenizer leaves nothing of a sentence."
            )
    for table in summary["unusable"]:
        warn(f"no table {table['table']}: {table['reason']}")
    missing = [code for code, row in summary["languages"].items() if row["sentences"] < 2]
    if missing:
        found = ", ".join(f"{code} {summary['languages'][code]['sentences']}" for code in missing)
        warn(
            f"no table for {', '.join(missing)}: got these numbers of sentences: {found}; expected "
            "at least two, a pair."
        )
    if missing or summary["unusable"]:
        return TOO_MANY_REJECTS
    return DONE


def _unsure(table: Mapping[str, Any]) -> str | None:
    """Say that a table is not to be relied on, if its standard error is large or not known."""
    error = table["largest_error"]
    if error is not None and error <= LARGE_ERROR:
        return None
    size = "is not known" if error is None else f"is {error:.1e}"
    skipped = len(table["skipped_checks"])
    unchecked = f"; {skipped} checks were not made" if skipped else ""
    return (
        f"{table['table']}: the standard error of F1 {size} with {table['pairs']:,} pairs"
        f"{unchecked}; expected at most {LARGE_ERROR}. Take more --pairs, and two sentences for "
        "each of them."
    )
