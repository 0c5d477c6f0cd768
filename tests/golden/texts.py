"""The texts that the golden scores are made of, read from texts.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class PairCase(NamedTuple):
    """One candidate and one reference."""

    name: str
    candidate: str
    reference: str


class MultiReferenceCase(NamedTuple):
    """One candidate and several references."""

    name: str
    candidate: str
    references: tuple[str, ...]


_LONG_CANDIDATE = " ".join(
    f"On day {day} the harbour pilot noted wind, tide and the {ship} at berth {day % 7}."
    for day, ship in enumerate(("barge", "tug", "ferry", "trawler", "schooner") * 9, start=1)
)
_LONG_REFERENCE = " ".join(
    f"Entry {day}: the pilot of the harbour wrote down the tide and saw a {ship} leave."
    for day, ship in enumerate(("tug", "barge", "trawler", "ferry", "yacht") * 9, start=1)
)
_LONG = {
    "<long candidate>": _LONG_CANDIDATE,
    "<long reference>": _LONG_REFERENCE,
    "<paragraph candidate>": " ".join(_LONG_CANDIDATE.split()[:90]),
    "<paragraph reference>": " ".join(_LONG_REFERENCE.split()[:80]),
}
_TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def columns(pairs: Iterable[PairCase]) -> tuple[list[str], list[str]]:
    """Split pairs into candidates and references."""
    kept = list(pairs)
    return [pair.candidate for pair in kept], [pair.reference for pair in kept]


def _pairs(table: str) -> tuple[PairCase, ...]:
    return tuple(
        PairCase(name, *(_LONG.get(text, text) for text in texts))
        for name, texts in _TEXTS[table].items()
    )


PAIRS = _pairs("plain") + _pairs("edge")
MULTI_REFERENCE = tuple(
    MultiReferenceCase(name, candidate, tuple(references))
    for name, (candidate, references) in _TEXTS["multi_reference"].items()
)
ALL_TOKENS_IN_ALL_REFERENCES = _pairs("all_tokens_in_all_references")
SINGLE_DOCUMENT = _pairs("single_document")
FAMILY_PAIRS = tuple(
    next(pair for pair in PAIRS if pair.name == name) for name in _TEXTS["families"].split()
)
GAP_PAIRS = _pairs("gap")
