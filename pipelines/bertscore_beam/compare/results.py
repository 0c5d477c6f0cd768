"""The result of a comparison, as plain values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertscore_beam.compare.settings import SettingsDifference
from bertscore_beam.dump.census import WHOLE, Group
from bertscore_beam.records.groups import group_name, group_values
from bertscore_core.stats.caveats import (
    Caveat,
    CaveatKind,
    CaveatOfGroups,
    GroupCaveats,
    caveat_messages,
    caveats_of_groups,
)
from bertscore_core.stats.paired import CorpusResult, PairedResult, least_p
from bertscore_core.sums import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCounts(Sums):
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
        clipped: Pairs whose F1 is clipped on a side; see `bertscore_core.stats.clipped_f1`.
        other_references: Pairs whose references are not the same. If they are paired by key, it is
            the number of those whose references have another number of tokens.
    """

    pairs: int = 0
    lost: int = 0
    gained: int = 0
    unscored: int = 0
    only_run: int = 0
    only_against: int = 0
    only_against_scored: int = 0
    up: int = 0
    down: int = 0
    clipped: int = 0
    other_references: int = 0

    @property
    def missing(self) -> int:
        """Rows that AGAINST has scored and RUN has not, or does not have."""
        return self.lost + self.only_against_scored

    @property
    def missing_fraction(self) -> float:
        """Their share of the rows that AGAINST has scored; 0 without any."""
        before = self.pairs + self.missing
        return self.missing / before if before else 0.0

    @property
    def shared(self) -> int:
        """Rows that are on both sides, with scores or without."""
        return self.pairs + self.lost + self.gained + self.unscored

    @property
    def unpaired_warning(self) -> str:
        """Says that two sides have no pair, and what became of their rows."""
        return (
            f"got no row with scores on both sides ({self.shared:,} rows are on both sides, "
            f"{self.only_run:,} only in the first, {self.only_against:,} only in the second); "
            "expected at least one. Check --key."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGate:
    """What the gate says of a group.

    Attributes:
        p_value: That of a true difference below the drop, corrected for all tests of the command;
            None where no p value could be low enough, or there is no error.
        worse: How it is lower by more than the drop, in words; None if that is not shown.
        rows_lost: How it has lost too many rows, in words; None if it has not.
        not_judged: Why the group cannot be judged, in words; None if it can.
        notice: That it is lower and passes, since too few units have moved for a proof; None if
            that is not so.
    """

    p_value: float | None
    worse: str | None = None
    rows_lost: str | None = None
    not_judged: str | None = None
    notice: str | None = None

    @property
    def failed(self) -> dict[str, str]:
        """Why the gate is not passed, in words, by what this is called; nothing if it is."""
        found = {"worse": self.worse, "rows lost": self.rows_lost}
        return {kind: words for kind, words in found.items() if words is not None}

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the gate is not passed, in words; nothing if it is."""
        return tuple(self.failed.values())

    @property
    def judged(self) -> bool:
        """Whether the group can be judged."""
        return self.not_judged is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """Rows of an input that AGAINST has scored and RUN has not, and whether RUN lacks the input."""

    input_name: str
    rows: int
    is_gone: bool

    def __str__(self) -> str:
        """Name the input, and say what became of its rows."""
        if self.is_gone:
            return f"{self.rows:,} of {self.input_name}, an input that is not in this run"
        return f"{self.rows:,} of {self.input_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """Two sides compared on the rows of a group.

    Attributes:
        mean: Mean score of RUN over the pairs; None without one.
        against_mean: The same of AGAINST.
        result: The paired difference, RUN - AGAINST.
        lost_together: How many rows are lost at a time: the mean, over the missing rows, of the
            number of those of the same cluster; 1 without clusters.
        p_adjusted: The p value by randomization (by Student's t where there is none), corrected by
            Holm's method: that of a group for all groups and measures, that of the whole for the
            number of measures.
        gate: None without a gate.
        corpus: The same rows compared as a corpus, by a metric of corpora; None of other measures,
            and in rankings.
        caveats: Why the difference may say less than it seems to.
        measure: What they are compared by.
        lost: The inputs of the missing rows, those with most of them first; at most ten.
    """

    group: Group
    counts: PairCounts
    mean: float | None
    against_mean: float | None
    result: PairedResult
    p_adjusted: float | None
    lost_together: float = 1.0
    gate: GroupGate | None = None
    corpus: CorpusResult | None = None
    caveats: tuple[Caveat, ...] = ()
    measure: str = "f1"
    lost: tuple[LostRows, ...] = ()

    @property
    def p_value(self) -> float | None:
        """The p value before correction; never below what so few rows can show."""
        result = self.result
        if result.p_value is None or result.randomization_p is not None:
            return result.randomization_p
        return max(result.p_value, min(1.0, 2 * least_p(result.moved_units)))

    @property
    def failed(self) -> dict[str, str]:
        """Why the gate is not passed, as `GroupGate` has it; nothing without one."""
        return {} if self.gate is None else self.gate.failed

    def missing_p_value(self, limit: float) -> float | None:
        """Return the p value of the claim that more than a share of such rows is lost.

        None where AGAINST has scored no row. It is the tail of a binomial distribution of rows, or
        of sets of rows that are lost together.
        """
        from scipy.special import betainc  # here, since it takes a fifth of a second

        counts, events = self.counts, self.counts.missing / self.lost_together
        rows = (counts.pairs + counts.missing) / self.lost_together
        if not rows:
            return None
        return float(betainc(events, rows - events + 1, limit)) if events else 1.0

    @property
    def is_significant(self) -> bool:
        """Whether there is a difference, at the confidence asked for."""
        return self.p_adjusted is not None and self.p_adjusted < 1 - self.result.confidence

    @property
    def is_unchanged(self) -> bool:
        """Whether no pair has moved by more than the noise, and no row has lost its score."""
        counts = self.counts
        moved = counts.up or counts.down or counts.missing or self.is_significant
        return bool(counts.pairs) and not moved


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRow:
    """A row whose score moved far, with its place in the inputs of both: file and position from 0.

    `change` is the score in RUN minus that in AGAINST. `key` has the value, as a text, of each
    column that identifies the row; it is empty without such columns, and in rankings.
    """

    change: float
    score: float
    against_score: float
    file: str
    row: int
    against_file: str
    against_row: int
    group: Group
    key: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides compared: two runs, or two systems of one run. The options are those asked for.

    Attributes:
        run: RUN: its folder, or the name of the system.
        against: AGAINST: the same.
        drop: The drop that the gate looks for; None without a gate.
        groups: Each group, in order; empty without `--by`.
        moved: The rows that rose most and those that fell most, beyond the noise, furthest first.
            After a failed gate those that fell come first, and of these the rows of `blamed`.
        warnings: What the reader has to know besides, in sentences.
        system: Column of the systems; None where runs are compared.
        explain: Command that explains the row of `moved` that fell first; None if none fell, in
            rankings, for measures that are no BERTScore, and if the gate has failed elsewhere.
        languages: Each language by itself, or each group of it, without a gate; empty if rows have
            one, in rankings, and where the groups are by language.
        num_languages: Languages with scores on a side; 1 if all are scored alike.
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
    groups: tuple[GroupComparison, ...]
    moved: tuple[MovedRow, ...] = ()
    warnings: tuple[str, ...] = ()
    system: str | None = None
    explain: str | None = None
    languages: tuple[GroupComparison, ...] = ()
    num_languages: int = 1

    def verdict(self, group: GroupComparison) -> str:
        """Say in a word or two what became of a group; "worse" is what has failed a gate."""
        if group.failed:
            return " and ".join(group.failed)
        if group.is_significant:
            lower = "worse" if self.drop is None else "lower"
            return "better" if (group.result.difference or 0.0) > 0 else lower
        if group.is_unchanged:
            return self.same
        if group.p_adjusted is None:
            return "rows lost" if group.counts.missing else "cannot be judged"
        return "no clear difference"

    @property
    def judged(self) -> tuple[GroupComparison, ...]:
        """What a gate looks at: the whole, then each group."""
        return (self.whole, *self.groups)

    @property
    def same(self) -> str:
        """What a group is called that has not changed."""
        return "unchanged" if self.system is None else "equal"

    @property
    def blamed(self) -> tuple[Group, ...]:
        """The groups that are worse; if only the whole is, all of them together."""
        return tuple(one.group for one in self.judged if "worse" in one.failed)

    def clearest_languages(self, most: int) -> tuple[GroupComparison, ...]:
        """Return the languages that have changed most clearly, in the order of names."""
        clearest = sorted(self.languages, key=_order)[:most]
        return tuple(group for group in self.languages if group in clearest)

    @property
    def by_change(self) -> tuple[GroupComparison, ...]:
        """The groups: those that fail the gate first, then by p value, then by size."""
        return tuple(sorted(self.groups, key=_order))

    @property
    def caveats(self) -> dict[CaveatKind, str]:
        """The caveats in sentences, each of the widest thing that it holds of, by kind."""
        return caveat_messages(
            self.whole.caveats,
            GroupCaveats(_caveats_of(self.groups), len(self.groups)),
            GroupCaveats(_caveats_of(self.languages), len(self.languages), "groups by language"),
        )

    @property
    def not_judged(self) -> str | None:
        """Why the whole cannot be judged, in words; None if it can, or if there is no gate."""
        return None if self.whole.gate is None else self.whole.gate.not_judged

    @property
    def failures(self) -> tuple[tuple[Group, str], ...]:
        """Why the gate is not passed, with the group; empty if it is, or if there is none."""
        return tuple(
            (group.group, words) for group in self.judged for words in group.failed.values()
        )


def _caveats_of(groups: Sequence[GroupComparison]) -> tuple[CaveatOfGroups, ...]:
    return caveats_of_groups((group_values(one.group), one.caveats) for one in groups)


def _order(group: GroupComparison) -> tuple[bool, float, float]:
    p_value = math.inf if group.p_adjusted is None else group.p_adjusted
    return not group.failed, p_value, -abs(group.result.difference or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSystem:
    """A system in a ranking.

    Attributes:
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
    """Two systems of a ranking, compared on the rows that both have scored: system - other.

    Caveats and p values are those of `GroupComparison`, these corrected for the number of pairs.
    """

    system: str
    other: str
    difference: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None
    caveats: tuple[Caveat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The systems of a run in order.

    Attributes:
        rows: Rows that all systems have scored: the means are over these.
        confidence: 1 - confidence is the level of the tests, corrected for the number of pairs of
            systems by Holm's method.
        test: What the p values are from: `randomization`, or the `t test`.
        systems: The best first.
    """

    group: Group
    rows: int
    confidence: float
    test: str
    systems: tuple[RankedSystem, ...]
    pairs: tuple[RankedPair, ...] = ()
    measure: str

    @property
    def caveats(self) -> dict[CaveatKind, str]:
        """How many of the pairs have each caveat, in sentences by kind."""
        of = f" of {group_name(self.group)}" if self.group != WHOLE else ""
        pairs = caveats_of_groups(
            ([f"{one.system} / {one.other}"], one.caveats) for one in self.pairs
        )
        return caveat_messages((), GroupCaveats(pairs, len(self.pairs), f"pairs of systems{of}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All comparisons of a command: of each measure one for each AGAINST, or pair of systems.

    With systems there are rankings of the whole, then of each group. `drop` is that of the gate;
    None without one.
    """

    comparisons: tuple[Comparison, ...]
    rankings: tuple[Ranking, ...] = ()
    drop: float | None = None

    @property
    def measures(self) -> set[str]:
        """What sides are compared by."""
        return {comparison.measure for comparison in self.comparisons}

    @property
    def passed(self) -> bool | None:
        """Whether no gate has failed; None if none has, but a whole or no run can be judged."""
        if any(comparison.failures for comparison in self.comparisons):
            return False
        has_none = self.drop is not None and not self.comparisons
        cannot = has_none or any(comparison.not_judged for comparison in self.comparisons)
        return None if cannot else True
