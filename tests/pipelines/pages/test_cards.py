"""Single rows as cards: what is of one segment, and which words have changed."""

from dataclasses import replace

import pytest

from bertscore_beam.pages.cards import MOST_CHARACTERS, marked_texts, segments_of
from bertscore_beam.pages.report_data import Texts
from tests.support.report_data import HOSTILE, TEXTS, chosen_row


def test_rows_with_the_same_references_are_one_segment_in_the_order_of_the_rows():
    texts = [Texts(candidate=str(at), references=(f"r{at % 2}",)) for at in range(4)]
    rows = [chosen_row(at, texts=one) for at, one in enumerate(texts)]
    assert segments_of(rows) == [[rows[0], rows[2]], [rows[1], rows[3]]]
    alone = [replace(row, texts=replace(row.texts, references=())) for row in rows]
    assert segments_of(alone) == [[row] for row in alone]
    unread = [replace(row, texts=None) for row in rows]
    assert segments_of(unread) == [[row] for row in unread]


@pytest.mark.parametrize(
    ("before", "now", "marked"),
    [
        ("the cat sat", "the cat sat", ("the cat sat", "the cat sat")),
        ("the cat sat", "the dog sat", ("the <del>cat</del> sat", "the <ins>dog</ins> sat")),
        ("the cat sat", "the cat", ("the cat<del> sat</del>", "the cat")),
        ("\u732b\u5728\u57ab\u5b50", "\u72d7\u5728\u57ab\u5b50",
         ("<del>\u732b</del>\u5728\u57ab\u5b50", "<ins>\u72d7</ins>\u5728\u57ab\u5b50")),
        ("one two three", "four five six", ("one two three", "four five six")),
        ("a <b> c", "a <i> c",
         ("a <del>&lt;b&gt;</del> c", "a <ins>&lt;i&gt;</ins> c")),
        ("a b", "a\u200b b", ("<del>a</del> b", "<ins>a\\u200b</ins> b")),
        ("", "a", ("", "a")),
    ],
)  # fmt: skip
def test_what_differs_is_marked(before, now, marked):
    assert marked_texts(before, now) == marked


@pytest.mark.parametrize("words", HOSTILE)
def test_marked_texts_are_escaped(words):
    for text in marked_texts(f"same words {words}", f"same words {words[::-1]}"):
        left = text.replace("<del>", "").replace("</del>", "")
        left = left.replace("<ins>", "").replace("</ins>", "")
        assert not {"<", ">"} & set(left)


def test_long_texts_are_cut_before_they_are_compared():
    long = TEXTS[-1].candidate
    for marked, length in zip(marked_texts(long, f"other {long}"), (4500, 4506), strict=True):
        assert f"({length - MOST_CHARACTERS:,} more characters)" in marked.striptags()
        assert len(marked.striptags()) < MOST_CHARACTERS + 50
