"""An explanation as a picture: the matrix with its matches, and what each token adds.

References:
    Zhang et al. 2020, figure 1 (similarities, matches and idf weights of a pair) and figure 2 (the
    tokens that a score comes from).
"""

import io
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from bertscore_core.errors import InputError, check_package, escape_text
from bertscore_core.explanations.explanation import (
    NO_MATCH,
    ExplainedPair,
    ExplainedText,
    Explanation,
    describe_making,
)
from bertscore_core.tokens import FloatArray

# Fonts for a picture: those that have its characters, and numbers where no font has them.

# Of the same design as most text first; then whatever is installed.
_BASE = "DejaVu Sans"
# Has a frame with a number for every character there is, so it would hide what is missing.
_PLACEHOLDERS = "Last Resort"


def families_for(text: str) -> tuple[list[str], set[str]]:
    """Choose installed fonts that together have the characters of a text.

    Returns:
        The families for matplotlib, in order, and the characters that none of them has.
    """
    families, missing = [_BASE], {character for character in text if not character.isspace()}
    for name, path in _installed():
        new = missing & _characters(path)
        if new:
            families.append(name)
            missing -= new
        if not missing:
            break
    return list(dict.fromkeys(families)), missing


def drawable(text: str, missing: set[str]) -> str:
    """Return a text in which characters without a font are given by number, such as U+1F642."""
    return "".join(
        f"U+{ord(character):04X} " if character in missing else character for character in text
    ).strip()


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    from matplotlib.font_manager import fontManager

    paths: dict[str, str] = {}
    for font in fontManager.ttflist:
        if font.style == "normal" and not font.name.startswith(_PLACEHOLDERS):
            paths.setdefault(font.name, font.fname)
    return tuple(sorted(paths.items(), key=lambda font: (font[0] != _BASE, font)))


@cache
def _characters(path: str) -> frozenset[str]:
    """Return the characters that a font has; none if it cannot be opened."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):  # draw all the same, without a damaged font
        return frozenset()


FORMATS = ("png", "svg")

# Above this many cells the numbers would not be read, and drawing them takes minutes.
_MOST_NUMBERS = 40 * 40

# Side of a cell in inches: with numbers, without, and the longest side of a whole matrix.
_CELL, _SMALL_CELL, _LONGEST = 0.5, 0.16, 40.0

_FAINT, _STRONG = "#c6dbef", "#08519c"
_OF_PRECISION, _OF_RECALL = "#d94801", "#238b45"


def picture(explanation: Explanation, kind: str = "png", *, reference: int | None = None) -> bytes:
    """Draw the candidate with one reference.

    Args:
        explanation: What to draw.
        kind: `png` or `svg`. In an SVG, text stays text: the viewer's fonts draw it.
        reference: Which reference, from 0; None for the one that gives F1.

    Raises:
        ConfigError: matplotlib is not installed.
        InputError: A text has no tokens.
    """
    check_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "bertscore"}
    buffer = io.BytesIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        figure = Figure(layout="constrained")
        draw(explanation, figure, reference=reference, any_font=kind == "svg")
        # The fonts here do not matter for an SVG, and of a PNG what they lack was left out above.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(
            buffer, format=kind, dpi=100, metadata={"Date": None} if kind == "svg" else None
        )
    return buffer.getvalue()


def draw(
    explanation: Explanation, figure: Any, *, reference: int | None = None, any_font: bool = False
) -> None:
    """Draw the candidate with one reference on an empty figure of matplotlib, which gets its size.

    The reference is as for `picture`. With `any_font` the viewer chooses the fonts; otherwise
    characters that the fonts of this machine lack are shown by number.

    Raises:
        InputError: A text has no tokens.
    """
    import matplotlib as mpl

    number = explanation.best[2] if reference is None else reference
    pair = explanation.pairs[number]
    if not pair.similarities.size:
        raise InputError(
            "there is nothing to draw: got a text without tokens; expected similarities. Write an "
            "HTML file."
        )
    tokens = [*pair.candidate.tokens, *pair.reference.tokens]
    families, missing = (["sans-serif"], set()) if any_font else families_for("".join(tokens))
    with mpl.rc_context({"font.family": families}):
        _draw(figure, explanation, pair, missing, _title(explanation, number))


def check_matplotlib() -> None:
    """Check that pictures can be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    check_package("matplotlib.figure", "a picture", "plot")


