"""`bertscore-beam baseline`: rescaling baselines from random pairs of web sentences."""

from bertscore_beam.baseline.collect import TooManyFilesFailedError
from bertscore_beam.baseline.job import BASELINE
from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_beam.run.exit_status import BROKEN
from bertscore_beam.run.job import run_job
from bertscore_beam.run.outcome import Outcome


def make_baselines(options: BaselineOptions) -> int:
    """Check, plan, run, report."""
    try:
        outcome = run_job(BASELINE, options, say, quiet=manner().quiet)
    except TooManyFilesFailedError as error:  # its words say already how to continue
        outcome = Outcome(status=BROKEN, warnings=(mask_credentials(str(error)),))
    return report(outcome)
