"""Print the outcome of a command, and its messages."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.run.outcome import Outcome, Shown
from pipelines.run.printing import escape_line, escape_text
from pipelines.run.streams import printed


def report(outcome: Outcome) -> int:
    """Print how a command ended, and return its exit status."""
    if outcome.text is not None:
        print(escape_text(outcome.text))
    for shown in outcome.shown:
        show(shown)
    for words in outcome.warnings:
        print(f"bertscore-beam: {escape_text(words)}", file=sys.stderr)
    return printed() if outcome.is_answer else outcome.status


def say(words: str) -> None:
    """Print a message on standard error while a command runs."""
    console = Console(stderr=True)
    console.print(escape_text(words), soft_wrap=True, highlight=False, markup=False)


def show(shown: Shown) -> None:
    """Print a table on a terminal; elsewhere plain lines, the heading first if there is one.

    Cells are printed literally, except control characters: rich would read brackets in a path as
    markup. In plain lines tabs separate the cells, or a colon if they are a name and its value.
    """
    console = Console()
    headed = any(shown.columns)
    if not console.is_terminal:
        separator = "\t" if headed or len(shown.columns) > 2 else ": "
        for row in [shown.columns, *shown.rows] if headed else shown.rows:
            print(separator.join(map(escape_line, row)))
        return
    title = Text(escape_line(shown.title), style="table.title")
    table = Table(title=title, title_justify="left", show_header=headed)
    for column in shown.columns:
        table.add_column(column, overflow="fold")
    for row in shown.rows:
        table.add_row(*(Text(escape_line(cell)) for cell in row))
    console.print(table)
