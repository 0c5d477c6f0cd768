"""Run a job from its options to its outcome; all jobs go this way.

    options --prepare--> plan --begin (under the lock)--> stages ... --conclude--> Outcome

A `JobKind` holds the functions of one job. The lock on the output folder, the runner, workers,
progress, dry run and the import of files of text are the same for every job and are here.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import apache_beam as beam
from rich.console import Console

from bertscore_beam.dump.text.text_source import IMPORTS_FOLDER, TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NotBegunError, before_work, is_refused, reaching, silenced
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run import output, pool
from bertscore_beam.run.endings import end_for, end_when_interrupted, worker_errors
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import FolderLostError, hold, is_of_lock
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.progress import RunProgress, Stage, show_progress
from bertscore_beam.run.remote_job import RemoteJob, end_earlier_job
from bertscore_beam.run.run_step import RunStep, Spread, prepare_workers
from bertscore_beam.run.runner import Runner, check_service
from bertscore_beam.run.temporary import is_temporary
from bertscore_beam.run.text_import import delete_input, import_step
from bertscore_core.errors import BertScoreError, ConfigError, ModelLoadError

Say = Callable[[str], None]
"""Prints a message while the command runs."""


Options = TypeVar("Options", bound=RunOptions)
Begun = TypeVar("Begun")


class HasOutput(Protocol):
    """What is planned has an output folder."""

    @property
    def output(self) -> str:
        """The output folder, as `absolute` returns it."""


Planned = TypeVar("Planned", bound=HasOutput)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind(Generic[Options, Planned, Begun]):
    """The functions of one job.

    Attributes:
        prepare: Checks and plans; loads no model and writes nothing.
        begin: Compares the plan with the locked folder, and writes the plan for the workers. It
            returns what `conclude` takes, and the stages: each ends before the next is asked for.
        conclude: Finishes the folder and returns the outcome.
        refuse: Returns how the command ends if the plan leaves nothing worth doing; None to go on.
        texts: Makes the locked folder ready for the import of the files of text of which the plan
            is only a sketch, and returns them.
        again: Plans the same files again, with their imports.
        may_detach: Whether the job may run detached.
    """

    prepare: Callable[[Options, Runner], Planned]
    show: Callable[[Planned], tuple[output.TextTable, ...]]
    begin: Callable[[Planned, OutputFolder, Say], tuple[Begun, Iterable[Stage]]]
    conclude: Callable[[Begun], output.Outcome]
    refuse: Callable[[Planned], output.Outcome | None] = lambda plan: None
    texts: Callable[[Planned, OutputFolder], tuple[TextFile, ...]] = lambda plan, folder: ()
    again: Callable[[Planned], Planned] = lambda plan: plan
    may_detach: bool = False


def run_job(
    kind: JobKind[Options, Planned, Begun], options: Options, say: Say, *, quiet: bool = False
) -> output.Outcome:
    """Check, plan, run and conclude a job.

    Raises:
        BertScoreError: The job cannot work. Nothing has been written, unless the source or the
            folder changed while the job ran.
        NotBegunError: A file system did not answer; nothing has been written.
        OSError: A file system did not answer later on.
        JobFailedError: The work stopped, and the same command may continue it.
        RuntimeError: An error of the work that nobody has foreseen.
    """
    runner = Runner.of(options)
    runner.check(options, may_detach=kind.may_detach)
    with ExitStack() as stack:
        if not options.dry_run:
            stack.enter_context(pool.opening(_pool_of(runner)))
        with before_work():
            planned = kind.prepare(options, runner)
            if options.dry_run:
                with reaching("output", options.output):
                    return output.Outcome(shown=kind.show(planned), is_answer=True)
        if (refused := kind.refuse(planned)) is not None:
            return refused
        workers_began = threading.Event()
        end_job = partial(end_earlier_job, planned.output, runner, say)
        with _first_writing(options):
            lock = stack.enter_context(
                hold(
                    planned.output,
                    say=say,
                    lost=end_for,
                    detached=runner.detached,
                    workers_began=workers_began,
                    end_job=end_job,
                )
            )
        stack.callback(pool.kill_opened)  # no child writes when the lock is released
        folder = OutputFolder(planned.output, lock)
        with _first_writing(options):
            is_new = next(_own_files(folder), None) is None
            texts = kind.texts(planned, folder)
        with _without_texts_if_refused(folder) if texts else nullcontext():
            if texts:
                workers_began.set()
                _run_stage(import_stage(texts, runner, folder), runner, folder, say, quiet=quiet)
                planned = kind.again(planned)
                if (refused := kind.refuse(planned)) is not None:
                    delete_input(folder)
                    return refused
            with _first_writing(options):
                # Not before the lock is held: until then another run may change the folder.
                begun, stages = kind.begin(planned, folder, say)
        del planned  # it is large when there are many splits
        workers_began.set()
        try:
            with _without_plan_if_refused(folder) if is_new else nullcontext():
                for stage in stages:
                    _run_stage(stage, runner, folder, say, quiet=quiet)
        except NotBegunError as error:  # by now something has begun
            raise ConnectionError(str(error)) from error
        if pool.restarts():
            folder.delete_temporary()  # of processes that died while they wrote
        return _with_restarts(kind.conclude(begun))


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
    try:
        yield
    except BertScoreError:
        with suppress(FolderLostError, OSError):
            delete_input(folder)
        raise


@contextmanager
def _without_plan_if_refused(folder: OutputFolder) -> Iterator[None]:
    """Delete a plan that cannot work, if there is no work yet.

    Else the cure, such as another model, would meet the settings of a run that has done nothing.
    """
    planned = set(_own_files(folder))
    try:
        yield
    except (ConfigError, ModelLoadError):
        pool.kill_opened()  # no child writes any more
        with suppress(FolderLostError, OSError):
            folder.delete_temporary()
            if planned.issuperset(_own_files(folder)):
                folder.delete(*planned)
                folder.delete_empty_folders()
        raise


def _own_files(folder: OutputFolder) -> Iterator[str]:
    return (name for name, _ in folder.each_file() if not is_of_lock(name))


@contextmanager
def _first_writing(options: RunOptions) -> Iterator[None]:
    try:
        with reaching("output", options.output):
            yield
    except OSError as error:
        if not is_refused(error):
            raise
        raise ConfigError(
            f"output {mask_credentials(options.output)!r} cannot be written: got {error!r}; "
            "expected a folder where files can be made. Choose another --output."
        ) from error


def _with_restarts(outcome: output.Outcome) -> output.Outcome:
    if not (restarts := pool.restarts()):
        return outcome
    times = "once" if restarts == 1 else f"{restarts} times"
    warning = f"The run went on {times} after a worker process had died."
    return replace(outcome, warnings=(warning, *outcome.warnings))


def _run_stage(stage: Stage, usual: Runner, folder: OutputFolder, say: Say, *, quiet: bool) -> None:
    if stage.message:
        say(f"{stage.message} ...")
    runner = stage.runner
    pipeline = runner.pipeline()
    stage.build(pipeline)
    _reach_service(runner)
    job = RemoteJob(runner, folder.root) if runner.is_remote else None
    if job is not None:
        lock = folder.lock if runner.detached else None
        lease = folder.root if runner.is_dataflow else ""
        prepare_workers(pipeline, lock=lock, lease=lease, threads=runner.threads_elsewhere)
    started = time.time() if stage.started is None else stage.started
    with ExitStack() as stack:
        if runner != usual:
            stack.enter_context(pool.opening(_pool_of(runner)))
        processes = pool.opened()
        stack.enter_context(worker_errors(job))
        stack.enter_context(end_when_interrupted(job, kept=not is_temporary(folder)))
        if runner.is_local:
            stack.enter_context(silenced("apache_beam.runners"))  # the command prints a line
        if processes is not None:
            processes.begin_stage(loads=stage.loads)
        if (stage.amounts or stage.before) and not (quiet or runner.detached):
            progress = RunProgress(stage, folder.path(stage.folder), started)
            stack.enter_context(show_progress(progress, Console(file=sys.stderr)))
        try:
            if job is None:
                pipeline.run().wait_until_finish()
            else:
                job.run(pipeline)
        except Exception:
            if processes is None or processes.failure is None:
                raise
            raise processes.failure from None  # Beam's own error only quotes it


def _reach_service(runner: Runner) -> None:
    """Look once more for a job service, which Beam would wait for without an end."""
    try:
        check_service(runner.name, runner.beam_options)
    except ConfigError as error:  # it was there when the command began
        raise output.JobFailedError(str(error)) from error


def import_stage(texts: Sequence[TextFile], runner: Runner, folder: OutputFolder) -> Stage:
    """Return the stage that imports files of text into the folder of a run."""
    number = len(texts)
    files = "1 file" if number == 1 else f"{number:,} files"

    def build(root: beam.Pipeline) -> None:
        _ = (
            root
            | "Texts" >> beam.Create(texts)
            | "SpreadTexts" >> Spread()
            | "ImportTexts" >> beam.ParDo(RunStep(import_step(folder)))
        )

    return Stage(
        name="import",
        runner=runner,
        build=build,
        message=f"turning {files} of text into Parquet",
        folder=IMPORTS_FOLDER,
        amounts={text.footer.removeprefix(f"{IMPORTS_FOLDER}/"): text.size for text in texts},
        unit="bytes of text",
        loads=False,
    )
