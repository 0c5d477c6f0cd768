"""Estimate the time of a run for `--dry-run`, from the pace of earlier runs."""

import math

from pipelines.score.prepare import ScoreJob

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


def duration_words(seconds: float) -> str:
    """Format a duration to two digits: 40 s, 12 min, 3 h 20 min, 2 days 5 h."""
    if seconds < 90:
        return f"{max(math.ceil(seconds / 5) * 5, 0)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, minutes = divmod(round(minutes, -1), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"
