"""Steps in a pipeline: handed to the processes of this machine, or run where Beam runs them."""

import queue
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.shared import Shared
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from bertscore_beam.run import counters, pool
from bertscore_beam.run.device_loss import ending_with_the_device
from bertscore_beam.run.pool import Answer, Pool, SentStep
from bertscore_beam.run.step import Each, Step


class RunStep(beam.DoFn):
    """Runs a step: in the processes of the open pool, or else in this one, opened once."""

    def __init__(self, step: Step) -> None:
        """Keep the step."""
        self._step = step
        self._shared = Shared()

    def setup(self) -> None:
        """Open the step, unless a pool does that, or another thread has done so."""
        if pool.opened() is not None:
            self._sent = SentStep.of(self._step)
            return
        step = self._step
        # Beam keeps only the last shared object alive: what loads nothing must not replace a model.
        loads_nothing = isinstance(step, Each)
        with ending_with_the_device():
            self._run = step.open() if loads_nothing else self._shared.acquire(step.open)

    def start_bundle(self) -> None:
        """Begin without elements in the pool."""
        self._asked = 0
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def process(self, element: Any) -> Iterator[Any]:
        """Yield the results of an element, or those of others that the pool has finished."""
        processes = pool.opened()
        if processes is None:
            with ending_with_the_device():
                results = list(self._run(element))
            yield from results
            return
        processes.submit(self._sent, element, self._answers.put)
        self._asked += 1
        while self._asked >= processes.most_in_flight:
            yield from self._finished(processes)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the results of the elements that are still in the pool."""
        while self._asked:
            for result in self._finished(pool.needed()):
                yield WindowedValue(result, MIN_TIMESTAMP, [GlobalWindow()])

    def _finished(self, processes: Pool) -> list[Any]:
        """Wait until the pool has finished an element, and return its results."""
        answer = self._answers.get()
        self._asked -= 1
        results, counted = processes.take(answer)
        counters.add(counted)
        return results


@dataclass
class RunOnDevice(beam.PTransform):
    """Elements -> results of a step that uses a device, on workers that have it.

    The elements reach these workers grouped by name, and the groups are taken apart there. With a
    hint on the step alone they would be stored ungrouped between the two kinds of workers. Dataflow
    cannot divide the reading of such a collection again: after an uneven cut, one GPU would work
    long after the others.

    Attributes:
        step: The step. No two elements have the same name.
        accelerator: The GPU in Beam's notation; None for no GPU.
    """

    step: Step
    accelerator: str | None

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Group by name without a device; everything after that needs one."""
        name = self.step.name
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
