"""An explanation for a terminal of any width; where there is no terminal, without colours."""

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from bertscore_beam.run.output import escape_line
from bertscore_core.explanations.explanation import (
    NO_MATCH,
    RULES,
    ExplainedPair,
    ExplainedText,
    Explanation,
    Measures,
    describe_making,
    describe_reference,
    format_score,
    formula_lines,
    text_notes,
)

# More lines of similarities than this are read by nobody.
_MOST_LINES = 150

_LABEL, _CELL = 14, 7

# From white to the blue of the pictures; readable with black, and the strongest with white.
_LIGHT, _STRONG = (255, 255, 255), (33, 113, 181)


def terminal(explanation: Explanation, *, width: int) -> RenderableType:
    """Return what to print on a terminal of this many columns."""
    making = Text(describe_making(explanation))
    parts: list[RenderableType] = [making, _scores(explanation)]
    for number, pair in enumerate(explanation.pairs):
        title = describe_reference(explanation, number)
        parts.append(Rule(title, align="left", characters="-"))
        parts += _pair(pair, explanation.baseline, width)
    return Group(*parts)


def _scores(explanation: Explanation) -> Table:
    table = _table("", *Measures._fields)
    if explanation.baseline is None:
        table.add_row("score", *map(format_score, explanation.scores))
    else:
        table.add_row("before rescaling", *map(format_score, explanation.raw))
        table.add_row("rescaled score", *map(format_score, explanation.scores))
    if len(explanation.pairs) > 1:
        table.add_row("best reference", *(str(number + 1) for number in explanation.best))
    return table


def _pair(pair: ExplainedPair, baseline: Measures | None, width: int) -> Iterator[RenderableType]:
    for name, text in (("candidate", pair.candidate), ("reference", pair.reference)):
        yield Text(f"{name}: {escape_line(text.text)}")
        yield from map(Text, text_notes(text))
    yield Text("precision: each token of the candidate, and its match")
    yield _parts(pair.candidate, pair.reference, width)
    yield Text("recall: each token of the reference, and its match")
    yield _parts(pair.reference, pair.candidate, width)
    yield from _matrix(pair, width)
    if pair.rule is not None:
        yield Text(RULES[pair.rule], style="bold")
    yield from map(Text, formula_lines(pair, baseline))


def _parts(text: ExplainedText, other: ExplainedText, width: int) -> Table:
    is_wide = width >= 72
    table = _table("#", "token", "weight", *(["share"] if is_wide else []), "match", "sim", "adds")
    for number, token in enumerate(text.tokens):
        match, weight = int(text.matches[number]), float(text.weights[number])
        adds = text.contributions[number]
        table.add_row(
            str(number),
            escape_line(token),
            f"{weight:.3f}",
            *([_digits(text.shares[number])] if is_wide else []),
            "" if match == NO_MATCH else f"{match} {escape_line(other.tokens[match])}",
            _coloured(float(text.similarities[number])),
            _digits(adds),
            style="dim" if weight == 0 else "",
        )
    table.add_row("", "sum", "", *([""] if is_wide else []), "", "", _digits(text.total, 6))
    return table


def _matrix(pair: ExplainedPair, width: int) -> Iterator[RenderableType]:
    rows, columns = pair.similarities.shape
    if not rows or not columns:
        return
    per_block = max((width - _LABEL) // _CELL, 1)
    blocks = range(0, columns, per_block)
    if rows * len(blocks) > _MOST_LINES:
        yield Text(
            f"The {rows} x {columns} similarities are too many for a terminal: write them with "
            "--output FILE.html"
        )
        return
    yield Text("similarities; P: match of a candidate token, R: match of a reference token")
    for start in blocks:
        yield _block(pair, range(start, min(start + per_block, columns)))


def _block(pair: ExplainedPair, columns: Sequence[int]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True, max_width=_LABEL - 1)
    for column in columns:
        name = escape_line(pair.reference.tokens[column])
        table.add_column(Text(name), no_wrap=True, width=_CELL - 1, justify="right")
    for row, token in enumerate(pair.candidate.tokens):
        cells = []
        for column in columns:
            cell = _coloured(float(pair.similarities[row, column]))
            is_match = pair.candidate.matches[row] == column
            is_back = pair.reference.matches[column] == row
            cells.append(cell.append(("P" if is_match else " ") + ("R" if is_back else " ")))
        table.add_row(Text(escape_line(token)), *cells)
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in names:
        is_text = name in ("", "token", "match")
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    return table


def _coloured(similarity: float) -> Text:
    if math.isnan(similarity):
        return Text("")
    strength = min(max(similarity, 0.0), 1.0)
    red, green, blue = (
        round(light + (strong - light) * strength)
        for light, strong in zip(_LIGHT, _STRONG, strict=True)
    )
    ink = "white" if strength > 0.9 else "black"
    style = Style(color=ink, bgcolor=f"rgb({red},{green},{blue})")
    return Text(f"{similarity:.2f}".replace("0.", ".", 1), style=style)


def _digits(value: float, digits: int = 4) -> str:
    return "none" if math.isnan(value) else f"{value:.{digits}f}"
