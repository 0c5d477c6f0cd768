"""bertscore-beam, with a command for each job: score, rescale, groups, compare and so on.

Exit status: 0 done; 1 stopped early, run it again to continue; 2 it cannot work as given; 3 done as
far as possible, but a gate was not passed; 4 compared, and the run is worse than another; 5
compared, but there are too few rows to judge by; 129, 130 or 143 interrupted, run it again to
continue.

Torch, transformers and Beam take seconds to import. So the module of a command, which needs them,
is imported only after its options have been checked.
"""

import atexit
import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, NoReturn, cast

from bertscore_beam.cli.show import OutputMode, named, output_mode, print_error, printing
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NotBegunError, RefusedError, before_work, is_refused
from bertscore_beam.options.declare import summary_of
from bertscore_beam.options.flags import read_options
from bertscore_beam.run.lease import JobStillRunsError
from bertscore_beam.run.output import (
    BROKEN,
    DONE,
    NOTHING_KEPT,
    TOO_MANY_REJECTS,
    UNUSABLE,
    EscapedRecord,
    EscapingFormatter,
    JobFailedError,
    ignore_broken_output,
    interrupted,
    last_error,
)
from bertscore_beam.run.pool import WorkersDiedError
from bertscore_core.errors import BertScoreError, ConfigError, DeviceLostError, escape_text, nearest

__all__ = ["BROKEN", "DONE", "TOO_MANY_REJECTS", "UNUSABLE", "main"]

_ALLOCATIONS = 50_000
"""Allocations between collections of garbage. Imports make many objects, nearly none of them
garbage: looking for it every 700 allocations takes a tenth of the time of a short command."""

_SPINS = "10000"
"""How often a thread of torch looks for work before it sleeps. By default it looks for
milliseconds, which takes the processor from others: with another busy program beside it, scoring
with torch took half the CPU seconds and half the time with this."""

_BROKEN = (JobStillRunsError, DeviceLostError)
"""Errors on purpose that the same command may not meet again."""

_WORDED = (BertScoreError, OSError, KeyboardInterrupt, JobFailedError, WorkersDiedError)
"""Errors whose message says enough. Their traceback is shown only with `--debug`."""

_CONTINUES = "Finished parts are kept, and the same command continues from there."


class Command(NamedTuple):
    """A command: its option class, and the function or the job that takes these options.

    They are named by their places: what is not asked for is not imported. Help of all
    commands asks for the options of all.
    """

    options: str
    function: str = ""
    job: str = ""

    def read(self, name: str, arguments: Sequence[str]) -> Any:
        """Return the options that arguments give."""
        return read_options(named(self.options), arguments, f"bertscore-beam {name}")


COMMANDS: Mapping[str, Command] = {
    "score": Command("options.score_options.ScoreOptions", job="score.job.score_job"),
    "select": Command("options.score_options.SelectOptions", job="score.job.score_job"),
    "rescale": Command("options.score_options.RescaleOptions", job="score.rescale.rescale_job"),
    "idf": Command("options.score_options.IdfOptions", job="idf.job.idf_job"),
    "baseline": Command(
        "baseline.baseline_options.BaselineOptions", job="baseline.job.baseline_job"
    ),
    "baseline compare": Command(
        "options.answer_options.TablesOptions", "cli.tables.compare_tables"
    ),
    "groups": Command("options.answer_options.GroupsOptions", "cli.answers.print_groups"),
    "compare": Command("compare.compare_options.CompareOptions", "cli.answers.print_comparison"),
    "report": Command("pages.report_options.ReportOptions", "cli.answers.write_report"),
    "explain": Command("options.answer_options.ExplainOptions", "cli.explain.explain_rows"),
    "tune": Command("tune.tune_options.TuneOptions", job="tune.job.tune_job"),
    "check": Command("options.answer_options.CheckOptions", "cli.answers.check"),
    "models": Command("options.answer_options.ModelsOptions", "cli.tables.print_models"),
}

