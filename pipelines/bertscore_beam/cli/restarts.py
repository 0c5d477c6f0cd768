"""`--restarts`: a job in a process of its own, started again when one of its workers has died."""

import sys
from collections.abc import Callable, Sequence

from bertscore_beam.cli.show import warn
from bertscore_beam.options.base import RunOptions
from bertscore_beam.run.supervised import supervisor_folder
from bertscore_beam.run.supervisor import supervise


def with_restarts(words: Sequence[str], options: RunOptions, job: Callable[[], int]) -> int:
    """Run a job here, or in a process that may be started again if its options ask for that.

    Args:
        words: The command line, from the name of the command on.
        options: Its options.
        job: Runs it in this process and returns its exit status.

    Raises:
        WorkersDiedError: Workers died more often than the run may be restarted.
    """
    runs = not (options.dry_run or options.print_job)
    if options.restarts and runs and supervisor_folder() is None:
        # -P: modules in the current folder do not replace installed ones.
        program = [sys.executable, "-P", "-m", "bertscore_beam"]
        return supervise([*program, *words], options.restarts, warn)
    return job()
