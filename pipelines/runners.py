"""Which Beam runner a job runs on, and how a machine is shared out among its workers."""

import os
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions

from bertscore_core import ConfigError
from pipelines.options import JobOptions

_REFUSED = {
    "DaskRunner": "it loses rows: elements emitted at the end of a bundle and all but one output "
    "of a step are dropped (Beam 2.77)",
    "BundleBasedDirectRunner": "it loses the metrics of steps with side inputs (Beam 2.77)",
}


def beam_options(options: JobOptions) -> PipelineOptions:
    """Return the Beam options of a job.

    Without a runner of the user's choice this is FnApiRunner: one worker in this process, or
    several in processes of their own. Beam's default would first try to download another runner.

    Raises:
        ConfigError: the runner is known to give wrong results.
    """
    runner = _given_runner(options.beam)
    if runner in _REFUSED:
        raise ConfigError(
            f"runner {runner} cannot be used: {_REFUSED[runner]}. Leave --runner out, or give "
            "FnApiRunner, DataflowRunner, FlinkRunner or SparkRunner."
        )
    flags = list(options.beam)
    if runner is None:
        flags.append("--runner=FnApiRunner")
        if options.workers > 1:
            flags.append("--direct_running_mode=multi_processing")
            flags.append(f"--direct_num_workers={options.workers}")
    return PipelineOptions(flags)


def is_local(options: JobOptions) -> bool:
    """Whether the job runs on this machine, under the runner we choose."""
    return _given_runner(options.beam) in (None, "FnApiRunner")


def threads_per_worker(options: JobOptions) -> int | None:
    """Share this machine's cores out among local workers; None where others decide.

    Twice as many threads as cores halve the throughput.
    """
    if not is_local(options):
        return None
    return max(len(os.sched_getaffinity(0)) // options.workers, 1)


def _given_runner(flags: Sequence[str]) -> str | None:
    """Return the runner named in Beam's own options, if there is one."""
    for position, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name == "--runner":
            return value if equals else next(iter(flags[position + 1 : position + 2]), None)
    return None
