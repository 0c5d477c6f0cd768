"""A stage of the baseline job: one pipeline, and how to see from the folder how far it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One pipeline.

    Attributes:
        words: What it does, for people.
        build: Adds its steps to an empty pipeline.
        folder: Where its files appear, below the output folder.
        amounts: What each of them stands for, by its path below that; none, and nothing is shown.
        unit: What is counted.
        scores: Whether it scores, and not only reads and sorts.
    """

    words: str
    build: Callable[[beam.Pipeline], Any]
    folder: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    unit: str = "files"
    scores: bool = False


Run = Callable[[Stage], None]
"""Runs a stage to its end."""
