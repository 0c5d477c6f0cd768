"""The sides of a comparison: which rows are compared with which, and by what they are paired."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from bertscore_beam.dump.columns import check_choosing_columns
from bertscore_beam.results.keyed_rows import RowColumns
from bertscore_beam.score.finished import FinishedRun, input_schemas
from bertscore_core.errors import ConfigError, InputError

_Value = TypeVar("_Value")

MOST_SYSTEMS = 100
"""Most systems that are ranked: 4,950 pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What is compared.

    Attributes:
        runs: The runs to read. Without systems each is a side.
        systems: Systems to compare; empty for all that there are. None if runs are compared.
        columns: The columns that are needed.
        references: Column of references to digest; None if that is not needed.
    """

    runs: tuple[FinishedRun, ...]
    systems: tuple[str, ...] | None
    columns: RowColumns
    references: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows of all runs."""
        return sum(run.rows for run in self.runs)


def check_columns(runs: Sequence[FinishedRun], columns: RowColumns) -> None:
    """Check that every input of every run has the columns that the options name.

    Raises:
        ConfigError: A column is missing, or of a type that cannot be used.
    """
    for run in runs if columns.options else ():
        for schema in input_schemas(run):
            try:
                check_choosing_columns(schema, columns.options)
            except InputError as error:
                raise ConfigError(f"the run in {run.folder.shown!r}: {error}") from error


def references_to_check(runs: Sequence[FinishedRun]) -> str | None:
    """Check that runs paired by position have the same inputs, and tell what is left to check.

    Returns:
        The column of references, where it takes the texts to see whether they are the same; None
        if digests of the parts say so already.

    Raises:
        ConfigError: The runs have other inputs, or inputs of other numbers of rows.
    """
    first, *others = runs
    mine = _rows_by_input(first)
    for other in others:
        theirs = _rows_by_input(other)
        if mine != theirs:
            raise ConfigError(
                "rows cannot be paired by file and position: the runs have other inputs. "
                f"{_input_words(mine, theirs)}. Name the columns that identify a row with --key."
            )
    digests = _reference_digests(first)
    if digests is not None and all(_reference_digests(other) == digests for other in others):
        return None
    return str(first.run["identity"].get("reference_column", "reference"))


def _rows_by_input(run: FinishedRun) -> dict[str, int]:
    rows: dict[str, int] = {}
    for record in run.records:
        rows[record.input_name] = rows.get(record.input_name, 0) + record.num_rows
    return rows


def _input_words(mine: dict[str, int], theirs: dict[str, int]) -> str:
    """Return the first difference of two lists of inputs, in words."""
    name = min(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    here, there = (
        f"{rows[name]:,} rows" if name in rows else "no such file" for rows in (mine, theirs)
    )
    return f"Of {name!r}: got {here}; expected {there}, as in the other"


def _reference_digests(run: FinishedRun) -> list[tuple[str, str]] | None:
    """Return the digest of the references of each part; None if a part has none."""
    digests = [(record.part_name, record.digests.references) for record in run.records]
    return digests if all(digest for _, digest in digests) else None


def of_pair(values: Sequence[_Value], number: int) -> _Value:
    """Return what belongs to a pair: of runs there is one for each AGAINST, of systems one."""
    return values[min(number, len(values) - 1)]


def pairs_of(sides: int, *, is_all: bool) -> list[tuple[int, int]]:
    """Return the pairs of sides to compare: the first with every other, or each with each."""
    if is_all:
        return list(combinations(range(sides), 2))
    return [(0, other) for other in range(1, sides)]
