"""A step that opens files or handles rows: a plain function of an element that yields results.

A step knows nothing of Beam, and only its elements and results cross a stage boundary. So a text
or a score, which lives inside the function, cannot.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.utils.shared import Shared


class Step(Protocol):
    """What is done with each element of a collection; it is pickled on its way to workers."""

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Load what the step needs, and return its function.

        Threads share the function. It may be called again with an element that it has had.
        """


@dataclass(frozen=True, slots=True)
class Each:
    """A step that loads nothing.

    Attributes:
        function: What is done with each element.
    """

    function: Callable[[Any], Iterable[Any]]

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Return the function."""
        return self.function


class RunStep(beam.DoFn):
    """Runs a step, which is opened once a process."""

    def __init__(self, step: Step) -> None:
        """Keep the step."""
        self._step = step
        self._shared = Shared()

    def setup(self) -> None:
        """Open the step, if no other thread has."""
        self._run: Callable[[Any], Iterable[Any]] = self._shared.acquire(self._step.open)

    def process(self, element: Any) -> Iterator[Any]:
        """Yield the results of an element."""
        yield from self._run(element)
