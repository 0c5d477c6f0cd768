"""Which Beam runner a job runs on, and how a machine is shared out among its workers."""

import difflib
import logging
import os
import re
import socket
from argparse import ArgumentError
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    _BeamArgumentParser,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_core import ConfigError
from pipelines.dataflow import check_credentials, check_needs
from pipelines.local_runner import IN_THIS_THREAD, PROCESSES, LocalRunner, check_beam
from pipelines.options import RunOptions

LOCAL_RUNNER = "FnApiRunner"

_REFUSED = {
    "dask": "it loses rows: elements emitted at the end of a bundle and all but one output of a "
    "step are dropped (Beam 2.77)",
    "bundlebaseddirect": "it loses the metrics of steps with side inputs (Beam 2.77)",
}
_KNOWN_OPTIONS_RUNNERS = {"fnapi", "direct", "dataflow"}
"""Runners whose options are all Beam's own; others get theirs from a job server."""
_POOL_SECONDS = 10.0
"""A pool on another continent answers in one."""
_IN_THIS_PROCESS = {None, "fnapi", "switchingdirect", "direct", "prism"}
"""Runners that end with this process."""

# The workers' image holds everything; without these Beam stages what it found in this process.
_NOTHING_STAGED = ("--no_save_main_session", "--experiments=disable_logging_submission_environment")

_PLACEHOLDER = re.compile(r"(?<![\w-])your-")
"""How names that must be replaced begin in the configs: your-project, gs://your-bucket."""


def job_pipeline(options: RunOptions) -> beam.Pipeline:
    """Return an empty pipeline on the runner of a job.

    With `--environment_type=EXTERNAL --environment_config=HOST:PORT` FnApiRunner asks the worker
    pool there for as many worker processes as `workers` says.

    Raises:
        ConfigError: as `beam_options` does, or what the runner cannot do without is missing.
    """
    chosen = beam_options(options)
    if is_dataflow(options):
        check_needs(options, chosen)
    check_detached(options)
    _check_replaced(options, chosen)
    if is_dataflow(options):
        check_credentials(chosen)
    address = _worker_pool(options)
    if not _is_fn_api(options):
        return new_pipeline(chosen)
    if address is not None or chosen.view_as(DirectOptions).direct_running_mode != IN_THIS_THREAD:
        check_beam()
    if address is not None:
        _check_pool(address)
    # It warns that several workers need another mode; they have it, unseen by Beam.
    logging.getLogger(FnApiRunner.__module__).setLevel(logging.ERROR)
    return new_pipeline(chosen, LocalRunner(address))


def new_pipeline(
    chosen: PipelineOptions, runner: beam.runners.PipelineRunner | None = None
) -> beam.Pipeline:
    """Return an empty pipeline.

    Raises:
        ConfigError: Beam finds fault with an option's value.
    """
    try:
        return beam.Pipeline(runner=runner, options=chosen)
    except ValueError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {' '.join(str(error).split())} Expected what its "
            "documentation says. Mend the option named."
        ) from error


def beam_options(options: RunOptions) -> PipelineOptions:
    """Return the Beam options of a job.

    Without a runner of the user's choice this is FnApiRunner: one worker in this process, or
    several in processes of their own. Beam's default would first try to download another runner.

    Raises:
        ConfigError: the runner is known to give wrong results, or an option or its value is none
            that Beam knows.
    """
    runner = _given_runner(options.beam)
    if runner in _REFUSED:
        raise ConfigError(
            f"runner {runner!r} cannot be used: {_REFUSED[runner]}. Leave --runner out, or give "
            "FnApiRunner, DataflowRunner, FlinkRunner or SparkRunner."
        )
    _check_flags(options.beam, all_known=runner is None or runner in _KNOWN_OPTIONS_RUNNERS)
    _check_running_mode(runner, options.beam)
    flags = list(options.beam)
    if runner is None:
        flags.append(f"--runner={LOCAL_RUNNER}")
    if has_worker_processes(options):
        flags.append(f"--direct_running_mode={PROCESSES}")
    if _is_fn_api(options) and options.workers > 1:
        flags.append(f"--direct_num_workers={options.workers}")
    if not _is_fn_api(options):
        flags.extend(_NOTHING_STAGED)
    return PipelineOptions(flags)


def is_remote(options: RunOptions) -> bool:
    """Whether another service runs the job, and continues when this process has ended."""
    return _given_runner(options.beam) not in _IN_THIS_PROCESS


def is_dataflow(options: RunOptions) -> bool:
    """Whether the job goes to Dataflow."""
    return _given_runner(options.beam) == "dataflow"


def is_detached(options: RunOptions) -> bool:
    """Whether the job is only submitted, and continues when this process has ended."""
    chosen = PipelineOptions(list(options.beam))
    template = chosen.view_as(GoogleCloudOptions).template_location
    return bool(chosen.view_as(StandardOptions).no_wait_until_finish or template)


