"""Charts as Vega-Lite specifications, and as SVG that a page holds inline.

Colours are CSS variables and `currentColor`, so a chart follows the page from light to dark. It is
drawn twice, for wide and for narrow screens, and hidden from screen readers: the table beside it
says the same.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import vl_convert
from markupsafe import Markup

from bertscore_beam.compare import WHOLE, Group, GroupComparison
from bertscore_beam.pages.report_data import Night, ReportData
from bertscore_beam.pages.words import by_number, shown_name, shown_value
from bertscore_beam.records import SHARES, GroupRow

Spec = dict[str, Any]

MOST_GROUPS = 40
"""Most groups in one chart. The table below it has all of them."""

_MOST_LINES = 6
"""Most groups in the chart of nights."""

QUANTILES = tuple(f"raw_f1_q{round(share * 100):02}" for share in SHARES)
"""Names of the scores that a share of the rows is below."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
_SERIES = [f"var(--series-{number})" for number in range(1, _MOST_LINES + 1)]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]]
_STEP = 24
_AXIS = 44
"""Pixels beside the plot for numbers."""
_ROW: Spec = {
    "field": "row",
    "type": "ordinal",
    "title": None,
    "axis": {"labelExpr": "names[datum.value]", "labelPadding": 6, "ticks": False, "domain": False},
}
_AT: Spec = {
    "field": "at",
    "type": "ordinal",
    "axis": {"labelExpr": "names[datum.value]", "labelAngle": -35, "labelOverlap": "greedy"},
}
_ROWS: Spec = {
    "field": "rows",
    "type": "quantitative",
    "title": "rows",
    "axis": {"tickMinStep": 1, "format": ",d"},
}


