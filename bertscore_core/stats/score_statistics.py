"""Sums over scored rows: unknown tokens, histograms, and statistics of groups."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_core.reasoning import REASONING
from bertscore_core.sums import ExactSums, Sums, exact_sums, summed_by_key
from bertscore_core.tokens import BoolArray, IntArray

NOT_COUNTED = -1
"""Stands for the number of tokens of a row whose tokens were not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTokens(Sums):
    """How many tokens of scored rows the model does not know.

    Attributes:
        tokens: Tokens of the candidates and references that hold text, of the rows counted.
        unknown: Those of them that stand for text which the vocabulary lacks, such as `[UNK]`.
        only_unknown: Rows with such tokens and no known one.
    """

    tokens: int = 0
    unknown: int = 0
    only_unknown: int = 0

    @classmethod
    def by_group(
        cls, tokens: npt.ArrayLike, unknown: npt.ArrayLike, groups: IntArray, number: int
    ) -> list["UnknownTokens"]:
        """Add up the rows of each group.

        Args:
            tokens: Tokens of each row that hold text, or `NOT_COUNTED`. Shape (N,).
            unknown: Those of them that are unknown. Shape (N,).
            groups: Number of the group of each row, from 0. Shape (N,).
            number: Groups; some may have no rows.
        """
        held, lacking = np.asarray(tokens, np.int64), np.asarray(unknown, np.int64)
        is_counted = held != NOT_COUNTED
        columns = (
            np.where(is_counted, held, 0),
            np.where(is_counted, lacking, 0),
            (held == lacking) & (held > 0),
        )
        # Doubles hold whole numbers up to 2**53.
        sums = [np.bincount(groups, own, minlength=number).astype(int).tolist() for own in columns]
        return [
            cls(tokens=held, unknown=lacking, only_unknown=rows)
            for held, lacking, rows in zip(*sums, strict=True)
        ]

    @classmethod
    def of(cls, tokens: npt.NDArray[Any], unknown: npt.NDArray[Any]) -> "UnknownTokens":
        """Add up all rows; see `by_group`."""
        (whole,) = cls.by_group(tokens, unknown, np.zeros(len(tokens), dtype=np.int64), 1)
        return whole

    @property
    def fraction(self) -> float | None:
        """Share of the tokens that is unknown; None if no row was counted or none has text."""
        return self.unknown / self.tokens if self.tokens else None

    def described(self) -> dict[str, int | float | None]:
        """Return the counts by the names under which summaries and tables have them."""
        return {
            "text_tokens": self.tokens,
            "unknown_tokens": self.unknown,
            "unknown_fraction": self.fraction,
            "only_unknown_tokens": self.only_unknown,
        }


MANY_UNKNOWN = 0.05
"""Share of unknown tokens above which people are warned: of texts that a model can read, hardly any
is unknown."""


def effective_number(weights: npt.NDArray[Any], counts: npt.ArrayLike = 1) -> float:
    """Return how many equal weights would weigh as much (Kish): (sum of w)^2 / sum of w^2.

    Each weight is there `counts` times. 0 without a weight.
    """
    own, times = weights.astype(np.float64), np.asarray(counts, dtype=np.float64)
    squares = float((own**2 * times).sum())
    return float((own * times).sum()) ** 2 / squares if squares else 0.0


Doubles = npt.NDArray[np.float64]

# F1 in sums. F1 = 2PR / (P + R) has a pole at P = -R, near which it has no bound: one pair could
# outweigh all others. So every mean over pairs takes the F1 that these functions return.

SLACK = 1e-4
"""How far rounding may move a score beyond 1. Measured: 4e-7."""


def is_clipped(raw_f1: npt.NDArray[np.floating]) -> BoolArray:
    """Tell which pairs have an F1 before rescaling beyond [-1, 1], by more than rounding."""
    return np.asarray(np.abs(raw_f1) > 1 + SLACK, dtype=np.bool_)


