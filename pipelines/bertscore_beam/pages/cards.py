"""Single rows as cards: one for each segment, with what has changed in a text marked."""

import re
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

from markupsafe import Markup, escape

from bertscore_beam.pages.report_data import ChosenRow
from bertscore_core.errors import escape_text

MOST_CHARACTERS = 2000
"""Most characters of one text. What is left out is counted."""

_LEAST_ALIKE = 0.3
"""Texts that are less alike have no marks: they would be all over them."""

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECES = re.compile(rf"\s+|[{_WIDE}]|[^\s{_WIDE}]+")
"""What is marked as one: a word, or a character of a script that writes none apart."""


def segments_of(rows: Sequence[ChosenRow]) -> list[list[ChosenRow]]:
    """Return rows by segment, the first one's first: rows with the same references are of one.

    Rows without references, or whose texts the page does not hold, are by themselves.
    """
    segments: dict[Hashable, list[ChosenRow]] = {}
    for row in rows:
        references = row.texts and row.texts.references
        segments.setdefault(references or row.place, []).append(row)
    return list(segments.values())


def cut_text(text: str) -> str:
    """Return the text of a row as it is shown: invisible characters as codes, and not too long."""
    if len(text) <= MOST_CHARACTERS:
        return escape_text(text)
    left = len(text) - MOST_CHARACTERS
    return f"{escape_text(text[:MOST_CHARACTERS])} … ({left:,} more characters)"


def marked_texts(before: str, now: str) -> tuple[Markup, Markup]:
    """Return two texts as they are shown, with what differs marked as deleted and inserted."""
    pieces: list[list[str]] = [_PIECES.findall(cut_text(text)) for text in (before, now)]
    found = SequenceMatcher(a=pieces[0], b=pieces[1])
    same = [one for at, _, size in found.get_matching_blocks() for one in pieces[0][at : at + size]]
    is_alike = 2 * _words_in(same) >= _LEAST_ALIKE * _words_in(pieces[0] + pieces[1])
    marked = (Markup(), Markup())
    for kind, *ends in found.get_opcodes():
        spans = ("".join(pieces[0][slice(*ends[:2])]), "".join(pieces[1][slice(*ends[2:])]))
        marked = (
            marked[0] + _marked("del" if is_alike and kind != "equal" else "", spans[0]),
            marked[1] + _marked("ins" if is_alike and kind != "equal" else "", spans[1]),
        )
    return marked


def _words_in(pieces: list[str]) -> int:
    return sum(not piece.isspace() for piece in pieces)


def _marked(tag: str, text: str) -> Markup:
    if not tag or not text:
        return escape(text)
    return Markup("<{}>{}</{}>").format(tag, text, tag)
