"""An explanation as HTML: a page without scripts that loads nothing, or a piece of one."""

import html
import math
from collections.abc import Iterable, Iterator, Sequence

from bertscore_core.explanation import (
    NO_MATCH,
    ExplainedPair,
    ExplainedText,
    Explanation,
    Measures,
)
from bertscore_core.explanation_words import (
    formula_words,
    making_words,
    reference_words,
    rule_words,
    score_words,
    text_notes,
)
from bertscore_core.visible_text import escape_text

MOST_CELLS = 250_000
"""Most similarities shown, of two texts of 500 tokens: some 5 MB. Of more, only the matches."""

_LEVELS = 10

# The blue is laid over the background, so that it fits a light and a dark page. Black on the
# strongest but one and white on the strongest have a contrast of more than 4.5.
_STYLE = """
.bse { font: 16px/1.5 system-ui, sans-serif; color: #111; max-width: 100%; }
.bse h2 { font-size: 1.25em; } .bse h3 { font-size: 1.1em; } .bse h4 { font-size: 1em; }
.bse table { border-collapse: collapse; margin: .5em 0 1em; font-variant-numeric: tabular-nums; }
.bse caption { text-align: start; font-weight: 600; padding-bottom: .3em; }
.bse th, .bse td { border: 1px solid #8886; padding: .1em .5em; text-align: end; }
.bse th { font-weight: 600; } .bse th[scope=row], .bse td.w { text-align: start; }
.bse .scroll { overflow: auto; max-height: 80vh; }
.bse .scroll:focus-visible { outline: 3px solid #2171b5; }
.bse .matrix td { padding: .1em .25em; } .bse .matrix sub { font-weight: 700; }
.bse .matrix td.m { outline: 2px solid currentColor; outline-offset: -2px; }
.bse .text { line-height: 2; overflow-wrap: anywhere; }
.bse .text span { padding: .15em .2em; margin-inline-end: .15em; border-radius: .2em; }
.bse p { overflow-wrap: anywhere; }
.bse .none { font-style: italic; }
.bse .s10 { color: #fff; }
@media (prefers-color-scheme: dark) { .bse { color: #eee; } }
@media print { .bse .scroll { overflow: visible; max-height: none; } }
""" + "".join(
    f".bse .s{level} {{ background: rgba(33, 113, 181, {level / _LEVELS}); }}\n"
    for level in range(1, _LEVELS + 1)
)

_PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 1em auto; padding: 0 1em; max-width: 90em; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #121212; } }
"""


def page(sections: Sequence[tuple[str, Sequence[str], Explanation]], title: str) -> str:
    """Return a page that needs nothing else.

    Args:
        sections: A heading, some lines of notes, and an explanation each.
        title: Title of the page.
    """
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{_escape(title)}</title>\n<style>{_PAGE_STYLE}{_STYLE}</style>\n</head>\n<body>\n",
        f'<main class="bse">\n<h1>{_escape(title)}</h1>\n',
    ]
    for heading, notes, explanation in sections:
        parts.append(f"<section>\n<h2><bdi>{_escape(heading)}</bdi></h2>\n")
        parts += [f"<p>{_escape(note)}</p>\n" for note in notes]
        parts += _explanation(explanation)
        parts.append("</section>\n")
    parts.append("</main>\n</body>\n</html>\n")
    return "".join(parts)


def fragment(explanation: Explanation) -> str:
    """Return an explanation with its style, to be shown in a notebook."""
    body = "".join(_explanation(explanation))
    return f'<style>{_STYLE}</style>\n<div class="bse">\n{body}</div>\n'


def _explanation(explanation: Explanation) -> Iterator[str]:
    yield f"<p>{_escape(making_words(explanation))}</p>\n"
    yield _scores_table(explanation)
    for number, pair in enumerate(explanation.pairs):
        yield f"<section>\n<h3>{_escape(reference_words(explanation, number))}</h3>\n"
        yield from _pair(pair, explanation.baseline)
        yield "</section>\n"


def _scores_table(explanation: Explanation) -> str:
    """Return the scores, and the reference each of them comes from."""
    heads = ["", *Measures._fields]
    rows = [("score", explanation.scores)]
    if explanation.baseline is not None:
        rows = [
            ("before rescaling", explanation.raw),
            ("baseline", explanation.baseline),
            ("rescaled score", explanation.scores),
        ]
    cells = [[name, *(score_words(value) for value in values)] for name, values in rows]
    if len(explanation.pairs) > 1:
        cells.append(["best reference", *(str(number + 1) for number in explanation.best)])
    return _table("Scores", heads, cells)


def _pair(pair: ExplainedPair, baseline: Measures | None) -> Iterator[str]:
    for name, text in (("Candidate", pair.candidate), ("Reference", pair.reference)):
        yield f"<h4>{name}</h4>\n{_coloured(text)}"
        yield from (f"<p>{_escape(note)}</p>\n" for note in text_notes(text))
    if pair.rule is not None:
        yield f"<p><strong>{_escape(rule_words(pair.rule))}</strong></p>\n"
    yield "<ul>\n"
    yield from (f"<li>{_escape(words)}</li>\n" for words in formula_words(pair, baseline))
    yield "</ul>\n"
    yield _matrix(pair)
    yield _parts("Precision: the tokens of the candidate", pair.candidate, pair.reference)
    yield _parts("Recall: the tokens of the reference", pair.reference, pair.candidate)


def _coloured(text: ExplainedText) -> str:
    """Return the tokens of a text, the darker the more similar their matches are."""
    spans = []
    for number, token in enumerate(text.tokens):
        similarity, weight = text.similarities[number], text.weights[number]
        label = f"similarity {score_words(similarity)}, weight {weight:.3f}"
        level = f"none s{_level(similarity)}" if weight == 0 else f"s{_level(similarity)}"
        spans.append(f'<span class="{level}" title="{label}">{_escape(token)}</span>')
    return f'<p class="text" dir="auto">{" ".join(spans) or "(no tokens)"}</p>\n'


def _matrix(pair: ExplainedPair) -> str:
    """Return the similarities, with P and R where a token of a side has its match."""
    rows, columns = pair.similarities.shape
    if not rows or not columns:
        return ""
    if rows * columns > MOST_CELLS:
        return f"<p>The {rows:,} x {columns:,} similarities are left out: they are too many.</p>\n"
    label = "Similarities. P: match of a candidate token; R: match of a reference token."
    head = "".join(f'<th scope="col"><bdi>{_escape(one)}</bdi>' for one in pair.reference.tokens)
    parts = [
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n',
        f'<table class="matrix"><caption>{label}</caption>\n<tr><td>{head}\n',
    ]
    matches = pair.candidate.matches.tolist()
    back = pair.reference.matches.tolist()
    for row, values in enumerate(pair.similarities.tolist()):
        parts.append(f'<tr><th scope="row"><bdi>{_escape(pair.candidate.tokens[row])}</bdi>')
        for column, value in enumerate(values):
            mark = ("P" if matches[row] == column else "") + ("R" if back[column] == row else "")
            level = f"s{_level(value)}" + (" m" if mark else "")
            letters = f"<sub>{mark}</sub>" if mark else ""
            parts.append(f'<td class="{level}">{value:.2f}{letters}')
        parts.append("\n")
    return "".join([*parts, "</table>\n</div>\n"])


def _parts(caption: str, text: ExplainedText, other: ExplainedText) -> str:
    """Return what each token of a text adds to the sum."""
    heads = ["token", "weight", "share", "match", "similarity", "contribution"]
    rows = [
        [
            token,
            f"{text.weights[number]:.4f}",
            score_words(text.shares[number]),
            other.tokens[match] if (match := int(text.matches[number])) != NO_MATCH else "",
            score_words(text.similarities[number]),
            score_words(text.contributions[number]),
        ]
        for number, token in enumerate(text.tokens)
    ]
    rows.append(["sum", "", "", "", "", score_words(text.total)])
    return f"<details>\n<summary>{caption}</summary>\n{_table(caption, heads, rows)}</details>\n"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_escape(name)}' for name in heads)
    lines = [
        f'<tr><th scope="row"><bdi>{_escape(first)}</bdi>'
        + "".join(f"<td><bdi>{_escape(cell)}</bdi>" for cell in others)
        for first, *others in rows
    ]
    body = "\n".join(lines)
    return f"<table><caption>{_escape(caption)}</caption>\n<tr>{head}\n{body}\n</table>\n"


def _level(similarity: float) -> int:
    """Return how strongly a similarity is coloured, from 0 to `_LEVELS`."""
    return 0 if math.isnan(similarity) else round(min(max(similarity, 0.0), 1.0) * _LEVELS)


def _escape(text: str) -> str:
    return html.escape(escape_text(text))
