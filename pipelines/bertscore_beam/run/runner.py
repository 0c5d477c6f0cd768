"""The Beam runner of a job, read once from its options, and what it needs."""

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.read import is_file
from bertscore_beam.files.write import can_write_below
from bertscore_beam.options.row_options import EncoderOptions
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run.gpus import gpus_to_share, has_accelerator
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_core.errors import ConfigError

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options import pipeline_options as of_beam

# `run.beam_options` is imported where it is needed: Beam takes seconds to import, and a small job
# of this machine does not need it.

_FN_API = "fnapi"
_LOCAL_RUNNER = "FnApiRunner"
_NEVER_RUN = "no job has ever run on it; its job server is for PortableRunner to try"
_REFUSED = {
    "dask": "it loses rows: elements emitted at the end of a bundle and all but one output of a "
    "step are dropped (Beam 2.77)",
    "bundlebaseddirect": "it loses the metrics of steps with side inputs (Beam 2.77)",
    "interactive": "it is for notebooks and cannot run this pipeline (Beam 2.77)",
    "flink": _NEVER_RUN,
    "spark": _NEVER_RUN,
}
_OF_THIS_MACHINE = {_FN_API, "switchingdirect", "direct"}
"""Runners whose workers are on this machine, without a job server."""
_DIRECT_OPTIONS = ("--direct_running_mode", "--direct_num_workers")
_ENVIRONMENT_OPTION = "--environment_"
_AT_ONCE_ON_GPU = 4
_CHUNKS_HERE, _CHUNKS_ELSEWHERE = 2, 16
"""Chunks of splits for each worker. Machines elsewhere start minutes apart: under a runner that
divides no chunk they would end some 20% later than ideal with 2, and some 4% with 16 (`divided` in
tests/benchmarks/RESULTS.md)."""
_RESTARTS = 1
"""How many deaths of workers of this machine a run survives if nothing else is said."""

# The workers' image holds all code. Without these flags Beam would upload code of this process.
_NOTHING_STAGED = ("--no_save_main_session", "--experiments=disable_logging_submission_environment")

