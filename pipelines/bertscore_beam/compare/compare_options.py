"""The options of a comparison."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from bertscore_beam.dump.columns import CANDIDATE_FROM, METRICS, SCORES
from bertscore_beam.options.declare import Column, Columns, Flag, Options, Run
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence


@dataclass(frozen=True, kw_only=True)
class GateOptions(Options):
    """How rows of runs are paired and compared, and what may not be worse."""

    key: Annotated[
        Columns, "Columns that identify a row; by default rows are paired by file and position."
    ] = ()
    by: Annotated[Columns, "Columns of groups, each of which is compared as well."] = ()
    cluster: Annotated[
        Column,
        "Column of clusters: rows with the same value resemble each other, such as those of one "
        "document. Without it, rows whose long texts repeat others count once.",
    ] = None
    measure: Annotated[
        tuple[str, ...],
        Flag(metavar="MEASURE", split=True),
        "`f1`, `precision`, `recall`, a metric of the runs (`bleu`, `chrf`, `chrf++`, `ter`, "
        "`rougel`, one of your own; with a minus if lower is better) or a column of numbers, or "
        "several of them: the gate looks at each.",
    ] = ("f1",)
    confidence: Annotated[float, "Of the intervals and the gate."] = 0.95
    fail_if_drop: Annotated[
        float | None,
        "End with status 4 if RUN, or a group, is worse by more than this; with 5 if there are too "
        "few rows to judge by.",
    ] = None
    max_missing_fraction: Annotated[
        float,
        Flag(metavar="SHARE", share=True),
        "Largest share of the rows scored in AGAINST that may have no score in RUN, with "
        "--fail-if-drop.",
    ] = 0.01
    force: Annotated[bool, "Compare scores that were made with other settings."] = False

    def __post_init__(self) -> None:
        """Check the numbers and measures as well."""
        super().__post_init__()
        check_confidence(self.confidence)
        measures = self.measure
        if len({*measures}) < len(measures):
            raise ConfigError(
                f"--measure cannot be used: got {' '.join(measures)!r}; expected one of "
                f"{', '.join((*SCORES, *METRICS))}, or a column, or several, each once."
            )
        drop = self.fail_if_drop
        if drop is not None and not (math.isfinite(drop) and drop >= 0):
            raise ConfigError(
                f"--fail-if-drop cannot be used: got {drop}; expected a number from 0 on: how far "
                "the score may fall, such as 0.002."
            )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(GateOptions):
    """Compare a finished run with others row by row, or systems within it."""

    example = "bertscore-beam compare scores/today scores/before --key id --by system"
    daily: ClassVar = {
        "what to compare": "run against systems system",
        "rows": "key by cluster",
        "numbers and gate": "measure confidence fail_if_drop max_missing_fraction",
    }

    run: Annotated[Run, "Output folder of `score`."]
    against: Annotated[
        tuple[str, ...],
        Flag(metavar="AGAINST", position=True),
        "Output folders to compare it with, each by itself; differences are RUN - AGAINST.",
    ] = ()
    systems: Annotated[
        tuple[str, ...] | None,
        Flag(metavar="NAME", split=True, nargs="*", blank=True),
        "Compare two systems of the run, or rank more of them; without names, all.",
    ] = None
    system_column: Annotated[
        str, Flag(metavar="COLUMN", name="system"), "Column of the systems."
    ] = "system"
    seed: Annotated[int, "Of the tests by resampling."] = 12345
    moved_rows: int = 10
    """How many rows are kept of those that rose most, and of those that fell most."""
    hidden = "moved_rows"

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
        super().__post_init__()
        if self.systems is None and not self.against:
            raise ConfigError(
                "there is nothing to compare the run with: got no AGAINST and no --systems; "
                "expected the folder of another run, or --systems to compare systems within "
                "the run."
            )
        if self.systems is not None:
            self._check_systems()

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
