"""The result of a comparison, as plain values: what `compare` prints and reports draw."""

from dataclasses import dataclass

from bertscore_core.paired import PairedResult

Group = tuple[str | None, ...]
"""Values of the columns of `--by`, in their order; None for a null."""

WHOLE: Group = ()
"""Stands for all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field of the signatures in which two runs differ.

    Attributes:
        field: Its name.
        run: Its value in RUN.
        against: Its value in AGAINST.
        language: The language whose scores it concerns; None in runs that score all rows alike.
    """

    field: str
    run: str
    against: str
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDifference:
    """How the settings of two runs differ.

    Attributes:
        moving: Fields that move scores, so that the scores cannot be compared.
        harmless: Fields that differ and move no score.
        noise: How far a score before rescaling may move without a reason, in the number formats of
            the runs.
    """

    moving: tuple[FieldDifference, ...] = ()
    harmless: tuple[FieldDifference, ...] = ()
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCounts:
    """What became of the rows of a group. A row is paired if it is on both sides.

    Attributes:
        pairs: Paired rows with scores on both sides: those that the difference is taken of.
        lost: Paired rows that only AGAINST has scored.
        gained: Paired rows that only RUN has scored.
        unscored: Paired rows without scores on either side.
        only_run: Rows that only RUN has.
        only_against: Rows that only AGAINST has.
        only_against_scored: Those of them with scores.
        up: Pairs whose score moved up by more than the noise.
        down: Pairs whose score moved down by more than the noise.
        other_references: Pairs whose references are not the same. If they are paired by key, it is
            the number of those whose references have another number of tokens.
    """

    pairs: int
    lost: int
    gained: int
    unscored: int
    only_run: int
    only_against: int
    only_against_scored: int
    up: int
    down: int
    other_references: int

    @property
    def missing(self) -> int:
        """Rows that AGAINST has scored and RUN has not, or does not have."""
        return self.lost + self.only_against_scored

    @property
    def missing_fraction(self) -> float:
        """Their share of the rows that AGAINST has scored; 0 without any."""
        before = self.pairs + self.missing
        return self.missing / before if before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGate:
    """What the gate says of a group.

    Attributes:
        p_value: That the true difference is below the drop, corrected for the number of groups;
            None where there is no error.
        failures: Why the gate is not passed, in words; empty if it is.
    """

    p_value: float | None
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """Two sides compared on the rows of a group.

    Attributes:
        group: The group; `WHOLE` for all rows.
        counts: What became of its rows.
        mean: Mean score of RUN over the pairs; None without one.
        against_mean: The same of AGAINST.
        result: The paired difference, RUN - AGAINST.
        p_adjusted: The p value by randomization (by Student's t where there is none), corrected for
            the number of groups by Holm's method; that of the whole is not corrected.
        gate: None without a gate.
    """

    group: Group
    counts: PairCounts
    mean: float | None
    against_mean: float | None
    result: PairedResult
    p_adjusted: float | None
    gate: GroupGate | None = None

    @property
    def p_value(self) -> float | None:
        """The p value before correction."""
        by_flips = self.result.randomization_p
        return self.result.p_value if by_flips is None else by_flips


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRow:
    """A row whose score moved far.

    Attributes:
        change: Score in RUN minus score in AGAINST.
        score: In RUN.
        against_score: In AGAINST.
        file: Name of its input file in RUN.
        row: Its position in that file, from 0.
        against_file: The same in AGAINST.
        against_row: The same.
        group: Its group; `WHOLE` without `--by`.
    """

    change: float
    score: float
    against_score: float
    file: str
    row: int
    against_file: str
    against_row: int
    group: Group = WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides compared: two runs, or two systems of one run.

    Attributes:
        run: RUN: its folder, or the name of the system.
        against: AGAINST: the same.
        measure: `f1`, `precision` or `recall`.
        key: Columns that pair rows; empty if file and position do.
        by: Columns of groups.
        cluster: Column of clusters; None if rows count one by one.
        confidence: Of intervals, bounds and the gate.
        drop: The drop that the gate looks for; None without a gate.
        settings: How the settings differ.
        whole: All rows.
        groups: Each group, in order; empty without `--by`.
        moved: The rows that rose most and those that fell most, beyond the noise, furthest first.
        warnings: What the reader has to know besides, in sentences.
    """

    run: str
    against: str
    measure: str
    key: tuple[str, ...]
    by: tuple[str, ...]
    cluster: str | None
    confidence: float
    drop: float | None
    settings: SettingsDifference
    whole: GroupComparison
    groups: tuple[GroupComparison, ...] = ()
    moved: tuple[MovedRow, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[tuple[Group, str], ...]:
        """Why the gate is not passed, with the group; empty if it is, or if there is none."""
        return tuple(
            (one.group, words)
            for one in (self.whole, *self.groups)
            if one.gate is not None
            for words in one.gate.failures
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSystem:
    """A system in a ranking.

    Attributes:
        system: Its name.
        mean: Mean score over the rows that all systems have scored.
        first: Best rank it may have: 1 and the number of systems that are significantly better.
        last: Worst rank it may have: the number of systems less those significantly worse.
        cluster: Number of its cluster, from 1: every system of a cluster is significantly better
            than every system of the clusters below.
        wins: Number of systems that are significantly worse.
    """

    system: str
    mean: float
    first: int
    last: int
    cluster: int
    wins: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPair:
    """Two systems of a ranking, compared on the rows that both have scored.

    Attributes:
        system: One of them.
        other: The other one.
        difference: Mean of the paired differences, system - other.
        interval: Of the difference.
        p_value: As in `GroupComparison`.
        p_adjusted: The same, corrected for the number of pairs.
    """

    system: str
    other: str
    difference: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The systems of a run in order.

    Attributes:
        group: The group; `WHOLE` for all rows.
        rows: Rows that all systems have scored: the means are over these.
        confidence: 1 - confidence is the level of the tests, corrected for the number of pairs of
            systems by Holm's method.
        systems: The best first.
        pairs: Every pair of systems.
    """

    group: Group
    rows: int
    confidence: float
    systems: tuple[RankedSystem, ...]
    pairs: tuple[RankedPair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All comparisons of a command.

    Attributes:
        comparisons: One for each AGAINST, or for each pair of systems.
        rankings: With systems: of the whole, then of each group.
    """

    comparisons: tuple[Comparison, ...]
    rankings: tuple[Ranking, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no gate has failed."""
        return not any(one.failures for one in self.comparisons)
