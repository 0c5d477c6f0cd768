"""bertscore-beam: score | idf | baseline | check | models.

Exit status: 0 done; 1 stopped early, run it again to continue; 2 it cannot work as given; 3 done as
far as possible, but a gate was not passed; 130 or 143 interrupted, run it again to continue.

Torch, transformers and Beam take seconds to import, so `commands.py`, which needs them, is imported
only once the options are known to be good.
"""

import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import cast

from bertscore_core import BertScoreError, ConfigError, known_languages
from pipelines.checks import nearest
from pipelines.exit_status import (
    BROKEN,
    DONE,
    REFUSED,
    TOO_MANY_REJECTS,
    UNUSABLE,
    interrupted,
)
from pipelines.flags import StrictParser, read_options, unknown_flag
from pipelines.io.files import absolute, mask_credentials
from pipelines.io.reach import NotBegunError, before_work, reaching
from pipelines.options import IdfOptions, ScoreOptions
from pipelines.printing import EscapingFormatter, escape_text
from pipelines.report import registry_rows, show, show_registry
from pipelines.streams import forgive_output, printed

__all__ = ["BROKEN", "DONE", "TOO_MANY_REJECTS", "UNUSABLE", "main"]

_ERROR_LINE = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*")
"""The line of a traceback that names the error."""

HELP = """\
usage: bertscore-beam COMMAND [FLAGS] [-- BEAM OPTIONS]

  score    score candidates against references, Parquet to Parquet
  idf      count document frequencies over references and save the table
  baseline estimate rescaling baselines from random pairs of web sentences;
           `baseline compare A B` holds two tables against each other
  check    tell by the exit status whether the run of an output folder is done
  models   print the registry of models

`bertscore-beam COMMAND --help` lists the flags of a command.
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
    try:
        command = COMMANDS.get(given[0])
        if command is None:
            near = nearest(given[0], COMMANDS)
            raise ConfigError(
                f"unknown command {given[0]!r}; expected one of {', '.join(COMMANDS)}."
                + (f" Did you mean {near}?" if near else "")
            )
        return command(given[1:])
    except BertScoreError as error:
        print(f"bertscore-beam: {_words(str(error))}", file=sys.stderr)
        return UNUSABLE
    except REFUSED as error:
        kind = type(error).__name__
        print(f"bertscore-beam: {_words(str(error))} ({kind})", file=sys.stderr)
        return UNUSABLE
    except NotBegunError as error:
        print(
            f"bertscore-beam: {_words(str(error))}\nNothing was begun. Run the same "
            "command again when it can be reached.",
            file=sys.stderr,
        )
        return BROKEN
    except KeyboardInterrupt:
        print("bertscore-beam: interrupted.", file=sys.stderr)
        return interrupted(signal.SIGINT)
    except Exception as error:
        if not isinstance(error, OSError):
            logging.getLogger(__name__).exception("the job broke off")
        print(
            f"bertscore-beam: the job broke off: {_words(_cause(error))}\nWhat was "
            "committed is kept, and the same command goes on from there.",
            file=sys.stderr,
        )
        return BROKEN


def _words(text: str) -> str:
    """Return a message as it may be shown."""
    return escape_text(mask_credentials(text))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _cause(error: BaseException) -> str:
    """Return what went wrong in one line; Beam hands on a worker's whole traceback as a text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if _ERROR_LINE.match(line)]
    return (said or lines or [type(error).__name__])[-1]


def score_command(arguments: Sequence[str]) -> int:
    """Score a dump."""
    options = cast("ScoreOptions", read_options(ScoreOptions, arguments, "bertscore-beam score"))
    from pipelines.commands import score

    return score(options)


def idf_command(arguments: Sequence[str]) -> int:
    """Count the references of a dump."""
    options = cast("IdfOptions", read_options(IdfOptions, arguments, "bertscore-beam idf"))
    from pipelines.commands import count_idf

    return count_idf(options)


def baseline_command(arguments: Sequence[str]) -> int:
    """Make baselines, or compare two."""
    if arguments[:1] == ["compare"]:
        from pipelines.baseline.compare import compare_command

        return compare_command(arguments[1:])
    if arguments and nearest(arguments[0], ["compare"]):
        raise ConfigError(
            f"unknown argument {arguments[0]!r}; expected flags, or compare. Did you mean compare?"
        )
    from pipelines.baseline.options import BaselineOptions
    from pipelines.commoncrawl.languages import check_installed

    prog = "bertscore-beam baseline"
    options = cast("BaselineOptions", read_options(BaselineOptions, arguments, prog))
    check_installed(pages=not options.sentences)
    from pipelines.baseline.command import make_baselines

    return make_baselines(options)


def check_command(arguments: Sequence[str]) -> int:
    """Tell whether an output folder holds a run that has succeeded."""
    parser = StrictParser(prog="bertscore-beam check", allow_abbrev=False)
    parser.add_argument("folder", help="output folder of `score` or `baseline`")
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise unknown_flag(unknown[0], parser)
    from pipelines.manifest import RUN_FILE, read_run
    from pipelines.success import SUCCESS_FILE, successful_run

    shown = mask_credentials(parsed.folder)
    with before_work(), reaching("folder", parsed.folder):
        run, success = (find(absolute(parsed.folder)) for find in (read_run, successful_run))
    if run is None:
        raise ConfigError(
            f"{shown!r} holds no run: got no {RUN_FILE}; expected the output folder of `score` or "
            "`baseline`. Check the path."
        )
    if success is None:
        print(
            f"bertscore-beam: the run in {shown!r} is not done: got no {SUCCESS_FILE} of it; wait "
            "for it, or run its command again.",
            file=sys.stderr,
        )
        return BROKEN
    print(f"{shown} is done")
    return DONE


def models_command(arguments: Sequence[str]) -> int:
    """Print the registry."""
    parser = StrictParser(prog="bertscore-beam models", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise unknown_flag(unknown[0], parser)
    if parsed.json:
        print(json.dumps({"models": registry_rows(), "languages": dict(known_languages())}))
    else:
        show(show_registry())
    return printed()


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "score": score_command,
    "idf": idf_command,
    "baseline": baseline_command,
    "check": check_command,
    "models": models_command,
}
