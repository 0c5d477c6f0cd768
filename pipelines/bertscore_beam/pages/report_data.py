"""What a page says of a run, as plain data: `report_rows` makes it, `page` shows it.

Names of files, groups and languages are as they are in the run. They may hold any characters, and
are escaped where they are shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertscore_beam.compare import WHOLE, Comparison, Group, Ranking
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.records import GroupRow, RowPlace


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of a series: its folder, when it began in UTC, and the mean F1 of each group.

    It is comparable if its scores were made as those of the newest run.
    """

    run: str
    started: str
    total: GroupRow
    comparable: bool = True
    groups: Mapping[Group, float] = field(default_factory=dict)


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
        lengths: Scored rows by length: its group is the least and the largest number of tokens of
            the longer text.
        rejected_files: Files that were rejected, with the reason.
        worst: Rows with the lowest F1; the best have the highest.
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
    summary: Mapping[str, Any] = field(default_factory=dict)
    parts: int = 0
    part_bytes: int = 0
    histogram: tuple[tuple[float, float, int], ...] = ()
    groups: tuple[GroupRow, ...] = ()
    ranking: Ranking | None = None
    languages: tuple[GroupRow, ...] = ()
    lengths: tuple[GroupRow, ...] = ()
    rejected_files: tuple[tuple[str, str], ...] = ()
    worst: tuple[ChosenRow, ...] = ()
    best: tuple[ChosenRow, ...] = ()
    against: Comparison | None = None
    fallen: tuple[ChosenRow, ...] = ()
    risen: tuple[ChosenRow, ...] = ()
    nights: tuple[Night, ...] = ()
    signatures: Mapping[str | None, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