def _title(explanation: Explanation, number: int) -> str:
    pair = explanation.pairs[number]
    words = "precision {:.4f}   recall {:.4f}   F1 {:.4f}"
    lines = [words.format(*pair.raw)]
    if explanation.baseline is not None:
        lines.append(f"rescaled: {words.format(*pair.scores)}")
    if len(explanation.pairs) > 1:
        lines.append(f"reference {number + 1} of {len(explanation.pairs)}")
    if pair.rule is not None:
        lines.append(f"the scores are not the sums: {pair.rule}")
    return "\n".join(lines)


def _draw(
    figure: Any, explanation: Explanation, pair: ExplainedPair, missing: set[str], title: str
) -> None:
    rows, columns = pair.similarities.shape
    with_numbers = rows * columns <= _MOST_NUMBERS
    cell = _CELL if with_numbers else _SMALL_CELL
    cell = min(cell, _LONGEST / max(rows, columns, 1))
    width, height = max(columns * cell, 2.0), max(rows * cell, 1.5)
    figure.set_size_inches(width + 5.0, height + 4.0)
    grid = figure.add_gridspec(2, 2, width_ratios=(width, 2.2), height_ratios=(1.6, height))
    axes = figure.add_subplot(grid[1, 0])
    labels = [
        [drawable(token, missing) for token in side.tokens]
        for side in (pair.candidate, pair.reference)
    ]
    _draw_matrix(axes, pair.similarities, *labels, with_numbers=with_numbers)
    axes.set_aspect("auto")
    axes.tick_params(labelsize=min(10.0, cell * 60))
    axes.set_xlabel("reference")
    axes.set_ylabel("candidate")
    _mark(axes, pair, size=(0.8 * 72 * cell) ** 2)
    _draw_parts(figure.add_subplot(grid[0, 0], sharex=axes), pair.reference, "recall", upright=True)
    _draw_parts(
        figure.add_subplot(grid[1, 1], sharey=axes), pair.candidate, "precision", upright=False
    )
    figure.suptitle(f"{title}\n{describe_making(explanation)}", fontsize=11, parse_math=False)
    _draw_key(figure.add_subplot(grid[0, 1]), missing)


def _draw_matrix(
    axes: Any,
    values: FloatArray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    with_numbers: bool,
) -> None:
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
    across, down = ([escape_text(label) for label in labels] for labels in (columns, rows))
    axes.set_xticks(range(len(columns)), across, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), down)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)  # a token may hold dollar signs
    for (row, column), value in np.ndenumerate(values) if with_numbers else ():
        color = "k" if value < 0.5 else "w"  # readable on light and on dark cells
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)


def _mark(axes: Any, pair: ExplainedPair, *, size: float) -> None:
    sides = ((pair.candidate, "s", _OF_PRECISION, False), (pair.reference, "o", _OF_RECALL, True))
    for text, shape, color, is_flipped in sides:
        own = np.flatnonzero((text.matches != NO_MATCH) & (text.weights != 0))
        places = (own, text.matches[own]) if is_flipped else (text.matches[own], own)
        axes.scatter(*places, marker=shape, s=size, facecolors="none", edgecolors=color)


def _draw_parts(axes: Any, text: ExplainedText, name: str, *, upright: bool) -> None:
    places = np.arange(len(text.tokens))
    draw = axes.bar if upright else axes.barh
    draw(places, text.shares, color=_FAINT)
    draw(places, text.contributions, color=_STRONG)
    axes.set_title(f"{name}: sum {text.total:.4f}", fontsize=9)
    axes.tick_params(
        labelbottom=not upright, labelleft=upright, bottom=not upright, left=upright, labelsize=8
    )


def _draw_key(axes: Any, missing: set[str]) -> None:
    axes.set_axis_off()
    for shape, face, color, words in (
        ("s", _FAINT, _FAINT, "share of the weights"),
        ("s", _STRONG, _STRONG, "share x similarity"),
        ("s", "none", _OF_PRECISION, "match of a candidate token"),
        ("o", "none", _OF_RECALL, "match of a reference token"),
    ):
        axes.scatter([], [], marker=shape, s=60, facecolors=face, edgecolors=color, label=words)
    note = "No font here has some characters:\nthey are shown by number." if missing else None
    axes.legend(loc="upper left", frameon=False, fontsize=8, title=note, title_fontsize=8)
