"""Small metrics of one's own, as users write them: good ones, and each kind of a bad one."""

import json
import os
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np

Texts = Sequence[str]


def overlap(candidates: Texts, references: Sequence[Texts]) -> list[float | None]:
    """Return the largest share of words that a reference shares; None without any word."""
    return [
        max(len({*text.split()} & {*one.split()}) / len({*text.split()}) for one in group)
        if text.split()
        else None
        for text, group in zip(candidates, references, strict=True)
    ]


def copied(candidates: Texts, references: Sequence[Texts], sources: Texts) -> np.ndarray:
    """Return how many words of the source were left as they are: fewer are better."""
    assert len(candidates) == len(references) == len(sources)
    pairs = zip(candidates, sources, strict=True)
    return np.array([len({*text.split()} & {*source.split()}) for text, source in pairs])


def sized(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return numbers of all sizes, by the length of the text: their sum is no double."""
    sizes = (sys.float_info.max, 1e308, 3.2e-20)
    return [sizes[len(text) % 3] for text in candidates]


copied.version = "copied-1"
copied.lower_is_better = True


def failing(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Fail, with a text in its words."""
    raise ValueError(f"cannot read {candidates[0]}")


def short(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return too few numbers."""
    return [0.5] * (len(candidates) - 1)


def boundless(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return numbers that are hardly any."""
    return [True, float("nan"), -1e300, *[0.5] * (len(candidates) - 3)]


returned: object = None
"""What `whatever` returns of all rows."""


def whatever(candidates: Texts, references: Sequence[Texts]) -> object:
    """Return what a test has set."""
    return returned


def greedy(candidates: list[str], references: list[list[str]]) -> list[float]:
    """Use its lists up."""
    return [len([group.pop() for _ in group[:1]]) for group in references[:]]


def deep(candidates: Texts, references: Sequence[Texts]) -> object:
    """Fail in a module of others, with a text in the words."""
    return json.loads(candidates[0])


def interrupted(candidates: Texts, references: Sequence[Texts]) -> object:
    """Fail by what is no Exception, with a text in its words."""
    raise KeyboardInterrupt(candidates[0])


def ending(candidates: Texts, references: Sequence[Texts]) -> object:
    """End the process."""
    os._exit(3)


def turned(references: Sequence[Texts], candidates: Texts) -> list[float]:
    """Take the texts in the order of others."""
    return [float(len(text)) for text in candidates]


async def later(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return no numbers, but a coroutine."""
    return [0.0] * len(candidates)


class Scorer:
    """A class, of which no object is made."""

    def __init__(self, candidates: Texts, references: Sequence[Texts]) -> None:
        """Take texts all the same."""


def versioned(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Have attributes that a test sets."""
    return [0.0] * len(candidates)


bound = partial(overlap)


def alone(candidates: Texts) -> list[float]:
    """Take no references."""
    return [0.0] * len(candidates)


chrf = overlap
"""A name that is taken."""
NUMBER = 7
