"""The options of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.options.declare import COLUMN, COLUMNS, RUN, RUNS, Options
from bertscore_beam.options.values import check_ending
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence

MEASURE = "f1"
"""The measure that a page is about."""

_MOST_ROWS = 1000
"""Most rows of each kind on a page."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Write one page about a finished run, as HTML that loads nothing.

    Attributes:
        run: Output folder of `score`, or a pattern of such folders: the newest is the headline, and
            all of them are the trend.
        output: The page.
        against: Other runs, to compare with row by row and judge together. The page shows one: the
            first that this run is worse than, or the first.
        by: Columns of groups.
        key: Columns that identify a row, for --against and --system; without it rows are paired by
            file and position.
        cluster: Column of clusters: rows with the same value resemble each other, such as those of
            one document.
        system_column: Rank the systems of this column.
        with_texts: Show the texts of single rows, not only scores.
        rows: Single rows of each kind, such as those with the lowest F1.
        confidence: Of the intervals.
        force: Compare runs that were scored with other settings.
        notice: A sentence of yours for the top of the page.
        scoring: Options of `compare` that were given, by field.
    """

    example = "bertscore-beam report scores/today --against scores/before --by system -o page.html"
    daily: ClassVar = {
        "the page": "run output against",
        "what it shows": "by key cluster system with_texts rows",
        "the gate": "fail_if_drop measure",
    }
    borrowed = (CompareOptions, "fail_if_drop max_missing_fraction measure")

    run: str = field(metadata=RUN)
    output: str = field(default="report.html", metadata={"metavar": "FILE.html", "short": "-o"})
    against: tuple[str, ...] = field(default=(), metadata=RUNS)
    by: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    key: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    cluster: str | None = field(default=None, metadata=COLUMN)
    system_column: str | None = field(default=None, metadata={**COLUMN, "name": "system"})
    with_texts: bool = False
    rows: int = field(default=20, metadata={"metavar": "N"})
    confidence: float = 0.95
    force: bool = False
    notice: str | None = field(default=None, metadata={"metavar": "TEXT"})
    scoring: Mapping[str, Any] = field(default_factory=dict, metadata={"internal": True})

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that identify a row among those of all systems; none where none are needed."""
        systems = () if self.system_column is None else (self.system_column,)
        is_used = self.key and (self.against or systems)
        return tuple(dict.fromkeys((*self.key, *systems))) if is_used else ()

    @property
    def answer_key(self) -> tuple[str, ...]:
        """Columns that identify what every system has answered."""
        return tuple(name for name in self.key if name != self.system_column)

    def comparison(self) -> CompareOptions:
        """Return the options of the comparison with the other runs."""
        return CompareOptions(
            run=self.run,
            against=self.against,
            key=self.row_key,
            by=self.by,
            cluster=self.cluster,
            confidence=self.confidence,
            force=self.force,
            moved_rows=self.rows,
            **self.scoring,
        )

    def __post_init__(self) -> None:
        """Check what can be checked without a run."""
        check_ending(self.output, "html", "htm")
        check_confidence(self.confidence)
        if not 0 <= self.rows <= _MOST_ROWS:
            raise ConfigError(
                f"--rows cannot be used: got {self.rows}; expected from 0 to {_MOST_ROWS}."
            )
        if self.system_column is not None and not self.answer_key:
            raise ConfigError(
                "--system needs --key: got none; expected the columns that identify what "
                "the systems have answered, such as a segment."
            )
        if self.against:
            measures = self.comparison().measure
            if MEASURE not in measures:
                raise ConfigError(
                    f"--measure cannot be used: got {' '.join(measures)!r}; expected f1 among "
                    "them, whose rows the page shows. Add it."
                )
        elif self.scoring:
            flags = ", ".join("--" + name.replace("_", "-") for name in self.scoring)
            raise ConfigError(
                f"{flags} needs --against: got none; expected the run that this one may not be "
                "worse than."
            )
