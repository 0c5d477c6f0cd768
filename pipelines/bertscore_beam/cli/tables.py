"""`bertscore-beam baseline compare` and `models`: tables that are not of a run."""

from collections import defaultdict
from dataclasses import asdict

from bertscore_beam.baseline.table_difference import TableDifference, compare_sides, open_side
from bertscore_beam.cli.show import report
from bertscore_beam.options.answer_options import ModelsOptions, TablesOptions
from bertscore_beam.run.output import Outcome, TextTable
from bertscore_core.baseline import published_baselines
from bertscore_core.registry import EMBEDDED_MODEL, known_languages, known_models


def compare_tables(options: TablesOptions) -> int:
    """Compare two tables, or the tables that two folders both have, and print the result."""
    first, second = (
        open_side(side, options.language, options.model) for side in (options.a, options.b)
    )
    found = compare_sides(first, second)
    shown = tuple(table for comparison in found for table in _shown(comparison))
    return report(Outcome(document=[*map(asdict, found)], shown=shown, is_answer=True))


def _shown(comparison: TableDifference) -> list[TextTable]:
    """Return what to show: the two sides, the layers, the result."""
    columns = ("layer", "F1 A", "F1 B", "P: B-A", "R: B-A", "F1: B-A", "error of F1", "in errors")
    layers = [
        (
            str(row.layer),
            f"{row.first[2]:.6f}",
            f"{row.second[2]:.6f}",
            *(f"{difference:+.6f}" for difference in row.differences),
            _or_none("{:.6f}", row.errors[2]),
            _or_none("{:+.1f}", row.in_errors[2]),
        )
        for row in comparison.layers
    ]
    sides: list[tuple[str, ...]] = [
        (side, name + _or_none(" ({:,} pairs)", pairs))
        for side, name, pairs in zip("AB", comparison.names, comparison.pairs, strict=True)
    ]
    largest = comparison.largest_difference
    result: list[tuple[str, ...]] = [
        (
            "largest difference",
            f"{largest.difference:+.6f} ({largest.measure}, layer {largest.layer})",
        ),
        ("Spearman over layers", _or_none("{:.4f}", comparison.spearman) or "not defined"),
        ("verdict", comparison.verdict),
    ]
    return [
        TextTable(comparison.title, ("", ""), sides),
        TextTable("Layers", columns, layers),
        TextTable("Result", ("", ""), result),
    ]


def _or_none(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def print_models(_options: ModelsOptions) -> int:
    """Print the registry, which names no layer of a model that nobody has tuned."""
    languages, baselines = defaultdict(list), defaultdict(list)
    for language, model in known_languages().items():
        languages[model].append(language)
    for language, model in published_baselines():
        baselines[model].append(language)
    models = [
        {
            **{name: value for name, value in asdict(spec).items() if name != "max_length"},
            "default_for": languages[spec.name],
            "baselines": baselines[spec.name],
            "embedded": spec.name == EMBEDDED_MODEL,
        }
        for spec in known_models()
    ]
    tuned: list[tuple[str, ...]] = [
        (
            row["name"] + (" (embedded default)" if row["embedded"] else ""),
            str(row["num_layers"]),
            _or_none("{:.3f}", row["wmt16_pearson"]),
            _shorten(row["default_for"]),
            _shorten(row["baselines"]),
        )
        for row in models
        if row["num_layers"] is not None
    ]
    untuned: list[tuple[str, ...]] = [
        (
            row["name"],
            f"1 to {row['depth']}",
            ("needs code of its own, which is not run; " if row["own_code"] else "") + row["note"],
        )
        for row in models
        if row["num_layers"] is None
    ]
    columns = ("name", "layer", "WMT16 Pearson", "default for", "published baselines")
    others = ("name of a model without a tuned layer", "give --num-layers", "note")
    shown = (
        TextTable("Models", columns, tuned),
        TextTable("Models without a tuned layer", others, untuned),
    )
    document = {"models": models, "languages": dict(known_languages())}
    return report(Outcome(document=document, shown=shown, is_answer=True))


def _shorten(words: list[str]) -> str:
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:11])} and more"
