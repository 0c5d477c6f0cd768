"""`bertscore-beam baseline`: rescaling baselines from random pairs of web sentences."""

from pipelines.baseline.collect import TooManyFilesFailedError
from pipelines.baseline.job import BASELINE
from pipelines.cli.manner import manner
from pipelines.cli.show import report, say
from pipelines.files.credentials import mask_credentials
from pipelines.options.baseline import BaselineOptions
from pipelines.run.exit_status import BROKEN
from pipelines.run.job import run_job
from pipelines.run.outcome import Outcome


def make_baselines(options: BaselineOptions) -> int:
    """Check, plan, run, report."""
    try:
        outcome = run_job(BASELINE, options, say, quiet=manner().quiet)
    except TooManyFilesFailedError as error:  # its words say already how to continue
        outcome = Outcome(status=BROKEN, warnings=(mask_credentials(str(error)),))
    return report(outcome)
