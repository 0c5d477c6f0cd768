"""A step that opens files or handles rows: a plain function of an element that yields results.

A step knows nothing of Beam. Only its elements and results can cross a stage boundary; texts and
scores stay inside the function.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.utils.shared import Shared


class Step(Protocol):
    """What is done with each element of a collection. It is pickled and sent to workers."""

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Load what the step needs, and return its function.

        Threads share the function. It may be called with the same element again.
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
    """Runs a step, which is opened once in each process."""

    def __init__(self, step: Step) -> None:
        """Keep the step."""
        self._step = step
        self._shared = Shared()

    def setup(self) -> None:
        """Open the step, unless another thread has done so."""
        step = self._step
        # Beam keeps one shared object alive: what loads nothing must not take a model's place.
        loads_nothing = isinstance(step, Each)
        self._run = step.open() if loads_nothing else self._shared.acquire(step.open)

    def process(self, element: Any) -> Iterator[Any]:
        """Yield the results of an element."""
        yield from self._run(element)


@dataclass
class RunOnDevice(beam.PTransform):
    """Elements -> results of a step that uses a device, on workers that have it.

    The elements reach these workers grouped by name, and the groups are taken apart there. With a
    hint on the step alone they would be stored ungrouped between the two kinds of workers. Dataflow
    cannot divide the reading of such a collection again: after an uneven cut, one GPU would work
    long after the others.

    Attributes:
        step: The step.
        name: Returns the name of an element; no two elements have the same.
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