_HELP = """\
usage: bertscore-beam COMMAND [FLAGS] [-- BEAM OPTIONS]

{commands}

Every command takes --json (one JSON document on standard output), --quiet (only warnings and errors
on standard error) and --debug (the traceback of an error, too). `bertscore-beam COMMAND --help`
shows the daily options of a command, `--help-all` all of them.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    if arguments is None and sys.flags.optimize > 1:
        _begin_again()
    ignore_broken_output()
    gc.set_threshold(_ALLOCATIONS)
    if arguments is None:
        atexit.register(gc.freeze)  # looking for garbage at the very end takes 0.6 s after a job
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
        from bertscore_beam.cli.complete import complete

        complete(COMMANDS)
    if "OMP_WAIT_POLICY" not in os.environ:  # before torch, and for all processes to come
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    _log_to_stderr()
    _OF_INTEREST.debug = OutputMode.of(given).debug
    if given == ["--version"]:
        print(f"bertscore-beam {version('bertscore-beam')}")
        return DONE
    if not given or given[0] in ("-h", "--help"):
        summaries = {name: summary_of(named(command.options)) for name, command in COMMANDS.items()}
        lines = [f"  {name:17}{summary}" for name, summary in summaries.items()]
        print(_HELP.format(commands="\n".join(lines)), end="")
        return DONE if given else UNUSABLE
    with printing(OutputMode.of(given)):
        try:
            return perform(given)
        except (Exception, KeyboardInterrupt) as error:
            return _failed(error, is_job=given[0] in COMMANDS and bool(COMMANDS[given[0]].job))


def _begin_again() -> NoReturn:
    """Begin again with docstrings, which -OO drops: Apache Beam and the help read them."""
    os.environ["PYTHONOPTIMIZE"] = "1"
    command = [sys.executable, "-P", "-m", "bertscore_beam", *sys.argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606 - this program itself


def perform(words: Sequence[str]) -> int:
    """Run a command line and return its exit status; unlike `main`, let errors through."""
    longer = " ".join(words[:2])
    name, arguments = (longer, words[2:]) if longer in COMMANDS else (words[0], words[1:])
    below = {
        longer.removeprefix(f"{name} ") for longer in COMMANDS if longer.startswith(f"{name} ")
    }
    if below and arguments and (near := nearest(arguments[0], below)):
        raise ConfigError(
            f"unknown argument {arguments[0]!r}; expected flags, or {near}. Did you mean {near}?"
        )
    if name not in COMMANDS:
        near = nearest(name, COMMANDS)
        raise ConfigError(
            f"unknown command {name!r}; expected one of {', '.join(COMMANDS)}."
            + (f" Did you mean {near}?" if near else " `bertscore-beam --help` explains them.")
        )
    command = COMMANDS[name]
    with before_work():
        options = command.read(name, arguments)
        if not command.job:
            return cast("int", named(command.function)(options))
    from bertscore_beam.cli.jobs import run_command

    return run_command(command.job, options)


def _how_to_go_on(error: BaseException) -> str:
    notes: list[str] = getattr(error, "__notes__", [])
    if NOTHING_KEPT not in notes:
        return _CONTINUES
    notes.remove(NOTHING_KEPT)  # else a traceback would have it, too
    return NOTHING_KEPT


def _failed(error: BaseException, *, is_job: bool) -> int:
    """Print why a command ended, and return its exit status; a job goes on if run again."""
    status, words, continues = BROKEN, _words(str(error)), _how_to_go_on(error)
    is_worded = isinstance(error, _WORDED)
    if output_mode().debug or not is_worded:
        print(_words("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if isinstance(error, KeyboardInterrupt):
        status, words = interrupted(signal.SIGINT), "interrupted."
    elif isinstance(error, WorkersDiedError):
        words += f"\n{continues}"
    elif isinstance(error, BertScoreError | RefusedError) and not isinstance(error, _BROKEN):
        status = UNUSABLE
    elif isinstance(error, OSError) and is_refused(error):
        status, words = UNUSABLE, f"{words} ({type(error).__name__})"
    elif isinstance(error, NotBegunError):
        words += (
            f"\nNothing was {'started' if is_job else 'written'}. Run the same command again later."
        )
    elif not isinstance(error, JobStillRunsError):
        if not is_worded:
            words = _words(last_error(error))
        words = f"the {'job' if is_job else 'command'} stopped: {words}"
        if is_job:
            words += f"\n{continues}"
    return print_error(words, status)


def _words(text: str) -> str:
    return escape_text(mask_credentials(text))


class _OfInterest(logging.Filter):
    """Lets records pass but for those of runners, and of gcsfs, that say nothing new.

    Attributes:
        debug: Whether errors of a job pass. The command says the last one itself, in a line.
    """

    debug = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is shown."""
        if record.getMessage().startswith("apitools not found"):  # for BigQuery: no job uses it
            return False
        is_said = record.name.startswith(("apache_beam.runners.", "gcsfs"))
        is_said = (is_said or record.name == "root") and record.levelno >= logging.ERROR
        return self.debug or not is_said


_OF_INTEREST = _OfInterest()


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_OF_INTEREST)
    handler.setFormatter(EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.setLogRecordFactory(EscapedRecord)  # other libraries have handlers of their own
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
