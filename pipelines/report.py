"""What is shown to a person: the plan before a run, the result after it, the registry."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from bertscore_core import (
    EMBEDDED_MODEL,
    known_languages,
    known_models,
    published_baselines,
)
from pipelines.score import ScoreJob

SHOWN_FILES = 10


def plan_table(job: ScoreJob) -> Table:
    """Show what a run would do."""
    table = _two_columns("Plan")
    rows = {
        "model": job.signature.model,
        "layer": job.signature.num_layers,
        "input files": f"{job.goal.files:,}",
        "files set aside": f"{job.goal.num_rejected_files:,}",
        "rows": f"{job.goal.rows:,}",
        "splits": f"{job.goal.parts:,}",
        "splits done earlier": f"{job.goal.carried.parts:,}",
        "rows to score": f"{sum(split.num_rows for split in job.pending):,}",
        "idf": _idf_words(job),
        "output": job.output,
        "signature": job.signature.format(),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    for path, message in list(job.goal.rejected_files.items())[:SHOWN_FILES]:
        table.add_row("set aside", f"{path}: {message}")
    return table


def summary_table(summary: Mapping[str, Any], output: str) -> Table:
    """Show what a run came to."""
    table = _two_columns("BERTScore")
    for name in ("precision", "recall", "f1"):
        value = summary[name]
        table.add_row(name, "none scored" if value is None else f"{value:.6f}")
    table.add_row("rows", f"{summary['rows']:,}")
    table.add_row("scored", f"{summary['scored']:,}")
    for reason, number in summary["reasons"].items():
        table.add_row(f"  {reason}", f"{number:,}")
    if summary["num_parts_of_inputs_gone"]:
        table.add_row("parts of inputs gone", f"{summary['num_parts_of_inputs_gone']:,}")
    for path, message in list(summary["rejected_files"].items())[:SHOWN_FILES]:
        table.add_row("file set aside", f"{path}: {message}")
    for part, message in list(summary["failures"].items())[:SHOWN_FILES]:
        table.add_row("split failed", f"{part}: {message}")
    table.add_row("parts", f"{summary['parts']:,} ({summary['parts_of_earlier_runs']:,} earlier)")
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    rate = summary["pairs_per_second"]
    table.add_row("pairs per second", "" if rate is None else f"{rate:.1f}")
    table.add_row("output", output)
    table.add_row("signature", summary["signature"])
    return table


def registry_rows() -> list[dict[str, Any]]:
    """Return the registry, a mapping a model."""
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
            "default_for": languages.get(spec.name, []),
            "baselines": baselines.get(spec.name, []),
            "embedded": spec.name == EMBEDDED_MODEL,
        }
        for spec in known_models()
    ]


def registry_table() -> Table:
    """Show the registry."""
    table = Table(title="Models", title_justify="left")
    for title in ("name", "layer", "WMT16 Pearson", "default for", "published baselines"):
        table.add_column(title, overflow="fold")
    for row in registry_rows():
        pearson = row["wmt16_pearson"]
        table.add_row(
            row["name"] + (" (embedded default)" if row["embedded"] else ""),
            str(row["num_layers"]),
            "" if pearson is None else f"{pearson:.3f}",
            _shorten(row["default_for"]),
            _shorten(row["baselines"]),
        )
    return table


def _shorten(words: list[str]) -> str:
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:11])} and more"


def _idf_words(job: ScoreJob) -> str:
    if job.idf_path is None:
        return "none"
    return "to be counted over all references" if job.count_idf else f"table {job.idf_path}"


def _two_columns(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
