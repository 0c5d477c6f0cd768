"""Turn benchmark results into tables, as in tests/benchmarks/RESULTS.md.

    python -m tests.benchmarks table build/bench/*.jsonl > tables.md

One table for each benchmark and model, in the order in which they were measured. Of results for the
same thing the latest counts. The machine stands once above the tables measured on it.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

HEADINGS = {"n": "pairs", "ratio": "x", "pairs_per_second": "pairs/s"}
"""Columns that are not called as their fields are."""

_HIDDEN = {"benchmark", "model", "what", "machine", "all_seconds", "why", "f1_mean", "f1_bias"}
_OF_A_RUN = ("peer", "date")
_PERCENT = ("share", "padding", "overhead", "busy")


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the lines of all files; of equal measurements the latest is kept."""
    latest: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in paths:
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            key = tuple(str(line.get(name)) for name in ("benchmark", "model", "what", "n"))
            latest.pop(key, None)  # so that it moves to the end, beside its own run
            latest[key] = line
    return list(latest.values())


def to_markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return the tables."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in results:
        facts = line["machine"].items()
        where = ", ".join(f"{name} {value}" for name, value in facts if name not in _OF_A_RUN)
        groups.setdefault((where, line["benchmark"], line["model"]), []).append(line)
    blocks: list[str] = []
    for (where, benchmark, model), lines in sorted(groups.items(), key=lambda item: item[0][0]):
        blocks += [] if where in blocks else [where]
        blocks.append(f"## {benchmark}" if model == "-" else f"## {benchmark}: {model}")
        blocks.append(_table(lines))
    return "\n\n".join(blocks) + "\n"


def _table(lines: Sequence[dict[str, Any]]) -> str:
    shown = [name for name in dict.fromkeys(chain(*lines)) if name not in _HIDDEN]
    rows = [["", *(HEADINGS.get(name, name.replace("_", " ")) for name in shown)]]
    rows.append(["---"] * len(rows[0]))
    rows += [[line["what"], *(_cell(name, line.get(name)) for name in shown)] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | bool | list | dict):
        return str(value).replace("|", "\\|").replace("\n", " ")
    if name.startswith(_PERCENT):
        return f"{100 * value:.0f}%" if abs(value) >= 0.1 else f"{100 * value:.1f}%"
    if name.startswith(("f1_", "drift_")):
        return f"{value:.1e}"
    if name == "n" or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
