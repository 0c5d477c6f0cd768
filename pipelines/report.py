"""What is shown to a person: the plan before a run, the result after it, the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscore_core import (
    EMBEDDED_MODEL,
    known_languages,
    known_models,
    published_baselines,
)
from pipelines.planning import grouped
from pipelines.printing import escape_line

if TYPE_CHECKING:
    from pipelines.prepare import ScoreJob

SHOWN_FILES = 10


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of text under a title; the columns are "" where they need no heading."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def show(shown: Shown) -> None:
    """Print a table on a terminal; elsewhere plain lines, a heading first if there is one.

    Cells are shown as they are, except characters that control a terminal: rich would take brackets
    in a path for markup. In plain lines tabs separate the cells, or a colon if they are a name and
    its value.
    """
    console = Console()
    headed = any(shown.columns)
    if not console.is_terminal:
        separator = "\t" if headed or len(shown.columns) > 2 else ": "
        for row in [shown.columns, *shown.rows] if headed else shown.rows:
            print(separator.join(map(escape_line, row)))
        return
    title = Text(escape_line(shown.title), style="table.title")
    table = Table(title=title, title_justify="left", show_header=headed)
    for column in shown.columns:
        table.add_column(column, overflow="fold")
    for row in shown.rows:
        table.add_row(*(Text(escape_line(cell)) for cell in row))
    console.print(table)


def show_plan(job: "ScoreJob", estimated: str) -> Shown:
    """Show what a run would do."""
    rows = {
        "model": job.signature.model,
        "layer": job.signature.num_layers,
        "input files": f"{job.goal.files:,}",
        "files rejected": f"{job.goal.num_rejected_files:,}",
        "rows": f"{job.goal.rows:,}"
        + ("" if job.goal.rows >= job.goal.min_rows else f", fewer than {job.goal.min_rows:,}"),
        "splits": f"{job.goal.parts:,}",
        "splits done earlier": f"{job.goal.carried.parts:,}",
        "earlier parts to be deleted": f"{len(job.superseded):,}",
        "rows to score": f"{sum(split.num_rows for split in job.pending):,}",
        "rows to compare first": f"{sum(split.num_rows for split in job.unsure):,}",
        "estimated time": estimated,
        "idf": _idf_words(job),
        "output": job.output,
        "signature": job.signature.format(),
    }
    listed = _rejected_rows(job.goal.rejected_files, job.goal.num_rejected_files)
    return Shown("Plan", ("", ""), [*rows.items(), *listed])


def _rejected_rows(rejected: Mapping[str, str], total: int) -> list[tuple[str, ...]]:
    """Show which files were rejected, those with the same message in one row.

    Args:
        rejected: The message by path, of some of them.
        total: How many there are.
    """
    lines = grouped(list(rejected.items()))[:SHOWN_FILES]
    if total > len(rejected):
        lines.append(f"{total - len(rejected):,} more that are not named here")
    return [("file rejected", line) for line in lines]


def show_summary(summary: Mapping[str, Any], output: str) -> Shown:
    """Show the result of a run."""
    rows: list[tuple[str, ...]] = []
    for name in ("precision", "recall", "f1"):
        value = summary[name]
        rows.append((name, "none scored" if value is None else f"{value:.6f}"))
    rows.append(("rows", f"{summary['rows']:,}"))
    rows.append(("scored", f"{summary['scored']:,}"))
    rows += [(f"  {reason}", f"{number:,}") for reason, number in summary["reasons"].items()]
    rows.append(("truncated", f"{summary['truncated']:,} ({summary['truncated_fraction']:.2%})"))
    if summary["num_parts_of_inputs_gone"]:
        rows.append(("parts of inputs gone", f"{summary['num_parts_of_inputs_gone']:,}"))
    rows += _rejected_rows(summary["rejected_files"], summary["num_rejected_files"])
    failed = list(summary["failures"].items())[:SHOWN_FILES]
    rows += [("split failed", f"{part}: {message}") for part, message in failed]
    rows.append(("parts", _parts_words(summary)))
    rows.append(("seconds", f"{summary['seconds']:.1f}"))
    if summary["pairs_per_second"] is not None:
        rows.append(("pairs per second", f"{summary['pairs_per_second']:.1f}"))
    rows.append(("output", output))
    rows.append(("signature", summary["signature"]))
    return Shown("BERTScore", ("", ""), rows)


def truncated_words(summary: Mapping[str, Any], max_length: str) -> str | None:
    """Say how many rows hold a text that was cut, and where; None without any."""
    if not summary["truncated"]:
        return None
    return (
        f"{summary['truncated']:,} of {summary['scored']:,} scored rows "
        f"({summary['truncated_fraction']:.2%}) hold a text that was cut at {max_length} tokens: "
        "what comes after is not in their scores. The column bertscore_truncated marks them."
    )


def gate_words(summary: Mapping[str, Any], rejects: str) -> list[str]:
    """For each gate that a run did not pass, say what it got and expected, and what helps.

    Args:
        summary: The result of the run.
        rejects: Folder in which the rejects are listed.
    """
    return [_GATES[name](summary, rejects) for name in summary["failed_gates"]]


def _gone_words(summary: Mapping[str, Any], _: str) -> str:
    return (
        f"the output holds {summary['num_parts_of_inputs_gone']} part(s) of inputs that are not "
        f"given any more, such as {summary['parts_of_inputs_gone'][0]!r}; expected none. Delete "
        "them with --overwrite, or use another --output."
    )


def few_rows_words(rows: int, min_rows: int) -> str:
    """Say that the input has too few rows."""
    return (
        f"the input has {rows:,} rows; expected at least {min_rows:,} (--min-rows). Look after "
        "what writes it"
        + (", or give --min-rows 0 if an empty input is fine." if not rows else ".")
    )


def _reject_words(summary: Mapping[str, Any], rejects: str) -> str:
    return (
        f"{summary['reject_fraction']:.2%} of the rows or files have no score, more than "
        f"--max-reject-fraction {summary['max_reject_fraction']:.2%} allows. They are listed in "
        f"{rejects}."
    )


def _truncation_words(summary: Mapping[str, Any], _: str) -> str:
    return (
        f"{summary['truncated_fraction']:.2%} of the scored rows hold a text that was cut, more "
        f"than --max-truncated-fraction {summary['max_truncated_fraction']:.2%} allows. Shorten "
        "the texts, or score them with a model that takes longer ones."
    )


_GATES: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "parts_of_inputs_gone": _gone_words,
    "min_rows": lambda summary, _: few_rows_words(summary["planned_rows"], summary["min_rows"]),
    "max_reject_fraction": _reject_words,
    "max_truncated_fraction": _truncation_words,
}


def _parts_words(summary: Mapping[str, Any]) -> str:
    """Say how many parts there are, and how many of them are not of this run."""
    others = {
        "earlier": summary["parts_of_earlier_runs"],
        "compared and kept": summary["parts_kept"],
        "written again with their scores": summary["parts_rewritten"],
    }
    said = [f"{number:,} {words}" for words, number in others.items() if number]
    return f"{summary['parts']:,}" + (f" ({', '.join(said)})" if said else "")


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


def show_registry() -> Shown:
    """Show the registry."""
    rows: list[tuple[str, ...]] = []
    for row in registry_rows():
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


def _shorten(words: list[str]) -> str:
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:11])} and more"


def _idf_words(job: "ScoreJob") -> str:
    if job.idf_path is None:
        return "none"
    if job.compare_idf:
        return "table of an earlier run, counted again should a reference have changed"
    return "to be counted over all references" if job.count_idf else f"table {job.idf_path}"
