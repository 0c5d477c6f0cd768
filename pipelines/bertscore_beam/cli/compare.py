"""`bertscore-beam baseline compare`: compare two baseline tables, or those of two folders."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bertscore_beam.cli.show import answer
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.write import write_atomically
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.run.outcome import Shown
from bertscore_beam.tables.difference import Comparison, compare_sides
from bertscore_beam.tables.sides import PUBLISHED, listed, open_side
from bertscore_core.errors import ConfigError


def compare_command(arguments: Sequence[str]) -> int:
    """Compare two tables, or the tables that two folders both have, and print the result.

    Raises:
        ConfigError: A table is missing or damaged, or the two have nothing in common.
    """
    parsed = _parse(arguments)
    first, second = (
        open_side(given, parsed.language, parsed.model) for given in (parsed.a, parsed.b)
    )
    comparisons = compare_sides(first, second)
    if parsed.picture is not None:
        _write_picture(parsed.picture, comparisons)
    return answer(
        [describe_comparison(one) for one in comparisons],
        [shown for one in comparisons for shown in show_comparison(one)],
    )


def _parse(arguments: Sequence[str]) -> Any:
    parser = StrictParser(
        prog="bertscore-beam baseline compare",
        description="Compare two baseline tables, or the common tables of two folders.",
        allow_abbrev=False,
    )
    what = f"a table, the output folder of a baseline job, or the word {PUBLISHED!r}"
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help="the same; differences are B - A")
    parser.add_argument("--language", metavar="CODE", help="compare this language only")
    parser.add_argument("--model", metavar="NAME", help="compare this model only")
    parser.add_argument("--picture", metavar="FILE.png", help="draw one comparison as well")
    parsed = parser.parse_strictly(arguments)
    if parsed.picture is not None and not parsed.picture.endswith(".png"):
        raise ConfigError(
            f"--picture cannot be written: got {mask_credentials(parsed.picture)!r}; expected a "
            "name that ends in .png. Rename it."
        )
    return parsed


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values."""
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
    """Return what to show: the two sides, the layers, the result."""
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
    """Draw a comparison; raise if there are several."""
    if len(comparisons) > 1:
        raise ConfigError(
            f"a picture shows one comparison: got {len(comparisons)}, "
            f"{listed(one.title for one in comparisons)}. Choose one with --language and --model."
        )
    try:
        from bertscore_beam.tables.picture import draw_comparison
    except ImportError as error:
        raise ConfigError(
            f"no picture can be drawn ({error}); expected the packages of the extra 'baseline'. "
            "Install it, or leave out --picture."
        ) from error
    one = comparisons[0]
    write_atomically(path, draw_comparison(one.rows, one.title, one.names))
