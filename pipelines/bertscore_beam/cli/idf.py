"""`bertscore-beam idf`: document frequencies over references, saved as a table."""

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.score import announce_model
from bertscore_beam.cli.show import report, say
from bertscore_beam.idf.job import IDF
from bertscore_beam.options.idf import IdfOptions
from bertscore_beam.run.job import run_job


def count_idf(options: IdfOptions) -> int:
    """Run the idf job and print its outcome; return the exit status."""
    if not options.print_job:
        announce_model(options)
    return report(run_job(IDF, options, say, quiet=manner().quiet))
