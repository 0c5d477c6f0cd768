"""`bertscore-beam rescale`: rescale a finished run with a baseline."""

from pipelines.cli.manner import manner
from pipelines.cli.show import report, say
from pipelines.options.rescale import RescaleOptions
from pipelines.run.job import run_job
from pipelines.score.rescale import RESCALE


def rescale(options: RescaleOptions) -> int:
    """Rescale a run and print its outcome; return the exit status."""
    return report(run_job(RESCALE, options, say, quiet=manner().quiet))
