"""Estimate the time of a run for `--dry-run`, from the pace of earlier runs."""

from bertscore_beam.run.printing import duration_words
from bertscore_beam.score.prepare import ScoreJob

# Measured on two cores with the embedded model: imports, planning, the start of a worker, loading.
_START_SECONDS = 10.0


def estimate_words(job: ScoreJob) -> str:
    """Return the estimated time of a run, and the basis of the estimate."""
    earlier, rows = job.spec.goal.carried, sum(split.about_rows for split in job.standing.pending)
    if not rows:
        return f"about {duration_words(_START_SECONDS)} (nothing is left to score)"
    if not job.runner.is_local:
        return "not known: it depends on the workers, which run elsewhere"
    if not earlier.summary.rows:
        return "not known before the first parts are scored"
    # The seconds are a sum over all workers.
    pace = earlier.seconds / earlier.summary.rows / job.runner.workers
    seconds = _START_SECONDS + rows * pace
    return f"about {duration_words(seconds)} (pace of {earlier.summary.rows:,} rows scored earlier)"
