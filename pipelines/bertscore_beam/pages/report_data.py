"""What a page says of a run, as plain data.

Names of files, groups and languages are as they are in the run. They may hold any characters, and
are escaped where they are shown.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bertscore_beam.compare.results import Comparison, GroupComparison, Ranking
from bertscore_beam.dump.census import WHOLE, Group
from bertscore_beam.pages.report_options import MEASURE, ReportOptions
from bertscore_beam.records.finished import RowPlace, RunSummary
from bertscore_beam.records.groups import GroupRow, caveat_messages_of
from bertscore_core.stats.caveats import CaveatKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one row, which the page holds only if it is asked to."""

    candidate: str
    references: tuple[str, ...]
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRow:
    """A row that is shown by itself.

    Attributes:
        reason: Its word in `bertscore_error`.
        tokens: Tokens of its candidate.
        before: Its F1 in the run it is compared with; None if it is not one that moved.
        candidate_before: Its candidate there, if the page holds texts.
        key: Its values in the columns that identify it; empty without such columns.
    """

    place: RowPlace
    precision: float
    recall: float
    f1: float
    group: Group = WHOLE
    reason: str | None = None
    tokens: int | None = None
    before: float | None = None
    candidate_before: str | None = None
    texts: Texts | None = None
    key: tuple[str | None, ...] = ()


class MeanOfRows(NamedTuple):
    """The mean F1 of the rows of a group that have scores, and how many these are."""

    mean: float
    scored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of a series: its folder, when it began in UTC, and its groups and languages.

    It is comparable if its scores were made as those of the newest run.
    """

    run: str
    started: str
    total: GroupRow
    comparable: bool = True
    groups: Mapping[Group, MeanOfRows] = field(default_factory=dict)
    languages: Mapping[Group, MeanOfRows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """Everything a page says.

    Attributes:
        options: What it was asked to say.
        run: Folder of the run, without credentials.
        started: When the run began, as a date and time in UTC; the page was made later.
        rescaled: Whether the scores are rescaled with a baseline.
        total: All rows.
        summary: The `_summary.json` of the run.
        parts: Number of its parts.
        part_bytes: Size of all parts together.
        histogram: Bars of F1 before rescaling, from the first with a row to the last: both ends,
            and the number of rows.
        groups: The groups, that with the highest F1 first.
        ranking: The systems, the best first; None if they were not ranked.
        languages: Rows by language; empty if the run has no column of languages.
        language_groups: The same by group; empty without groups by another column, and where each
            group is of one language.
        lengths: Scored rows by length: its group is the least and the largest number of tokens of
            the longer text.
        rejected_files: Files that were rejected, with the reason.
        worst: Rows with the lowest F1; the best have the highest.
        comparisons: With each other run, by each measure.
        fallen: Rows whose F1 fell most since the run it is compared with; others have risen.
        nights: The runs of a series, the oldest first.
        signatures: How the scores were made, by language; under None if all were made alike.
        notices: Sentences that a reader must not miss.
    """

    options: ReportOptions
    run: str
    started: str
    made: str
    rescaled: bool
    total: GroupRow
    summary: RunSummary
    parts: int = 0
    part_bytes: int = 0
    histogram: tuple[tuple[float, float, int], ...] = ()
    groups: tuple[GroupRow, ...] = ()
    ranking: Ranking | None = None
    languages: tuple[GroupRow, ...] = ()
    language_groups: tuple[GroupRow, ...] = ()
    lengths: tuple[GroupRow, ...] = ()
    rejected_files: tuple[tuple[str, str], ...] = ()
    worst: tuple[ChosenRow, ...] = ()
    best: tuple[ChosenRow, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    fallen: tuple[ChosenRow, ...] = ()
    risen: tuple[ChosenRow, ...] = ()
    nights: tuple[Night, ...] = ()
    signatures: Mapping[str | None, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Comparison, ...]:
        """The comparisons that are shown, with one other run: of F1, then of other measures.

        Their languages are left out where each group is of one: these would be the groups again.
        """
        number = _num_others(self.comparisons)
        shown = self.comparisons[place_of_shown(self.comparisons) :: number] if number else ()
        told_once = (
            replace(one, languages=())
            if are_of_one_language([own.group for own in one.languages], one.groups)
            else one
            for one in shown
        )
        return tuple(sorted(told_once, key=lambda one: one.measure != MEASURE))

    @property
    def against(self) -> Comparison | None:
        """That of F1; None without another run."""
        return next(iter(self.changes), None)

    @property
    def scored_languages(self) -> tuple[GroupRow, ...]:
        """The languages that have scores, if there are several: a mean over them says little."""
        scored = tuple(row for row in self.languages if row.values["scored"])
        return scored if len(scored) > 1 else ()

    @property
    def over_languages(self) -> str:
        """What a mean over several languages is called after its measure; "" of one."""
        number = len(self.scored_languages)
        return f" over {number} languages" if number else ""

    @property
    def caveats(self) -> dict[CaveatKind, str]:
        """Why the means may say less than they seem to, in sentences by kind."""
        return caveat_messages_of((self.total, *self.groups), self.scored_languages)


def are_of_one_language(
    names: Collection[Group], groups: Sequence[GroupComparison | GroupRow]
) -> bool:
    """Tell whether names that begin with a language are those of the groups, each once."""
    return len(names) == len(groups) and {name[1:] for name in names} == {
        one.group for one in groups
    }


def _num_others(comparisons: Sequence[Comparison]) -> int:
    """Return with how many other runs the run is compared, by each measure."""
    return sum(one.measure == comparisons[0].measure for one in comparisons)


def place_of_shown(comparisons: Sequence[Comparison]) -> int:
    """Return the place of the other run that is shown: the first that the run is worse than.

    Without any, the first that it cannot be judged by, or else the first of all. The comparisons of
    a measure follow each other, in the order of the runs.
    """

    def key(at: int) -> tuple[bool, bool, int]:
        one = comparisons[at]
        return not one.failures, one.not_judged is None, at % _num_others(comparisons)

    return min(map(key, range(len(comparisons))))[-1]
