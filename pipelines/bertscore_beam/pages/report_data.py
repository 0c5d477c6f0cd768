"""What a page says of a run, as plain data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bertscore_beam.compare import WHOLE, Comparison, Group, Ranking
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.records import SHARES
from bertscore_core.stats import ScoreStatistics, mean_intervals

# What a page says of a run, as plain data: `report_rows` makes it, `page` shows it.
#
# Names of files, groups and languages are as they are in the run. They may hold any characters, and
# are escaped where they are shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, None without scores, and the ends of its interval, None with too few rows for one."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """What is known of the rows of a group, a language, a range of lengths, or the whole run.

    Attributes:
        name: The group; `WHOLE` for all rows; of lengths the least and the largest number of tokens
            of the longer text.
        rows: All its rows.
        scored: Those with scores.
        truncated: Scored rows with a text that was cut.
        quantiles: F1 below which 5, 25, 50, 75 and 95 of 100 scored rows are; empty without any.
        histogram: Of the whole run: scored rows by F1, in the bins of `ReportData.bins`.
    """

    name: Group = WHOLE
    rows: int = 0
    scored: int = 0
    truncated: int = 0
    precision: Estimate = Estimate()
    recall: Estimate = Estimate()
    f1: Estimate = Estimate()
    quantiles: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()

    @classmethod
    def of(cls, name: Group, statistics: ScoreStatistics, confidence: float) -> "GroupRow":
        """Take the numbers of a group from its statistics."""
        ends = mean_intervals(statistics, confidence)
        precision, recall, f1 = (
            Estimate(**{end: _known(value) for end, value in zip(_ENDS, values, strict=True)})
            for values in np.stack([statistics.means, *ends], axis=1).tolist()
        )
        quantiles = statistics.quantiles(SHARES)[:, F1].tolist() if statistics.scored else ()
        return cls(
            name=name,
            rows=statistics.rows,
            scored=statistics.scored,
            truncated=statistics.truncated,
            precision=precision,
            recall=recall,
            f1=f1,
            quantiles=tuple(quantiles),
        )


F1 = 2
"""The place of F1 among the measures."""

_ENDS = ("mean", "low", "high")


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


class ReasonCount(NamedTuple):
    """Rows with one word in `bertscore_error`; those rejected have no scores."""

    reason: str
    rows: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one row, which the page holds only if it is asked to.

    `against` is the candidate of the same row in the run it is compared with.
    """

    candidate: str
    references: tuple[str, ...]
    against: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRow:
    """A row that is shown by itself: its input file, and its position there from 0.

    Attributes:
        reason: Its word in `bertscore_error`.
        tokens: Tokens of its candidate.
        before: Its F1 in the run it is compared with; None if it is not one that moved.
        key: Its values in the columns that identify it; empty without such columns.
    """

    file: str
    row: int
    precision: float
    recall: float
    f1: float
    group: Group = WHOLE
    reason: str | None = None
    tokens: int | None = None
    before: float | None = None
    texts: Texts | None = None
    key: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of a series: its folder, when it began in UTC, and F1 of each group.

    It is comparable if its scores were made as those of the newest run.
    """

    run: str
    started: str
    total: GroupRow
    comparable: bool = True
    groups: tuple[tuple[Group, Estimate], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run cost. None where it is not known.

    Attributes:
        fresh: Rows that were encoded and not taken over.
        reused: Rows that took the scores of an earlier run.
        seconds: From the beginning of the last command to its end; its rate is the next but one.
        scoring_seconds: Time of scoring, added up over all workers.
        padding: Share of the encoded positions that were padding.
        part_bytes: Size of all parts together.
    """

    pairs: int
    fresh: int
    reused: int
    seconds: float | None = None
    scoring_seconds: float | None = None
    pairs_per_second: float | None = None
    tokens: int | None = None
    padding: float | None = None
    parts: int = 0
    part_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """Everything a page says.

    Attributes:
        options: What it was asked to say.
        run: Folder of the run, without credentials.
        started: When the run began, as a date and time in UTC; the page was made later.
        version: Version of bertscore-beam that made the page.
        rescaled: Whether the scores are rescaled with a baseline.
        bins: Edges of the bins of the histogram, one more than there are bins.
        groups: The groups, that with the highest F1 first.
        ranking: The systems, the best first; None if they were not ranked.
        languages: Rows by language; empty if the run has no column of languages.
        rejected_files: Files that were rejected, with the reason.
        worst: Rows with the lowest F1; the best have the highest.
        fallen: Rows whose F1 fell most since the run it is compared with; others have risen.
        nights: The runs of a series, the oldest first.
        signatures: How the scores were made, by language; under "" if all were made alike.
        notices: Sentences that a reader must not miss.
    """

    options: ReportOptions
    run: str
    started: str
    made: str
    version: str
    rescaled: bool
    total: GroupRow
    bins: tuple[float, ...]
    cost: Cost
    groups: tuple[GroupRow, ...] = ()
    ranking: Ranking | None = None
    languages: tuple[GroupRow, ...] = ()
    lengths: tuple[GroupRow, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    rejected_files: tuple[tuple[str, str], ...] = ()
    worst: tuple[ChosenRow, ...] = ()
    best: tuple[ChosenRow, ...] = ()
    against: Comparison | None = None
    fallen: tuple[ChosenRow, ...] = ()
    risen: tuple[ChosenRow, ...] = ()
    nights: tuple[Night, ...] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
