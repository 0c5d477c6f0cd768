"""`bertscore-beam import`: files of text as Parquet."""

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.imports.job import IMPORT
from bertscore_beam.options.imports import ImportOptions
from bertscore_beam.run.job import run_job


def import_texts(options: ImportOptions) -> int:
    """Run the import job and print its outcome; return the exit status."""
    return report(run_job(IMPORT, options, say, quiet=manner().quiet))