_RULE: Spec = {"type": "rule", "strokeWidth": 3}
_POINT: Spec = {"type": "point", "filled": True, "size": 70, "opacity": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as SVG, in two widths."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """Pixels of a chart: its width, the most that names beside the plot take, and a height."""

    width: int
    label: int
    height: int


WIDE = Canvas(width=800, label=260, height=240)
NARROW = Canvas(width=340, label=160, height=190)


def charts_of(data: ReportData, measure: str, raw_measure: str) -> Mapping[str, Chart]:
    """Draw the charts of a page, by section."""
    drawn: dict[str, Chart] = {}
    if data.histogram:
        drawn["histogram"] = _draw(_histogram_chart, data.histogram, raw_measure)
    if data.groups:
        drawn["groups"] = _draw(_groups_chart, data.groups, measure)
        drawn["quantiles"] = _draw(_quantiles_chart, data.groups, raw_measure)
    if data.lengths:
        drawn["lengths"] = _draw(_lengths_chart, data.lengths, measure)
    if data.languages:
        drawn["languages"] = _draw(_groups_chart, data.languages, measure)
    if reasons := data.total.values["reasons"]:
        drawn["reasons"] = _draw(_reasons_chart, by_number(reasons))
    changes = () if data.against is None else data.against.by_change
    if any(group.result.difference is not None for group in changes):
        drawn["changes"] = _draw(_changes_chart, changes)
    if len(data.nights) > 1:
        drawn["trend"] = _draw(_trend_chart, data.nights, measure)
        if names := trend_groups(data):
            drawn["group_trend"] = _draw(_group_trend_chart, data.nights, names, measure)
    return drawn


def trend_groups(data: ReportData) -> list[Group]:
    """Return the groups of the newest run whose F1 moved most over the runs made alike."""
    moves: dict[Group, float] = {}
    for row in data.groups:
        name = row.group or WHOLE
        means = [
            night.groups[name] for night in data.nights if night.comparable and name in night.groups
        ]
        if means:
            moves[name] = round(max(means) - min(means), 9)
    return sorted(moves, key=lambda name: -moves[name])[:_MOST_LINES]


def _draw(chart: Callable[..., Spec], *values: Any) -> Chart:
    return Chart(wide=_svg(chart(WIDE, *values)), narrow=_svg(chart(NARROW, *values)))


def _groups_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    shown = [row for row in rows if row.values["f1"] is not None][:MOST_GROUPS]
    return _estimates(canvas, _names(shown), map(_f1_of, shown), measure)


def _changes_chart(canvas: Canvas, groups: Sequence[GroupComparison]) -> Spec:
    shown = [group for group in groups if group.result.difference is not None][:MOST_GROUPS]
    ends = [
        _ends(group.result.difference, *(group.result.interval or (None, None))) for group in shown
    ]
    names = [group.group for group in shown]
    return _estimates(canvas, names, ends, "difference in F1", zero_line=True)


def _quantiles_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    shown = [row for row in rows if row.values["scored"]][:MOST_GROUPS]
    values = [
        {
            "row": at,
            **{field: row.values[name] for field, name in zip("abcde", QUANTILES, strict=True)},
        }
        for at, row in enumerate(shown)
    ]
    x = {"type": "quantitative", "title": measure, "scale": {"zero": False}}
    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": _span(x, "a", "e")},
        {"mark": {"type": "bar", "height": 10}, "encoding": _span(x, "b", "d")},
        {
            "mark": {"type": "tick", "thickness": 3, "size": 16, "color": "currentColor"},
            "encoding": {"x": {"field": "c", **x}},
        },
    ]
    return _frame(canvas, values, _names(shown), {"encoding": {"y": _ROW}, "layer": layers})


def _histogram_chart(
    canvas: Canvas, bars: Sequence[tuple[float, float, int]], measure: str
) -> Spec:
    values = [{"low": low, "high": high, "rows": rows} for low, high, rows in bars]
    x = {"type": "quantitative", "title": measure, "scale": {"zero": False, "nice": False}}
    body = {
        "height": canvas.height,
        "mark": {"type": "bar", "binSpacing": 0.5},
        "encoding": {
            "x": {"field": "low", "bin": {"binned": True}, **x},
            "x2": {"field": "high"},
            "y": _ROWS,
        },
    }
    return _frame(canvas, values, (), body)


def _lengths_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    shown = [row for row in rows if row.values["f1"] is not None]
    names = [("–".join(map(str, row.group or ())),) for row in shown]
    return _sequence(canvas, names, map(_f1_of, shown), "tokens of the longer text", measure)


def _reasons_chart(canvas: Canvas, reasons: Sequence[tuple[str, int]]) -> Spec:
    values = [{"row": at, "rows": rows} for at, (_, rows) in enumerate(reasons)]
    most = max(rows for _, rows in reasons)
    axis = {**_ROWS["axis"], "tickCount": min(most, 4 if canvas is NARROW else 7)}
    body = {
        "mark": {"type": "bar", "height": 12},
        "encoding": {"y": _ROW, "x": {**_ROWS, "axis": axis}},
    }
    return _frame(canvas, values, [(reason,) for reason, _ in reasons], body)


def _trend_chart(canvas: Canvas, nights: Sequence[Night], measure: str) -> Spec:
    ends = [_f1_of(night.total) for night in nights]
    return _sequence(canvas, _night_names(nights), ends, "run", measure, line=True)


def _night_names(nights: Sequence[Night]) -> list[Group]:
    """Return what runs are called on an axis: their folders, if these lie side by side."""
    folders = [night.run.rstrip("/").rpartition("/") for night in nights]
    if len({parent for parent, _, _ in folders}) == 1:
        return [(name,) for _, _, name in folders]
    return [(night.started[:16],) for night in nights]


def _group_trend_chart(
    canvas: Canvas, nights: Sequence[Night], names: Sequence[Group], measure: str
) -> Spec:
    values = [
        {"at": at, "group": line, "mean": night.groups[name]}
        for at, night in enumerate(nights)
        for line, name in enumerate(names)
        if name in night.groups
    ]
    labels = [_cut(name, canvas.width - 150) for name in names]
    scale = {"domain": list(range(len(names)))}
    legend = {
        "title": None,
        "orient": "bottom",
        "columns": 1,
        "labelLimit": 0,
        "labelExpr": "groups[datum.value]",
        "symbolSize": 300,
        "symbolStrokeWidth": 3,
    }
    at = {"field": "group", "type": "nominal"}
    body = {
        "height": canvas.height,
        "params": [{"name": "groups", "value": labels}],
        "mark": {"type": "line", "strokeWidth": 2.5, "point": False},
        "encoding": {
            "x": _AT | {"title": "run"},
            "y": _measure_axis("mean", measure),
            "color": {**at, "scale": {**scale, "range": _SERIES}, "legend": legend},
            "strokeDash": {**at, "scale": {**scale, "range": _DASHES}, "legend": legend},
        },
    }
    return _frame(canvas, values, _night_names(nights), body, is_below=True)


def _names(rows: Iterable[GroupRow]) -> list[Group]:
    return [row.group or WHOLE for row in rows]


def _f1_of(row: GroupRow) -> Spec:
    return _ends(*(row.values[name] for name in ("f1", "f1_low", "f1_high")))


def _ends(mean: float | None, low: float | None, high: float | None) -> Spec:
    """Return a mean and the ends of its interval, which are the mean itself if there is none."""
    return {
        "mean": mean,
        "low": mean if low is None else low,
        "high": mean if high is None else high,
    }


def _estimates(
    canvas: Canvas,
    names: Sequence[Group],
    ends: Iterable[Spec],
    measure: str,
    *,
    zero_line: bool = False,
) -> Spec:
    values = [{"row": at, **own} for at, own in enumerate(ends)]
    x = {"type": "quantitative", "title": measure, "scale": {"zero": zero_line}}
    y = {"y": _ROW}
    layers: list[Spec] = [
        {"mark": _RULE, "encoding": y | _span(x, "low", "high")},
        {"mark": _POINT, "encoding": y | {"x": {"field": "mean", **x}}},
    ]
    if zero_line:
        mark = {"type": "rule", "color": "currentColor", "strokeDash": [4, 3], "strokeWidth": 1}
        layers.append({"mark": mark, "encoding": {"x": {"datum": 0}}})
    return _frame(canvas, values, names, {"layer": layers})


def _sequence(
    canvas: Canvas,
    names: Sequence[Group],
    ends: Iterable[Spec],
    title: str,
    measure: str,
    *,
    line: bool = False,
) -> Spec:
    values = [{"at": at, **own} for at, own in enumerate(ends)]
    y = {"y": _measure_axis("mean", measure)}
    span = {"y": _measure_axis("low", measure), "y2": {"field": "high"}}
    layers: list[Spec] = [{"mark": _RULE, "encoding": span}, {"mark": _POINT, "encoding": y}]
    if line:
        layers.insert(0, {"mark": {"type": "line", "strokeWidth": 2}, "encoding": y})
    body = {
        "height": canvas.height,
        "encoding": {"x": _AT | {"title": title}},
        "layer": layers,
    }
    return _frame(canvas, values, names, body, is_below=True)


def _frame(
    canvas: Canvas,
    values: Sequence[Mapping[str, Any]],
    names: Sequence[Group],
    body: Mapping[str, Any],
    *,
    is_below: bool = False,
) -> Spec:
    # Charts place rows by number and look their names up, since two groups may read the same.
    room = 130 if is_below else canvas.label
    labels = [_cut(name, room) for name in names]
    widest = max(map(_width, labels), default=0.0)
    # Slanted names reach to the left of their places, and the first place is beside the axis.
    left = max(0.0, widest * 0.82 + 6 - _AXIS) if is_below else 0.0
    params = [{"name": "names", "value": labels}, *body.get("params", ())]
    return {
        "width": canvas.width,
        "height": {"step": _STEP},
        "background": None,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 4 + left, "right": 8, "top": 4, "bottom": 4},
        "data": {"values": list(values)},
        **body,
        "params": params,
        "config": {
            "aria": False,
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": "currentColor",
                "titleColor": "currentColor",
                "domainColor": "var(--line)",
                "tickColor": "var(--line)",
                "gridColor": "var(--line)",
                "gridOpacity": 0.6,
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "titleLimit": canvas.width,
                "labelLimit": 0,
                "labelFlush": False,
            },
            "axisX": {"tickCount": 4 if canvas is NARROW else 7},
            "axisY": {"minExtent": _AXIS if is_below or not labels else widest + 10},
            "legend": {"labelColor": "currentColor", "labelFontSize": 12},
            **{kind: {"color": _SERIES[0]} for kind in ("bar", "point", "rule", "line")},
        },
    }


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


def _measure_axis(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}}


def _span(x: Mapping[str, Any], low: str, high: str) -> Spec:
    return {"x": {"field": low, **x}, "x2": {"field": high}}


def _svg(spec: Spec) -> Markup:
    """Draw a specification. Names in it were given as data, which Vega escapes."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.4", allowed_base_urls=[])
    return Markup(svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1))  # noqa: S704
