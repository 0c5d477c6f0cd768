"""Small metrics of one's own, as users write them: good ones, and each kind of a bad one."""

from collections.abc import Sequence

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


copied.version = "copied-1"
copied.lower_is_better = True


def failing(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Fail, with a text in its words."""
    raise ValueError(f"cannot read {candidates[0]}")


def short(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return too few numbers."""
    return [0.5] * (len(candidates) - 1)


def wordy(candidates: Texts, references: Sequence[Texts]) -> list[str]:
    """Return no numbers."""
    return ["good"] * len(candidates)


def endless(candidates: Texts, references: Sequence[Texts]) -> list[float]:
    """Return numbers that are none."""
    return [float("inf"), float("nan"), -1e300, *[0.5] * (len(candidates) - 3)]


def alone(candidates: Texts) -> list[float]:
    """Take no references."""
    return [0.0] * len(candidates)


chrf = overlap
"""A name that is taken."""
NUMBER = 7
