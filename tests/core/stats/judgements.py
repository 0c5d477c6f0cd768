"""Made-up judgements and scores that agree with them more or less."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Judged(NamedTuple):
    """Rows of items that several systems answer, judged by people and scored by settings."""

    people: Numbers
    scores: Numbers
    items: npt.NDArray[np.int64]
    systems: npt.NDArray[np.str_]


def judged(items: int, systems: int, *, noise: tuple[float, ...], seed: int = 0) -> Judged:
    """Make one row for each item and system.

    People judge in steps of 5 points of 100, so they tie. Items differ in how hard they are, and
    settings in their noise; a setting of noise infinity knows nothing. Systems stay the same
    whatever the seed is.
    """
    rng = np.random.default_rng(seed)
    quality = np.linspace(-1, 1, systems + 2)[1:-1] + rng.normal(size=(items, 1))
    quality = (quality + rng.normal(size=(items, systems))).ravel()
    people = np.clip(np.round((50 + 15 * quality) / 5) * 5, 0, 100)
    scores = [
        rng.normal(size=quality.size) if np.isinf(spread)
        else quality + spread * rng.normal(size=quality.size)
        for spread in noise
    ]  # fmt: skip
    return Judged(
        people,
        np.array(scores),
        np.repeat(np.arange(items), systems),
        np.tile([f"system-{number}" for number in range(systems)], items),
    )


def jackknife_errors(without: Callable[[npt.NDArray[np.bool_]], Numbers], keys: Numbers) -> Numbers:
    """Return standard errors by counting again without the rows of each key."""
    left_out = np.array([without(keys != key) for key in np.unique(keys)])
    size = len(left_out)
    return np.sqrt((size - 1) / size * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
