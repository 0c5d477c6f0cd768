"""Which Beam runner a job runs on, and how a machine is shared out among its workers."""

import difflib
import logging
import os
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    _BeamArgumentParser,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import ExternalEnvironment

from bertscore_core import ConfigError
from pipelines.options import RunOptions

LOCAL_RUNNER = "FnApiRunner"

_REFUSED = {
    "dask": "it loses rows: elements emitted at the end of a bundle and all but one output of a "
    "step are dropped (Beam 2.77)",
    "bundlebaseddirect": "it loses the metrics of steps with side inputs (Beam 2.77)",
}
_KNOWN_OPTIONS_RUNNERS = {"fnapi", "direct", "dataflow"}
"""Runners whose options are all Beam's own; others get theirs from a job server."""


def job_pipeline(options: RunOptions) -> beam.Pipeline:
    """Return an empty pipeline on the runner of a job.

    With `--environment_type=EXTERNAL --environment_config=HOST:PORT` FnApiRunner asks the worker
    pool there for as many worker processes as `workers` says.

    Raises:
        ConfigError: as `beam_options` does.
    """
    chosen = beam_options(options)
    address = _worker_pool(options)
    if address is None:
        return beam.Pipeline(options=chosen)
    # It warns that several workers need another mode, which is not so with a worker pool.
    logging.getLogger(FnApiRunner.__module__).setLevel(logging.ERROR)
    runner = FnApiRunner(default_environment=ExternalEnvironment(address))
    return beam.Pipeline(runner=runner, options=chosen)


def beam_options(options: RunOptions) -> PipelineOptions:
    """Return the Beam options of a job.

    Without a runner of the user's choice this is FnApiRunner: one worker in this process, or
    several in processes of their own. Beam's default would first try to download another runner.

    Raises:
        ConfigError: the runner is known to give wrong results, or an option is not known.
    """
    runner = _given_runner(options.beam)
    if runner in _REFUSED:
        raise ConfigError(
            f"runner {runner!r} cannot be used: {_REFUSED[runner]}. Leave --runner out, or give "
            "FnApiRunner, DataflowRunner, FlinkRunner or SparkRunner."
        )
    flags = list(options.beam)
    if runner is None:
        flags.append(f"--runner={LOCAL_RUNNER}")
    if has_worker_processes(options):
        flags.append("--direct_running_mode=multi_processing")
    if _is_fn_api(options) and options.workers > 1:
        flags.append(f"--direct_num_workers={options.workers}")
    if runner is None or runner in _KNOWN_OPTIONS_RUNNERS:
        _check_known(flags)
    return PipelineOptions(flags)


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


def _given_runner(flags: Sequence[str]) -> str | None:
    """Return the runner named in Beam's own options, spelt as Beam compares names."""
    for position, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name == "--runner":
            value = value if equals else next(iter(flags[position + 1 : position + 2]), "")
            return value.rpartition(".")[2].lower().removesuffix("runner")
    return None


def _check_known(flags: Sequence[str]) -> None:
    """Raise for an option that Beam would warn about and ignore."""
    parser = _BeamArgumentParser(allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(flags))
    if unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        raise ConfigError(
            f"unknown Beam option {unknown[0]!r}: expected one that Beam has. "
            + (f"Did you mean {near[0]}?" if near else "See Beam's pipeline options.")
        )
