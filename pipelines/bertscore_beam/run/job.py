"""Run a job from its options to its outcome; all jobs go this way.

    options --prepare--> plan --begin (under the lock)--> job --stages--> ... --conclude--> Outcome

A `JobKind` holds the functions of one job. The lock on the output folder, the runner, workers,
progress, dry run, `--print-job` and the import of files of text are the same for every job and are
here.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from rich.console import Console

from bertscore_beam.dump.text.imports import TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NotBegunError, before_work, reaching
from bertscore_beam.options.base import RunOptions
from bertscore_beam.run import pool
from bertscore_beam.run.describe import print_job
from bertscore_beam.run.ending import end_for, end_when_interrupted, worker_errors
from bertscore_beam.run.exit_status import REFUSED
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.import_stage import import_stage
from bertscore_beam.run.import_text import delete_input
from bertscore_beam.run.lock import FolderLostError, hold
from bertscore_beam.run.outcome import Outcome, Shown
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.progress import RunProgress, show_progress
from bertscore_beam.run.run_step import let_workers_keep
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.stage import Stage
from bertscore_core import BertScoreError, ConfigError

Say = Callable[[str], None]
"""Prints a message while the command runs."""


Options = TypeVar("Options", bound=RunOptions)
Job = TypeVar("Job")


class Planned(Protocol):
    """A job that is checked and planned."""

    @property
    def output(self) -> str:
        """The output folder, as `absolute` returns it."""


Plan = TypeVar("Plan", bound=Planned)


def _never_refuse(plan: object) -> Outcome | None:
    return None


def _identity(plan: Plan) -> Plan:
    return plan


def _no_texts(plan: object, folder: OutputFolder) -> tuple[TextFile, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind(Generic[Options, Plan, Job]):
    """The functions of one job.

    Attributes:
        prepare: Checks and plans; loads no model and writes nothing.
        sketch: Returns the stages without a plan: their steps do not depend on it.
        show: Describes what a run would do.
        begin: Compares the plan with the locked folder, and writes the plan for the workers.
        stages: Yields the remaining stages; each one ends before the next one is requested.
        conclude: Finishes the folder and returns the outcome.
        refuse: Returns how the command ends if the plan leaves nothing worth doing; None to go on.
        texts: Makes the locked folder ready for the import of the files of text of which the plan
            is only a sketch, and returns them.
        again: Plans the same files again, with their imports.
        may_detach: Whether the job may run detached.
    """

    prepare: Callable[[Options, Runner], Plan]
    sketch: Callable[[Options, Runner], Iterable[Stage]]
    show: Callable[[Plan], tuple[Shown, ...]]
    begin: Callable[[Plan, OutputFolder, Say], Job]
    stages: Callable[[Job], Iterable[Stage]]
    conclude: Callable[[Job], Outcome]
    refuse: Callable[[Plan], Outcome | None] = _never_refuse
    texts: Callable[[Plan, OutputFolder], tuple[TextFile, ...]] = _no_texts
    again: Callable[[Plan], Plan] = _identity
    may_detach: bool = False


def run_job(
    kind: JobKind[Options, Plan, Job], options: Options, say: Say, *, quiet: bool = False
) -> Outcome:
    """Check, plan, run and conclude a job.

    Args:
        kind: The functions of the job.
        options: Its options.
        say: Prints a message for people.
        quiet: Whether to show no progress.

    Raises:
        BertScoreError: The job cannot work. Nothing has been written, unless the source or the
            folder changed while the job ran.
        FolderLostError: Another run has taken the output folder over.
        NotBegunError: A file system did not answer; nothing has been written.
        OSError: A file system did not answer later on.
        RuntimeError: A worker failed.
    """
    runner = Runner.of(options)
    if options.print_job:
        text = print_job(options, kind.sketch(options, runner))
        return Outcome(text=text, is_json=True, is_answer=True)
    _check_runner(runner, options, may_detach=kind.may_detach)
    with ExitStack() as stack:
        if not options.dry_run:
            stack.enter_context(pool.opening(_pool_of(runner)))
        with before_work():
            planned = kind.prepare(options, runner)
            if options.dry_run:
                with reaching("output", options.output):
                    return Outcome(shown=kind.show(planned), is_answer=True)
        if (refused := kind.refuse(planned)) is not None:
            return refused
        at_work = threading.Event()
        with _first_writing(options):
            lock = stack.enter_context(
                hold(
                    planned.output,
                    say=say,
                    lost=end_for,
                    detached=runner.detached,
                    at_work=at_work,
                )
            )
        stack.callback(pool.kill_opened)  # no child writes when the lock is released
        folder = OutputFolder(planned.output, lock)
        with _first_writing(options):
            texts = kind.texts(planned, folder)
        with _without_texts_if_refused(folder) if texts else nullcontext():
            if texts:
                at_work.set()
                _run_stage(import_stage(texts, runner, folder), runner, folder, say, quiet=quiet)
                planned = kind.again(planned)
                if (refused := kind.refuse(planned)) is not None:
                    delete_input(folder)
                    return refused
            with _first_writing(options):
                # Not before the lock is held: until then another run may change the folder.
                job = kind.begin(planned, folder, say)
        del planned  # it is large when there are many splits
        at_work.set()
        try:
            for stage in kind.stages(job):
                _run_stage(stage, runner, folder, say, quiet=quiet)
        except NotBegunError as error:  # by now something has begun
            raise ConnectionError(str(error)) from error
        if pool.restarts():
            folder.delete_temporary()  # of processes that died while they wrote
        return _with_restarts(kind.conclude(job))


def _check_runner(runner: Runner, options: RunOptions, *, may_detach: bool) -> None:
    if not may_detach:
        runner.check_waits()
    runner.check_restarts(options.restarts)
    runner.check(options)


def _pool_of(runner: Runner) -> Pool | None:
    """Return the pool of a run; None if its steps run in this process, or on other machines."""
    if not runner.children:
        return None
    return Pool(
        runner.children,
        restarts=runner.restarts,
        at_once=runner.at_once,
        threads=runner.threads,
        gpus=runner.gpus,
    )


@contextmanager
def _without_texts_if_refused(folder: OutputFolder) -> Iterator[None]:
    """Keep no imported texts of a run that cannot begin."""
    try:
        yield
    except BertScoreError:
        with suppress(FolderLostError, OSError):
            delete_input(folder)
        raise


@contextmanager
def _first_writing(options: RunOptions) -> Iterator[None]:
    """Name the output in the error if the first write to it fails."""
    try:
        with reaching("output", options.output):
            yield
    except REFUSED as error:
        raise ConfigError(
            f"output {mask_credentials(options.output)!r} cannot be written: got {error!r}; "
            "expected a folder where files can be made. Choose another --output."
        ) from error


def _with_restarts(outcome: Outcome) -> Outcome:
    """Say how many deaths of workers the run has survived, if any."""
    if not (restarts := pool.restarts()):
        return outcome
    times = "once" if restarts == 1 else f"{restarts} times"
    words = f"The run went on {times} after a worker process had died."
    return replace(outcome, warnings=(words, *outcome.warnings))


def _run_stage(stage: Stage, usual: Runner, folder: OutputFolder, say: Say, *, quiet: bool) -> None:
    """Run one pipeline to its end, or submit it if the run is detached.

    Args:
        stage: The pipeline.
        usual: The runner that the pool of the run is for.
        folder: The output folder.
        say: Prints a message.
        quiet: Whether to show no progress.
    """
    if stage.words:
        say(f"{stage.words} ...")
    runner = stage.runner
    pipeline = runner.pipeline()
    stage.build(pipeline)
    if runner.detached:
        let_workers_keep(folder.lock, pipeline)
        with worker_errors():
            pipeline.run()
        return
    started = time.time() if stage.started is None else stage.started
    with ExitStack() as stack:
        if runner != usual:
            stack.enter_context(pool.opening(_pool_of(runner)))
        processes = pool.opened()
        stack.enter_context(worker_errors())
        stack.enter_context(end_when_interrupted(elsewhere=runner.is_remote))
        if processes is not None:
            processes.begin_stage()
            stack.enter_context(_without_tracebacks())
        if (len(stage.amounts) or stage.before) and not quiet:
            progress = RunProgress(
                folder=folder.path(stage.folder),
                amounts=stage.amounts,
                before=stage.before,
                started=started,
                unit=stage.unit,
                first=stage.first,
            )
            stack.enter_context(show_progress(progress, Console(file=sys.stderr)))
        try:
            pipeline.run().wait_until_finish()
        except Exception:
            if processes is None or processes.failure is None:
                raise
            raise processes.failure from None  # Beam's own error only quotes it


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keep Beam from logging tracebacks of errors that it raises: the command prints a line."""
    logger = logging.getLogger("apache_beam.runners")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
