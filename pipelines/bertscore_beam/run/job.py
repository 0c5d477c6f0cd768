"""What all jobs share: a runner, a folder, workers, and phases that are done.

    options --> plan --> folder is taken --> phases ... --> Outcome

A job is a function of its options and of a `Run`, which offers the rest: it plans, takes its
folder, has its phases done, and returns its outcome.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import UnreachedError, before_work, is_refused, silenced
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run import output, pool
from bertscore_beam.run.alone import LOCK_FILE, alone
from bertscore_beam.run.endings import end_when_interrupted, worker_errors
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lease import LEASE_FILE, read_lease
from bertscore_beam.run.phases import Phase, run_plainly
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.progress import Expected, RunProgress, show_progress
from bertscore_beam.run.publication import settled_head
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.temporary import is_temporary
from bertscore_beam.run.text_import import Check, delete_imports, expected_imports, import_phase
from bertscore_core.errors import BertScoreError, ConfigError, ModelLoadError

if TYPE_CHECKING:  # Beam takes seconds to import, and a small job does without it
    from bertscore_beam.run.remote_job import RemoteJob

Say = Callable[[str], None]
"""Prints a message while the command runs."""

Options = TypeVar("Options", bound=RunOptions)


def run_job(
    job: Callable[[Options, "Run"], output.Outcome],
    options: Options,
    say: Say,
    *,
    quiet: bool = False,
) -> output.Outcome:
    """Check that the runner can work, and run a job from its options to its outcome.

    Raises:
        BertScoreError: The job cannot work. Nothing has been written, unless the source or the
            folder changed while the job ran.
        NotBegunError: A file system failed before any work had begun.
        OSError: A file system failed later on.
        JobFailedError: The work stopped, and the same command may continue it.
        RuntimeError: An error of the work that nobody has foreseen.
    """
    runner = Runner.of(options)
    runner.check(options, may_detach=options.may_detach)
    with ExitStack() as stack:
        if not options.dry_run:
            stack.enter_context(pool.opening(_pool_of(runner)))
        run = Run(options, runner, say, stack, quiet=quiet)
        try:
            with before_work(lambda: not run.has_begun):
                outcome = job(options, run)
        except BertScoreError as error:
            run.clean_up_after(error)
            raise
        return _with_restarts(outcome)


class Run:
    """A job under way.

    Attributes:
        runner: The runner of its options.
        say: Prints a message.
        folder: Its output folder, once it is taken.
        has_begun: Whether there was work: then errors of a file system stop it.
    """

    folder: OutputFolder

    def __init__(
        self, options: RunOptions, runner: Runner, say: Say, stack: ExitStack, *, quiet: bool
    ) -> None:
        """Begin; what is put on the stack ends with the run."""
        self.runner = runner
        self.say = say
        self._given = str(options.output)
        self._stack = stack
        self._quiet = quiet
        self.has_begun = self._is_new = False
        self._texts: Sequence[TextFile] = ()
        self._planned: frozenset[str] = frozenset()

    @contextmanager
    def first_writing(self) -> Iterator[None]:
        """Say how to cure it if the output folder refuses the first changes, such as the plan."""
        try:
            yield
            if self._is_new:
                self._planned = frozenset(_own_files(self.folder))
        except OSError as error:
            if isinstance(error, UnreachedError) or not is_refused(error):
                raise
            raise ConfigError(
                f"output {mask_credentials(self._given)!r} cannot be written: got {error!r}; "
                "expected a folder where files can be made. Choose another --output."
            ) from error

    def take(self, folder: str) -> OutputFolder:
        """Keep other launchers from the output folder, if it is on a disk, until the run ends.

        The job of an earlier command is ended, and what a dead run has begun to publish finished.
        Done once: if texts are imported, then before the job is planned.
        """
        if hasattr(self, "folder"):
            return self.folder
        with self.first_writing():
            self._stack.enter_context(alone(folder))
            self._stack.callback(pool.kill_opened)  # no child writes when another run may begin
            if read_lease(folder) is not None:
                _end_earlier_job(folder, self.runner, self.say)
            self.folder = OutputFolder(folder)
            settled_head(self.folder)
            self._is_new = next(_own_files(self.folder), None) is None
        return self.folder

    def import_texts(
        self, folder: str, texts: Sequence[TextFile], check: Check | None = None
    ) -> None:
        """Turn files of text into Parquet in the output folder, which is taken and checked before.

        Before a job is planned that is what has no import; then, what has splits to do, but no rows
        any more. The launcher of a detached job waits for this, too. That of a template does it
        itself: nothing that it describes runs yet. A single file needs no Beam on this machine.
        """
        if not texts:
            return
        self.take(folder)
        if check is not None:
            check(self.folder)
        work, waiting = [import_phase(texts, self.folder)], replace(self.runner, detached=False)
        plainly = self.runner.is_template or (self.runner.is_local and len(texts) == 1)
        self._do(work, expected_imports(texts), waiting, loads=False, plainly=plainly)
        self._texts = (*self._texts, *texts)

    def forget_texts(self) -> None:
        """Delete what was imported for a job that then does not begin."""
        if self._texts:
            delete_imports(self.folder, self._texts)

    def do(
        self,
        work: Sequence[Phase],
        expected: Expected | None = None,
        *,
        runner: Runner | None = None,
        plainly: bool = False,
    ) -> None:
        """Do phases, as one pipeline, and wait for the end of the last one.

        Args:
            work: The phases.
            expected: What they will have done, if people are to see how far they are.
            runner: Where they run; None for the runner of the options.
            plainly: Whether there is so little to do that Beam is not needed on this machine.
        """
        self._texts = ()
        runner = runner or self.runner
        plainly = plainly and runner.is_local
        with pool.opening(_pool_of(runner)) if runner != self.runner else nullcontext():
            self._do(work, expected or Expected(), runner, plainly=plainly)

    def _do(
        self,
        work: Sequence[Phase],
        expected: Expected,
        runner: Runner,
        *,
        plainly: bool,
        loads: bool = True,
    ) -> None:
        """Do phases; they may load what should not lie in memory beside that of the next ones.

        Turning text into Parquet leaves some 100 MB at most, and saves loading torch again.
        """
        self.has_begun = True
        if expected.message:
            self.say(f"{expected.message} ...")
        job: RemoteJob | None = None
        if plainly:
            finish: Callable[[], Any] = partial(run_plainly, work)
        else:
            finish, job = _prepared(work, runner, self.folder)
        processes = pool.opened()
        with ExitStack() as stack:
            stack.enter_context(worker_errors(job))
            stack.enter_context(end_when_interrupted(job, kept=not is_temporary(self.folder)))
            if runner.is_local:
                stack.enter_context(silenced("apache_beam.runners"))  # the command prints a line
            if processes is not None:
                processes.begin_stage(loads=loads)
            if (expected.amounts or expected.before) and not (self._quiet or runner.detached):
                progress = RunProgress(expected, self.folder.path(expected.folder))
                stack.enter_context(show_progress(progress, Console(file=sys.stderr)))
            try:
                finish()
            except Exception:
                if processes is None or processes.failure is None:
                    raise
                raise processes.failure from None  # Beam's own error only quotes it
        if pool.restarts():
            self.folder.delete_temporary()  # of processes that died while they wrote

    def clean_up_after(self, error: BertScoreError) -> None:
        """Delete what is of no use after an error.

        Imports of a job that cannot be planned; and, if there is no work yet, a plan that cannot
        work. Else the cure, such as another model, would meet the settings of a run that has done
        nothing.
        """
        with suppress(OSError):
            self.forget_texts()
            if self._planned and isinstance(error, ConfigError | ModelLoadError):
                pool.kill_opened()  # no child writes any more
                self.folder.delete_temporary()
                if self._planned.issuperset(_own_files(self.folder)):
                    self.folder.delete(*self._planned)
                    self.folder.delete_empty_folders()


def _prepared(
    work: Sequence[Phase], runner: Runner, folder: OutputFolder
) -> "tuple[Callable[[], Any], RemoteJob | None]":
    """Return what runs a pipeline to its end, and its job if a service does that."""
    from bertscore_beam.run.remote_job import RemoteJob
    from bertscore_beam.run.run_step import add_phases, prepare_workers

    pipeline = runner.pipeline()
    add_phases(pipeline, work)
    _reach_service(runner)
    if not runner.is_remote:
        return lambda: pipeline.run().wait_until_finish(), None
    lease = folder.root if runner.is_dataflow else ""
    prepare_workers(pipeline, lease=lease, threads=runner.threads_elsewhere)
    job = RemoteJob(runner, folder.root)
    return partial(job.run, pipeline), job


def _end_earlier_job(output: str, runner: Runner, say: Say) -> None:
    from bertscore_beam.run.remote_job import end_earlier_job

    end_earlier_job(output, runner, say)


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


def _own_files(folder: OutputFolder) -> Iterator[str]:
    return (name for name, _ in folder.each_stored() if name not in (LOCK_FILE, LEASE_FILE))


def _with_restarts(outcome: output.Outcome) -> output.Outcome:
    if not (restarts := pool.restarts()):
        return outcome
    times = "once" if restarts == 1 else f"{restarts} times"
    warning = f"The run went on {times} after a worker process had died."
    return replace(outcome, warnings=(warning, *outcome.warnings))


def _reach_service(runner: Runner) -> None:
    """Look once more for a job service, which Beam would wait for without an end."""
    from bertscore_beam.run.beam_options import check_service

    try:
        check_service(runner.name, runner.beam_options)
    except ConfigError as error:  # it was there when the command began
        raise output.JobFailedError(str(error)) from error
