"""Steps in a pipeline: handed to the processes of this machine, or run where Beam runs them."""

import logging
import os
import pickle
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.shared import Shared
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from bertscore_beam.run import pool
from bertscore_beam.run.lease import keep_lease
from bertscore_beam.run.loading import threads_in_environment
from bertscore_beam.run.output import DEVICE_LOST, event
from bertscore_beam.run.phases import Phase
from bertscore_beam.run.pool import Answer, Each, Pool, Step
from bertscore_core.errors import DeviceLostError

# End a worker of Beam whose GPU has failed, so that the runner starts another one.
#
# Only a new process helps: the runner would try each of its splits again in the same one.

logger = logging.getLogger(__name__)

_WORKER_MODULE = "apache_beam.runners.worker.sdk_worker"
"""In the command line of every process that Beam starts for its work, and for that alone."""

_LOG_SECONDS = 10.0
"""How long the log may take to reach the runner."""


@contextmanager
def ending_with_the_device() -> Iterator[None]:
    """End this process if its GPU fails in the body, and if it is one of Beam's workers.

    Raises:
        DeviceLostError: The GPU has failed in a process that does other things, too.
    """
    try:
        yield
    except DeviceLostError as error:
        logger.error(event("device_lost", error=error), exc_info=error)
        if any(_WORKER_MODULE in word for word in sys.orig_argv):
            # The log goes to the runner from a thread, which would end with the process.
            telling = threading.Thread(target=logging.shutdown, daemon=True)
            telling.start()
            telling.join(_LOG_SECONDS)
            os._exit(DEVICE_LOST)
        raise


class RunStep(beam.DoFn):
    """Runs a step: in the processes of the open pool, or else in this one, opened once."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._shared = Shared()
        self.lease = ""
        """The folder of whose lease the workers of a Dataflow job take care."""
        self.threads: int | None = None
        """Threads of the process, if a service runs the job; None for all cores."""

    def setup(self) -> None:
        """Open the step, unless a pool does that, or another thread has done so."""
        if pool.opened() is not None:
            self._pickled = pickle.dumps(self._step, pickle.HIGHEST_PROTOCOL)
            return
        if self.lease:
            keep_lease(self.lease)
        if self.threads is not None:
            compute_with(self.threads)
        step = self._step
        # Beam keeps only the last shared object alive: what loads nothing must not replace a model.
        loads_nothing = isinstance(step, Each)
        with ending_with_the_device():
            self._run = step.open() if loads_nothing else self._shared.acquire(step.open)

    def start_bundle(self) -> None:
        """Begin without elements in the pool."""
        self._pool = pool.opened()
        self._asked = 0
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def process(self, element: Any) -> Iterator[Any]:
        """Yield the results of an element, or those of others that the pool has finished."""
        if self._pool is None:
            with ending_with_the_device():
                yield from self._run(element)
            return
        name = self._step.name(element)
        self._pool.submit(self._pickled, name, element, self._answers.put)
        self._asked += 1
        while self._asked >= self._pool.most_in_flight:
            yield from self._finished(self._pool)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the results of the elements that are still in the pool."""
        while self._pool is not None and self._asked:
            for result in self._finished(self._pool):
                yield WindowedValue(result, MIN_TIMESTAMP, [GlobalWindow()])

    def _finished(self, processes: Pool) -> list[Any]:
        answer = self._answers.get()
        self._asked -= answer.is_last
        return processes.take(answer)


class _Places(RestrictionProvider):
    """The places of an element's items, as Beam divides them."""

    def initial_restriction(self, element: Sized) -> OffsetRange:
        return OffsetRange(0, len(element))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Sized, restriction: OffsetRange) -> int:
        return int(restriction.size())


class RunDivisible(RunStep):
    """Runs a step in this process, on elements whose last items the runner may give to others."""

    _PLACES = beam.DoFn.RestrictionParam(_Places())

    def process(self, element: Any, places: Any = _PLACES) -> Iterator[Any]:
        """Yield the results of the items that are left to this process."""
        left = places.current_restriction()
        place = left.start
        with ending_with_the_device():
            results = iter(self._run(element[place : left.stop]))
            while places.try_claim(place):
                yield next(results)
                place += 1


