"""The picture of layers: agreement with people by layer, as in the paper's figure.

It is drawn as the pictures of `tables.picture` are: without a display, in colours that colour-blind
readers can distinguish, the same bytes for the same numbers.
"""

import io
from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertscore_beam.run.printing import escape_line
from bertscore_beam.tune.results import MEAN, AgreementRow, Results

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#1A1A1A")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DOTS_PER_INCH = 120
_MOST_LINES = 14
"""Groups drawn one by one."""
_MOST_NUMBERS = 30
"""Layers that are numbered one by one."""


def draw_layers(results: Results, statistic: str) -> bytes:
    """Draw a statistic by layer: all settings over all rows, and F1 in each group.

    Returns:
        A PNG.
    """
    rows = [row for row in results.rows if row.statistic == statistic and row.layer is not None]
    groups = list(dict.fromkeys(row.group for row in rows))
    overall = MEAN if MEAN in groups else groups[0]
    single = [group for group in groups if group != MEAN][:_MOST_LINES]
    panels = 1 if len(single) < 2 else 2
    figure = Figure(
        figsize=(6.4 * panels, 6.2), dpi=_DOTS_PER_INCH, layout="constrained", facecolor="white"
    )
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(1, panels))
    _draw_settings(axes[0], [row for row in rows if row.group == overall])
    axes[0].set_title(escape_line(overall), fontsize=11, parse_math=False)
    if panels == 2:
        first = rows[0]
        of_f1 = [
            row
            for row in rows
            if (row.model, row.matching, row.idf, row.measure)
            == (first.model, first.matching, first.idf, "f1")
        ]
        _draw_groups(axes[1], of_f1, single)
        title = f"F1 of {escape_line(first.model)} in each group"
        axes[1].set_title(title, fontsize=11, parse_math=False)
    for panel in axes:
        _finish(panel, statistic, max(row.layer or 0 for row in rows))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_settings(panel: Axes, rows: Sequence[AgreementRow]) -> None:
    """Draw F1 of each model and weighting with its intervals, precision and recall thinly."""
    lines = list(dict.fromkeys((row.model, row.matching, row.idf) for row in rows))
    for line, colour, marker in zip(lines, cycle(_COLOURS), cycle(_MARKERS), strict=False):
        own = [row for row in rows if (row.model, row.matching, row.idf) == line]
        model, matching, idf = line
        words = escape_line(model) + (", idf" if idf == "corpus" else "")
        words += ", optimal" if matching == "optimal" else ""
        for measure, style in (("precision", ":"), ("recall", "--")):
            thin = [row for row in own if row.measure == measure]
            panel.plot(*_points(thin), style, color=colour, lw=0.9, label=f"{measure}, {words}")
        f1 = [row for row in own if row.measure == "f1"]
        layers, values = _points(f1)
        bounds = np.array([(row.low, row.high) for row in f1], dtype=np.float64)
        panel.fill_between(layers, bounds[:, 0], bounds[:, 1], color=colour, alpha=0.12, lw=0)
        panel.plot(layers, values, color=colour, lw=1.8, marker=marker, ms=5, label=f"F1, {words}")


def _draw_groups(panel: Axes, rows: Sequence[AgreementRow], groups: Sequence[str]) -> None:
    for group, colour, marker in zip(groups, cycle(_COLOURS), cycle(_MARKERS), strict=False):
        own = [row for row in rows if row.group == group]
        panel.plot(
            *_points(own), color=colour, lw=1.4, marker=marker, ms=5, label=escape_line(group)
        )


def _points(rows: Sequence[AgreementRow]) -> tuple[list[int], list[float]]:
    ordered = sorted(rows, key=lambda row: row.layer or 0)
    return [row.layer or 0 for row in ordered], [row.value for row in ordered]


def _finish(panel: Axes, statistic: str, depth: int) -> None:
    panel.grid(axis="y", color="#E5E5E5", lw=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_xlabel("layer (0: the embeddings)")
    panel.set_ylabel(f"agreement with people ({statistic.replace('_', ' ')})")
    panel.set_xticks(range(0, depth + 1, 1 if depth < _MOST_NUMBERS else 2))
    # Below the panel, where it hides nothing.
    legend = panel.legend(
        loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2, frameon=False, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
