"""`bertscore-beam baseline compare` and `models`: tables that are not of a run."""

from typing import Any

from bertscore_beam.baseline import compare_sides, open_side
from bertscore_beam.cli.show import answer
from bertscore_beam.options import ModelsOptions, TablesOptions
from bertscore_beam.run import Shown
from bertscore_core import EMBEDDED_MODEL, known_languages, known_models, published_baselines


def compare_tables(options: TablesOptions) -> int:
    """Compare two tables, or the tables that two folders both have, and print the result."""
    first, second = (
        open_side(side, options.language, options.model) for side in (options.a, options.b)
    )
    comparisons = compare_sides(first, second)
    return answer(
        comparisons,
        [shown for comparison in comparisons for shown in show_comparison(comparison)],
    )


def show_comparison(comparison: dict[str, Any]) -> list[Shown]:
    """Return what to show: the two sides, the layers, the result."""
    columns = ("layer", "F1 A", "F1 B", "P: B-A", "R: B-A", "F1: B-A", "error of F1", "in errors")
    layers = [
        (
            str(row["layer"]),
            f"{row['first'][2]:.6f}",
            f"{row['second'][2]:.6f}",
            *(f"{difference:+.6f}" for difference in row["differences"]),
            "" if row["errors"][2] is None else f"{row['errors'][2]:.6f}",
            "" if row["in_errors"][2] is None else f"{row['in_errors'][2]:+.1f}",
        )
        for row in comparison["layers"]
    ]
    sides: list[tuple[str, ...]] = [
        (side, name if pairs is None else f"{name} ({pairs:,} pairs)")
        for side, name, pairs in zip("AB", comparison["names"], comparison["pairs"], strict=True)
    ]
    largest, spearman = comparison["largest_difference"], comparison["spearman"]
    result: list[tuple[str, ...]] = [
        (
            "largest difference",
            f"{largest['difference']:+.6f} ({largest['measure']}, layer {largest['layer']})",
        ),
        ("Spearman over layers", "not defined" if spearman is None else f"{spearman:.4f}"),
        ("verdict", comparison["verdict"]),
    ]
    return [
        Shown(comparison["title"], ("", ""), sides),
        Shown("Layers", columns, layers),
        Shown("Result", ("", ""), result),
    ]


def print_models(_options: ModelsOptions) -> int:
    """Print the registry."""
    document = {"models": registry_rows(), "languages": dict(known_languages())}
    return answer(document, [show_registry(), show_untuned()])


def registry_rows() -> list[dict[str, Any]]:
    """Return the registry as one mapping for each model. `num_layers` is None if untuned."""
    languages: dict[str, list[str]] = {}
    for language, model in known_languages().items():
        languages.setdefault(model, []).append(language)
    baselines: dict[str, list[str]] = {}
    for language, model in published_baselines():
        baselines.setdefault(model, []).append(language)
    return [
        {
            "name": spec.name,
            "num_layers": spec.num_layers,
            "adds_prefix_space": spec.adds_prefix_space,
            "wmt16_pearson": spec.wmt16_pearson,
            "depth": spec.depth,
            "own_code": spec.own_code,
            "note": spec.note,
            "default_for": languages.get(spec.name, []),
            "baselines": baselines.get(spec.name, []),
            "embedded": spec.name == EMBEDDED_MODEL,
        }
        for spec in known_models()
    ]


def show_registry() -> Shown:
    """Return the models with a tuned layer as a table."""
    rows: list[tuple[str, ...]] = []
    for row in registry_rows():
        if row["num_layers"] is None:
            continue
        pearson = row["wmt16_pearson"]
        rows.append(
            (
                row["name"] + (" (embedded default)" if row["embedded"] else ""),
                str(row["num_layers"]),
                "" if pearson is None else f"{pearson:.3f}",
                _shorten(row["default_for"]),
                _shorten(row["baselines"]),
            )
        )
    columns = ("name", "layer", "WMT16 Pearson", "default for", "published baselines")
    return Shown("Models", columns, rows)


def show_untuned() -> Shown:
    """Return the models that need `--num-layers` as a table."""
    rows: list[tuple[str, ...]] = [
        (
            spec.name,
            f"1 to {spec.depth}",
            ("needs code of its own, which is not run; " if spec.own_code else "") + spec.note,
        )
        for spec in known_models()
        if spec.num_layers is None
    ]
    columns = ("name of a model without a tuned layer", "give --num-layers", "note")
    return Shown("Models without a tuned layer", columns, rows)


def _shorten(words: list[str]) -> str:
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:11])} and more"
