"""What a page says of a run, as plain data: `collect` makes it, `page` shows it.

Names of files, groups and languages are as they are in the run. They may hold any characters, and
are escaped where they are shown.
"""

from dataclasses import dataclass

from bertscore_beam.results.comparison import WHOLE, Comparison, Group, Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and its interval.

    Attributes:
        mean: The mean; None if no row has a score.
        low: Lower end of the interval; None if there are too few rows for one.
        high: Upper end of it.
    """

    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """What is known of the rows of one group, of one language, or of the whole run.

    Attributes:
        name: The group; `WHOLE` for all rows.
        rows: All its rows.
        scored: Those with scores.
        truncated: Scored rows with a text that was cut.
        precision: Mean over the scored rows.
        recall: The same.
        f1: The same.
        quantiles: F1 below which 5, 25, 50, 75 and 95 of 100 scored rows are; empty without any.
        histogram: Scored rows by F1, in the bins of `ReportData.bins`.
    """

    name: Group
    rows: int
    scored: int
    truncated: int
    precision: Estimate
    recall: Estimate
    f1: Estimate
    quantiles: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBin:
    """Rows whose longer text has a number of tokens in a range.

    Attributes:
        low: Least number of tokens.
        high: Largest.
        scored: Rows with scores.
        truncated: Those with a text that was cut.
        f1: Mean over them.
    """

    low: int
    high: int
    scored: int
    truncated: int
    f1: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """Rows with one reason.

    Attributes:
        reason: Its word in `bertscore_error`.
        rows: How many rows have it.
        rejected: How many of them have no scores.
    """

    reason: str
    rows: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one row, which the page holds only if it is asked to.

    Attributes:
        candidate: The candidate.
        references: Its references.
        against: The candidate of the same row in the run it is compared with; None without one.
        language: Code of their language; None if it is not known.
    """

    candidate: str
    references: tuple[str, ...]
    against: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRow:
    """A row that is shown by itself.

    Attributes:
        file: Name of its input file.
        row: Its position in the file, from 0.
        group: As in `GroupRow.name`; empty if there are no groups.
        precision: Its score.
        recall: The same.
        f1: The same.
        reason: Its word in `bertscore_error`; None if it has none.
        tokens: Tokens of its candidate; None if they are not known.
        before: Its F1 in the run it is compared with; None if it is not one that moved.
        texts: None unless the page holds texts.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of a series.

    Attributes:
        run: Its folder.
        started: When it began, as a date and time in UTC.
        rows: Its rows.
        scored: Those with scores.
        rejected: Those without.
        f1: Mean over the scored rows.
        comparable: Whether its scores were made as those of the newest run.
        groups: Mean F1 of each group, by name.
    """

    run: str
    started: str
    rows: int
    scored: int
    rejected: int
    f1: Estimate
    comparable: bool = True
    groups: tuple[tuple[Group, Estimate], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run cost. None where it is not known.

    Attributes:
        pairs: Rows of the run.
        fresh: Rows that were encoded and not taken over.
        reused: Rows that took the scores of an earlier run.
        seconds: From the beginning of the last command to its end.
        scoring_seconds: Time of scoring, added up over all workers.
        pairs_per_second: Rate of the last command.
        tokens: Tokens that were encoded.
        padding: Share of the encoded positions that were padding.
        parts: Files written.
        part_bytes: Their size together.
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
class Setting:
    """How scores were made.

    Attributes:
        language: Language of the rows that were scored so; empty if all rows were.
        signature: The signature.
        sentences: Its fields in words: name, value, sentence.
    """

    language: str
    signature: str
    sentences: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """Everything a page says.

    Attributes:
        run: Folder of the run, without credentials.
        started: When the run began, as a date and time in UTC.
        made: When the page was made, in the same form.
        version: Version of bertscore-beam that made the page.
        confidence: Of all intervals, such as 0.95.
        rescaled: Whether the scores are rescaled with a baseline.
        total: All rows.
        bins: Edges of the bins of the histograms, one more than there are bins.
        by: Columns that make the groups; empty without groups.
        groups: The groups.
        ranking: The systems, the best first; None if they were not ranked.
        system_column: Column of the systems; None without a ranking.
        languages: Rows by language; empty if the run has no column of languages.
        lengths: Rows by length.
        reasons: Rows by reason.
        rejected_files: Files that were rejected, with the reason.
        worst: Rows with the lowest F1.
        best: Rows with the highest F1.
        with_texts: Whether the page holds texts.
        against: The comparison with another run; None without one.
        fallen: Rows whose F1 fell most since that run.
        risen: Rows whose F1 rose most.
        nights: The runs of a series, the oldest first; empty without one.
        cost: What the run cost.
        settings: How the scores were made.
        notices: Sentences that a reader must not miss.
    """

    run: str
    started: str
    made: str
    version: str
    confidence: float
    rescaled: bool
    total: GroupRow
    bins: tuple[float, ...]
    cost: Cost
    by: tuple[str, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    ranking: Ranking | None = None
    system_column: str | None = None
    languages: tuple[GroupRow, ...] = ()
    lengths: tuple[LengthBin, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    rejected_files: tuple[tuple[str, str], ...] = ()
    worst: tuple[ChosenRow, ...] = ()
    best: tuple[ChosenRow, ...] = ()
    with_texts: bool = False
    against: Comparison | None = None
    fallen: tuple[ChosenRow, ...] = ()
    risen: tuple[ChosenRow, ...] = ()
    nights: tuple[Night, ...] = ()
    settings: tuple[Setting, ...] = ()
    notices: tuple[str, ...] = ()
