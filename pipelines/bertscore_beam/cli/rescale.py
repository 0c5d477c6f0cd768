"""`bertscore-beam rescale`: rescale a finished run with a baseline."""

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.options.rescale import RescaleOptions
from bertscore_beam.run.job import run_job
from bertscore_beam.score.rescale import RESCALE


def rescale(options: RescaleOptions) -> int:
    """Rescale a run and print its outcome; return the exit status."""
    return report(run_job(RESCALE, options, say, quiet=manner().quiet))
