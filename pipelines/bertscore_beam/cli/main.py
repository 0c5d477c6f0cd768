"""bertscore-beam, with a command for each job: score, rescale, groups, compare and so on.

Exit status: 0 done; 1 stopped early, run it again to continue; 2 it cannot work as given; 3 done as
far as possible, but a gate was not passed; 4 compared, and the run is worse than another; 130 or
143 interrupted, run it again to continue.

Torch, transformers and Beam take seconds to import. So the module of a command, which needs them,
is imported only after its options have been checked.
"""

import logging
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import cast

from bertscore_beam.cli.manner import Manner, printing
from bertscore_beam.cli.models import models_command
from bertscore_beam.cli.show import print_error
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NotBegunError
from bertscore_beam.options.flags import read_options
from bertscore_beam.options.idf import IdfOptions
from bertscore_beam.options.near_names import nearest
from bertscore_beam.options.rescale import RescaleOptions
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.exit_status import (
    BROKEN,
    DONE,
    REFUSED,
    TOO_MANY_REJECTS,
    UNUSABLE,
    interrupted,
)
from bertscore_beam.run.lock import FolderLostError
from bertscore_beam.run.pool import WorkersDiedError
from bertscore_beam.run.printing import EscapingFormatter, escape_text
from bertscore_beam.run.streams import forgive_output
from bertscore_core import BertScoreError, ConfigError, DeviceLostError

__all__ = ["BROKEN", "DONE", "TOO_MANY_REJECTS", "UNUSABLE", "main"]

_JOBS = ("score", "rescale", "idf", "import", "baseline", "tune")
"""Commands that write an output folder part by part."""

_ERROR_LINE = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*")
"""The line of a traceback that names the error."""

_BROKEN = (FolderLostError, DeviceLostError)
"""Errors on purpose that the same command may not meet again."""

_CONTINUES = "Finished parts are kept, and the same command continues from there."

HELP = """\
usage: bertscore-beam COMMAND [FLAGS] [-- BEAM OPTIONS]

  score    score candidates against references, and write the same rows with scores
  rescale  rescale a finished run with another baseline, without a model
  idf      count document frequencies over references and save the table
  import   turn JSON lines, CSV and TSV into Parquet
  baseline make rescaling baselines from random pairs of sentences;
           `baseline compare A B` compares two tables
  groups   print the mean scores of each group of rows of a finished run
  compare  compare a run with others row by row, or systems of one run; with a gate
  report   write one page about a finished run, as HTML that loads nothing
  explain  work out the score of rows of a run, or of two texts, token by token
  tune     find the model, layer and weighting that agree best with people
  check    tell by the exit status whether the run of an output folder is done
  models   print the registry of models

Every command takes --json (one JSON document on standard output) and --quiet (only warnings and
errors on standard error). `bertscore-beam COMMAND --help` lists the flags of a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    forgive_output()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _log_to_stderr()
    if given == ["--version"]:
        print(f"bertscore-beam {version('bertscore-beam')}")
        return DONE
    if not given or given[0] in ("-h", "--help"):
        print(HELP, end="")
        return DONE if given else UNUSABLE
    with printing(Manner.of(given)):
        try:
            return _command(given[0])(given[1:])
        except (Exception, KeyboardInterrupt) as error:
            return _failed(error, is_job=given[0] in _JOBS)


def _command(name: str) -> Callable[[Sequence[str]], int]:
    """Return a command by its name.

    Raises:
        ConfigError: There is no command of that name.
    """
    command = COMMANDS.get(name)
    if command is None:
        near = nearest(name, COMMANDS)
        raise ConfigError(
            f"unknown command {name!r}; expected one of {', '.join(COMMANDS)}."
            + (f" Did you mean {near}?" if near else "")
        )
    return command


def _failed(error: BaseException, *, is_job: bool) -> int:
    """Print why a command ended, and return its exit status; a job goes on if run again."""
    status, words = BROKEN, _words(str(error))
    if isinstance(error, KeyboardInterrupt):
        status, words = interrupted(signal.SIGINT), "interrupted."
    elif isinstance(error, WorkersDiedError):
        words += f"\n{_CONTINUES}"
    elif isinstance(error, BertScoreError) and not isinstance(error, _BROKEN):
        status = UNUSABLE
    elif isinstance(error, REFUSED):
        status, words = UNUSABLE, f"{words} ({type(error).__name__})"
    elif isinstance(error, NotBegunError):
        words += "\nNothing was begun. Run the same command again when it can be reached."
    elif not isinstance(error, FolderLostError):
        if not isinstance(error, OSError):
            logging.getLogger(__name__).error("unexpected error", exc_info=error)
        words = f"the {'job' if is_job else 'command'} stopped: {_words(_cause(error))}"
        if is_job:
            words += f"\n{_CONTINUES}"
    return print_error(words, status)


def _words(text: str) -> str:
    """Return a message without credentials and control characters."""
    return escape_text(mask_credentials(text))


def _is_not_about_bigquery(record: logging.LogRecord) -> bool:
    """Drop the line that Beam logs on every import without its optional BigQuery client."""
    return not record.getMessage().startswith("apitools not found")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_is_not_about_bigquery)
    handler.setFormatter(EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _cause(error: BaseException) -> str:
    """Return the cause of an error as one line: Beam's errors contain the worker's traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _ERROR_LINE.match(line)]
    last, kind = (named or lines or [""])[-1], type(error).__name__
    tells_enough = named or (lines and isinstance(error, RuntimeError | OSError))
    return last if tells_enough else f"{kind}: {last}".removesuffix(": ")


