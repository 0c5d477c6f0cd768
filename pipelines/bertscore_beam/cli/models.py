"""`bertscore-beam models`: the registry of models."""

from collections.abc import Sequence
from typing import Any

from bertscore_beam.cli.show import answer
from bertscore_beam.options.flags import StrictParser
from bertscore_beam.run.outcome import Shown
from bertscore_core import EMBEDDED_MODEL, known_languages, known_models, published_baselines


def models_command(arguments: Sequence[str]) -> int:
    """Print the registry."""
    parser = StrictParser(
        prog="bertscore-beam models",
        description="Print the registry of models: names, layers, languages and baselines.",
        allow_abbrev=False,
    )
    parser.parse_strictly(arguments)
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