def check_detached(options: RunOptions) -> None:
    """Refuse to leave a job alone that would end with this process.

    Raises:
        ConfigError: its runner, its job service or its workers live in this process.
    """
    if not is_detached(options) or is_dataflow(options):
        return
    portable = PipelineOptions(list(options.beam)).view_as(PortableOptions)
    service, workers = portable.job_endpoint, portable.environment_type
    if service in (None, "embed") or workers == "LOOPBACK":
        raise ConfigError(
            f"the job cannot go on by itself: got job service {service!r} and workers "
            f"{workers!r}, which end with this command; expected DataflowRunner, or a "
            "--job_endpoint of its own with workers elsewhere. Leave --no_wait_until_finish out."
        )


def is_local(options: RunOptions) -> bool:
    """Whether the workers run on this machine, in processes that we start."""
    return _is_fn_api(options) and _worker_pool(options) is None


def has_worker_processes(options: RunOptions) -> bool:
    """Whether the workers are processes of their own that we start on this machine."""
    return is_local(options) and options.workers > 1


def threads_per_worker(options: RunOptions) -> int | None:
    """Share this machine's cores out among local workers; None where others decide.

    Twice as many threads as cores halve the throughput.
    """
    if not is_local(options):
        return None
    return max(usable_cores() // options.workers, 1)


def usable_cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_separate_workers(options: RunOptions) -> bool:
    """Whether the workers of our runner are other processes, here or in a worker pool."""
    return has_worker_processes(options) or (
        _is_fn_api(options) and _worker_pool(options) is not None
    )


def check_waits(options: RunOptions) -> None:
    """Refuse to only submit a job whose end this process has work for.

    Raises:
        ConfigError: it was asked for.
    """
    if is_detached(options):
        raise ConfigError(
            "this command cannot leave its job alone: got --no_wait_until_finish or "
            "--template_location; expected neither. Only `score` can be submitted that way."
        )


def _check_replaced(options: RunOptions, chosen: PipelineOptions) -> None:
    """Raise for a value that a config for elsewhere holds for the user to replace."""
    if not is_remote(options):
        return
    ours = {name: value for name, value in options.describe().items() if name != "beam"}
    for name, value in (ours | chosen.get_all_options(drop_default=True)).items():
        if _PLACEHOLDER.search(str(value)):
            raise ConfigError(
                f"{name} is a placeholder of the config: got {value!r}; expected a name of yours. "
                "Edit a copy of the config, or give the option again, Beam's behind `--`."
            )


def _is_fn_api(options: RunOptions) -> bool:
    """Tell whether the runner is the one we choose."""
    return _given_runner(options.beam) in (None, "fnapi")


def _worker_pool(options: RunOptions) -> str | None:
    """Return the address of the worker pool that FnApiRunner is to use, if there is one."""
    given = PipelineOptions(list(options.beam)).view_as(PortableOptions)
    if not _is_fn_api(options) or given.environment_type is None:
        return None
    kind, address = given.environment_type, given.environment_config
    if kind != "EXTERNAL" or not address:
        raise ConfigError(
            f"FnApiRunner cannot use the environment {kind!r} at {address!r}; expected "
            "--environment_type=EXTERNAL --environment_config=HOST:PORT, or neither. Name the "
            "address of a running worker pool."
        )
    return str(address)


def _check_running_mode(runner: str | None, flags: Sequence[str]) -> None:
    """Raise if Beam itself would start workers: it waits for them at ports open to everyone."""
    mode = PipelineOptions(list(flags)).view_as(DirectOptions).direct_running_mode
    if runner in ("direct", "switchingdirect") and mode != IN_THIS_THREAD:
        raise ConfigError(
            f"the workers of DirectRunner could be reached by anybody: got --direct_running_mode="
            f"{mode}; expected FnApiRunner for it. Leave --runner out, and give --workers."
        )


def _check_pool(address: str) -> None:
    """Raise where no worker pool listens: the runner would only say that a call failed."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _POOL_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"no worker pool answers at {address!r}: got {error}; expected one that listens there. "
            "Start it (docker/compose.yaml), or check --environment_config=HOST:PORT."
        ) from error


def _given_runner(flags: Sequence[str]) -> str | None:
    """Return the runner named in Beam's own options, the last one as there, spelt as Beam does."""
    found = None
    for position, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name == "--runner":
            value = value if equals else next(iter(flags[position + 1 : position + 2]), "")
            found = value.rpartition(".")[2].lower().removesuffix("runner")
    return found


def _check_flags(flags: Sequence[str], *, all_known: bool) -> None:
    """Raise for a value that would end the process, and an option that Beam would ignore."""
    parser = _BeamArgumentParser(allow_abbrev=False, exit_on_error=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    try:
        _, unknown = parser.parse_known_args(list(flags))
    except ArgumentError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {error}; expected what its documentation says. "
            "Mend the option named."
        ) from error
    if unknown and all_known:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        raise ConfigError(
            f"unknown Beam option {unknown[0]!r}: expected one that Beam has. "
            + (f"Did you mean {near[0]}?" if near else "See Beam's pipeline options.")
        )
