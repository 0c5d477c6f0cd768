"""Run a job from its options to its outcome; all jobs go this way.

    options --prepare--> plan --begin (under the lock)--> stages ... --conclude--> Outcome

A `JobKind` holds the functions of one job. The lock on the output folder, the runner, workers,
progress, dry run, `--print-job` and the import of files of text are the same for every job and are
here.
"""

import builtins
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import apache_beam as beam
from apache_beam.options import pipeline_options as of_beam
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment
from google.protobuf import json_format
from rich.console import Console

from bertscore_beam.dump.text.text_source import IMPORTS_FOLDER, TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NotBegunError, before_work, is_refused, reaching, silenced
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run import output, pool
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import FolderLostError, hold, is_of_lock
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.progress import Amounts, Build, RunProgress, Stage, show_progress
from bertscore_beam.run.remote_job import RemoteJob, end_earlier_job
from bertscore_beam.run.run_step import RunStep, Spread, prepare_workers
from bertscore_beam.run.runner import Runner, check_needs, check_service, new_pipeline
from bertscore_beam.run.temporary import delete_temporary_folders, is_temporary
from bertscore_beam.run.text_import import delete_input, import_step
from bertscore_core.errors import BertScoreError, ConfigError, ModelLoadError, escape_text

# One job, and the way that all of them go.

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
        sketch: Returns the stages without a plan: their steps do not depend on it.
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
    sketch: Callable[[Options, Runner], Iterable[Stage]]
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
    if options.print_job:
        text = print_job(options, kind.sketch(options, runner))
        return output.Outcome(text=text, is_answer=True)
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
        end_job = partial(end_earlier_job, planned.output, say, keep=options.keep_job)
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
    job = RemoteJob(runner, folder) if runner.has_service else None
    if job is not None:
        lock = folder.lock if runner.detached else None
        prepare_workers(pipeline, lock=lock, threads=runner.threads_elsewhere)
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
        if (len(stage.amounts) or stage.before) and not (quiet or runner.detached):
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


# The stage in which files of text become Parquet.


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
        amounts=Amounts(
            (text.footer.removeprefix(f"{IMPORTS_FOLDER}/"), text.size) for text in texts
        ),
        unit="bytes of text",
        loads=False,
    )


# How a run ends before its work is done: by a signal, a lost folder, or an error of the work.


_WHILE = re.compile(r" \[while running '[^']*'\]$", re.MULTILINE)
"""What Beam adds to the message of an error."""

_FRAMES = re.compile(r"Traceback \(most recent call last\):\n(?: .*\n)+")
"""What comes before an error in a traceback."""


@contextmanager
def worker_errors(job: RemoteJob | None = None) -> Iterator[None]:
    """Let errors of the work that the program words itself keep their words and their kind.

    Also those that a runner only quotes. What else a runner says of a job is one line.

    Raises:
        ConfigError, ModelLoadError: The same command would end in the same way.
        FolderLostError: Another run has the folder.
        JobFailedError: Any other error on purpose, or one of a file system. Unlike before the work,
            the same command may continue.
    """
    try:
        yield
    except Exception as error:
        known = error if isinstance(error, BertScoreError | OSError) else _quoted(error)
        if known is None and job is not None and _is_of_runner(error):
            raise output.JobFailedError(job.failed(error)) from error
        if known is None:
            raise
        where = "" if job is None else job.where
        if isinstance(known, BertScoreError):
            known.args = (_WHILE.sub("", str(known)) + where,)
        if isinstance(known, ConfigError | ModelLoadError | FolderLostError):
            raise known from error.__cause__
        kind = f"{type(known).__name__}: " if isinstance(known, OSError) else ""
        raise output.JobFailedError(f"{kind}{known}{where}") from error


