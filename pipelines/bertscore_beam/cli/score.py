"""`bertscore-beam score`: score the rows of a dump, and write them with their scores."""

from bertscore_beam.cli.manner import manner
from bertscore_beam.cli.show import report, say
from bertscore_beam.options.base import DumpOptions
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.job import run_job
from bertscore_beam.score.job import SCORE
from bertscore_core import EMBEDDED_MODEL, model_for_language


def score(options: ScoreOptions) -> int:
    """Run the scoring job and print its outcome; return the exit status."""
    if not options.print_job:
        announce_model(options)
    return report(run_job(SCORE, options, say, quiet=manner().quiet))


def announce_model(options: DumpOptions) -> None:
    """Print which model is used, if the user has named none."""
    if options.model is not None or options.language_column is not None:
        return
    if options.language is None:
        say(
            f"No model and no language given: the embedded default {EMBEDDED_MODEL} is used. For "
            "the model most papers use on English: --model roberta-large --language en."
        )
    else:
        say(f"Model for language {options.language}: {model_for_language(options.language)}.")
