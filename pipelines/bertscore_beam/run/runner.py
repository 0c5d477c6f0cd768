"""The Beam runner of a job, read once from its options, and what it needs."""

import difflib
import math
import os
import re
import shutil
from argparse import ArgumentError, Namespace
from collections.abc import Sequence
from dataclasses import dataclass

import apache_beam as beam
import grpc
from apache_beam.options import pipeline_options as of_beam
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.job_server import ExternalJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import is_file
from bertscore_beam.files.write import can_write_below
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.options.score_options import IDF_WORDS, DeviceOptions
from bertscore_beam.run.gpus import gpus_to_share, has_accelerator
from bertscore_core.errors import ConfigError

# What a job on Dataflow needs, checked before any work.

_NEEDS = {
    "project": "Give -- --project=NAME.",
    "region": "Give -- --region=us-central1, or where the data is.",
    "temp_location": "Give -- --temp_location=gs://BUCKET/tmp.",
    "sdk_container_image": "Give -- --sdk_container_image=IMAGE, built from docker/Dockerfile.",
}
"""Without one of these Beam asks the network for minutes, or the job fails on its first worker."""

_BUCKETS = ("temp_location", "staging_location")
"""Options of Beam that name a folder in a bucket."""

_PLACES = ("input", "output", "idf", "reuse", "wet", "documents", "sentences")
"""Options that name paths for the workers to open."""

_NO_PLACES = (*IDF_WORDS, "both", "True", "False")
"""What they may say in the place of a path: of `idf`, and that of `tune` and of `baseline`."""


def check_needs(options: RunOptions, chosen: of_beam.PipelineOptions) -> None:
    """Check the options alone, without a look at files or the network."""
    try:
        from apache_beam.runners.dataflow.internal import apiclient  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"DataflowRunner needs packages that are not installed: got {error}; expected the "
            "extra gcp. In the checkout: pip install '.[gcp,gcs]'."
        ) from error
    values = chosen.get_all_options()
    for name, cure in _NEEDS.items():
        if not values[name]:
            raise ConfigError(f"DataflowRunner needs --{name}: got none; expected it. {cure}")
    for name in _BUCKETS:
        # If Beam cannot use the place, it looks for a default bucket, and would make one.
        wrong = PipelineOptionsValidator(chosen, None).validate_gcs_path(
            chosen.view_as(of_beam.GoogleCloudOptions), name
        )
        if values[name] and wrong:
            raise ConfigError(
                f"{name} cannot be used: got {values[name]!r}; expected gs://BUCKET/FOLDER, which "
                "Dataflow's workers can read; a bucket's name has 3 or more lower-case letters, "
                f"digits, '-', '_' and '.'. Give -- --{name}=gs://BUCKET/tmp."
            )
    _check_reachable(options)


def check_credentials(chosen: of_beam.PipelineOptions) -> None:
    """Check that there are credentials to submit with. Without any, Beam searches for minutes."""
    if chosen.view_as(of_beam.GoogleCloudOptions).no_auth:
        return
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        google.auth.default()
    except (GoogleAuthError, OSError) as error:
        raise ConfigError(
            f"there are no usable Google Cloud credentials: got {' '.join(str(error).split())} "
            "Expected those of an account that may start Dataflow jobs. Make them: gcloud auth "
            "application-default login; or name a key with GOOGLE_APPLICATION_CREDENTIALS."
        ) from error


def _check_reachable(options: RunOptions) -> None:
    described = options.describe()
    for name in _PLACES:
        values = described.get(name) or []
        for value in values if isinstance(values, list) else [values]:
            has_language = name in ("documents", "sentences")
            path = str(value).partition("=")[2] if has_language else str(value)
            if "://" not in path and path not in _NO_PLACES:
                raise ConfigError(
                    f"{name} is on this machine: got {value!r}; expected a path that Dataflow's "
                    "workers can reach. Copy it to a gs:// path."
                )


# What a portable runner needs, checked before any work: a job service, or the program of one.

ANSWER_SECONDS = 10
"""How long a job service may take to answer; one that is there answers at once."""


def check_service(name: str, chosen: of_beam.PipelineOptions) -> None:
    """Check that the job service of a runner answers, or that its program is there.

    Beam itself looks only when the folder has been changed, and waits for minutes. A program that
    has to be fetched is fetched here, and kept as Beam keeps it.
    """
    endpoint = chosen.view_as(of_beam.PortableOptions).job_endpoint
    if name not in {"portable", "prism"} or endpoint == "embed":
        return
    if endpoint is not None:
        try:
            ExternalJobServer(endpoint, ANSWER_SECONDS).start()
        except grpc.FutureTimeoutError as error:
            raise ConfigError(
                f"the job service does not answer: got no connection to --job_endpoint={endpoint} "
                f"in {ANSWER_SECONDS} s; expected one. Start it, or correct the address."
            ) from error
    elif name == "portable":
        raise ConfigError(
            "PortableRunner needs --job_endpoint: got none; expected the address of a job service. "
            "Give -- --job_endpoint=HOST:PORT, or leave --runner out."
        )
    else:
        _check_prism(chosen)


def _check_prism(chosen: of_beam.PipelineOptions) -> None:
    try:
        PrismJobServer(chosen)._get_executable_path()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"the program of runner 'prism' is not there: got {' '.join(str(error).split())}; "
            "expected a file, or a network to fetch it from. Give -- --prism_location=PATH, or "
            "--job_endpoint."
        ) from error


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
_KNOWN_OPTIONS_RUNNERS = {_FN_API, "direct", "dataflow"}
"""Runners that have Beam's own options only; a job server adds options to others."""
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

