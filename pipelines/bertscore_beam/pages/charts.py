"""Charts as Vega-Lite specifications: SVG that a page holds inline, and the PNG of `tune`.

In a page, colours are CSS variables and `currentColor`, so a chart follows the page from light to
dark. It is drawn twice, for wide and for narrow screens, and hidden from screen readers: the table
beside it says the same.
"""

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from bertscore_beam.dump.census import Group
from bertscore_beam.pages.report_data import ReportData
from bertscore_beam.pages.words import ORDERED_BY, by_number, shown_name, shown_value
from bertscore_beam.records.groups import QUANTILES, GroupRow

MOST_GROUPS = 40
"""Most groups in one chart. The table below it has all of them."""

_MOST_LINES = 6
"""Most groups in the chart of nights."""

_SERIES = [f"var(--series-{number})" for number in range(1, _MOST_LINES + 1)]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]]
_AXIS = 44
"""Pixels beside the plot for numbers."""

_FAR = 3
"""How many times as far as others a change reaches that sets the scale of its chart."""

_VERSION = "6.4"
"""Version of Vega-Lite."""

_Values = list[dict[str, Any]]

_CANVASES = {
    "wide": {"width": 560, "label": 200, "height": 200, "ticks": 6},
    "narrow": {"width": 340, "label": 160, "height": 180, "ticks": 4},
}
"""Pixels of a chart: its width, the most that names beside the plot take, and the height of one
that has no row for each name; then how many numbers are below the plot."""

_OF_PAGES = {
    "ink": "currentColor",
    "faint": "var(--line)",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "series": _SERIES,
    "dashes": _DASHES,
}

_COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#1A1A1A"]
"""Colours that colour-blind readers can distinguish."""
_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]
"""One fewer than the colours, so that no two of 42 lines have the same of both."""
_OF_FILES = {
    "ink": "#1A1A1A",
    "faint": "#D0D0D0",
    "font": "Liberation Sans",  # vl_convert brings it; letters that it lacks are this machine's
    "series": _COLORS,
    "dashes": [[1, 0], [6, 3], [1.5, 2.5]],
}
_MEASURES = {"f1": "F1", "recall": "recall", "precision": "precision"}
"""Their names, in the order of their dashes."""
_MOST_LAYER_LINES = 14
"""Most groups in the picture of layers."""


def charts_of(
    data: ReportData, measure: str, raw_measure: str, run_names: Mapping[str, str]
) -> dict[str, dict[str, Markup]]:
    """Draw the charts of a page, by section and canvas; one without a value is left out."""
    changes = [] if data.against is None else data.against.by_change
    change = f"change of {measure}"
    changed = [one for one in changes if one.result.difference is not None][:MOST_GROUPS]
    ends = [_ends(one.result.difference, *(one.result.interval or ())) for one in changed]
    closer = within_scale(ends)
    nights = data.nights if len(data.nights) > 1 else ()
    runs: list[Group] = [(run_names[night.run],) for night in nights]
    lines = trend_groups(data)
    means = [
        {"at": at, "group": line, "mean": night.groups[name].mean}
        for at, night in enumerate(nights)
        for line, name in enumerate(lines)
        if name in night.groups
    ]
    groups = [row for row in data.groups if row.values["scored"]][:MOST_GROUPS]
    languages = [row for row in data.languages if row.values["scored"]][:MOST_GROUPS]
    lengths: list[Group] = [("–".join(map(str, row.group)),) for row in data.lengths]
    bars = [{"low": low, "high": high, "rows": rows} for low, high, rows in data.histogram]
    quantiles = [{name: row.values[f"raw_f1_{name}"] for name in QUANTILES} for row in groups]
    reasons = dict(by_number(data.total.values["reasons"]))
    counts = [{"rows": rows} for rows in reasons.values()]
    charts: dict[str, tuple[str, str, Sequence[Group], _Values]] = {
        "histogram": ("histogram", raw_measure, (), bars),
        "groups": ("estimates", measure, _names(groups), _estimates(groups)),
        "quantiles": ("quantiles", raw_measure, _names(groups), quantiles),
        "lengths": ("tokens of the longer text", measure, lengths, _estimates(data.lengths)),
        "languages": ("estimates", measure, _names(languages), _estimates(languages)),
        "reasons": ("reasons", "", [(reason,) for reason in reasons], counts),
        "changes": ("changes", change, [one.group for one in changed], ends),
        "closer": (
            "changes",
            change,
            [changed[at].group for at in closer],
            [ends[at] for at in closer],
        ),
        "trend": ("run", measure, runs, _estimates([night.total for night in nights])),
        "group_trend": ("groups", measure, runs, means),
    }
    return {
        section: {name: _svg(canvas, *chart, lines) for name, canvas in _CANVASES.items()}
        for section, chart in charts.items()
        if chart[-1]
    }


def trend_groups(data: ReportData) -> list[Group]:
    """Return the groups of the newest run whose F1 moved most over the runs made alike.

    Those that fail a gate come first.
    """
    failed = {group for one in data.changes for group, _ in one.failures}
    moves: dict[Group, float] = {}
    for row in data.groups:
        name = row.group
        alike = (night.groups for night in data.nights if night.comparable)
        means = [groups[name].mean for groups in alike if name in groups]
        if means:
            moves[name] = round(max(means) - min(means), ORDERED_BY)
    return sorted(moves, key=lambda name: (name not in failed, -moves[name]))[:_MOST_LINES]


def _names(rows: Iterable[GroupRow]) -> list[Group]:
    return [row.group for row in rows]


def _estimates(rows: Iterable[GroupRow]) -> _Values:
    return [_ends(*(row.values[name] for name in ("f1", "f1_low", "f1_high"))) for row in rows]


