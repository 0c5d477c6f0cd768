"""Pictures of baselines: how random pairs score, and two tables side by side.

They are drawn without a display and without matplotlib's global state. The same numbers give the
same bytes. The colours are those of Okabe and Ito, which colour-blind readers can distinguish, and
no two lines differ only in colour.
"""

import io
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertscore_beam.run.printing import escape_line
from bertscore_beam.tables.difference import LayerDifference
from bertscore_core.moments import Moments

Doubles = npt.NDArray[np.float64]

_BANDS = (
    ("F1 of 98% of the pairs", 0.01, "#D3E6F4", 0.84),
    ("of 90%", 0.05, "#94C4E6", 0.66),
    ("of 50%", 0.25, "#3C8DC5", 0.48),
)
"""Label, lower quantile, colour and width (in layers) of the nested bars."""
_BLUE, _NAVY, _ORANGE, _BLACK, _GREY = "#0072B2", "#08306B", "#E69F00", "#1A1A1A", "#8C8C8C"
_SMALL = 1e-4
"""Unit of the panel of standard errors."""
_DOTS_PER_INCH = 120
_FEWEST_PLACES = 5
"""A model of fewer layers gets no wider bars."""
_MOST_NUMBERS = 30
"""Layers that are numbered one by one."""
_LONGEST_NAME = 70


def draw_distributions(moments: Moments, title: str) -> bytes:
    """Draw the distribution of F1 of random pairs at every layer, and the errors of the means.

    Args:
        moments: Sums over the scores of at least one pair.
        title: Heading.

    Returns:
        A PNG.
    """
    figure, upper, lower = _panels(moments.rows, title)
    bands = _draw_bands(upper, moments)
    means = _draw_means(upper, moments.means)
    # A legend is filled column by column: bands in its first row, means in its second.
    pairs = zip_longest(bands, means)
    _legend_above(upper, 4, [drawn for pair in pairs for drawn in pair if drawn is not None])
    upper.set_ylabel("score of random pairs")
    _draw_errors(lower, moments)
    return _png(figure)


def draw_comparison(rows: Sequence["LayerDifference"], title: str, names: tuple[str, str]) -> bytes:
    """Draw the scores of two tables by layer, and their difference with its error.

    Args:
        rows: The layers.
        title: Heading.
        names: Where the two tables come from.

    Returns:
        A PNG.
    """
    figure, upper, lower = _panels(len(rows), title)
    layers = [row.layer for row in rows]
    sides = (
        ("A", _BLUE, "-", "o", np.array([row.first for row in rows])),
        ("B", _ORANGE, "--", "s", np.array([row.second for row in rows])),
    )
    for (side, colour, dashes, marker, values), full in zip(sides, names, strict=True):
        name = _shortened(escape_line(full))
        upper.plot(
            layers,
            values[:, 2],
            dashes,
            color=colour,
            lw=1.8,
            marker=marker,
            ms=4.5,
            mfc="white",
            zorder=3,
            label=f"{side}: F1, {name}",
        )
        thin: dict[str, Any] = {"color": colour, "lw": 0.7, "alpha": 0.6}
        upper.plot(layers, values[:, 0], dashes, **thin, label=f"{side}: precision and recall")
        upper.plot(layers, values[:, 1], dashes, **thin)
    upper.set_ylabel("score of random pairs")
    _legend_above(upper, 2)
    _draw_differences(lower, rows)
    return _png(figure)


