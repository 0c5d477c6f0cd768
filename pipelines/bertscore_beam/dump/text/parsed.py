"""What a parser returns."""

from dataclasses import dataclass, field
from typing import Any

from bertscore_beam.dump.text.lines import BadLine


@dataclass(slots=True, kw_only=True)
class Parsed:
    """Records in some lines.

    Attributes:
        rows: Of each record its object, or the number of its fields; None for one that is no row.
        cells: The fields of all records of CSV, one after the other.
        lines: Position of the first line of each.
        bad: Why records are no rows, by position.
        blank: Positions of the records that are blank.
        taken: Lines that these records take; what follows is to be parsed again with more.
    """

    rows: list[Any] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    bad: dict[int, BadLine] = field(default_factory=dict)
    blank: set[int] = field(default_factory=set)
    taken: int = 0