def _ends(mean: Any, low: Any = None, high: Any = None) -> dict[str, Any]:
    """Return a mean and the ends of its interval, which are the mean itself if there is none."""
    low, high = (mean if end is None else end for end in (low, high))
    return {"mean": mean, "low": low, "high": high}


def within_scale(values: _Values) -> list[int]:
    """Return the places of changes that are left if those go that set the scale of their chart.

    These reach three times as far from 0 as half of all. None is left where the others would not
    have three times the room without them.
    """
    reach = [max(abs(value["low"]), abs(value["high"])) for value in values]
    limit = _FAR * median(reach) if reach else 0.0
    near = [at for at, own in enumerate(reach) if own <= limit]
    has_room = near and max(reach) > _FAR * max(reach[at] for at in near)
    return near if has_room else []


def layers_chart(rows: Sequence[Mapping[str, Any]], statistic: str, overall: str) -> str:
    """Return the chart of agreement with people by layer, as in the paper's figure.

    One panel has all settings over all rows, another F1 of the first setting in each group.

    Args:
        rows: Those of BERTScore by this statistic, of the results of `tune`.
        statistic: Its name.
        overall: Name of the group over all rows.

    Returns:
        Its specification.
    """
    settings = list(dict.fromkeys(map(_setting, rows)))
    others = [name for name in dict.fromkeys(row["group"] for row in rows) if name != overall]
    groups = others[:_MOST_LAYER_LINES]
    width = 460
    names = {
        "measures": list(_MEASURES.values()),
        "settings": [
            _cut((model,), width - 80) + (", idf" if idf == "corpus" else "")
            for model, idf in settings
        ],
        "groups": [_cut((name,), width - 50) for name in groups],
    }
    points = [(settings.index(_setting(row)), row) for row in rows if row["group"] == overall]
    panels = [_panel(_cut((overall,), width), "settings", points)]
    if len(groups) > 1:
        points = [
            (groups.index(row["group"]), row)
            for row in rows
            if row["group"] in groups and _setting(row) == settings[0] and row["measure"] == "f1"
        ]
        model = _cut((settings[0][0],), width - 130)
        panels.append(_panel(f"F1 of {model} in each group", "groups", points))
    return _template().render(
        **_OF_FILES,
        kind="layers",
        title=f"agreement with people ({statistic.replace('_', ' ')})",
        width=width,
        height=380,
        ticks=max(row["layer"] for row in rows) + 1,
        left=0,
        extent=0,
        names=names,
        panels=panels,
    )


def _setting(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model"], row["idf"]


def _panel(
    title: str, names: str, points: Sequence[tuple[int, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a panel of the picture of layers: points, each on a line of the name of this place."""
    count = 1 + max((line for line, _ in points), default=0)
    return {
        "title": title,
        "names": names,
        "colors": [_COLORS[at % len(_COLORS)] for at in range(count)],
        "shapes": [_SHAPES[at % len(_SHAPES)] for at in range(count)],
        "values": [
            {"line": line, "measure": list(_MEASURES).index(row["measure"]), "layer": row["layer"]}
            | {name: _finite(row[name]) for name in ("value", "low", "high")}
            for line, row in points
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@cache
def _template() -> Template:
    environment = Environment(  # noqa: S701 (JSON, whose values `tojson` escapes)
        loader=FileSystemLoader(Path(__file__).parent / "template"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("charts.json.jinja")


def _svg(
    canvas: Mapping[str, int],
    kind: str,
    title: str,
    names: Sequence[Group],
    values: _Values,
    lines: Sequence[Group],
) -> Markup:
    """Draw a chart of one of the template's kinds. Names in it are data, which Vega escapes.

    The kind of a chart with its names below is their title.
    """
    is_below = kind not in ("estimates", "changes", "quantiles", "reasons", "histogram")
    labels = [_cut(name, 130 if is_below else canvas["label"]) for name in names]
    widest = max(map(_width, labels), default=0.0)
    slanted = is_below and len(names) * (widest + 8) > canvas["width"] - 2 * _AXIS
    specification = _template().render(
        **_OF_PAGES,
        kind=kind,
        title=title,
        names={"names": labels, "groups": [_cut(name, canvas["width"] - 150) for name in lines]},
        values=[{"at": at} | own for at, own in enumerate(values)],
        **canvas,
        # Slanted names reach to the left of their places, and the first place is beside the axis.
        slanted=slanted,
        left=max(0.0, widest * 0.82 + 6 - _AXIS) if slanted else 0.0,
        extent=_AXIS if is_below or not labels else widest + 10,
    )
    svg = vl_convert.vegalite_to_svg(specification, vl_version=_VERSION, allowed_base_urls=[])
    return Markup(svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1))  # noqa: S704


def png(specification: str) -> bytes:
    """Draw a chart as a PNG: the same bytes for the same specification."""
    drawn: bytes = vl_convert.vegalite_to_png(
        specification, vl_version=_VERSION, scale=1.6, allowed_base_urls=[]
    )
    return drawn


def _width(text: str) -> float:
    """Return the most pixels that a text may take at 12 pixels: readers have fonts of their own."""
    return sum(map(_advance, text))


def _advance(character: str) -> float:
    if unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 12.0
    return 9.5 if character.isupper() or character in "mwMW@%" else 7.7


def _cut(name: Group, room: float) -> str:
    """Return a name of a group that fits: the widest of its values are cut."""
    values = [shown_value(value) for value in name]
    values = [value if len(value) <= 60 else value[:59] + "…" for value in values]
    while _width(" / ".join(values)) > room and any(len(value) > 2 for value in values):
        at = max(range(len(values)), key=lambda at: _width(values[at]))
        values[at] = values[at].removesuffix("…")[:-1] + "…"
    return shown_name(tuple(values))
