"""What a command says and how it ends: exit statuses, text for people, events for logs.

The reader of a command's output may close the pipe, or the disk may be full. Scores are files, so
the run continues, and its own result decides about the exit status.
"""

import errno
import io
import json
import logging
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO

from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import INVISIBLE, escape_text

DONE = 0
BROKEN = 1
"""The job stopped early; the same command continues it."""
UNUSABLE = 2
"""The command cannot work as given."""
TOO_MANY_REJECTS = 3
"""Done as far as possible, but a gate was not passed: too many rejects, too few rows, too many cut
texts, or parts of missing inputs."""
WORSE = 4
"""Compared, and the gate of the comparison was not passed: the run is worse than another."""
UNJUDGED = 5
"""Compared, but there are too few rows to judge by: the gate is neither passed nor failed."""

DEVICE_LOST = 75
"""Of a worker process: its GPU has failed. The number is EX_TEMPFAIL of sysexits.h: try again."""
DEADLY = {signal.Signals["SIG" + name] for name in ["KILL", "SEGV", "BUS", "ABRT", "ILL", "FPE"]}
"""Signals by which a process dies that nobody has asked to end; the kernel sends SIGKILL where
memory is short."""

NOTHING_KEPT = "Nothing is kept without a folder as --output."


class JobFailedError(RuntimeError):
    """A job stopped in its work. The message says why; a traceback would add nothing."""


_ERROR_LINE = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*")
"""The line of a traceback that names the error."""


def last_error(error: BaseException) -> str:
    """Return the cause of an error as one line: errors of runners have a worker's traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.match(line)]
    last, kind = (errors or lines or [""])[-1], type(error)
    is_plain = issubclass(kind, RuntimeError | OSError) or kind.__module__.startswith("apache_beam")
    return last if errors or (lines and is_plain) else f"{kind.__name__}: {last}".removesuffix(": ")


def interrupted(number: int) -> int:
    """Return the status that a shell gives after a signal: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


@contextmanager
def ending_with(stop: Callable[[int, FrameType | None], Any], *numbers: int) -> Iterator[None]:
    """Let a function end this process on any of the signals, while the body runs."""
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a run, but for those that are ignored; in a main thread alone.

    SIGHUP, of a lost terminal, is ignored below `nohup`; SIGINT in a background job of a script.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) != signal.SIG_IGN]


def is_death(code: int) -> bool:
    """Tell whether a process died in such a way that a new one may succeed."""
    return code == DEVICE_LOST or -code in DEADLY


# Text for people: durations, and names of files, which cannot be trusted.
#
# All text for a terminal or a log passes through one of these functions: it may contain names of
# files, their content, and messages of other libraries.


def escape_line(text: str) -> str:
    """Return a text as one line, for a name or a table cell: line breaks are escaped, too."""
    return escape_text(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_json(text: str) -> str:
    """Return JSON with the same characters as JSON escapes; its meaning does not change."""
    return INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


_COLOUR = re.compile(r"\x1b\[[\d;]*m")


class EscapedRecord(logging.LogRecord):
    """A record of a log that shows no control character, whoever handles it.

    Those of colours are left out.
    """

    def getMessage(self) -> str:
        """Return the message."""
        return escape_text(_COLOUR.sub("", super().getMessage()))


class EscapingFormatter(logging.Formatter):
    """Formats log lines and tracebacks with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return escape_text(super().format(record))


def format_duration(seconds: float) -> str:
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


def format_p(value: float | None, missing: str = "") -> str:
    """Format a p value with four decimals; `missing` stands for None."""
    if value is None:
        return missing
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def event(name: str, **fields: Any) -> str:
    """Return the log line of an event: a JSON object, so that log viewers can filter by field.

    Credentials are masked. Never pass the texts scored.
    """
    shown = {
        key: value if isinstance(value, int | float) else mask_credentials(str(value))
        for key, value in fields.items()
    }
    return escape_json(json.dumps({"event": name, **shown}, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text under a title. Columns named "" have no heading."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended; `cli.show` prints it.

    Attributes:
        text: What is printed as it is, `--json` or not.
        document: The result as plain values, for `--json`; None to take the tables. A mapping gets
            the exit status, the warnings and the notices as well.
        failures: Why a gate is not passed: the tables say it, so it is printed with JSON only.
        notices: What a reader should know of the result, such as a caveat: unless it is quiet.
        is_answer: Whether the printed text is the only result, so that the command has failed if it
            cannot be printed.
    """

    status: int = DONE
    text: str | None = None
    shown: tuple[TextTable, ...] = ()
    document: Any = None
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    is_answer: bool = False


_LAST_STANDARD = 2
"""The descriptor of standard error: before it are those of standard input and output."""


class _TolerantFile(io.FileIO):
    """A file descriptor to which writing never fails.

    Attributes:
        lost: Why something could not be written; None if only the reader has closed the pipe.
    """

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EPIPE:
                self.lost = error
            return len(memoryview(data))


def tolerant_stream(descriptor: int, encoding: str = "utf-8") -> TextIO:
    """Return a text stream to a descriptor that stays open, to which writing never fails."""
    buffer = io.BufferedWriter(_TolerantFile(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=True)


def ignore_broken_output() -> None:
    """Make printing in this process never fail, unless its streams have been replaced.

    A standard descriptor that is closed leads to nothing from then on. Else a file or a pipe of
    ours would get its number, and a child process would find its own input or output there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if descriptor == 0 or stream is not getattr(sys, f"__{name}__"):
            continue
        encoding = "utf-8" if stream is None else stream.encoding
        setattr(sys, name, tolerant_stream(descriptor, encoding))


def printed() -> int:
    """Return the exit status of a command whose only result is its printed text."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _TolerantFile) else None
    if lost is None:
        return DONE
    sys.stderr.write(f"bertscore-beam: standard output cannot be written: got {lost}.\n")
    return BROKEN
