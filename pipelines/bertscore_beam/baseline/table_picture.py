"""The picture of a baseline table: how F1 of random pairs is distributed.

It is drawn without a display and without matplotlib's global state, and the same numbers give the
same bytes. The colours are those of Okabe and Ito, which colour-blind readers can distinguish, and
no two lines differ only in colour.
"""

import io
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bertscore_beam.run.output import escape_line
from bertscore_core.stats.moments import Moments

_BANDS = (
    ("F1 of 98% of the pairs", 0.01, "#D3E6F4", 0.84),
    ("of 90%", 0.05, "#94C4E6", 0.66),
    ("of 50%", 0.25, "#3C8DC5", 0.48),
)
"""Label, lower quantile, colour and width (in layers) of the nested bars."""
_BLUE, _NAVY, _ORANGE, _BLACK = "#0072B2", "#08306B", "#E69F00", "#1A1A1A"
_SMALL = 1e-4
"""Unit of the panel of standard errors."""
_DOTS_PER_INCH = 120
_FEWEST_PLACES = 5
"""A model of fewer layers gets no wider bars."""
_MOST_NUMBERS = 30
"""Layers that are numbered one by one."""
_LONGEST_NAME = 70
_LEGEND: dict[str, Any] = {
    **{"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2},
    **{"frameon": False, "fontsize": 9, "columnspacing": 1.6},
}


def draw_distributions(moments: Moments, title: str) -> bytes:
    """Draw F1 of one random pair or more at every layer, and the errors of the means, as a PNG."""
    rows, layers = moments.rows, np.arange(moments.rows)
    size = (float(np.clip(5.0 + 0.26 * rows, 7.5, 15.0)), 7.2)
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained", facecolor="white")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    # A name may hold a dollar sign, which would begin a formula.
    points = 12 if len(title) <= _LONGEST_NAME else 9
    figure.suptitle(escape_line(title), fontsize=points, fontweight="bold", parse_math=False)
    for panel in (upper, lower):
        panel.grid(axis="y", color="#E5E5E5", lw=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)

    bands: list[Any] = []
    for label, share, colour, width in _BANDS:
        low, high = moments.quantiles([share, 1 - share])[:, :, 2]
        bands.append(upper.bar(layers, high - low, width, bottom=low, color=colour, label=label))
    median = moments.quantiles([0.5])[0, :, 2]
    bands.append(
        upper.hlines(median, layers - 0.33, layers + 0.33, colors=_NAVY, lw=1.6, label="median")
    )
    upper.use_sticky_edges = False  # bars would touch the axis and look cut off
    black: dict[str, Any] = {"color": _BLACK, "lw": 1.2}
    precision, recall, f1 = moments.means.T
    means = [
        *upper.plot(layers, precision, "-s", color=_ORANGE, lw=4, ms=5, label="mean precision"),
        *upper.plot(layers, recall, "x", ls=(0, (3, 2)), ms=4, label="mean recall", **black),
        *upper.plot(layers, f1, "-o", ms=4.5, mfc="white", label="mean F1", **black),
    ]
    # A legend is filled column by column: bands in its first row, means in its second.
    drawn = [artist for pair in zip_longest(bands, means) for artist in pair if artist is not None]
    upper.legend(handles=drawn, ncols=4, **_LEGEND)
    upper.set_ylabel("score of random pairs")

    errors, naive = moments.standard_errors[:, 2] / _SMALL, moments.naive_errors[:, 2] / _SMALL
    label = "allowing for hosts" if moments.knows_hosts else "hosts are not known"
    lower.plot(layers, errors, "-o", color=_BLUE, lw=1.4, ms=4, label=label)
    lower.plot(layers, naive, "--s", color=_ORANGE, lw=1.4, ms=4, label="of independent pairs")
    # A single pair has no error, which is NaN.
    lower.set_ylim(0, 1.15 * max(0.01, *np.nan_to_num([errors, naive]).ravel()))
    lower.set_ylabel("standard error\nof mean F1 ($10^{-4}$)")
    lower.legend(ncols=2, **_LEGEND)
    lower.set_xlabel("layer (0: the embeddings)")
    middle, half = (rows - 1) / 2, max(rows / 2, _FEWEST_PLACES / 2) + 0.2
    lower.set_xlim(middle - half, middle + half)
    lower.set_xticks(range(0, rows, 1 if rows <= _MOST_NUMBERS else 2))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})  # nor the date
    return buffer.getvalue()
