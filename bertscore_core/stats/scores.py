"""Scores of pairs, and how people see them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError, check_package
from bertscore_core.stats.intervals import mean_intervals
from bertscore_core.stats.score_statistics import (
    MEASURES,
    Doubles,
    GroupedRows,
    ScoreStatistics,
    UnknownTokens,
    clipped_f1,
    statistics_by_group,
)
from bertscore_core.tokens import BoolArray, FloatArray, TokenIds

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_PAIRS = 10
"""Pairs in the HTML of a notebook: the first ones."""


_QUANTILES = (0.05, 0.5, 0.95)
_COLUMNS = ("mean", "error", "low", "high", "q05", "median", "q95")


class MeanScores(NamedTuple):
    """Corpus scores: means over the scored pairs; of every layer an array of shape (L + 1,).

    F1 is that of `clipped_f1`.
    """

    precision: Any
    recall: Any
    f1: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOverview:
    """What the scores of some pairs come to; it prints as a table.

    Empty are pairs with an empty candidate or without a reference that is not empty. The rest
    follows from `statistics`, which can be merged; `confidence` is that of the intervals.
    """

    pairs: int
    scored: int
    truncated: int
    empty: int
    statistics: ScoreStatistics
    confidence: float

    @property
    def table(self) -> Doubles:
        """Mean, standard error, ends of the interval, and three quantiles of the raw scores.

        Shape (3, 7): precision, recall and F1; NaN where there are too few pairs.
        """
        statistics = self.statistics
        ends = mean_intervals(statistics, self.confidence)
        quantiles = statistics.quantiles(_QUANTILES)
        return np.array([statistics.means, statistics.standard_errors, *ends, *quantiles]).T

    def __str__(self) -> str:
        widths = "{:<10}" + "{:>8}" * len(_COLUMNS)
        rows = [widths.format(*row) for row in (["", *_COLUMNS], *self._rows())]
        return "\n".join([self._counts(), *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{self._counts()}</p>{_html(['', *_COLUMNS], self._rows())}"

    def _rows(self) -> list[list[str]]:
        return [[name, *map(_number, row)] for name, row in zip(MEASURES, self.table, strict=True)]

    def _counts(self) -> str:
        clipped = f", {self.statistics.clipped:,} clipped" if self.statistics.clipped else ""
        return (
            f"{self.pairs:,} pairs, {self.scored:,} scored, {self.truncated:,} truncated, "
            f"{self.empty:,} empty{clipped}{_describe_unknown(self.statistics.unknown)}; interval "
            f"{self.confidence:g}, quantiles of raw scores"
        )


def _describe_unknown(unknown: UnknownTokens) -> str:
    return f", {unknown.fraction:.1%} of the tokens unknown" if unknown.fraction else ""


def _mean(values: Any) -> Any:
    # In double precision: float32 would lose digits over many pairs.
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan) if values.ndim > 1 else float("nan")
    means = values.mean(axis=-1, dtype=np.float64)
    return means if values.ndim > 1 else float(means)


def _cell(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "yes" if value else ""
    return _number(value) if isinstance(value, np.floating) else str(value)


def _number(value: float | np.floating[Any]) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"


def _html(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(c)}</td>' for c in row[1:])}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Scores of N pairs, in input order.

    With all layers at once the score arrays have shape (L + 1, N), one row for each layer.

    Attributes:
        precision: Rescaled if the scorer rescales. Shape (N,), float32.
        recall: The same.
        f1: The same. It need not be 2PR / (P + R): with several references each measure is the best
            over them separately, and bert-score keeps F1 for some texts; see `counted_as_empty`.
        raw_precision: Before rescaling; equal to `precision` if the scorer does not rescale.
        raw_recall: The same.
        raw_f1: The same.
        best_reference: Index of the reference with the highest F1, of those within 1e-6 the first.
            Shape as the scores, int32.
        candidate_tokens: Tokens of the candidate, special ones included. Shape (N,), int32.
        reference_tokens: Tokens of all its references together. Shape (N,), int32.
        text_tokens: Tokens of the candidate and its references that hold text: neither special ones
            nor SentencePiece's mark of a space alone. Shape (N,), int32.
        unknown_tokens: Those of them that stand for text which the vocabulary lacks, such as
            `[UNK]`. Shape (N,), int32.
        truncated: Whether the candidate or a reference was cut to the maximum length. Shape (N,).
        too_long: Whether a text is longer than the maximum length and the pair is therefore not
            scored: all scores are NaN, and such a text has the maximum length as its number of
            tokens. Only with `long_text` `error`. Shape (N,).
        windows: Windows of the text of the pair with the most of them; 1 if all texts fit. More
            only with `long_text` `windows`. Shape (N,), int32.
        empty_candidate: Whether the candidate is empty: it has only special tokens. Shape (N,).
        empty_reference: Whether all references are empty. Shape (N,).
        counted_as_empty: Whether bert-score treats a text as empty that is not, since it has
            exactly two tokens: precision and recall are 0, and F1 is kept. Shape (N,).
        only_special: Whether the candidate, or every reference, has nothing but special tokens,
            which weigh 0, and is not empty. Only without idf. F1 is 0, and so is precision (of the
            candidate) or recall (of the references), where bert-score has NaN. Shape (N,).
        unknown_weighs_nothing: Whether the pair has no scores since all text of the candidate, or
            of a reference, is unknown, and the unknown token weighs 0. Only with idf. Shape (N,).
    """

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    raw_precision: FloatArray
    raw_recall: FloatArray
    raw_f1: FloatArray
    best_reference: TokenIds
    candidate_tokens: TokenIds
    reference_tokens: TokenIds
    text_tokens: TokenIds
    unknown_tokens: TokenIds
    truncated: BoolArray
    too_long: BoolArray
    windows: TokenIds
    empty_candidate: BoolArray
    empty_reference: BoolArray
    counted_as_empty: BoolArray
    only_special: BoolArray
    unknown_weighs_nothing: BoolArray

    @classmethod
    def joined(cls, parts: Sequence["Scores"]) -> "Scores":
        """Return the scores of several sets of pairs, one set after the other.

        Without any set they are the scores of one layer of no pairs.
        """
        if not parts:
            kinds: dict[Any, Any] = {FloatArray: np.float32, TokenIds: np.int32, BoolArray: bool}
            return cls(**{f.name: np.zeros(0, dtype=kinds[f.type]) for f in fields(cls)})
        columns = {name: [getattr(part, name) for part in parts] for name in cls.__slots__}
        return cls(**{name: np.concatenate(arrays, axis=-1) for name, arrays in columns.items()})

    def select(self, pairs: npt.NDArray[Any]) -> "Scores":
        """Return the scores of pairs, by their positions in the order wanted or by a mask, (N,)."""
        return Scores(**{name: getattr(self, name)[..., pairs] for name in self.__slots__})

    def __len__(self) -> int:
        return len(self.candidate_tokens)

    @property
    def scored(self) -> BoolArray:
        """Pairs whose precision and recall are not NaN in any layer. Shape (N,)."""
        # One layer has shape (N,), several have (L + 1, N).
        totals = np.atleast_2d(self.raw_precision + self.raw_recall)
        scored: BoolArray = ~np.logical_or.reduce(np.isnan(totals), axis=0)
        return scored

    @property
    def unweighted(self) -> BoolArray:
        """Pairs without scores since a text that is not empty has no weighted token. Shape (N,)."""
        others = self.empty_candidate | self.empty_reference | self.too_long
        unweighted: BoolArray = ~(self.scored | others)
        return unweighted

    @property
    def unknown_share(self) -> FloatArray:
        """Share of `text_tokens` that is unknown; NaN of none or if not counted. Shape (N,)."""
        shares = np.full(len(self), np.nan)
        np.divide(self.unknown_tokens, self.text_tokens, out=shares, where=self.text_tokens > 0)
        return shares.astype(np.float32)

    @property
    def unknown(self) -> UnknownTokens:
        """The unknown tokens of the scored pairs together."""
        scored = self.scored
        return UnknownTokens.of(self.text_tokens[scored], self.unknown_tokens[scored])

    def mean(self) -> MeanScores:
        """Return mean precision, recall and F1 of the scored pairs: the corpus scores.

        NaN without scored pairs. With all layers at once they are arrays of shape (L + 1,).
        """
        f1 = clipped_f1(self.f1, self.raw_f1)
        measures = (values[..., self.scored] for values in (self.precision, self.recall, f1))
        return MeanScores(*map(_mean, measures))

    def summary(self, confidence: float = 0.95) -> ScoreOverview:
        """Return means with their errors and intervals, quantiles and counts; it prints as a table.

        The intervals, of the confidence given, take pairs as independent.

        Raises:
            InputError: The scores are of several layers, or the confidence is not between 0 and 1.
        """
        self._check_one_layer("summary()")
        rows = GroupedRows(
            groups=np.zeros(len(self), dtype=np.int64),
            number=1,
            scores=np.stack([getattr(self, name) for name in MEASURES], axis=-1),
            raw=np.stack([getattr(self, f"raw_{name}") for name in MEASURES], axis=-1),
            truncated=self.truncated,
            windowed=self.windows > 1,
            tokens=(self.text_tokens, self.unknown_tokens),
            reasons={},
        )
        (statistics,) = statistics_by_group(rows)
        return ScoreOverview(
            pairs=len(self),
            scored=statistics.scored,
            truncated=int(self.truncated.sum()),
            empty=self._empty_pairs(),
            statistics=statistics,
            confidence=confidence,
        )

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame with a row for each pair and a column for each attribute.

        Raises:
            ConfigError: pandas is not installed.
            InputError: The scores are of several layers.
        """
        self._check_one_layer("to_pandas()")
        check_package("pandas", "to_pandas()", "results")
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in self.__slots__})

    def __repr__(self) -> str:
        if not len(self):
            return "Scores(0 pairs)"
        layers = f" of {len(self.f1)} layers" if self.f1.ndim > 1 else ""
        means = [f"{n}={np.mean(v):.4f}" for n, v in zip(MEASURES, self.mean(), strict=True)]
        # What the means do not show.
        notes = {
            "truncated": self.truncated.sum(),
            "empty": self._empty_pairs(),
            "not scored": (~self.scored).sum(),
        }
        shown = [f"{int(number):,} {word}" for word, number in notes.items() if number]
        pairs = f"{len(self)} pairs{layers}"
        return f"Scores({', '.join([pairs, *means, *shown])}{_describe_unknown(self.unknown)})"

    def _repr_html_(self) -> str:
        line = f"<p>{escape(repr(self))}</p>"
        if self.f1.ndim > 1 or not len(self):
            return line
        marks = ("truncated", "empty_candidate", "empty_reference")
        columns = [*MEASURES, "candidate_tokens", "reference_tokens", *marks]
        rows = [
            [str(pair), *(_cell(getattr(self, name)[pair]) for name in columns)]
            for pair in range(min(len(self), _SHOWN_PAIRS))
        ]
        left = len(self) - len(rows)
        more = f"<p>{left:,} more pairs; to_pandas() has all.</p>" if left else ""
        return line + _html(["", *columns], rows) + more

    def _empty_pairs(self) -> int:
        return int((self.empty_candidate | self.empty_reference).sum())

    def _check_one_layer(self, what: str) -> None:
        if self.f1.ndim > 1:
            raise InputError(
                f"{what} takes the scores of one layer: got {len(self.f1)}; expected one. Score "
                "without all_layers, or take the arrays, such as f1[layer]."
            )
