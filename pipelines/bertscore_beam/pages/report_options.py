"""The options of a report."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar, Self

from bertscore_beam.compare.compare_options import CompareOptions, GateOptions
from bertscore_beam.options.declare import Flag, Run
from bertscore_beam.options.values import check_ending
from bertscore_core.errors import ConfigError

MEASURE = "f1"
"""The measure that a page is about."""

_OF_GATE = ("measure", "fail_if_drop", "max_missing_fraction")
"""Options that mean something only with other runs."""

_MOST_ROWS = 1000
"""Most rows of each kind on a page."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(GateOptions):
    """Write one page about a finished run, as HTML that loads nothing."""

    example = "bertscore-beam report scores/today --against scores/before --by system -o page.html"
    daily: ClassVar = {
        "the page": "run output against",
        "what it shows": "by key cluster system with_texts rows",
        "the gate": "fail_if_drop measure",
    }

    run: Annotated[
        Run,
        "Output folder of `score`, or a pattern of such folders: the newest is the headline, and "
        "all of them are the trend.",
    ]
    output: Annotated[str, Flag(metavar="FILE.html", short="-o"), "The page."] = "report.html"
    against: Annotated[
        tuple[str, ...],
        Flag(metavar="RUN"),
        "Other runs, to compare with row by row and judge together. The page shows one: the first "
        "that this run is worse than, or the first.",
    ] = ()
    system_column: Annotated[
        str | None, Flag(metavar="COLUMN", name="system"), "Rank the systems of this column."
    ] = None
    with_texts: Annotated[bool, "Show the texts of single rows, not only scores."] = False
    rows: Annotated[
        int, Flag(metavar="N"), "Single rows of each kind, such as those with the lowest F1."
    ] = 20
    notice: Annotated[
        str | None, Flag(metavar="TEXT", blank=True), "A sentence of yours for the top of the page."
    ] = None

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
        of_gate = {field.name: getattr(self, field.name) for field in fields(GateOptions)}
        of_gate["key"] = self.row_key
        return CompareOptions(run=self.run, against=self.against, moved_rows=self.rows, **of_gate)

    def with_runs(self, against: tuple[str, ...]) -> Self:
        """Return the same with other runs to compare with; without any there is no gate."""
        gate = {} if against else {name: getattr(GateOptions, name) for name in _OF_GATE}
        return replace(self, against=against, **gate)

    def __post_init__(self) -> None:
        """Check what can be checked without a run."""
        super().__post_init__()
        check_ending(self.output, "html", "htm")
        if not 0 <= self.rows <= _MOST_ROWS:
            raise ConfigError(
                f"--rows cannot be used: got {self.rows}; expected from 0 to {_MOST_ROWS}."
            )
        if self.system_column is not None and not self.answer_key:
            raise ConfigError(
                "--system needs --key: got none; expected the columns that identify what "
                "the systems have answered, such as a segment."
            )
        given = [name for name in _OF_GATE if getattr(self, name) != getattr(GateOptions, name)]
        if given and not self.against:
            flags = ", ".join("--" + name.replace("_", "-") for name in given)
            raise ConfigError(
                f"{flags} needs --against: got none; expected the run that this one may not be "
                "worse than."
            )
        if MEASURE not in self.measure:
            raise ConfigError(
                f"--measure cannot be used: got {' '.join(self.measure)!r}; expected f1 among "
                "them, whose rows the page shows. Add it."
            )
