"""How a run ends before its work is done: by a signal, or an error of the work."""

import builtins
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from bertscore_beam.files.reach import UnreachedError
from bertscore_beam.run import output, pool
from bertscore_beam.run.temporary import delete_temporary_folders
from bertscore_core.errors import BertScoreError, ConfigError, ModelLoadError

if TYPE_CHECKING:
    from bertscore_beam.run.remote_job import RemoteJob

_WHILE = re.compile(r" \[while running '[^']*'\]$", re.MULTILINE)
"""What Beam adds to the message of an error."""

_FRAMES = re.compile(r"Traceback \(most recent call last\):\n(?: .*\n)+")
"""What comes before an error in a traceback."""


@contextmanager
def worker_errors(job: "RemoteJob | None" = None) -> Iterator[None]:
    """Let errors of the work that the program words itself keep their words and their kind.

    Also those that a runner only quotes. What else a runner says of a job is one line.

    Raises:
        ConfigError, ModelLoadError: The same command would end in the same way.
        JobFailedError: Any other error on purpose, or one of a file system. Unlike before the work,
            the same command may continue.
    """
    try:
        yield
    except Exception as error:
        known = error if isinstance(error, BertScoreError | OSError) else _quoted(error)
        if known is None and job is not None and _is_of_runner(error):
            raise output.JobFailedError(job.failed(error)) from error
        if known is None:
            raise
        where = "" if job is None else job.where
        if isinstance(known, BertScoreError):
            known.args = (_WHILE.sub("", str(known)) + where,)
        if isinstance(known, ConfigError | ModelLoadError):
            raise known from error.__cause__
        kind = f"{type(known).__name__}: " if isinstance(known, OSError) else ""
        raise output.JobFailedError(f"{kind}{known}{where}") from error


def _quoted(error: Exception) -> BertScoreError | OSError | None:
    """Return the error of a worker that a runner quotes, if it is one of ours or of a file system.

    It is that of the last traceback, up to what Beam adds, or else to an empty line. Of an error on
    its workers a runner hands on nothing but this text; processes of our own send the error itself.
    """
    _, *quoted = _FRAMES.split(str(error))
    if not quoted or not _is_of_runner(error):
        return None
    end = "\n\n" if (found := _WHILE.search(quoted[-1])) is None else found[0]
    full_name, _, message = quoted[-1].partition(end)[0].strip().partition(": ")
    package, _, name = full_name.rpartition(".")
    ours = (*_subclasses_of(BertScoreError), *_subclasses_of(UnreachedError))
    kinds = {f"{kind.__module__}.{kind.__name__}": kind for kind in ours}
    kind: Any = kinds.get(full_name) if package else getattr(builtins, name, None)
    return (
        kind(message) if kind is not None and issubclass(kind, BertScoreError | OSError) else None
    )


def _is_of_runner(error: Exception) -> bool:
    """Tell whether a runner, or the client of its service, has raised an error."""
    package = type(error).__module__.partition(".")[0]
    return type(error) is RuntimeError or package in ("apache_beam", "google", "grpc")


def _subclasses_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _subclasses_of(lower)


@contextmanager
def end_when_interrupted(job: "RemoteJob | None" = None, *, kept: bool = True) -> Iterator[None]:
    """End this process at once on SIGINT, SIGTERM or SIGHUP, with the status that a shell gives.

    A job of a service is cancelled before. Finished parts are whole, so nothing needs to be undone.
    An exception would not do: Beam turns it into others. A signal that is ignored, as in a
    background job of a script, stays so.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for handled in output.ending_signals():
            signal.signal(handled, signal.SIG_IGN)  # it is ending already
        rest = "Finished parts are kept; the same command continues from there."
        _print(
            f"\nbertscore-beam: interrupted ({signal.Signals(number).name}). "
            f"{rest if kept else output.NOTHING_KEPT}\n"
        )
        _leave("" if job is None else f"{job.end()}\n", output.interrupted(number))

    with output.ending_with(stop, *output.ending_signals()):
        yield


def _leave(message: str, status: int) -> NoReturn:
    _print(message)
    pool.kill_opened()
    delete_temporary_folders()
    os._exit(status)


def _print(message: str) -> None:
    with suppress(OSError):  # the reader may have closed the pipe
        os.write(2, message.encode())
