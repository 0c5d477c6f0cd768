"""A stage of a job: one pipeline, and the files that show its progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from bertscore_beam.run.progress import Amounts
from bertscore_beam.run.runner import Runner

Build = Callable[[beam.Pipeline], Any]
"""Adds the steps of a stage to an empty pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One pipeline of a job.

    Attributes:
        name: Its name, one word.
        runner: The runner that it runs on.
        build: Adds its steps to an empty pipeline.
        words: A message for people at its start; "" for none.
        folder: Where its files appear, below the output folder.
        amounts: The amount of each expected file, such as its rows, by its path below that folder.
        before: What was done before the stage, in the same unit. Without this and any amount, no
            progress is shown.
        unit: Unit of the amounts.
        first: How much is read before the first file can appear, and its unit.
        started: When the run began, in seconds since the epoch; None for the start of the stage.
    """

    name: str
    runner: Runner
    build: Build
    words: str = ""
    folder: str = ""
    amounts: Amounts = field(default_factory=Amounts)
    before: int = 0
    unit: str = "files"
    first: tuple[int, str] = (0, "")
    started: float | None = None