def clipped_f1(f1: npt.NDArray[np.floating], raw_f1: npt.NDArray[np.floating]) -> Doubles:
    """Return F1 as sums take it: clipped to [-1, 1] before rescaling, then rescaled as it was.

    The baseline b need not be known: (1 - f1) / (1 - raw_f1) is 1 / (1 - b). Only minus infinity,
    of P = -R to the last bit, does not tell it, and counts as -1. Pairs that `is_clipped` does not
    name keep their F1, to the last bit.

    Args:
        f1: F1 of pairs; NaN for those without scores. Any shape.
        raw_f1: The same before rescaling; `f1` itself if it is not rescaled.
    """
    clipped, raw = f1.astype(np.float64), raw_f1.astype(np.float64)
    beyond = is_clipped(raw)
    own, before = clipped[beyond], raw[beyond]
    with np.errstate(invalid="ignore"):
        lowest = np.nan_to_num(1 - 2 * (1 - own) / (1 - before), nan=-1.0)
    clipped[beyond] = np.where(before > 0, 1.0, lowest)
    return clipped


# Histograms of raw scores over bins of equal width from -1 to 1, dense and packed.

_BIN_TYPE = np.dtype("<u2")
_COUNT_TYPE = np.dtype("<u8")


def bins_of(values: Doubles, number: int) -> IntArray:
    """Return the bin of each finite score; one beyond [-1, 1] is in the first or last bin."""
    bins = np.clip(np.floor((values + 1) * (number / 2)), 0, number - 1)
    return bins.astype(np.int64)


