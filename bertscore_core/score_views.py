"""Scores for people and for pandas: a summary with errors, a data frame, and HTML for notebooks."""

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bertscore_core.errors import ConfigError, InputError
from bertscore_core.histograms import Doubles
from bertscore_core.intervals import mean_intervals
from bertscore_core.score_statistics import (
    MEASURES,
    GroupedRows,
    ScoreStatistics,
    statistics_by_group,
)

if TYPE_CHECKING:
    import pandas as pd

    from bertscore_core.scores import Scores

SHOWN_PAIRS = 10
"""Pairs in the HTML of a notebook: the first ones."""

_QUANTILES = (0.05, 0.5, 0.95)
_COLUMNS = ("mean", "error", "low", "high", "q05", "median", "q95")


class MeanScores(NamedTuple):
    """Corpus scores: means over the scored pairs; of every layer an array of shape (L + 1,)."""

    precision: Any
    recall: Any
    f1: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresSummary:
    """What the scores of some pairs come to; it prints as a table.

    Attributes:
        pairs: Number of pairs.
        scored: Pairs with scores.
        truncated: Pairs with a text that was cut at the maximum length.
        empty: Pairs with an empty candidate or without a reference that is not empty.
        statistics: Sums, from which everything else follows; they can be merged.
        confidence: That of the intervals.
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
        found = self.statistics
        ends = mean_intervals(found, self.confidence)
        rows = [found.means, found.standard_errors, *ends, *found.quantiles(_QUANTILES)]
        return np.array(rows).T

    def __str__(self) -> str:
        """Return the counts, and a table with a row for each measure."""
        widths = "{:<10}" + "{:>8}" * len(_COLUMNS)
        lines = [self._counts(), widths.format("", *_COLUMNS)]
        for measure, row in zip(MEASURES, self.table, strict=True):
            lines.append(widths.format(measure, *map(_number, row)))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        rows = [
            [measure, *map(_number, row)] for measure, row in zip(MEASURES, self.table, strict=True)
        ]
        return f"<p>{self._counts()}</p>{_html(['', *_COLUMNS], rows)}"

    def _counts(self) -> str:
        return (
            f"{self.pairs:,} pairs, {self.scored:,} scored, {self.truncated:,} truncated, "
            f"{self.empty:,} empty; interval {self.confidence:g}, quantiles of raw scores"
        )


def mean_of(scores: "Scores") -> MeanScores:
    """Return the means over the scored pairs; NaN without any."""
    return MeanScores(*(_mean(getattr(scores, name)[..., scores.scored]) for name in MEASURES))


def _mean(values: Any) -> Any:
    # In double precision: float32 would lose digits over many pairs.
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan) if values.ndim > 1 else float("nan")
    means = values.mean(axis=-1, dtype=np.float64)
    return means if values.ndim > 1 else float(means)


def summary_of(scores: "Scores", confidence: float) -> ScoresSummary:
    """Add up scores of one layer.

    Raises:
        InputError: They are of several layers, or the confidence is not between 0 and 1.
    """
    _check_one_layer(scores, "summary()")
    (found,) = statistics_by_group(
        GroupedRows(
            groups=np.zeros(len(scores), dtype=np.int64),
            number=1,
            scores=np.stack([getattr(scores, name) for name in MEASURES], axis=-1),
            raw=np.stack([getattr(scores, f"raw_{name}") for name in MEASURES], axis=-1),
            truncated=scores.truncated,
            reasons={},
            reused=None,
        )
    )
    return ScoresSummary(
        pairs=len(scores),
        scored=found.scored,
        truncated=int(scores.truncated.sum()),
        empty=int((scores.empty_candidate | scores.empty_reference).sum()),
        statistics=found,
        confidence=confidence,
    )


def frame_of(scores: "Scores") -> "pd.DataFrame":
    """Return a data frame with a row for each pair and a column for each field.

    Raises:
        ConfigError: pandas is not installed.
        InputError: The scores are of several layers.
    """
    _check_one_layer(scores, "to_pandas()")
    try:
        import pandas as pd
    except ImportError as error:
        raise ConfigError(
            f"to_pandas() needs pandas ({error}); expected the packages of the extra 'results'. "
            "Install it, or pandas alone."
        ) from error
    return pd.DataFrame({field.name: getattr(scores, field.name) for field in fields(scores)})


def words_of(scores: "Scores") -> str:
    """Return scores as one line: the number of pairs, the means, and what stands out."""
    if not len(scores):
        return "Scores(0 pairs)"
    several = scores.f1.ndim > 1
    layers = f" of {len(scores.f1)} layers" if several else ""
    means = [f"{n}={np.mean(v):.4f}" for n, v in zip(MEASURES, mean_of(scores), strict=True)]
    notes = [f"{int(number):,} {word}" for word, number in _notes(scores).items() if number]
    return f"Scores({', '.join([f'{len(scores)} pairs{layers}', *means, *notes])})"


def _notes(scores: "Scores") -> dict[str, Any]:
    """Return how many pairs have something that their scores do not show."""
    return {
        "truncated": scores.truncated.sum(),
        "empty": (scores.empty_candidate | scores.empty_reference).sum(),
        "not scored": (~scores.scored).sum(),
    }


def html_of(scores: "Scores") -> str:
    """Return scores for a notebook: the line of `words_of`, and the first pairs."""
    line = f"<p>{escape(words_of(scores))}</p>"
    if scores.f1.ndim > 1 or not len(scores):
        return line
    marks = ("truncated", "empty_candidate", "empty_reference")
    columns = [*MEASURES, "candidate_tokens", "reference_tokens", *marks]
    rows = [
        [str(pair), *(_cell(getattr(scores, name)[pair]) for name in columns)]
        for pair in range(min(len(scores), SHOWN_PAIRS))
    ]
    left = len(scores) - len(rows)
    more = f"<p>{left:,} more pairs; to_pandas() has all.</p>" if left else ""
    return line + _html(["", *columns], rows) + more


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


def _check_one_layer(scores: "Scores", what: str) -> None:
    """Check that scores are of one layer.

    Raises:
        InputError: They are of several.
    """
    if scores.f1.ndim > 1:
        raise InputError(
            f"{what} takes the scores of one layer: got {len(scores.f1)}; expected one. Score "
            "without all_layers, or take the arrays, such as f1[layer]."
        )