def _panels(rows: int, title: str) -> tuple[Figure, Axes, Axes]:
    """Return a figure with a large and a small panel over the same layers."""
    figure = Figure(
        figsize=(float(np.clip(5.0 + 0.26 * rows, 7.5, 15.0)), 7.2),
        dpi=_DOTS_PER_INCH,
        layout="constrained",
        facecolor="white",
    )
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    # A name may hold a dollar sign, which would begin a formula.
    size = 12 if len(title) <= _LONGEST_NAME else 9
    figure.suptitle(escape_line(title), fontsize=size, fontweight="bold", parse_math=False)
    for panel in (upper, lower):
        panel.grid(axis="y", color="#E5E5E5", lw=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    lower.set_xlabel("layer (0: the embeddings)")
    middle, half = (rows - 1) / 2, max(rows / 2, _FEWEST_PLACES / 2) + 0.2
    lower.set_xlim(middle - half, middle + half)
    lower.set_xticks(range(0, rows, 1 if rows <= _MOST_NUMBERS else 2))
    return figure, upper, lower


def _draw_bands(panel: Axes, moments: Moments) -> list[Artist]:
    """Draw nested bars that hold shares of the pairs by their F1, and the median."""
    layers = np.arange(moments.rows)
    drawn: list[Artist] = []
    for label, share, colour, width in _BANDS:
        low, high = moments.quantiles([share, 1 - share])[:, :, 2]
        drawn.append(panel.bar(layers, high - low, width, bottom=low, color=colour, label=label)[0])
        drawn[-1].set_label(label)
    median = moments.quantiles([0.5])[0, :, 2]
    line = panel.hlines(median, layers - 0.33, layers + 0.33, colors=_NAVY, lw=1.6, label="median")
    # Without this, bars would touch the axis and look cut off.
    panel.use_sticky_edges = False
    return [*drawn, line]


def _draw_means(panel: Axes, means: Doubles) -> list[Artist]:
    """Draw the means. Precision and recall nearly coincide, so both lines are made to be seen."""
    layers = np.arange(len(means))
    styles: tuple[dict[str, Any], ...] = (
        {"color": _ORANGE, "lw": 4, "marker": "s", "ms": 5, "label": "mean precision"},
        {
            "color": _BLACK,
            "lw": 1.2,
            "ls": (0, (3, 2)),
            "marker": "x",
            "ms": 4,
            "label": "mean recall",
        },
        {"color": _BLACK, "lw": 1.2, "marker": "o", "ms": 4.5, "mfc": "white", "label": "mean F1"},
    )
    return [
        panel.plot(layers, means[:, measure], **style)[0] for measure, style in enumerate(styles)
    ]


def _draw_errors(panel: Axes, moments: Moments) -> None:
    """Draw the standard error of the mean F1, and what it would be for independent pairs."""
    layers = np.arange(moments.rows)
    errors, naive = (
        each[:, 2] / _SMALL for each in (moments.standard_errors, moments.naive_errors)
    )
    label = "allowing for hosts" if moments.knows_hosts else "hosts are not known"
    panel.plot(layers, errors, "-o", color=_BLUE, lw=1.4, ms=4, label=label)
    panel.plot(layers, naive, "--s", color=_ORANGE, lw=1.4, ms=4, label="of independent pairs")
    # A single pair has no error, which is NaN.
    panel.set_ylim(0, 1.15 * max(0.01, *np.nan_to_num([errors, naive]).ravel()))
    panel.set_ylabel("standard error\nof mean F1 ($10^{-4}$)")
    _legend_above(panel, 2)


def _draw_differences(panel: Axes, rows: Sequence["LayerDifference"]) -> None:
    """Draw the difference in F1, with two standard errors to either side if they are known."""
    layers = [row.layer for row in rows]
    differences = np.array([row.differences[2] for row in rows])
    errors = np.array([np.nan if row.errors[2] is None else row.errors[2] for row in rows])
    panel.axhline(0, color=_GREY, lw=1)
    panel.plot(layers, differences, "-o", color=_BLACK, lw=1.2, ms=4, label="B - A, F1")
    if np.isfinite(errors).any():
        panel.errorbar(
            layers,
            differences,
            yerr=2 * errors,
            fmt="none",
            ecolor=_ORANGE,
            elinewidth=1.6,
            capsize=3,
            zorder=3,
            label="two standard errors to either side",
        )
    # Without this, differences that are only rounding would fill the panel.
    reach = np.nanmax(np.abs(differences) + 2 * np.nan_to_num(errors)) * 1.15
    panel.set_ylim(-max(reach, _SMALL), max(reach, _SMALL))
    panel.set_ylabel("difference in F1")
    panel.ticklabel_format(axis="y", style="plain")
    _legend_above(panel, 2)


def _legend_above(panel: Axes, columns: int, drawn: Sequence[Artist] | None = None) -> None:
    """Put the legend above a panel, where it hides nothing."""
    legend = panel.legend(
        handles=drawn,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize=9,
        borderaxespad=0.2,
        columnspacing=1.6,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _shortened(name: str) -> str:
    """Return the end of a long name: the folders at its start say least."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def _png(figure: Figure) -> bytes:
    """Return the figure as a PNG without the date and program that made it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
