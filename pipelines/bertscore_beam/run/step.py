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


@dataclass
class RunOnDevice(beam.PTransform):
    """Elements -> results of a step that uses a device, on workers that have it.

    The elements reach these workers grouped by name, and are taken apart there. A hint on the step
    alone would store them ungrouped between the two kinds of workers: Dataflow cannot divide the
    reading of such a collection again, so that a bad cut would leave one GPU at work for long.

    Attributes:
        step: The step.
        name: Returns the name of an element, another for each.
        accelerator: The GPU in Beam's notation; None for no GPU.
    """

    step: Step
    name: Callable[[Any], str]
    accelerator: str | None

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Group by name without a device; everything after that needs one."""
        name = self.name
        # Typed, so that its coder gives equal names equal bytes on every worker.
        named = beam.Map(lambda element: (name(element), element))
        grouped = (
            elements
            | "ByName" >> named.with_output_types(tuple[str, Any])
            | "Spread" >> beam.GroupByKey()
        )
        work: beam.PTransform = _TakeApart(self.step)
        if self.accelerator is not None:
            work = work.with_resource_hints(accelerator=self.accelerator)
        return grouped | "OnDevice" >> work


@dataclass
class _TakeApart(beam.PTransform):
    """(Name, elements) -> results of a step."""

    step: Step

    def expand(self, grouped: beam.PCollection[tuple[str, Iterable[Any]]]) -> Any:
        """Return the results."""
        elements = grouped | "TakeApart" >> beam.FlatMapTuple(lambda _, elements: elements)
        return elements | "Run" >> beam.ParDo(RunStep(self.step))
