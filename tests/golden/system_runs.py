"""Two test sets with eight systems each, for idf that is counted by test set.

All sentences are made by rule: a template and words for each, so that some words are rare and some
are in every reference.
"""

from __future__ import annotations

from typing import NamedTuple

SYSTEMS = tuple(f"system-{letter}" for letter in "abcdefgh")

_NEWS = "minister harbour budget strike bridge election storm museum railway hospital"
_TALKS = "ocean memory robot garden music neuron galaxy market village language"
_WORDS = {
    "news": (
        _NEWS.split(),
        "The {0} announced that the {1} will close before the {2} opens in spring.",
    ),
    "talks": (
        _TALKS.split(),
        "So I asked my {0} teacher why a {1} can never become a {2}, and she laughed.",
    ),
}
_SIZES = {"news": 30, "talks": 20}


class Row(NamedTuple):
    """One candidate of one system."""

    test_set: str
    id: int
    system: str
    candidate: str
    reference: str


def rows() -> list[Row]:
    """Return all rows, by test set, system and id."""
    return [
        Row(name, number, system, _candidate(name, number, which), _reference(name, number))
        for name, size in _SIZES.items()
        for which, system in enumerate(SYSTEMS)
        for number in range(size)
    ]


def _reference(name: str, number: int) -> str:
    words, template = _WORDS[name]
    chosen = [words[number * step % len(words)] for step in (1, 3, 7)]
    return f"{template.format(*chosen)} Item {number}."


def _candidate(name: str, number: int, which: int) -> str:
    """Return the reference as a system has it: with a word left out, and perhaps one put in."""
    words = _reference(name, number).split()
    del words[(number + 2 * which) % len(words)]
    if which % 2:
        words.insert(which, _WORDS[name][0][(number + which) % 10])
    return " ".join(words)