_TEN_YEARS = 10 * 365 * 24 * 3600
"""Seconds a job service may take to answer, if the user does not say. Beam limits the streams by
which it waits for a job by the same option: with its default, a job on Prism ended after 300
seconds (Beam 2.77). `check_service` has a limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The Beam runner of a job.

    The default is Beam's FnApiRunner, in this process: its steps hand their elements to child
    processes of this command. Beam's own default would first try to download another runner.

    Attributes:
        name: Beam's name of the runner, in lower case and without "Runner" at its end.
        flags: Beam's options: the given ones and those that are added here.
        restarts: How many deaths of worker processes of this machine a run survives.
        children: Processes that this one starts for the work; 0 if it works itself, or others do.
        detached: Whether the job is detached: this process submits it and does not wait for it.
        at_once: How many elements a worker process of this machine works on at the same time: a few
            for a GPU, which computes for one while others are read and written.
        keep_job: Whether a job of a service is never cancelled.
        asked_threads: Threads of each worker process, if the options say it.
        gpus: The GPUs that local worker processes are spread over; none if they use none, or if the
            options name one.
    """

    name: str
    flags: tuple[str, ...]
    workers: int
    restarts: int
    children: int
    detached: bool
    at_once: int = 1
    gpus: tuple[str, ...] = ()
    keep_job: bool = False
    asked_threads: int | None = None

    @classmethod
    def of(cls, options: RunOptions) -> "Runner":
        """Read the runner from the options of a job, without a look at files or the network."""
        name, given = _read_flags(options.beam)
        if name in _REFUSED:
            raise ConfigError(
                f"runner {name!r} cannot be used: {_REFUSED[name]}. Leave --runner out, or give "
                "FnApiRunner, DataflowRunner, PrismRunner or PortableRunner."
            )
        if name in _OF_THIS_MACHINE:
            _check_local(options.beam)
        is_local = name == _FN_API
        device = options.device if isinstance(options, EncoderOptions) else "cpu"
        gpus = gpus_to_share(device) if is_local else ()
        on_gpu = bool(gpus) or device.startswith("cuda")
        workers = options.workers if options.workers != "auto" else max(len(gpus), 1)
        flags = list(options.beam)
        if given.get("runner") is None:
            flags.append(f"--runner={_LOCAL_RUNNER}")
        if not is_local:
            flags.extend(_NOTHING_STAGED)
            if given["job_server_timeout"] is None:
                flags.append(f"--job_server_timeout={_TEN_YEARS}")
        restarts = _RESTARTS if options.restarts is None else options.restarts
        # Without a child, a death ends this process. After a GPU has failed, only a new one helps.
        needs_child = workers > 1 or restarts > 0 or has_accelerator(device)
        return cls(
            name=name,
            flags=tuple(flags),
            workers=workers,
            restarts=restarts if is_local else 0,
            children=workers if is_local and needs_child else 0,
            detached=bool(given.get("template_location") or given.get("no_wait_until_finish")),
            at_once=given.get("number_of_worker_harness_threads")
            or (_AT_ONCE_ON_GPU if on_gpu else 1),
            gpus=gpus,
            keep_job=options.keep_job,
            asked_threads=options.threads,
        )

    @property
    def is_local(self) -> bool:
        """Whether it is FnApiRunner, the default: all work is done on this machine."""
        return self.name == _FN_API

    @property
    def is_remote(self) -> bool:
        """Whether a job service runs the job. If this process is killed, the job goes on."""
        return self.name not in _OF_THIS_MACHINE

    @property
    def is_dataflow(self) -> bool:
        """Whether the job goes to Dataflow."""
        return self.name == "dataflow"

    @property
    def is_template(self) -> bool:
        """Whether nothing is submitted: the job becomes the template that a service starts."""
        return self.detached and bool(self.beam_options.get_all_options()["template_location"])

    @property
    def expected_workers(self) -> int | None:
        """Worker processes that share the splits; None if another service chooses their number."""
        if self.is_local:
            return self.workers
        given = self.beam_options.get_all_options()
        return given["max_num_workers"] or given["num_workers"] or None

    @property
    def num_chunks(self) -> int | None:
        """Chunks of splits that share the work; None if a service chooses the number of workers.

        Threads that share a GPU elsewhere count once.
        """
        workers = self.expected_workers
        if workers is None:
            return None
        return (
            _CHUNKS_HERE * workers * self.at_once if self.is_local else _CHUNKS_ELSEWHERE * workers
        )

    @property
    def threads(self) -> int | None:
        """Threads of each local worker; None if the workers run elsewhere.

        The workers share the cores: twice as many threads as cores halve the throughput.
        """
        if not self.is_local:
            return None
        return self.asked_threads or max(usable_cores() // self.workers, 1)

    @property
    def threads_elsewhere(self) -> int | None:
        """Threads of each worker process if a service runs the job; None for all cores."""
        from bertscore_beam.run.beam_options import threads_on_service

        return self.asked_threads or threads_on_service(self.beam_options)

    @property
    def workers_of_a_device(self) -> int | None:
        """Local workers that share the memory of a device; None if the workers run elsewhere."""
        return math.ceil(self.workers / max(len(self.gpus), 1)) if self.is_local else None

    @property
    def beam_options(self) -> "of_beam.PipelineOptions":
        """Beam's options, a new object each time, since runners change it."""
        from apache_beam.options import pipeline_options as of_beam

        return of_beam.PipelineOptions(list(self.flags))

    def check(self, options: RunOptions, *, may_detach: bool = True) -> None:
        """Check that everything the runner needs is there, before any work.

        Args:
            options: The options of the job.
            may_detach: False if this process has work to do at the end of the job.
        """
        if self.detached and not may_detach:
            raise ConfigError(
                "this command cannot run detached: got --no_wait_until_finish or "
                "--template_location; expected neither: it has work between its jobs or after "
                "them. Only `score` can be submitted that way."
            )
        if options.restarts and not self.is_local:
            raise ConfigError(
                f"--restarts cannot be used with the runner {self.name!r}: got "
                f"{options.restarts}; expected 0, since only the runner sees its workers die, and "
                "most runners replace them. Leave it out."
            )
        if options.beam:
            self._check_beam(options)

    def _check_beam(self, options: RunOptions) -> None:
        from bertscore_beam.run import beam_options as given

        chosen = self.beam_options
        if self.is_dataflow:
            given.check_needs(options, chosen)
        if self.detached and not self.is_dataflow:
            given.check_detached(chosen)
        if self.is_remote:
            given.check_placeholders(options, chosen)
        if self.is_dataflow:
            given.check_credentials(chosen)
        # Beam checks values only when it makes a pipeline. Later the folder has been changed. This
        # one never runs, so Beam would leave its folder in TMPDIR.
        shutil.rmtree(self.pipeline().local_tempdir, ignore_errors=True)
        given.check_service(self.name, chosen)

    def check_output(self, output: str) -> None:
        """Check that workers can write where the output goes."""
        shown = mask_credentials(output)
        if output.startswith("memory://") and (self.children or not self.is_local):
            raise ConfigError(
                f"output {output!r} is in this process's memory, which other worker processes "
                "cannot reach; expected a folder or an object store. Use another --output, or "
                "--workers 1 --restarts 0 --device cpu."
            )
        if is_file(output):
            raise ConfigError(
                f"output {shown!r} is a file; expected a folder. Choose another --output."
            )
        if not can_write_below(output):
            raise ConfigError(
                f"output {shown!r} cannot be written: got no permission, or a file on the way "
                "there; expected a folder where files can be made. Choose another --output."
            )

    def lone_output(self, output: str) -> str:
        """Return the full path of an output folder that workers can write, and that stands alone.

        Nothing is written: it may be in the folder of another run.

        Raises:
            ConfigError: It cannot be written, or is inside another run's folder or around one.
            OSError: It cannot be reached.
        """
        path = absolute(output)
        self.check_output(path)
        check_stands_alone(path, list_files(path))
        return path

    def pipeline(self) -> "beam.Pipeline":
        """Return an empty pipeline."""
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        from bertscore_beam.run.beam_options import new_pipeline

        return new_pipeline(self.beam_options, FnApiRunner() if self.is_local else None)


def usable_cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check_local(flags: Sequence[str]) -> None:
    for flag in flags:
        name = flag.partition("=")[0]
        if name in _DIRECT_OPTIONS:
            raise ConfigError(
                f"{name} cannot be used: got {flag!r}; expected none, since this command starts "
                "its workers itself. Leave it and --runner out, and give --workers."
            )
        if name.startswith(_ENVIRONMENT_OPTION):
            raise ConfigError(
                f"{name} cannot be used without a portable runner: got {flag!r}; expected none, "
                "since the workers are on this machine. Run this command inside the container, "
                "with --workers."
            )


def _read_flags(flags: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the runner named in Beam's options, and what they give.

    Raises:
        ConfigError: A value would end the process, or Beam would ignore an option.
    """
    if not flags:
        return _FN_API, {}
    from bertscore_beam.run.beam_options import read_flags

    return read_flags(flags, _LOCAL_RUNNER)
