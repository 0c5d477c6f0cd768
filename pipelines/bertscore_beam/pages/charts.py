"""Charts as Vega-Lite specifications, and as SVG that a page holds inline.

Colours are CSS variables and `currentColor`, so a chart follows the page from light to dark. It is
drawn twice, for wide and for narrow screens, and hidden from screen readers: the table beside it
says the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import vl_convert
from markupsafe import Markup

from bertscore_beam.compare import Group, GroupComparison
from bertscore_beam.pages.report_data import Estimate, GroupRow, Night, ReasonCount
from bertscore_beam.pages.words import shown_name

Spec = dict[str, Any]

MOST_GROUPS = 40
"""Most groups in one chart. The table below it has all of them."""

MOST_LINES = 6
"""Most groups in the chart of nights."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
_SERIES = [f"var(--series-{number})" for number in range(1, MOST_LINES + 1)]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]]
_STEP = 24
_ROWS = {
    "field": "rows",
    "type": "quantitative",
    "title": "rows",
    "axis": {"tickMinStep": 1, "format": ",d"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as SVG, in two widths."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The size of a chart in pixels: of the plot, of names beside it, and a fixed height."""

    plot: int
    label: int
    height: int

    @property
    def whole(self) -> int:
        """Width of a plot that has no names beside it."""
        return self.plot + self.label - 45


WIDE = Canvas(plot=500, label=210, height=220)
NARROW = Canvas(plot=215, label=100, height=190)


def draw(chart: Callable[..., Spec], *values: Any) -> Chart:
    """Draw a chart of some values for wide and for narrow screens."""
    return Chart(wide=_svg(chart(WIDE, *values)), narrow=_svg(chart(NARROW, *values)))


def groups_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    """Return the chart of each group's F1 with its interval, in the order given."""
    shown = [row for row in rows if row.f1.mean is not None][:MOST_GROUPS]
    return _estimates(canvas, [row.name for row in shown], [row.f1 for row in shown], measure)


def changes_chart(canvas: Canvas, groups: Sequence[GroupComparison]) -> Spec:
    """Return the chart of each group's difference with its interval, and a line at none."""
    shown = [group for group in groups if group.result.difference is not None][:MOST_GROUPS]
    estimates = []
    for group in shown:
        low, high = group.result.interval or (None, None)
        estimates.append(Estimate(mean=group.result.difference, low=low, high=high))
    title = "difference in F1, this run less the other"
    return _estimates(canvas, [group.group for group in shown], estimates, title, zero_line=True)


def quantiles_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    """Return the chart of each group's spread: 5 to 95, 25 to 75 and 50 of 100 rows."""
    shown = [row for row in rows if len(row.quantiles) == 5][:MOST_GROUPS]
    names = [row.name for row in shown]
    values = [
        {"row": at, **dict(zip(("a", "b", "c", "d", "e"), row.quantiles, strict=True))}
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
    return _frame(canvas, values, names, {"encoding": {"y": _rows_axis(canvas)}, "layer": layers})


def histogram_chart(
    canvas: Canvas, edges: Sequence[float], counts: Sequence[int], measure: str
) -> Spec:
    """Return the chart of rows by score, one bar a bin."""
    values = [
        {"low": low, "high": high, "rows": count}
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]

    x = {"type": "quantitative", "title": measure, "scale": {"zero": False, "nice": False}}
    body = {
        "width": canvas.whole,
        "height": canvas.height,
        "mark": {"type": "bar", "binSpacing": 0.5},
        "encoding": {
            "x": {"field": "low", "bin": {"binned": True}, **x},
            "x2": {"field": "high"},
            "y": _ROWS,
        },
    }
    return _frame(canvas, values, (), body)


def lengths_chart(canvas: Canvas, rows: Sequence[GroupRow], measure: str) -> Spec:
    """Return the chart of F1 by length, the shortest rows first."""
    shown = [row for row in rows if row.f1.mean is not None]
    names = [(f"{row.name[0]}–{row.name[1]}",) for row in shown]
    return _sequence(canvas, names, [row.f1 for row in shown], "tokens of the longer text", measure)


def reasons_chart(canvas: Canvas, reasons: Sequence[ReasonCount]) -> Spec:
    """Return the chart of rows by reason."""
    values = [{"row": at, "rows": count.rows} for at, count in enumerate(reasons)]

    body = {
        "mark": {"type": "bar", "height": 12},
        "encoding": {
            "y": _rows_axis(canvas),
            "x": _ROWS,
        },
    }
    return _frame(canvas, values, [(count.reason,) for count in reasons], body)


def trend_chart(canvas: Canvas, nights: Sequence[Night], measure: str) -> Spec:
    """Return the chart of F1 over nights, the oldest first."""
    shown = [night for night in nights if night.total.f1.mean is not None]
    names = [(night.started[:16],) for night in shown]
    return _sequence(canvas, names, [night.total.f1 for night in shown], "run", measure, line=True)


def group_trend_chart(
    canvas: Canvas, nights: Sequence[Night], names: Sequence[Group], measure: str
) -> Spec:
    """Return the chart of some groups' F1 over nights, one line a group."""
    groups = list(names)[:MOST_LINES]
    values = [
        {"at": at, "group": groups.index(name), "mean": estimate.mean}
        for at, night in enumerate(nights)
        for name, estimate in night.groups
        if name in groups and estimate.mean is not None
    ]
    labels = [shown_name(name) for name in groups]
    dates = [night.started[:16] for night in nights]

    scale = {"domain": list(range(len(groups)))}
    legend = {
        "title": None,
        "orient": "bottom",
        "columns": 1 if canvas is NARROW else 2,
        "labelLimit": canvas.whole - 60 if canvas is NARROW else canvas.whole // 2 - 60,
        "labelExpr": "groups[datum.value]",
        "symbolSize": 300,
        "symbolStrokeWidth": 3,
    }
    at = {"field": "group", "type": "nominal"}
    body = {
        "width": canvas.whole,
        "height": canvas.height,
        "params": [{"name": "groups", "value": labels}, {"name": "names", "value": dates}],
        "mark": {"type": "line", "strokeWidth": 2.5, "point": False},
        "encoding": {
            "x": _places_axis("run"),
            "y": _measure_axis("mean", measure),
            "color": {**at, "scale": {**scale, "range": _SERIES}, "legend": legend},
            "strokeDash": {**at, "scale": {**scale, "range": _DASHES}, "legend": legend},
        },
    }
    return _frame(canvas, values, None, body)


def _estimates(
    canvas: Canvas,
    names: Sequence[Group],
    estimates: Sequence[Estimate],
    measure: str,
    *,
    zero_line: bool = False,
) -> Spec:
    values = [{"row": at, **_ends(estimate)} for at, estimate in enumerate(estimates)]

    x = {"type": "quantitative", "title": measure, "scale": {"zero": zero_line}}
    y = {"y": _rows_axis(canvas)}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 3}, "encoding": y | _span(x, "low", "high")},
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": y | {"x": {"field": "mean", **x}},
        },
    ]
    if zero_line:
        mark = {"type": "rule", "color": "currentColor", "strokeDash": [4, 3], "strokeWidth": 1}
        layers.append({"mark": mark, "encoding": {"x": {"datum": 0}}})
    return _frame(canvas, values, names, {"layer": layers})