def score_command(arguments: Sequence[str]) -> int:
    """Score a dump."""
    options = cast("ScoreOptions", read_options(ScoreOptions, arguments, "bertscore-beam score"))
    from bertscore_beam.cli.score import score

    return score(options)


def rescale_command(arguments: Sequence[str]) -> int:
    """Rescale a finished run."""
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--run", *arguments]
    prog = "bertscore-beam rescale"
    options = cast("RescaleOptions", read_options(RescaleOptions, arguments, prog))
    from bertscore_beam.cli.rescale import rescale

    return rescale(options)


def idf_command(arguments: Sequence[str]) -> int:
    """Count the references of a dump."""
    options = cast("IdfOptions", read_options(IdfOptions, arguments, "bertscore-beam idf"))
    from bertscore_beam.cli.idf import count_idf

    return count_idf(options)


def import_command(arguments: Sequence[str]) -> int:
    """Turn files of text into Parquet."""
    from bertscore_beam.options.imports import ImportOptions

    prog = "bertscore-beam import"
    options = cast("ImportOptions", read_options(ImportOptions, arguments, prog))
    from bertscore_beam.cli.imports import import_texts

    return import_texts(options)


def baseline_command(arguments: Sequence[str]) -> int:
    """Make baselines, or compare two."""
    if arguments[:1] == ["compare"]:
        from bertscore_beam.cli.compare import compare_command

        return compare_command(arguments[1:])
    if arguments and nearest(arguments[0], ["compare"]):
        raise ConfigError(
            f"unknown argument {arguments[0]!r}; expected flags, or compare. Did you mean compare?"
        )
    from bertscore_beam.crawl.languages import check_installed
    from bertscore_beam.options.baseline import BaselineOptions

    prog = "bertscore-beam baseline"
    options = cast("BaselineOptions", read_options(BaselineOptions, arguments, prog))
    check_installed(pages=not options.sentences)
    from bertscore_beam.cli.baseline import make_baselines

    return make_baselines(options)


def groups_command(arguments: Sequence[str]) -> int:
    """Print the groups of a finished run."""
    from bertscore_beam.cli.groups import groups_command

    return groups_command(arguments)


def compare_runs_command(arguments: Sequence[str]) -> int:
    """Compare finished runs, or systems of one."""
    from bertscore_beam.cli.compare_runs import compare_runs_command

    return compare_runs_command(arguments)


def explain_command(arguments: Sequence[str]) -> int:
    """Explain rows of a run, or two texts."""
    from bertscore_beam.cli.explain import explain_command as explain

    return explain(arguments)


def tune_command(arguments: Sequence[str]) -> int:
    """Find the layer that agrees best with people."""
    from bertscore_beam.options.tune import TuneOptions
    from bertscore_beam.tune.packages import check_packages

    options = cast("TuneOptions", read_options(TuneOptions, arguments, "bertscore-beam tune"))
    check_packages()
    from bertscore_beam.cli.tune import tune

    return tune(options)


def check_command(arguments: Sequence[str]) -> int:
    """Tell whether the run of an output folder is done."""
    from bertscore_beam.cli.check import check

    return check(arguments)


def report_command(arguments: Sequence[str]) -> int:
    """Write a page about a run."""
    from bertscore_beam.cli.report import report_command as report

    return report(arguments)


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "score": score_command,
    "rescale": rescale_command,
    "idf": idf_command,
    "import": import_command,
    "baseline": baseline_command,
    "groups": groups_command,
    "compare": compare_runs_command,
    "report": report_command,
    "explain": explain_command,
    "tune": tune_command,
    "check": check_command,
    "models": models_command,
}
