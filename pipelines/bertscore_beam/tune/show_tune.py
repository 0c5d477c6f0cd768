"""What a tuning run prints."""

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import TextTable
from bertscore_beam.tune.tune_plan import TunePlan
from bertscore_beam.tune.tune_results import MEAN
from bertscore_core.stats.score_statistics import MEASURES

_MARK = "*"


def show_plan(plan: TunePlan) -> tuple[TextTable, ...]:
    """Describe what a run would do."""
    judgements = plan.judgements
    rows: list[tuple[str, ...]] = [
        ("judgements", f"{len(judgements):,}"),
        *((f"  {why}", f"{many:,} left out") for why, many in judgements.left_out.items()),
        ("groups", ", ".join(name for name in judgements.names if name) or "none"),
        *((f"layers of {model.name}", " ".join(map(str, model.layers))) for model in plan.models),
        *(("left out", why) for why in plan.missing.values()),
        ("weights of tokens", ", ".join(plan.options.weightings)),
        ("other metrics", ", ".join(plan.options.chosen_metrics) or "none"),
        ("recommended by", f"{plan.options.statistic} of F1"),
        ("output", mask_credentials(plan.output)),
    ]
    if plan.device_note is not None:
        rows.append(("backend", plan.device_note))
    return (TextTable("Plan", ("", ""), rows),)


def show_results(summary: Mapping[str, Any], folder: OutputFolder) -> tuple[TextTable, ...]:
    """Return the tables of a finished run: agreement by layer, by group, and what to take."""
    statistic = summary["statistic"]
    rows = [row for row in summary["agreement"] if row["statistic"] == statistic]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    overall = MEAN if MEAN in groups else groups[0]
    shown = [_by_layer([row for row in rows if row["group"] == overall], summary)]
    if len(groups) > 1:
        shown.append(_by_group(summary, rows, groups))
    shown += [_recommended(recommendation) for recommendation in summary["recommended"]]
    if len(summary["recommended"]) > 1:
        shown.append(_models(summary))
    return (*shown, _end(summary, folder))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _by_layer(rows: list[dict[str, Any]], summary: Mapping[str, Any]) -> TextTable:
    table: list[tuple[str, ...]] = []
    marked = {
        (row["model"], row["idf"], layer)
        for row in summary["recommended"]
        for layer in row["not_below"]
    }
    by_line = groupby(rows, itemgetter("model", "idf", "layer"))
    for (model, idf, layer), measures in by_line:
        cells = {"interval": ""}
        for row in measures:
            measure = row["measure"] or "f1"
            cells[measure] = _number(row["value"])
            if measure == "f1" and row["low"] is not None:
                cells["interval"] = f"{_number(row['low'])} to {_number(row['high'])}"
        if (model, idf, layer) in marked:
            cells["f1"] += _MARK
        values = [cells.get(name, "") for name in (*MEASURES, "interval")]
        table.append((model, idf, "" if layer is None else str(layer), *values))
    title = (
        f"Agreement with people: {summary['statistic']}, {rows[0]['group']} "
        f"({_MARK} F1 not significantly below that of the model's best layer)"
    )
    columns = ("model", "idf", "layer", "P", "R", "F1", "95% interval of F1")
    return TextTable(title, columns, table)


def _by_group(
    summary: Mapping[str, Any], rows: list[dict[str, Any]], groups: list[str]
) -> TextTable:
    chosen = {
        f"{row['model']} layer {row['layer']}": (row["model"], row["layer"], row["idf"])
        for row in summary["recommended"]
    }
    chosen |= {row["model"]: (row["model"], None, "") for row in rows if row["layer"] is None}
    values = {
        (row["group"], row["model"], row["layer"], row["idf"]): _number(row["value"])
        for row in rows
        if row["layer"] is None or row["measure"] == "f1"
    }
    sizes = {row["group"]: f"{row['rows']:,}" for row in rows}
    table: list[tuple[str, ...]] = [
        (group, sizes[group], *(values.get((group, *key), "") for key in chosen.values()))
        for group in groups
    ]
    return TextTable(f"By group: {summary['statistic']} of F1", ("group", "rows", *chosen), table)


def _recommended(row: Mapping[str, Any]) -> TextTable:
    held_out = _number(row["held_out_value"]) or "not defined"
    interval = f"{_number(row['low'])} to {_number(row['high'])}"
    mark = ", the registry's" if row["layer"] == row["default"] else ""
    rows: list[tuple[str, ...]] = [
        ("model", row["model"]),
        ("layer", f"{row['layer']}{mark}"),
        (row["statistic"], f"{_number(row['value'])} ({interval}), idf {row['idf']}"),
    ]
    if row["layers"] > 1:
        split = f"{held_out}: chosen on one half of the judgements, measured on the other"
        rows += [
            (f"best of {row['layers']} layers", f"{row['best']}: {_number(row['best_value'])}"),
            ("held out", f"{split}. The best of many on the same judgements looks too good"),
            ("layers not significantly below it", " ".join(map(str, row["not_below"]))),
        ]
    if row["default_value"] is not None and row["default"] != row["best"]:
        words = f"{_number(row['default_value'])}, p {_number(row['p_default'])}"
        words += f" of layer {row['best']} being better, corrected for {row['layers']} layers"
        rows.append((f"registry's layer {row['default']}", words))
    if row["idf_difference"] is not None:
        rows.append(("with idf", f"{row['idf_difference']:+.4f}, p {_number(row['p_idf'])}"))
    rows.append(("pairs a second, all its settings", _speed(row)))
    return TextTable(f"Recommended for {row['model']}", ("", ""), rows)


def _models(summary: Mapping[str, Any]) -> TextTable:
    rows = [
        {
            "model": row["model"],
            "million parameters": f"{row['parameters'] / 1e6:,.1f}",
            "MB of weights": f"{row['weight_bytes'] / 1e6:,.0f}",
            "pairs a second, all its settings": _speed(row),
            "layer": str(row["layer"]),
            "lowest layer not below the best": str(min(row["not_below"])),
            str(summary["statistic"]): _number(row["value"]),
            "best layer held out": _number(row["held_out_value"]),
        }
        for row in summary["recommended"]
    ]
    return TextTable("Models", tuple(rows[0]), [tuple(row.values()) for row in rows])


def _speed(row: Mapping[str, Any]) -> str:
    speed = row["pairs_per_second"]
    return "not measured" if speed is None else f"{speed:,.0f}"


def _end(summary: Mapping[str, Any], folder: OutputFolder) -> TextTable:
    rows: list[tuple[str, ...]] = [
        ("judgements", f"{summary['rows']:,}"),
        ("seconds", f"{summary['seconds']:,}"),
        ("output", folder.shown),
    ]
    if summary["registry"] is not None:
        rows.append(("layers for score --registry", summary["registry"]))
    return TextTable("Run", ("", ""), rows)