def _sequence(
    canvas: Canvas,
    names: Sequence[Group],
    estimates: Sequence[Estimate],
    title: str,
    measure: str,
    *,
    line: bool = False,
) -> Spec:
    values = [{"at": at, **_ends(estimate)} for at, estimate in enumerate(estimates)]

    y = _measure_axis("mean", measure)
    span = {"y": _measure_axis("low", measure), "y2": {"field": "high"}}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 3}, "encoding": span},
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"y": y},
        },
    ]
    if line:
        layers.insert(0, {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": y}})
    body = {
        "width": canvas.whole,
        "height": canvas.height,
        "encoding": {"x": _places_axis(title)},
        "layer": layers,
    }
    return _frame(canvas, values, names, body)


def _frame(
    canvas: Canvas,
    values: Sequence[Mapping[str, Any]],
    names: Sequence[Group] | None,
    body: Mapping[str, Any],
) -> Spec:
    named = {} if names is None else {"params": [_parameter("names", names)]}
    return {
        "width": canvas.plot,
        "height": {"step": _STEP},
        "background": None,
        "autosize": {"type": "pad", "contains": "content"},
        "padding": 2,
        "data": {"values": list(values)},
        **named,
        **body,
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
                "titleLimit": canvas.whole,
            },
            "axisX": {"tickCount": 4 if canvas is NARROW else 7},
            "legend": {"labelColor": "currentColor", "labelFontSize": 12},
            **{kind: {"color": _SERIES[0]} for kind in ("bar", "point", "rule", "line")},
        },
    }


def _parameter(name: str, names: Sequence[Group]) -> Spec:
    # Charts place rows by number and look their names up, since two groups may read the same.
    return {"name": name, "value": [shown_name(name_of_row) for name_of_row in names]}


def _rows_axis(canvas: Canvas) -> Spec:
    axis = {"labelExpr": "names[datum.value]", "labelLimit": canvas.label, "ticks": False}
    return {"field": "row", "type": "ordinal", "title": None, "axis": {**axis, "domain": False}}


def _places_axis(title: str) -> Spec:
    axis = {"labelExpr": "names[datum.value]", "labelAngle": -35, "labelOverlap": "greedy"}
    return {"field": "at", "type": "ordinal", "title": title, "axis": axis}


def _measure_axis(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}}


def _span(x: Mapping[str, Any], low: str, high: str) -> Spec:
    return {"x": {"field": low, **x}, "x2": {"field": high}}


def _ends(estimate: Estimate) -> dict[str, float | None]:
    """Return a mean and the ends of its interval, which are the mean itself if there is none."""
    mean = estimate.mean
    low = mean if estimate.low is None else estimate.low
    high = mean if estimate.high is None else estimate.high
    return {"mean": mean, "low": low, "high": high}


def _svg(spec: Spec) -> Markup:
    """Draw a specification. Names in it were given as data, which Vega escapes."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.4", allowed_base_urls=[])
    return Markup(svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1))  # noqa: S704
