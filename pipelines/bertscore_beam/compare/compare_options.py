"""The options of a comparison."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from bertscore_beam.dump.columns import CANDIDATE_FROM, METRICS, SCORES
from bertscore_beam.options.declare import COLUMN, COLUMNS, MEASURES, NAMES, RUN, Options
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """Compare a finished run with others row by row, or systems within it.

    Attributes:
        run: Output folder of `score`.
        against: Output folders to compare it with, each by itself; differences are RUN - AGAINST.
        key: Columns that identify a row; by default rows are paired by file and position.
        by: Columns of groups, each of which is compared as well.
        cluster: Column of clusters: rows with the same value resemble each other, such as those of
            one document. Without it, rows whose long texts repeat others count once.
        measure: `f1`, `precision`, `recall`, a metric of the runs (`bleu`, `chrf`, `chrf++`, `ter`,
            `rougel`, one of your own; with a minus if lower is better) or a column of numbers, or
            several of them: the gate looks at each.
        confidence: Of the intervals and the gate.
        fail_if_drop: End with status 4 if RUN, or a group, is worse by more than this; with 5 if
            there are too few rows to judge by.
        max_missing_fraction: Largest share of the rows scored in AGAINST that may have no score in
            RUN, with --fail-if-drop.
        force: Compare scores that were made with other settings.
        systems: Compare two systems of the run, or rank more of them; without names, all.
        system_column: Column of the systems.
        seed: Of the tests by resampling.
        moved_rows: How many rows are kept of those that rose most, and of those that fell most.
        by_language: Whether the first column of groups has languages: equal codes are one group.
    """

    example = "bertscore-beam compare scores/today scores/before --key id --by system"
    daily: ClassVar = {
        "what to compare": "run against systems system",
        "rows": "key by cluster",
        "numbers and gate": "measure confidence fail_if_drop max_missing_fraction",
    }

    run: str = field(metadata=RUN)
    against: tuple[str, ...] = field(default=(), metadata={"metavar": "AGAINST", "position": True})
    key: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    by: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    cluster: str | None = field(default=None, metadata=COLUMN)
    measure: tuple[str, ...] = field(default=("f1",), metadata=MEASURES)
    confidence: float = 0.95
    fail_if_drop: float | None = None
    max_missing_fraction: float = field(default=0.01, metadata={"metavar": "SHARE"})
    force: bool = False
    systems: tuple[str, ...] | None = field(default=None, metadata={**NAMES, "nargs": "*"})
    system_column: str = field(default="system", metadata={**COLUMN, "name": "system"})
    seed: int = 12345
    moved_rows: int = field(default=10, metadata={"internal": True})
    by_language: bool = field(default=False, metadata={"internal": True})

    @property
    def is_ranking(self) -> bool:
        """Whether each system is compared with each other one."""
        return self.systems is not None and len(self.systems) != 2

    @property
    def choosing_columns(self) -> dict[str, str]:
        """The columns of the input that the comparison reads, and the option that names each."""
        columns = {**dict.fromkeys(self.by, "--by"), **dict.fromkeys(self.key, "--key")}
        if self.cluster is not None:
            columns[self.cluster] = "--cluster"
        if self.systems is not None:
            columns[self.system_column] = "--system"
        return columns

    def __post_init__(self) -> None:
        """Check the options."""
        check_confidence(self.confidence)
        measures = self.measure
        if not measures or len({*measures}) < len(measures):
            raise ConfigError(
                f"--measure cannot be used: got {' '.join(measures)!r}; expected one of "
                f"{', '.join((*SCORES, *METRICS))}, or a column, or several, each once."
            )
        if self.systems is None and not self.against:
            raise ConfigError(
                "there is nothing to compare the run with: got no AGAINST and no --systems; "
                "expected the folder of another run, or --systems to compare systems within "
                "the run."
            )
        if self.systems is not None:
            self._check_systems()
        drop = self.fail_if_drop
        if drop is not None and not (math.isfinite(drop) and drop >= 0):
            raise ConfigError(
                f"--fail-if-drop cannot be used: got {drop}; expected a number from 0 on: how far "
                "the score may fall, such as 0.002."
            )
        if not 0 <= self.max_missing_fraction <= 1:
            raise ConfigError(
                f"--max-missing-fraction cannot be used: got {self.max_missing_fraction}; expected "
                "a number from 0 to 1."
            )

    def _check_systems(self) -> None:
        names = self.systems or ()
        if self.against:
            raise ConfigError(
                "--systems compares systems within one run: got AGAINST, too; expected one of "
                "the two."
            )
        if not self.key and self.system_column != CANDIDATE_FROM:
            raise ConfigError(
                "--systems needs --key: the columns that say which rows of the systems belong "
                "together, such as the segment."
            )
        if len(names) == 1 or len(set(names)) < len(names):
            raise ConfigError(
                f"--systems cannot be used: got {', '.join(map(repr, names))}; expected two or "
                "more different systems, or no name for all systems."
            )
        if self.is_ranking and self.fail_if_drop is not None:
            raise ConfigError(
                "--fail-if-drop looks at one system: got more than two systems; expected "
                "--systems A B."
            )
