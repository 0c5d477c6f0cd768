"""The outcome of a command: its exit status and the text for people; `cli.show` prints it."""

from dataclasses import dataclass

from pipelines.run.exit_status import DONE


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
        text: A text for standard output, such as JSON.
        shown: Tables to print.
        warnings: Lines for standard error.
        is_answer: Whether the printed text is the only result, so that the command has failed if it
            cannot be printed.
    """

    status: int = DONE
    text: str | None = None
    shown: tuple[Shown, ...] = ()
    warnings: tuple[str, ...] = ()
    is_answer: bool = False
