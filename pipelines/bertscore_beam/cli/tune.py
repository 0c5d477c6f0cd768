"""`bertscore-beam tune`: the model, layer and weighting that agree best with people."""

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.run.job import run_job
from bertscore_beam.tune.job import TUNE


def tune(options: TuneOptions) -> int:
    """Run the tuning job and print its outcome; return the exit status."""
    return report(run_job(TUNE, options, say, quiet=manner().quiet))
