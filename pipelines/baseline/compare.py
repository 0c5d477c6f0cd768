"""`bertscore-beam baseline compare`: two baseline tables, or all that two folders both have."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.baseline import published_baselines
from bertscore_core.errors import ConfigError
from pipelines.baseline.sides import MEASURES, PUBLISHED, Side, Table, listed, open_side
from pipelines.flags import StrictParser, unknown_flag
from pipelines.io.files import mask_credentials, write_atomically
from pipelines.report import Shown, show
from pipelines.streams import printed

LARGE_DIFFERENCE = 0.03
"""Other web text of one language is seldom this far apart; two languages often are."""

_FEW_ERRORS = 4.0
"""Standard errors that sampling may put between two tables at their worst layer and measure."""
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
        errors: Standard errors of second - first, from those that are known; None where none is.
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
        """The differences in standard errors; None where none is known, or it is 0."""
        return tuple(
            difference / error if error else None
            for difference, error in zip(self.differences, self.errors, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two tables, layer by layer.

    Attributes:
        title: Language and model of both, or what else they have in common.
        names: Where the two come from.
        pairs: Pairs each was made from, if known.
        rows: One a layer.
        spearman: Rank correlation of F1 over the layers; None if it is not defined.
        apart: What they are tables of, where that is known to differ.
    """

    title: str
    names: tuple[str, str]
    pairs: tuple[int | None, int | None]
    rows: tuple[LayerDifference, ...]
    spearman: float | None
    apart: str = ""

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
        """Tell whether the largest difference is beyond what other web text would explain."""
        return abs(self.largest[2]) > LARGE_DIFFERENCE

    @property
    def verdict(self) -> str:
        """Say in words what the differences come to."""
        away = [abs(one) for row in self.rows for one in row.in_errors if one is not None]
        if abs(self.largest[2]) <= _ROUNDING:
            words = "the same numbers"
        elif not away:
            words = "no standard errors are known to hold the differences against"
        elif max(away) <= _FEW_ERRORS:
            words = "agree within error"
        else:
            words = "differ more than sampling error says: " + (
                self.apart or "other text (crawl, filters, years) or another way of scoring"
            )
        if self.is_large and not self.apart:
            words += (
                f"; beyond {LARGE_DIFFERENCE}, which other web text seldom explains: look at the "
                "language, the model and the settings"
            )
        return words


def compare_command(arguments: Sequence[str]) -> int:
    """Compare two tables, or the tables of two folders, and print what was found.

    Raises:
        ConfigError: a table is missing or damaged, or the two have nothing in common.
    """
    parsed = _parse(arguments)
    first, second = (
        open_side(given, parsed.language, parsed.model) for given in (parsed.a, parsed.b)
    )
    comparisons = compare_sides(first, second)
    if parsed.picture is not None:
        _write_picture(parsed.picture, comparisons)
    if parsed.json:
        print(json.dumps([describe_comparison(one) for one in comparisons]))
        return printed()
    for comparison in comparisons:
        for shown in show_comparison(comparison):
            show(shown)
    return printed()


