"""Turn benchmark results into tables, as in tests/benchmarks/RESULTS.md.

    python -m tests.benchmarks table build/bench/*.jsonl > tables.md

One table for each benchmark and model, in the order in which they were measured. Of results for the
same thing the latest counts. The machine stands once above the tables measured on it, with the
share of its product limit (`gemm`) that each side reaches.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

HEADINGS = {"n": "pairs", "ratio": "x", "pairs_per_second": "pairs/s"}
"""Columns that are not called as their fields are."""

_HIDDEN = {
    *("benchmark", "model", "what", "machine", "all_seconds", "ratio_of_bests", "distinct_texts"),
    *("mean_tokens", "f1_mean", "f1_bias"),
}
_PERCENT = ("share", "padding", "overhead", "busy")


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the lines of all files; of equal measurements the latest is kept."""
    latest: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in paths:
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            key = tuple(str(line[name]) for name in ("benchmark", "model", "what", "n"))
            latest.pop(key, None)  # so that it moves to the end, beside its own run
            latest[key] = line
    return list(latest.values())


def to_markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return the tables."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in results:
        # The families make one table, a row a family; other models have a table each.
        model = "" if line["benchmark"] == "families" else line["model"]
        groups.setdefault((describe(line["machine"]), line["benchmark"], model), []).append(line)
    blocks: list[str] = []
    machine = None
    for where, benchmark, model in sorted(groups, key=lambda key: key[0]):
        if where != machine:
            blocks += [where, *_shares(where, results)]
            machine = where
        named = model not in ("", "-")
        blocks.append(f"## {benchmark}: {model}" if named else f"## {benchmark}")
        blocks.append(_table(groups[where, benchmark, model], with_model=benchmark == "families"))
    return "\n\n".join(blocks) + "\n"


def describe(machine: dict[str, Any]) -> str:
    """Say in a line where and with what something was measured."""
    facts = {name: value for name, value in machine.items() if name not in ("peer", "date")}
    where = [facts.pop("device", None), facts.pop("cpu", "unknown processor")]
    cores = f"{facts.pop('cores', '?')} cores"
    versions = ", ".join(f"{name} {value}" for name, value in facts.items())
    return f"{'; '.join(filter(None, where))}; {cores}; {versions}"


def _shares(where: str, results: Sequence[dict[str, Any]]) -> list[str]:
    """Return what each side reaches of the machine's product limit, with a column for each model.

    Useful work is counted from tokens without padding, so that shares can be compared between
    machines, where ratios cannot.
    """
    lines = [
        line
        for line in results
        if line["benchmark"] == "peer" and "share_of_peak" in line and "peak_gflops" in line
    ]
    lines = [line for line in lines if describe(line["machine"]) == where]
    if not lines:
        return []
    models = list(dict.fromkeys(line["model"] for line in lines))
    cells = {
        (line["what"], line["model"]): f"{_cell('share_of_peak', line['share_of_peak'])} of "
        f"{_cell('peak_gflops', line['peak_gflops'])} GFLOP/s"
        for line in lines
    }
    rows = [["", *models], ["---"] * (len(models) + 1)]
    sides = dict.fromkeys(line["what"] for line in lines)
    rows += [[side, *(cells.get((side, model), "") for model in models)] for side in sides]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return ["## share of this machine's product limit", table]


def _table(lines: Sequence[dict[str, Any]], *, with_model: bool) -> str:
    shown = [name for name in dict.fromkeys(chain(*lines)) if name not in _HIDDEN]
    first = ["model", ""] if with_model else [""]
    rows = [[*first, *(HEADINGS.get(name, name.replace("_", " ")) for name in shown)]]
    rows.append(["---"] * len(rows[0]))
    for line in lines:
        names = [line["model"], line["what"]] if with_model else [line["what"]]
        rows.append([*names, *(_cell(name, line.get(name)) for name in shown)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | bool | list):
        return str(value).replace("|", "\\|").replace("\n", " ")
    if name.startswith(_PERCENT):
        return f"{100 * value:.0f}%" if abs(value) >= 0.1 else f"{100 * value:.1f}%"
    if name.startswith(("f1_", "drift_")):
        return f"{value:.1e}"
    if name == "n" or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