def _quoted(error: Exception) -> BertScoreError | OSError | None:
    """Return the error of a worker that a runner quotes, if it is one of ours or of a file system.

    It is that of the last traceback, up to what Beam adds, or else to an empty line.
    """
    _, *quoted = _FRAMES.split(str(error))
    if not quoted or not _is_of_runner(error):
        return None
    end = "\n\n" if (found := _WHILE.search(quoted[-1])) is None else found[0]
    full_name, _, message = quoted[-1].partition(end)[0].strip().partition(": ")
    package, _, name = full_name.rpartition(".")
    kinds = {f"{kind.__module__}.{kind.__name__}": kind for kind in _subclasses_of(BertScoreError)}
    kind = kinds.get(full_name) if package else getattr(builtins, name, None)
    return (
        kind(message) if kind is not None and issubclass(kind, BertScoreError | OSError) else None
    )


def _is_of_runner(error: Exception) -> bool:
    """Tell whether a runner, or the client of its service, has raised an error."""
    package = type(error).__module__.partition(".")[0]
    return type(error) is RuntimeError or package in ("apache_beam", "google", "grpc")


def _subclasses_of(kind: type[BertScoreError]) -> Iterator[type[BertScoreError]]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _subclasses_of(lower)


@contextmanager
def end_when_interrupted(job: RemoteJob | None = None, *, kept: bool = True) -> Iterator[None]:
    """End this process at once on SIGINT, SIGTERM or SIGHUP, with the status that a shell gives.

    A job of a service is cancelled before. Finished parts are whole, so nothing needs to be undone.
    An exception would not do: Beam turns it into others. A signal that is ignored, as in a
    background job of a script, stays so.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for handled in output.ending_signals():
            signal.signal(handled, signal.SIG_IGN)  # it is ending already
        rest = "Finished parts are kept; the same command continues from there."
        _print(
            f"\nbertscore-beam: interrupted ({signal.Signals(number).name}). "
            f"{rest if kept else output.NOTHING_KEPT}\n"
        )
        _leave("" if job is None else f"{job.end()}\n", output.interrupted(number))

    with output.ending_with(stop, *output.ending_signals()):
        yield


def end_for(error: FolderLostError) -> NoReturn:
    """End the process from any thread: the runner cannot be stopped in another way."""
    _leave(f"bertscore-beam: {escape_text(str(error))}\n", output.BROKEN)


def _leave(message: str, status: int) -> NoReturn:
    _print(message)
    pool.kill_opened()
    delete_temporary_folders()
    os._exit(status)


def _print(message: str) -> None:
    with suppress(OSError):  # the reader may have closed the pipe
        os.write(2, message.encode())


# Describe a job as it would be submitted, without submitting it: `--print-job`.
#
# The steps of a job do not depend on its input, output or model. So none of these is read, and no
# network is used.


def print_job(options: RunOptions, stages: Iterable[Stage]) -> str:
    """Describe the pipelines of a job as JSON."""
    jobs = []
    for stage in stages:
        if stage.runner.is_dataflow:
            check_needs(options, stage.runner.beam_options)
        jobs.append({"name": stage.name, **describe(stage.runner, stage.build)})
    return output.escape_json(
        mask_credentials(json.dumps({"jobs": jobs}, indent=2, ensure_ascii=False))
    )


def describe(runner: Runner, build: Build) -> dict[str, Any]:
    """Describe one pipeline: the runner, its workers, environments, and the fused stages.

    Returns:
        `runner`; `workers`, the worker pool requested from Dataflow, null for other runners;
        `experiments`; `environments`, each with its `kind`, `image` or `address`, `hints` and
        `staged` files; and `stages`, each with its `environment`, its fused `steps`, and `reads`,
        the steps of other stages whose output it reads.
    """
    chosen = runner.beam_options
    proto, pool = (
        _dataflow_job(runner, build)
        if runner.is_dataflow
        else (pipeline_proto(runner, build), None)
    )
    places = {name: place for place, name in enumerate(_steps(proto, proto.root_transform_ids))}

    def place(stage: dict[str, Any]) -> tuple[int, list[str]]:
        names = stage["steps"]  # the optimizer takes combines apart: `Sum` is `Sum/Merge` then
        near = [places.get(name, places.get(name.rpartition("/")[0])) for name in names]
        return min((place for place in near if place is not None), default=len(places)), names

    return {
        "runner": chosen.get_all_options()["runner"],
        "workers": pool,
        "experiments": chosen.view_as(of_beam.DebugOptions).experiments or [],
        "environments": {
            name: _environment(environment)
            for name, environment in sorted(proto.components.environments.items())
        },
        "stages": sorted(_stages(proto), key=place),  # the optimizer's order may change
    }


def pipeline_proto(runner: Runner, build: Build) -> beam_runner_api_pb2.Pipeline:
    """Build a pipeline and return it as the runner would get it."""
    chosen = runner.beam_options
    pipeline = new_pipeline(chosen, FnApiRunner())
    build(pipeline)
    if runner.is_local:
        return pipeline.to_runner_api()
    environment = Environment.from_options(chosen.view_as(of_beam.PortableOptions))
    return pipeline.to_runner_api(default_environment=environment)


def _dataflow_job(
    runner: Runner, build: Build
) -> tuple[beam_runner_api_pb2.Pipeline, dict[str, Any]]:
    from apache_beam.runners.dataflow.internal import apiclient

    chosen = runner.beam_options
    chosen.view_as(of_beam.TestOptions).dry_run = True
    chosen.view_as(of_beam.GoogleCloudOptions).no_auth = True
    pipeline = new_pipeline(chosen)
    build(pipeline)
    proto = pipeline.run().job.proto_pipeline
    environment = apiclient.Environment(
        packages=[],
        options=pipeline._options,
        environment_version=apiclient._FNAPI_ENVIRONMENT_MAJOR_VERSION,
        proto_pipeline_staged_url="",
        proto_pipeline=proto,
    )
    (pool,) = json_format.MessageToDict(environment.proto._pb)["workerPools"]
    images = pool["sdkHarnessContainerImages"]
    images.sort(key=lambda image: str(image["environmentId"]))
    for image in images:
        del image["capabilities"]  # thirty lines that are the same for every Beam worker
    return proto, pool


def _environment(environment: beam_runner_api_pb2.Environment) -> dict[str, Any]:
    description = {
        "kind": environment.urn,
        "hints": {
            urn.split(":")[-2]: value.decode() for urn, value in environment.resource_hints.items()
        },
        "staged": [
            beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(
                artifact.role_payload
            ).staged_name
            for artifact in environment.dependencies
            if artifact.role_urn == common_urns.artifact_roles.STAGING_TO.urn
        ],
    }
    if environment.urn == common_urns.environments.DOCKER.urn:
        payload = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
        description["image"] = payload.container_image
    if environment.urn == common_urns.environments.EXTERNAL.urn:
        external = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        description["address"] = external.endpoint.url
    return description


def _stages(proto: beam_runner_api_pb2.Pipeline) -> Iterator[dict[str, Any]]:
    _, stages = FnApiRunner().create_stages(proto)
    made_by = {
        collection: step.unique_name
        for step in proto.components.transforms.values()
        if not step.subtransforms
        for collection in step.outputs.values()
    }
    for stage in stages:
        steps = [step for step in stage.transforms if not step.spec.urn.startswith("beam:runner:")]
        inside = {collection for step in steps for collection in step.outputs.values()}
        outside = {read for step in stage.transforms for read in step.inputs.values()} - inside
        if steps:
            yield {
                "environment": stage.environment,
                "steps": [step.unique_name for step in steps],
                "reads": sorted({made_by[read] for read in outside & made_by.keys()}),
            }


def _steps(proto: beam_runner_api_pb2.Pipeline, ids: Iterable[str]) -> Iterator[str]:
    for name in ids:
        step = proto.components.transforms[name]
        yield step.unique_name
        yield from _steps(proto, step.subtransforms)