def _parse(arguments: Sequence[str]) -> Any:
    parser = StrictParser(
        prog="bertscore-beam baseline compare",
        description="Compare two baseline tables, or all that two folders both have.",
        allow_abbrev=False,
    )
    what = f"a table, the output folder of a baseline job, or the word {PUBLISHED!r}"
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help="the same; differences are B - A")
    parser.add_argument("--language", metavar="CODE", help="compare this language only")
    parser.add_argument("--model", metavar="NAME", help="compare this model only")
    parser.add_argument("--picture", metavar="FILE.png", help="draw one comparison as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise unknown_flag(unknown[0], parser)
    if parsed.picture is not None and not parsed.picture.endswith(".png"):
        raise ConfigError(
            f"--picture cannot be written: got {mask_credentials(parsed.picture)!r}; expected a "
            "name that ends in .png. Rename it."
        )
    return parsed


def compare_sides(first: Side, second: Side) -> list[Comparison]:
    """Compare one table with one, or whatever two sides both have.

    Raises:
        ConfigError: they have nothing in common, or tables have different numbers of layers.
    """
    if first.one is not None and second.one is not None:
        # As given, whatever they are tables of.
        shared = sorted(first.tables.keys() & second.tables.keys())
        apart = "" if shared else _apart(first, second)
        title = "/".join(shared[0]) if shared else f"two tables{apart and ': '}{apart}"
        return [compare_tables(first.one, second.one, title, apart)]
    common = sorted(first.tables.keys() & second.tables.keys())
    if not common:
        raise ConfigError(
            f"{first.name!r} and {second.name!r} have no language and model in common: the first "
            f"has {listed(map('/'.join, first.tables))}; the second "
            f"{listed(map('/'.join, second.tables))}. {_published_for(first, second)}Name a lone "
            "table's with --language and --model."
        )
    return [
        compare_tables(first.tables[key](), second.tables[key](), "/".join(key)) for key in common
    ]


def _apart(first: Side, second: Side) -> str:
    """Say which languages or models two lone tables are of, where it is plain that they differ.

    A description says so, and folders named by a language's two letters around the same model.
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
    """Say which tables are published for the models of a side, if the other is `published`."""
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

    The errors of the two are taken as independent. Tables made from the same pairs differ less
    than that says. Those of a table without description count as nothing; those that a description
    leaves open, as that of a single pair does, leave the difference's open as well.

    Raises:
        ConfigError: they have different numbers of layers.
    """
    if len(first.rows) != len(second.rows):
        raise ConfigError(
            f"tables of different depth cannot be compared: {first.name} has layers 0 to "
            f"{len(first.rows) - 1}, {second.name} 0 to {len(second.rows) - 1}; expected the same "
            "model. Compare tables of one model."
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
    """Return Spearman's rank correlation, equal values sharing their mean rank.

    Args:
        first: Values. Shape (N,).
        second: Values. Shape (N,).

    Returns:
        A number from -1 to 1; None if all values of a side are equal, where it is not defined.
    """
    ranks = [_ranks(values) - (len(values) + 1) / 2 for values in (first, second)]
    scale = math.sqrt(float(np.sum(ranks[0] ** 2) * np.sum(ranks[1] ** 2)))
    return float(np.sum(ranks[0] * ranks[1])) / scale if scale else None


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ranks from 1, the mean of their places for equal values. Shape (N,)."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[where]
    return ranks


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison in plain values."""
    layer, measure, difference = comparison.largest
    return {
        "title": comparison.title,
        "names": list(comparison.names),
        "pairs": list(comparison.pairs),
        "layers": [
            asdict(row) | {"differences": row.differences, "in_errors": row.in_errors}
            for row in comparison.rows
        ],
        "largest_difference": {"layer": layer, "measure": measure, "difference": difference},
        "spearman": comparison.spearman,
        "is_large": comparison.is_large,
        "verdict": comparison.verdict,
    }


def show_comparison(comparison: Comparison) -> list[Shown]:
    """Show what is compared, the layers, and what it comes to."""
    columns = ("layer", "F1 A", "F1 B", "P: B-A", "R: B-A", "F1: B-A", "error of F1", "in errors")
    layers = [
        (
            str(row.layer),
            f"{row.first[2]:.6f}",
            f"{row.second[2]:.6f}",
            *(f"{difference:+.6f}" for difference in row.differences),
            "" if row.errors[2] is None else f"{row.errors[2]:.6f}",
            "" if row.in_errors[2] is None else f"{row.in_errors[2]:+.1f}",
        )
        for row in comparison.rows
    ]
    sides: list[tuple[str, ...]] = [
        (side, name if pairs is None else f"{name} ({pairs:,} pairs)")
        for side, name, pairs in zip("AB", comparison.names, comparison.pairs, strict=True)
    ]
    layer, measure, difference = comparison.largest
    spearman = comparison.spearman
    found: list[tuple[str, ...]] = [
        ("largest difference", f"{difference:+.6f} ({measure}, layer {layer})"),
        ("Spearman over layers", "not defined" if spearman is None else f"{spearman:.4f}"),
        ("verdict", comparison.verdict),
    ]
    return [
        Shown(comparison.title, ("", ""), sides),
        Shown("Layers", columns, layers),
        Shown("Result", ("", ""), found),
    ]


def _write_picture(path: str, comparisons: Sequence[Comparison]) -> None:
    """Draw the only comparison."""
    if len(comparisons) > 1:
        raise ConfigError(
            f"a picture shows one comparison: got {len(comparisons)}, "
            f"{listed(one.title for one in comparisons)}. Choose one with --language and --model."
        )
    try:
        from pipelines.baseline.picture import draw_comparison
    except ImportError as error:
        raise ConfigError(
            f"no picture can be drawn ({error}); expected the packages of the extra 'baseline'. "
            "Install it, or leave out --picture."
        ) from error
    one = comparisons[0]
    write_atomically(path, draw_comparison(one.rows, one.title, one.names))
