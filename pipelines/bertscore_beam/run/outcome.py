"""The outcome of a command: its exit status and the text for people; `cli.show` prints it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_beam.run.exit_status import DONE


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of text under a title. Columns named "" have no heading."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: Its exit status.
        text: A text for standard output.
        is_json: Whether the text is JSON in any case.
        shown: Tables to print.
        document: The result as plain values, for `--json`; None to take the tables.
        warnings: Lines for standard error.
        is_answer: Whether the printed text is the only result, so that the command has failed if it
            cannot be printed.
    """

    status: int = DONE
    text: str | None = None
    is_json: bool = False
    shown: tuple[Shown, ...] = ()
    document: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    is_answer: bool = False
