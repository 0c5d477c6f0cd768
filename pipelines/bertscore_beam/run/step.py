"""A step that opens files or handles rows: a plain function of an element that yields results.

A step knows nothing of Beam, so that a process without Beam can run it. Only its elements and
results can cross a stage boundary; texts and scores stay inside the function.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol


class Step(Protocol):
    """What is done with each element of a collection. It is pickled and sent to workers."""

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Load what the step needs, and return its function.

        Threads share the function. It may be called with the same element again, and then yields as
        many results in the same order: what has been sent before is not sent again.
        """

    def name(self, element: Any, /) -> str:
        """Return the name that people know an element by."""


@dataclass(frozen=True, slots=True)
class Each:
    """A step that loads nothing.

    Attributes:
        function: What is done with each element.
        names: Returns the name that people know an element by.
    """

    function: Callable[[Any], Iterable[Any]]
    names: Callable[[Any], str]

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Return the function."""
        return self.function

    def name(self, element: Any, /) -> str:
        """Return the name that people know an element by."""
        return self.names(element)