@cache
def compute_with(threads: int) -> None:
    """Let this process compute with this many threads, unless its environment says otherwise.

    Of Rayon, which tokenizes and reads its variable once, and of torch, of which OpenVINO takes the
    number. Torch is not imported here: not every step needs it.
    """
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads_in_environment() or threads)


def prepare_workers(
    pipeline: beam.Pipeline, *, lease: str = "", threads: int | None = None
) -> None:
    """Tell every process of a service that runs a step of a pipeline what it needs to know.

    Args:
        pipeline: The pipeline.
        lease: The folder whose lease they renew; "" for none.
        threads: How many threads each of them has; None for all cores.
    """

    class Steps(PipelineVisitor):
        def visit_transform(self, transform_node: AppliedPTransform) -> None:
            step = getattr(transform_node.transform, "fn", None)
            if isinstance(step, RunStep):
                step.lease, step.threads = lease, threads

    pipeline.visit(Steps())


_FAN_OUT = 16
"""Workers that fold the results of a phase to one before the last one does."""


def add_phases(root: beam.Pipeline, phases: Iterable[Phase]) -> beam.PCollection[Any]:
    """Add phases to an empty pipeline; return what the last one is folded to."""
    before: beam.PCollection[Any] = root | "Begin" >> beam.Create([None])
    for phase in phases:
        before = before | phase.name >> OnBeam(phase)
    return before


@dataclass
class OnBeam(beam.PTransform):
    """What the phase before was folded to -> what this one is folded to."""

    phase: Phase

    def expand(self, before: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Make the items, work on each of them, and fold the results."""
        phase = self.phase
        results = before | "Items" >> beam.FlatMap(phase.items)
        if phase.step is not None:
            results = results | "Work" >> RunOnDevice(
                phase.step, phase.accelerator, divisible=phase.divisible
            )
        if phase.by_key:
            pairs = results | "Pairs" >> beam.FlatMap(iter)
            return pairs | "Fold" >> beam.CombinePerKey(phase.fold)
        return results | "Fold" >> beam.CombineGlobally(phase.fold).with_fanout(_FAN_OUT)


@dataclass
class RunOnDevice(beam.PTransform):
    """Elements -> results of a step that uses a device, on workers that have it.

    The elements reach these workers grouped by name, and the groups are taken apart there: one
    worker has made all elements, and a shuffle spreads them.

    Attributes:
        step: The step. No two elements have the same name.
        accelerator: The GPU in Beam's notation; None for no GPU.
        divisible: Whether elements are sequences, and the step yields a result for each item, with
            which it begins when the result is asked for. The runner may then give the last items of
            an element to a worker that has nothing to do.
    """

    step: Step
    accelerator: str | None
    divisible: bool = False

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Group by name without a device; everything after that needs one.

        With a pool the elements go straight to the step: it spreads them itself, and the runner
        would hold all in between.
        """
        if pool.opened() is not None:
            return elements | "Run" >> beam.ParDo(RunStep(self.step))
        name = self.step.name
        # Typed, so that its coder gives equal names equal bytes on every worker.
        named = beam.Map(lambda element: (name(element), element))
        grouped = (
            elements
            | "ByName" >> named.with_output_types(tuple[str, Any])
            | "Spread" >> beam.GroupByKey()
        )
        work: beam.PTransform = _TakeApart((RunDivisible if self.divisible else RunStep)(self.step))
        if self.accelerator is not None:
            work = work.with_resource_hints(accelerator=self.accelerator)
        return grouped | "OnDevice" >> work


@dataclass
class _TakeApart(beam.PTransform):
    run: RunStep

    def expand(self, grouped: beam.PCollection[tuple[str, Iterable[Any]]]) -> Any:
        elements = grouped | "TakeApart" >> beam.FlatMapTuple(lambda _, elements: elements)
        return elements | "Run" >> beam.ParDo(self.run)
