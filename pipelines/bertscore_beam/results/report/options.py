"""What a page is asked to say."""

from dataclasses import dataclass

from bertscore_core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The run of a page, and what to say of it.

    Attributes:
        run: Output folder of a run, or a pattern of such folders: the newest is the headline.
        against: Output folder of the run it is compared with; None without a comparison.
        by: Columns of the input that make groups.
        key: Columns that identify a row; with `system_column`, a row of each system. Empty to pair
            the rows of two runs by file and position.
        cluster: Column of clusters, for errors of the comparison and the ranking; None if rows are
            independent.
        system_column: Column of the systems that are ranked; None for no ranking.
        with_texts: Whether the page holds the texts of the rows it shows.
        rows: How many rows are shown of each kind.
        confidence: Of all intervals.
        force: Whether to compare runs of other settings.
    """

    run: str
    against: str | None = None
    by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    cluster: str | None = None
    system_column: str | None = None
    with_texts: bool = False
    rows: int = 20
    confidence: float = 0.95
    force: bool = False

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that identify a row among those of all systems."""
        systems = () if self.system_column is None else (self.system_column,)
        return tuple(dict.fromkeys((*self.key, *systems))) if self.key else ()

    @property
    def answer_key(self) -> tuple[str, ...]:
        """Columns that identify what every system has answered."""
        return tuple(name for name in self.key if name != self.system_column)

    def __post_init__(self) -> None:
        """Check what can be checked without a run.

        Raises:
            ConfigError: Options do not fit together, or a value is out of range.
        """
        if not 0 < self.confidence < 1:
            raise ConfigError(
                f"--confidence cannot be used: got {self.confidence}; expected a number between 0 "
                "and 1, such as 0.95."
            )
        if not 0 <= self.rows <= MOST_ROWS:
            raise ConfigError(
                f"--rows cannot be used: got {self.rows}; expected from 0 to {MOST_ROWS}."
            )
        if self.system_column is not None and not self.answer_key:
            raise ConfigError(
                "--system-column needs --key: got none; expected the columns that identify what "
                "the systems have answered, such as a segment."
            )


MOST_ROWS = 1000
"""Most rows of each kind on a page."""