_PLACEHOLDER = re.compile(r"(?<![\w-])your-")
"""The start of names that the user must replace in the configs: your-project, your-bucket."""


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
        device = options.device if isinstance(options, DeviceOptions) else "cpu"
        gpus = gpus_to_share(device) if is_local else ()
        on_gpu = bool(gpus) or device.startswith("cuda")
        workers = options.workers if options.workers != "auto" else max(len(gpus), 1)
        flags = list(options.beam)
        if given.runner is None:
            flags.append(f"--runner={_LOCAL_RUNNER}")
        if not is_local:
            flags.extend(_NOTHING_STAGED)
            if given.job_server_timeout is None:
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
            detached=bool(given.template_location) or given.no_wait_until_finish,
            at_once=given.number_of_worker_harness_threads or (_AT_ONCE_ON_GPU if on_gpu else 1),
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
    def expected_workers(self) -> int | None:
        """Worker processes that share the splits; None if another service chooses their number."""
        if self.is_local:
            return self.workers
        options = self.beam_options.view_as(of_beam.WorkerOptions)
        return options.max_num_workers or options.num_workers or None

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
        return self.asked_threads or threads_on_service(self.beam_options)

    @property
    def workers_of_a_device(self) -> int | None:
        """Local workers that share the memory of a device; None if the workers run elsewhere."""
        return math.ceil(self.workers / max(len(self.gpus), 1)) if self.is_local else None

    @property
    def beam_options(self) -> of_beam.PipelineOptions:
        """Beam's options, a new object each time, since runners change it."""
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
        chosen = self.beam_options
        if self.is_dataflow:
            check_needs(options, chosen)
        self._check_detached(chosen)
        if self.is_remote:
            _check_placeholders(options, chosen)
        if self.is_dataflow:
            check_credentials(chosen)
        # Beam checks values only when it makes a pipeline. Later the folder has been changed. This
        # one never runs, so Beam would leave its folder in TMPDIR.
        shutil.rmtree(self.pipeline().local_tempdir, ignore_errors=True)
        check_service(self.name, chosen)

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

    def pipeline(self) -> beam.Pipeline:
        """Return an empty pipeline."""
        return new_pipeline(self.beam_options, FnApiRunner() if self.is_local else None)

    def _check_detached(self, chosen: of_beam.PipelineOptions) -> None:
        if not self.detached or self.is_dataflow:
            return
        portable = chosen.view_as(of_beam.PortableOptions)
        service, workers = portable.job_endpoint, portable.environment_type
        if service in (None, "embed") or workers == "LOOPBACK":
            raise ConfigError(
                f"the job cannot run without this command: got job service {service!r} and workers "
                f"{workers!r}, which end with it; expected DataflowRunner, or a --job_endpoint of "
                "its own with workers elsewhere. Leave --no_wait_until_finish out."
            )


def new_pipeline(
    chosen: of_beam.PipelineOptions, runner: beam.runners.PipelineRunner | None = None
) -> beam.Pipeline:
    """Return an empty pipeline."""
    try:
        return beam.Pipeline(runner=runner, options=chosen)
    except ValueError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {' '.join(str(error).split())} Expected what its "
            "documentation says. Correct the option named."
        ) from error


def usable_cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check_placeholders(options: RunOptions, chosen: of_beam.PipelineOptions) -> None:
    own = {name: value for name, value in options.describe().items() if name != "beam"}
    for name, value in (own | chosen.get_all_options(drop_default=True)).items():
        if _PLACEHOLDER.search(str(value)):
            raise ConfigError(
                f"{name} is a placeholder of the config: got {value!r}; expected your own name. "
                "Edit a copy of the config, or give the option again, Beam's behind `--`."
            )


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


def _read_flags(flags: Sequence[str]) -> tuple[str, Namespace]:
    """Return the runner named in Beam's options, and what they give.

    Raises:
        ConfigError: A value would end the process, or Beam would ignore an option.
    """
    parser = of_beam._BeamArgumentParser(allow_abbrev=False, exit_on_error=False)
    for kind in of_beam.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    parser.set_defaults(job_server_timeout=None)
    try:
        given, unknown = parser.parse_known_args(list(flags))
    except ArgumentError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {error}; expected what its documentation says. "
            "Correct the option named."
        ) from error
    name = _short_name(given.runner or _LOCAL_RUNNER)
    if unknown and name in _KNOWN_OPTIONS_RUNNERS:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        raise ConfigError(
            f"unknown Beam option {unknown[0]!r}: expected one that Beam has. "
            + (f"Did you mean {near[0]}?" if near else "See Beam's pipeline options.")
        )
    return name, given


def _short_name(runner: str) -> str:
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def threads_on_service(options: of_beam.PipelineOptions) -> int | None:
    """Return the threads of each worker process of a service; None for all cores.

    Dataflow starts a process for each core, unless an experiment asks for one a machine.
    """
    runner = options.view_as(of_beam.StandardOptions).runner or ""
    experiments = options.view_as(of_beam.DebugOptions)
    is_alone = experiments.lookup_experiment("no_use_multiple_sdk_containers", False)
    return 1 if _short_name(runner) == "dataflow" and not is_alone else None
