"""The difference of two baseline tables, layer by layer, in their standard errors."""

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.tables.sides import MEASURES, PUBLISHED, Side, Table, listed
from bertscore_core.baseline import published_baselines
from bertscore_core.errors import ConfigError

LARGE_DIFFERENCE = 0.03
"""Tables from other web text of one language seldom differ by more; two languages often do."""

_FEW_ERRORS = 4.0
"""Largest difference of two tables, in standard errors, that sampling alone may cause."""
_CODE = re.compile(r"[a-z]{2}([-_][a-z]+)?")
_MODELS = 3
_ROUNDING = 1e-7
"""Tables have seven decimals; some that are published have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDifference:
    """One layer of two tables.

    Attributes:
        layer: From 0, the embeddings.
        first: Precision, recall, F1 of the first table.
        second: The same of the second.
        errors: Standard errors of second - first, from the known ones; None if none is known.
    """

    layer: int
    first: tuple[float, ...]
    second: tuple[float, ...]
    errors: tuple[float | None, ...]

    @property
    def differences(self) -> tuple[float, ...]:
        """Second - first: precision, recall, F1."""
        return tuple(b - a for a, b in zip(self.first, self.second, strict=True))

    @property
    def in_errors(self) -> tuple[float | None, ...]:
        """The differences in standard errors; None if that is not known, or 0."""
        return tuple(
            difference / error if error else None
            for difference, error in zip(self.differences, self.errors, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two tables, layer by layer.

    Attributes:
        title: Language and model of both tables, or `two tables`.
        names: Where the two come from.
        pairs: Number of pairs that each was made from, if known.
        rows: One for each layer.
        spearman: Rank correlation of F1 over the layers; None if it is not defined.
        apart: The two languages or models, if they are known to differ.
        naive: The sides, A and B, whose errors are those of independent pairs.
    """

    title: str
    names: tuple[str, str]
    pairs: tuple[int | None, int | None]
    rows: tuple[LayerDifference, ...]
    spearman: float | None
    apart: str = ""
    naive: tuple[str, ...] = ()

    @property
    def largest(self) -> tuple[int, str, float]:
        """Layer, measure and value of the largest difference; of equal ones the first."""
        return max(
            (
                (row.layer, measure, difference)
                for row in self.rows
                for measure, difference in zip(MEASURES, row.differences, strict=True)
            ),
            key=lambda found: abs(found[2]),
        )

    @property
    def is_large(self) -> bool:
        """Tell whether the largest difference is more than different web text would explain."""
        return abs(self.largest[2]) > LARGE_DIFFERENCE

    @property
    def verdict(self) -> str:
        """Say in words what the differences mean."""
        if abs(self.largest[2]) <= _ROUNDING:
            return "the same numbers"
        away = [abs(one) for row in self.rows for one in row.in_errors if one is not None]
        if not away:
            words = "no standard errors are known to compare the differences with"
        elif max(away) <= _FEW_ERRORS:
            words = "agree within error"
        else:
            words = "differ by more than the sampling error: " + (
                self.apart or "other text (crawl, filters, years) or another way of scoring"
            )
        if self.is_large and not self.apart:
            words += (
                f"; by more than {LARGE_DIFFERENCE}, which other web text seldom explains: check "
                "the language, the model and the settings"
            )
        if away and self.naive:
            words += (
                f"; the errors of {' and '.join(self.naive)} do not allow for sentences of one host"
            )
        return words


def compare_sides(first: Side, second: Side) -> list[Comparison]:
    """Compare two tables, or all tables that two sides both have.

    Raises:
        ConfigError: they have nothing in common, or tables have different numbers of layers.
    """
    if first.one is not None and second.one is not None:
        # Two single tables are compared whatever their languages and models.
        shared = sorted(first.tables.keys() & second.tables.keys())
        apart = "" if shared else _apart(first, second)
        title = "/".join(shared[0]) if shared else f"two tables{apart and ': '}{apart}"
        return [compare_tables(first.one, second.one, title, apart)]
    common = sorted(first.tables.keys() & second.tables.keys())
    if not common:
        raise ConfigError(
            f"{first.name!r} and {second.name!r} have no language and model in common: the first "
            f"has {listed(map('/'.join, first.tables))}; the second "
            f"{listed(map('/'.join, second.tables))}. {_published_for(first, second)}Name those of "
            "a single table with --language and --model."
        )
    return [
        compare_tables(first.tables[key](), second.tables[key](), "/".join(key)) for key in common
    ]


