"""Which Beam runner a job runs on, and how a machine is shared out among its workers."""

import difflib
import os
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from bertscore_core import ConfigError
from pipelines.options import JobOptions

LOCAL_RUNNER = "FnApiRunner"

_REFUSED = {
    "dask": "it loses rows: elements emitted at the end of a bundle and all but one output of a "
    "step are dropped (Beam 2.77)",
    "bundlebaseddirect": "it loses the metrics of steps with side inputs (Beam 2.77)",
}
_KNOWN_OPTIONS_RUNNERS = {"fnapi", "direct", "dataflow"}
"""Runners whose options are all Beam's own; others get theirs from a job server."""


def beam_options(options: JobOptions) -> PipelineOptions:
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
    if is_local(options) and options.workers > 1:
        flags.append("--direct_running_mode=multi_processing")
        flags.append(f"--direct_num_workers={options.workers}")
    if runner is None or runner in _KNOWN_OPTIONS_RUNNERS:
        _check_known(flags)
    return PipelineOptions(flags)


def is_local(options: JobOptions) -> bool:
    """Whether the job runs on this machine, under the runner we choose."""
    return _given_runner(options.beam) in (None, "fnapi")


def threads_per_worker(options: JobOptions) -> int | None:
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
