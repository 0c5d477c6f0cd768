"""`bertscore-beam idf`: document frequencies over references, saved as a table."""

from pipelines.cli.manner import manner
from pipelines.cli.score import announce_model
from pipelines.cli.show import report, say
from pipelines.idf.job import IDF
from pipelines.options.idf import IdfOptions
from pipelines.run.job import run_job


def count_idf(options: IdfOptions) -> int:
    """Run the idf job and print its outcome; return the exit status."""
    if not options.print_job:
        announce_model(options)
    return report(run_job(IDF, options, say, quiet=manner().quiet))
