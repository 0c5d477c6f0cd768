"""Print the outcome of a command, and its messages."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscore_beam.options.flags import split_arguments
from bertscore_beam.run.folder import nan_to_null
from bertscore_beam.run.output import Outcome, TextTable, escape_json, escape_line, printed
from bertscore_core.errors import escape_text

# How a command prints: `--json`, `--quiet` and `--debug`, which every command takes.


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMode:
    """How a command prints.

    Attributes:
        json: Standard output is one JSON document, also if the command fails.
        quiet: Standard error has warnings and errors only.
        debug: Standard error has the traceback of every error.
    """

    json: bool = False
    quiet: bool = False
    debug: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "OutputMode":
        """Read the mode from a command line; what follows `--` is Beam's."""
        own, _ = split_arguments(arguments)
        quiet = "--quiet" in own or "-q" in own
        return cls(json="--json" in own, quiet=quiet, debug="--debug" in own)


_OUTPUT_MODE = ContextVar("output_mode", default=OutputMode())  # noqa: B039 - it is frozen


def named(place: str) -> Any:
    """Return what a place such as `idf.job.idf_job` names, and import it only now.

    A command loads no job but its own: each takes seconds.
    """
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"bertscore_beam.{module}"), name)


def output_mode() -> OutputMode:
    """Return how the present command prints."""
    return _OUTPUT_MODE.get()


@contextmanager
def printing(mode: OutputMode) -> Iterator[None]:
    """Print in this mode inside the body."""
    token = _OUTPUT_MODE.set(mode)
    try:
        yield
    finally:
        _OUTPUT_MODE.reset(token)


def report(outcome: Outcome, *, aside: bool = False) -> int:
    """Print how a command ended, and return its exit status.

    Args:
        outcome: How it ended.
        aside: Whether its tables go to standard error, unless it is to be quiet, since
            standard output is for a program.
    """
    if outcome.text is not None:
        print(escape_text(outcome.text))
    elif output_mode().json:
        document = _tables(outcome.shown) if outcome.document is None else outcome.document
        if isinstance(document, Mapping):
            ended = {
                "status": outcome.status,
                "warnings": [*outcome.failures, *outcome.warnings],
                "notices": list(outcome.notices),
            }
            document = {**ended, **document}
        _print_json(document)
        for failure in outcome.failures:
            warn(failure)
    elif not (aside and output_mode().quiet):
        for shown in outcome.shown:
            show(shown, sys.stderr if aside else None)
    for warning in outcome.warnings:
        warn(warning)
    for notice in outcome.notices:
        say(notice)
    return printed() if outcome.is_answer else outcome.status


def warn(message: str) -> None:
    """Print a warning on standard error, however quiet the command is to be."""
    print(f"bertscore-beam: {escape_text(message)}", file=sys.stderr, flush=True)


def _print_json(document: Any) -> None:
    """Print plain values as JSON on one line. NaN and infinities, which JSON lacks, are null."""
    print(escape_json(json.dumps(nan_to_null(document), ensure_ascii=False, allow_nan=False)))


def print_error(message: str, status: int) -> int:
    """Print why a command ended, also as JSON if that is asked for, and return its exit status."""
    print(f"bertscore-beam: {message}", file=sys.stderr)
    if output_mode().json:
        _print_json({"status": status, "error": message})
    return status


def _tables(tables: Sequence[TextTable]) -> dict[str, Any]:
    """Return tables as plain values: by title, with the cells as they are shown."""
    return {
        shown.title.lower(): [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
        if any(shown.columns)
        else _by_name(shown.rows)
        for shown in tables
    }


def _by_name(rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return names with their values; a name that is there several times has a list."""
    values: dict[str, list[str]] = {}
    for name, *cells in rows:
        values.setdefault(name, []).append(" ".join(cells))
    return {name: cells if len(cells) > 1 else cells[0] for name, cells in values.items()}


def say(message: str) -> None:
    """Print a message on standard error while a command runs, unless it is to be quiet."""
    if output_mode().quiet:
        return
    console = Console(stderr=True)
    console.print(escape_text(message), soft_wrap=True, highlight=False, markup=False)


def show(shown: TextTable, stream: TextIO | None = None) -> None:
    """Print a table on a terminal; elsewhere plain lines, the heading first if there is one.

    Cells are printed literally, except control characters: rich would read brackets in a path as
    markup. In plain lines tabs separate the cells, or a colon if they are a name and its value. A
    single column without a heading is plain lines anywhere, such as a command to paste.
    """
    console = Console(file=stream)
    headed = any(shown.columns)
    if not console.is_terminal or shown.columns == ("",):
        separator = "\t" if headed or len(shown.columns) > 2 else ": "
        for row in [shown.columns, *shown.rows] if headed else shown.rows:
            print(separator.join(map(escape_line, row)), file=stream)
        return
    title = Text(escape_line(shown.title), style="table.title")
    table = Table(title=title, title_justify="left", show_header=headed)
    for column in shown.columns:
        table.add_column(column, overflow="fold")
    for row in shown.rows:
        table.add_row(*(Text(escape_line(cell)) for cell in row))
    console.print(table)