def scores_at(wanted: Doubles, counts: IntArray) -> Doubles:
    """Return the scores that given numbers of pairs are below, if pairs are even in each bin.

    Shapes: wanted (Q,); counts, the pairs in each bin, (bins,) with at least one in all.
    """
    upto = np.cumsum(counts)
    bins = np.searchsorted(upto, np.maximum(wanted, 0.5))  # never before the first pair
    inside = (wanted - (upto - counts)[bins]) / counts[bins]
    return np.asarray((bins + inside) * (2 / len(counts)) - 1, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PackedHistogram:
    """The bins of a histogram that are not empty: equal histograms are equal, and pickle small.

    Bins ascend and take two bytes each; the pairs in each take eight.
    """

    packed_bins: bytes = b""
    packed_counts: bytes = b""

    @classmethod
    def of(cls, bins: npt.NDArray[np.integer], counts: npt.NDArray[Any]) -> "PackedHistogram":
        """Pack bins that are not empty, ascending, and the pairs in each. Shape (K,) both."""
        return cls(bins.astype(_BIN_TYPE).tobytes(), counts.astype(_COUNT_TYPE).tobytes())

    @property
    def bins(self) -> IntArray:
        """The bins that are not empty, ascending. Shape (K,)."""
        return np.frombuffer(self.packed_bins, dtype=_BIN_TYPE).astype(np.int64)

    @property
    def counts(self) -> IntArray:
        """The pairs in each of them. Shape (K,)."""
        return np.frombuffer(self.packed_counts, dtype=_COUNT_TYPE).astype(np.int64)

    def dense(self, number: int) -> IntArray:
        """Return the pairs in each bin. Shape (number,)."""
        counts = np.zeros(number, dtype=np.int64)
        counts[self.bins] = self.counts
        return counts

    @classmethod
    def merge(cls, parts: Sequence["PackedHistogram"]) -> "PackedHistogram":
        """Return the histogram of several sets of pairs together."""
        bins, counts = ([getattr(part, name) for part in parts] for name in ("bins", "counts"))
        return cls.of(*summed_by_key(np.concatenate(bins), np.concatenate(counts)))


# Statistics of the rows of one group: counts, means, errors and quantiles, exact in any order.
#
# Sums are exact (`ExactSums`). So the same rows give the same bits, however they are cut into parts
# and in whatever order the parts are merged, and means are those of the rows, rounded once.
#
#     part 1 + part 2 + ... = ScoreSummary      ->  means
#                           = ScoreStatistics   ->  standard errors, quantiles, `intervals`
#
# A row has final scores (`bertscore_f1`) and raw ones, before rescaling; without rescaling they are
# the same. Means and errors are given of both. Histograms are of raw scores alone: those are within
# [-1, 1] for every model, and a group may hold rows that are rescaled with different baselines.

STATISTIC_BINS = 4096
"""Bins of the histograms, each 1/2048 wide, from -1 to 1."""

MEASURES = ("precision", "recall", "f1")
"""The order of the measures in every array and tuple."""
_F1 = MEASURES.index("f1")

ThreeHistograms: TypeAlias = tuple[PackedHistogram, PackedHistogram, PackedHistogram]

_EMPTY = PackedHistogram()
_NO_SCORE, NO_SCORES = ExactSums(steps=(0,)), ExactSums(steps=(0, 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSums(Sums):
    """Sums over the rows that have another metric.

    Attributes:
        rows: Their number.
        total: Their scores added up: one sum.
        counts: The sum of each of their counts.
    """

    rows: int = 0
    total: ExactSums = _NO_SCORE
    counts: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean of their scores; NaN of none."""
        return self.total.over(self.rows)[0] if self.rows else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary(Sums):
    """Sums over scored rows, from which corpus scores are computed. Merged with `merge` and `+`.

    They are exact, in any order. A run may keep one for each of a million parts.

    Attributes:
        rows: Rows, with and without scores.
        scored: Rows with scores; over these the measures are added up.
        sums: Precision, recall and F1 added up; F1 is that of `clipped_f1`.
        clipped: Scored rows whose F1 is clipped.
        truncated: Scored rows with a text that was cut at the maximum length.
        windowed: Scored rows with a text in several windows.
        unknown: Tokens of the scored rows that the model does not know.
        reasons: Number of rows by the reason they have, with and without scores.
        rejected_reasons: The same of the rows without scores alone.
    """

    rows: int = 0
    scored: int = 0
    sums: ExactSums = NO_SCORES
    clipped: int = 0
    truncated: int = 0
    windowed: int = 0
    unknown: UnknownTokens = field(default_factory=UnknownTokens)
    reasons: Mapping[str, int] = field(default_factory=dict)
    rejected_reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """Rows without scores."""
        return self.rows - self.scored

    @property
    def means(self) -> Doubles:
        """Corpus scores: means over the scored rows. Shape (3,); NaN if there are none."""
        return _means(self.sums, self.scored)

    @property
    def reasoning_fraction(self) -> float:
        """Share of the scored rows whose candidates are scored with a model's reasoning."""
        return self.reasons.get(REASONING, 0) / self.scored if self.scored else 0.0

    @property
    def truncated_fraction(self) -> float:
        """Share of the scored rows with a text that was cut, 0 if there are none."""
        return self.truncated / self.scored if self.scored else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistics(ScoreSummary):
    """What else is known of the rows of one group: how scores are spread, and other metrics.

    Tuples have precision, recall and F1, in this order; F1 is that of `clipped_f1`.

    Attributes:
        squares: Squares of the final scores added up.
        raw_sums: As `sums`, of the raw scores.
        raw_squares: As `squares`, of the raw scores.
        histograms: Raw scores in each of `STATISTIC_BINS` bins.
        metrics: The sums of each other metric. A name may have a second word for rows whose texts
            were cut into words in another way, such as `bleu zh`.
        missing: Of each other metric the scored rows that lack it.
    """

    squares: ExactSums = NO_SCORES
    raw_sums: ExactSums = NO_SCORES
    raw_squares: ExactSums = NO_SCORES
    histograms: ThreeHistograms = (_EMPTY, _EMPTY, _EMPTY)
    metrics: Mapping[str, MetricSums] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def by_metric(self) -> dict[str, list[MetricSums]]:
        """The sums of each other metric, those of rows that were cut alike together."""
        by_metric: dict[str, list[MetricSums]] = {}
        for label, own in self.metrics.items():
            of_metric = by_metric.setdefault(label.partition(" ")[0], [])
            of_metric += [own] if own.rows else []
        return by_metric

    @property
    def raw_means(self) -> Doubles:
        """The same of the raw scores."""
        return _means(self.raw_sums, self.scored)

    @property
    def standard_errors(self) -> Doubles:
        """Standard error of `means` if rows are independent. Shape (3,); NaN below two of them."""
        number = self.scored
        if number < 2:
            return np.full(3, np.nan)
        # In integers up to the one division; the rounding of squares may make it negative.
        shifts = 2 * self.sums.places, self.squares.places
        pairs = number * (number - 1) << sum(shifts)
        variances = [
            max((square * number << shifts[0]) - (total**2 << shifts[1]), 0) / pairs
            for total, square in zip(self.sums.steps, self.squares.steps, strict=True)
        ]
        return np.asarray(np.sqrt(variances) / math.sqrt(number), dtype=np.float64)

    def quantiles(self, shares: Sequence[float]) -> Doubles:
        """Return the raw scores that Q shares, from 0 to 1, of the scored rows are below.

        Shape (Q, 3); NaN without scored rows. Off by at most the width of a bin, 1/2048.
        """
        if not self.scored:
            return np.full((len(shares), 3), np.nan)
        wanted = np.asarray(shares, dtype=np.float64) * self.scored
        columns = [
            scores_at(wanted, histogram.dense(STATISTIC_BINS)) for histogram in self.histograms
        ]
        return np.stack(columns, axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedRows:
    """N rows with the group of each, to be added up.

    Attributes:
        groups: Number of the group of each row, from 0. Shape (N,).
        number: Groups; some may have no rows.
        scores: Final precision, recall and F1; NaN for rows without scores. Shape (N, 3).
        raw: Raw scores; None if they are the same. Shape (N, 3).
        truncated: Whether a text of the row was cut. Shape (N,).
        windowed: Whether a text of the row is in several windows; None if none is. Shape (N,).
        tokens: Tokens of each row that hold text, and the unknown ones among them, as
            `UnknownTokens.by_group` takes them; None if not counted. Shape (N,) both.
        reasons: Reasons of rows by their position; rows without one are left out.
        metrics: Scores of each other metric, NaN for none, shape (N,); and their counts, (N, K).
    """

    groups: IntArray
    number: int
    scores: npt.NDArray[np.floating]
    raw: npt.NDArray[np.floating] | None
    truncated: BoolArray
    reasons: Mapping[int, str]
    windowed: BoolArray | None = None
    metrics: Mapping[str, tuple[Doubles, IntArray]] = field(default_factory=dict)
    tokens: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None

    def in_groups(self, groups: IntArray, number: int) -> "GroupedRows":
        """Return the same rows in other groups: that of each, (N,), and how many there are."""
        return replace(self, groups=groups, number=number)

    @property
    def scored(self) -> BoolArray:
        """Which rows have scores. Shape (N,)."""
        return np.asarray(~np.isnan(self.scores).any(axis=1))

    @property
    def before(self) -> npt.NDArray[np.floating]:
        """The scores before rescaling. Shape (N, 3)."""
        return self.scores if self.raw is None else self.raw

    def unknown(self, scored: BoolArray) -> list[UnknownTokens]:
        """Return the unknown tokens of each group over the scored rows, a mask, (N,)."""
        nothing = np.full(len(self.groups), NOT_COUNTED)
        tokens, unknown = (nothing, nothing) if self.tokens is None else self.tokens
        own = self.groups[scored]
        return UnknownTokens.by_group(tokens[scored], unknown[scored], own, self.number)


def summary_by_group(rows: GroupedRows) -> list[ScoreSummary]:
    """Add up the rows of each group, and return the sums by its number."""
    scored = rows.scored
    final = _for_sums(rows.scores[scored], rows.before[scored])
    return [ScoreSummary(**own) for own in _by_group(_summary_fields(rows, scored, final))]


def statistics_by_group(rows: GroupedRows) -> list[ScoreStatistics]:
    """Return all that is known of the rows of each group, by its number."""
    scored, number = rows.scored, rows.number
    groups, before = rows.groups[scored], rows.before[scored]
    final = _for_sums(rows.scores[scored], before)
    raw = final if rows.raw is None else _for_sums(before, before)
    fields = _summary_fields(rows, scored, final)
    sums, squares = fields["sums"], exact_sums(final**2, groups, number)
    histograms = [_histograms(raw[:, measure], groups, number) for measure in range(3)]
    fields |= {
        "squares": squares,
        "raw_sums": sums if raw is final else exact_sums(raw, groups, number),
        "raw_squares": squares if raw is final else exact_sums(raw**2, groups, number),
        "histograms": list(zip(*histograms, strict=True)),
        "metrics": _metrics(rows),
        "missing": _missing(rows, scored),
    }
    return [ScoreStatistics(**own) for own in _by_group(fields)]


def _by_group(fields: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*fields.values(), strict=True):
        yield dict(zip(fields, values, strict=True))


def _summary_fields(
    rows: GroupedRows, scored: BoolArray, final: Doubles
) -> dict[str, Sequence[Any]]:
    """Return the fields of a `ScoreSummary`, each with a value for every group.

    Args:
        rows: N rows.
        scored: Which S of them have scores. Shape (N,).
        final: Their scores, as sums take them. Shape (S, 3).
    """
    number, groups = rows.number, rows.groups[scored]
    reasons, rejected = (
        [Counter[str]() for _ in range(number)],
        [Counter[str]() for _ in range(number)],
    )
    for row, reason in rows.reasons.items():
        reasons[rows.groups[row]][reason] += 1
        if not scored[row]:
            rejected[rows.groups[row]][reason] += 1

    def count(own: IntArray) -> list[int]:
        counts: list[int] = np.bincount(own, minlength=number).tolist()
        return counts

    windowed = groups[:0] if rows.windowed is None else groups[rows.windowed[scored]]
    return {
        "rows": count(rows.groups),
        "scored": count(groups),
        "sums": exact_sums(final, groups, number),
        "clipped": count(groups[is_clipped(rows.before[scored, _F1])]),
        "truncated": count(groups[rows.truncated[scored]]),
        "windowed": count(windowed),
        "unknown": rows.unknown(scored),
        "reasons": [dict(sorted(counter.items())) for counter in reasons],
        "rejected_reasons": [dict(sorted(counter.items())) for counter in rejected],
    }


def _metrics(rows: GroupedRows) -> list[dict[str, MetricSums]]:
    by_group: list[dict[str, MetricSums]] = [{} for _ in range(rows.number)]
    for name, (scores, counts) in sorted(rows.metrics.items()):
        own = ~np.isnan(scores)
        groups, number = rows.groups[own], rows.number
        totals = np.zeros((number, counts.shape[1]), dtype=np.int64)
        np.add.at(totals, groups, counts[own])
        having = np.bincount(groups, minlength=number).tolist()
        sums = exact_sums(scores[own, None], groups, number)
        for group, known in enumerate(zip(having, sums, map(tuple, totals.tolist()), strict=True)):
            by_group[group][name] = MetricSums(
                **dict(zip(("rows", "total", "counts"), known, strict=True))
            )
    return by_group


def _missing(rows: GroupedRows, scored: BoolArray) -> list[dict[str, int]]:
    having: dict[str, BoolArray] = {}
    for label, (scores, _) in rows.metrics.items():
        name = label.partition(" ")[0]
        having[name] = having.get(name, np.False_) | ~np.isnan(scores)
    by_group: list[dict[str, int]] = [{} for _ in range(rows.number)]
    for name, own in having.items():
        lacking = np.bincount(rows.groups[scored & ~own], minlength=rows.number).tolist()
        for group, count in enumerate(lacking):
            by_group[group][name] = count
    return by_group


def _for_sums(scores: npt.NDArray[np.floating], raw: npt.NDArray[np.floating]) -> Doubles:
    f1 = clipped_f1(scores[:, _F1], raw[:, _F1])
    return np.column_stack([scores[:, :_F1].astype(np.float64), f1])


def _histograms(values: Doubles, groups: IntArray, number: int) -> list[PackedHistogram]:
    cells, counts = np.unique(
        groups * STATISTIC_BINS + bins_of(values, STATISTIC_BINS), return_counts=True
    )
    ends = np.searchsorted(cells, np.arange(number + 1) * STATISTIC_BINS)
    bins = cells % STATISTIC_BINS
    return [
        PackedHistogram.of(bins[first:end], counts[first:end])
        for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


def _means(sums: ExactSums, number: int) -> Doubles:
    return np.array(sums.over(number) if number else [math.nan] * len(sums.steps))
