"""The picture of layers: agreement with people by layer, as in the paper's figure.

It is drawn without a display, in colours that colour-blind
readers can distinguish, the same bytes for the same numbers.
"""

import io
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertscore_beam.run.output import escape_line
from bertscore_beam.tune.tune_results import MEAN, Row
from bertscore_core.stats.score_statistics import MEASURES

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#1A1A1A")
_STYLES: list[dict[str, Any]] = [
    {"color": colour, "marker": marker} for colour, marker in zip(_COLOURS, "os^DvPX", strict=True)
]
_DOTS_PER_INCH = 120
_MOST_LINES = 14
"""Groups drawn one by one."""
_MOST_NUMBERS = 30
"""Layers that are numbered one by one."""


def draw_layers(rows: Sequence[Row], statistic: str) -> bytes:
    """Draw a statistic by layer: all settings over all rows, and F1 in each group.

    Args:
        rows: Those of BERTScore by this statistic, of the results.
        statistic: Its name.

    Returns:
        A PNG.
    """
    groups = list(dict.fromkeys(row["group"] for row in rows))
    overall = MEAN if MEAN in groups else groups[0]
    single = [group for group in groups if group != MEAN][:_MOST_LINES]
    panels = 1 if len(single) < 2 else 2
    figure = Figure(
        figsize=(6.4 * panels, 6.2), dpi=_DOTS_PER_INCH, layout="constrained", facecolor="white"
    )
    axes = np.atleast_1d(figure.subplots(1, panels))
    titles = [escape_line(overall), f"F1 of {escape_line(rows[0]['model'])} in each group"]
    _draw_settings(axes[0], [row for row in rows if row["group"] == overall])
    if panels == 2:
        line = _line(rows[0])
        of_f1 = [row for row in rows if _line(row) == line and row["measure"] == "f1"]
        for group, style in zip(single, cycle(_STYLES), strict=False):
            own = [row for row in of_f1 if row["group"] == group]
            axes[1].plot(*_points(own), lw=1.4, ms=5, label=escape_line(group), **style)
    depth = max(row["layer"] for row in rows)
    for panel, title in zip(axes, titles, strict=False):
        panel.set_title(title, fontsize=11, parse_math=False)
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
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _line(row: Row) -> tuple[str, str]:
    return row["model"], row["idf"]


def _draw_settings(panel: Axes, rows: Sequence[Row]) -> None:
    for line, style in zip(dict.fromkeys(map(_line, rows)), cycle(_STYLES), strict=False):
        own = {
            measure: [row for row in rows if _line(row) == line and row["measure"] == measure]
            for measure in MEASURES
        }
        model, idf = line
        words = escape_line(model) + (", idf" if idf == "corpus" else "")
        colour = style["color"]
        for measure, dashes in (("precision", ":"), ("recall", "--")):
            label = f"{measure}, {words}"
            panel.plot(*_points(own[measure]), dashes, color=colour, lw=0.9, label=label)
        layers, values = _points(own["f1"])
        bounds = np.array([(row["low"], row["high"]) for row in own["f1"]], dtype=np.float64)
        panel.fill_between(layers, bounds[:, 0], bounds[:, 1], color=colour, alpha=0.12, lw=0)
        panel.plot(layers, values, lw=1.8, ms=5, label=f"F1, {words}", **style)


def _points(rows: Sequence[Row]) -> tuple[list[int], list[float]]:
    return [row["layer"] for row in rows], [row["value"] for row in rows]