def _apart(first: Side, second: Side) -> str:
    """Say which languages or models two single tables have, if they are known to differ.

    That is known from their descriptions, or from the names of their folders: different language
    codes, the same model.
    """
    own = [side.one.key if side.one else None for side in (first, second)]
    if own[0] and own[1]:
        a, b = ("/".join(own[0]), "/".join(own[1]))
        if own[0][1] == own[1][1]:
            a, b = own[0][0], own[1][0]
        return f"A is {a}, B is {b}"
    found = [
        (one, other)
        for one, model in first.tables
        for other, its in second.tables
        if model == its and one != other and _CODE.fullmatch(one) and _CODE.fullmatch(other)
    ]
    return f"A is {found[0][0]}, B is {found[0][1]}" if found else ""


def _published_for(first: Side, second: Side) -> str:
    """Say which tables are published for the models of one side if the other is `published`."""
    if PUBLISHED not in (first.name, second.name):
        return ""
    models = sorted({model for _, model in (second if first.name == PUBLISHED else first).tables})
    words = [
        f"{model}: {listed(code for code, its in published_baselines() if its == model)}"
        for model in models[:_MODELS]
    ]
    return f"Languages with a published table for {'; for '.join(words)}. "


def compare_tables(first: Table, second: Table, title: str, apart: str = "") -> Comparison:
    """Compare two tables layer by layer.

    The errors of the two tables are treated as independent; tables from the same pairs differ by
    less. A table without a description counts as exact. If a description has no error, as for a
    single pair, the error of the difference is not known either.

    Raises:
        ConfigError: they have different numbers of layers.
    """
    if len(first.rows) != len(second.rows):
        raise ConfigError(
            f"tables of different depth cannot be compared: {first.name} has layers 0 to "
            f"{len(first.rows) - 1}, {second.name} 0 to {len(second.rows) - 1}; expected the same "
            "model. Compare tables of one model."
        )
    naive = tuple(
        side
        for side, table in zip("AB", (first, second), strict=True)
        if table.is_described and not table.knows_hosts
    )
    squares = np.stack([first.errors, second.errors]) ** 2
    missing = [np.isnan(table.errors) for table in (first, second)]
    unknown = missing[0] & missing[1]
    for table, lacks in zip((first, second), missing, strict=True):
        unknown |= lacks & table.is_described
    errors = np.where(unknown, np.nan, np.sqrt(np.nansum(squares, axis=0)))
    return Comparison(
        title=title,
        apart=apart,
        naive=naive,
        names=(first.name, second.name),
        pairs=(first.pairs, second.pairs),
        rows=tuple(
            LayerDifference(
                layer=layer,
                first=tuple(first.rows[layer].tolist()),
                second=tuple(second.rows[layer].tolist()),
                errors=tuple(None if np.isnan(one) else float(one) for one in errors[layer]),
            )
            for layer in range(len(first.rows))
        ),
        spearman=rank_correlation(first.rows[:, 2], second.rows[:, 2]),
    )


def rank_correlation(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> float | None:
    """Return Spearman's rank correlation. Equal values share their mean rank.

    Args:
        first: Values. Shape (N,).
        second: Values. Shape (N,).

    Returns:
        A number from -1 to 1; None if all values of a side are equal: it is not defined then.
    """
    ranks = [_ranks(values) - (len(values) + 1) / 2 for values in (first, second)]
    scale = math.sqrt(float(np.sum(ranks[0] ** 2) * np.sum(ranks[1] ** 2)))
    return float(np.sum(ranks[0] * ranks[1])) / scale if scale else None


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ranks from 1; equal values get their mean rank. Shape (N,)."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[where]
    return ranks
