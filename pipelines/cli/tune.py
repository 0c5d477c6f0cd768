"""`bertscore-beam tune`: the model, layer and weighting that agree best with people."""

from pipelines.cli.manner import manner
from pipelines.cli.show import report, say
from pipelines.options.tune import TuneOptions
from pipelines.run.job import run_job
from pipelines.tune.job import TUNE


def tune(options: TuneOptions) -> int:
    """Run the tuning job and print its outcome; return the exit status."""
    return report(run_job(TUNE, options, say, quiet=manner().quiet))
