"""The options of a comparison."""

import math
from dataclasses import dataclass

from bertscore_beam.dump.columns import SCORES
from bertscore_beam.results.keyed_rows import RowColumns
from bertscore_core.errors import ConfigError
from bertscore_core.intervals import check_confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What to compare, and how.

    Attributes:
        run: Output folder of the run.
        against: Output folders of runs to compare it with, each by itself; none with `systems`.
        key: Columns that identify a row; empty to pair rows by file and position.
        by: Columns of groups.
        cluster: Column of clusters; None if rows are independent.
        measure: `f1`, `precision` or `recall`.
        confidence: Of intervals, bounds and the gate.
        fail_if_drop: The drop that the gate looks for; None for no gate.
        max_missing_fraction: Largest share of the rows scored in AGAINST that may have no score in
            RUN, with the gate.
        force: Whether to compare what should not be compared.
        systems: Systems of the run to compare: two, or more for a ranking; empty to rank all. None
            to compare runs.
        system_column: Column of systems.
        seed: Of the tests by resampling.
        moved_rows: How many rows are kept of those that rose most, and of those that fell most.
    """

    run: str
    against: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    cluster: str | None = None
    measure: str = "f1"
    confidence: float = 0.95
    fail_if_drop: float | None = None
    max_missing_fraction: float = 0.01
    force: bool = False
    systems: tuple[str, ...] | None = None
    system_column: str = "system"
    seed: int = 12345
    moved_rows: int = 10

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigError: One cannot be used, or some do not go together.
        """
        _check(self)

    @property
    def is_ranking(self) -> bool:
        """Whether each system is compared with each other one."""
        return self.systems is not None and len(self.systems) != 2

    @property
    def columns(self) -> RowColumns:
        """The columns that the comparison needs."""
        return RowColumns(
            measure=self.measure,
            key=self.key,
            by=self.by,
            cluster=self.cluster,
            system=None if self.systems is None else self.system_column,
        )


def _check(options: CompareOptions) -> None:
    """Check options; see `CompareOptions`."""
    check_confidence(options.confidence)
    if options.measure not in SCORES:
        raise ConfigError(
            f"--measure cannot be used: got {options.measure!r}; expected one of "
            f"{', '.join(SCORES)}."
        )
    if options.systems is None and not options.against:
        raise ConfigError(
            "there is nothing to compare the run with: got no AGAINST and no --systems; expected "
            "the folder of another run, or --systems to compare systems within the run."
        )
    if options.systems is not None:
        _check_systems(options)
    drop = options.fail_if_drop
    if drop is not None and not (math.isfinite(drop) and drop >= 0):
        raise ConfigError(
            f"--fail-if-drop cannot be used: got {drop}; expected a number from 0 on: how far the "
            "score may fall, such as 0.002."
        )
    if not 0 <= options.max_missing_fraction <= 1:
        raise ConfigError(
            f"--max-missing-fraction cannot be used: got {options.max_missing_fraction}; expected "
            "a number from 0 to 1."
        )


def _check_systems(options: CompareOptions) -> None:
    """Check that systems are compared within one run."""
    names = options.systems or ()
    if options.against:
        raise ConfigError(
            "--systems compares systems within one run: got AGAINST, too; expected one of the two."
        )
    if not options.key:
        raise ConfigError(
            "--systems needs --key: the columns that say which rows of the systems belong "
            "together, such as the segment."
        )
    if len(names) == 1 or len(set(names)) < len(names):
        raise ConfigError(
            f"--systems cannot be used: got {', '.join(map(repr, names))}; expected two or more "
            "different systems, or no name for all systems."
        )
    if options.is_ranking and options.fail_if_drop is not None:
        raise ConfigError(
            "--fail-if-drop looks at one system: got more than two systems; expected --systems A B."
        )
