"""The queue of a device, which all its users share: whose turn it is, copies, and times.

A GPU works through what the host has queued, in order, while the host goes on. So a thread takes
its turn only to queue work, and waits for the results after its turn is over. In the meantime
another thread queues its own work behind. On a CPU the work is done as it is queued.

All times are differences between moments of the device's queue. On a GPU a moment is a CUDA event,
so that nothing has to wait for the device to measure it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.tokens import FloatArray
from bertscore_core.work import Work


class Moment(Protocol):
    """A moment in the queue: it is reached when all work that was queued before it is done."""

    def wait(self) -> None:
        """Return when it is reached."""

    def reached(self) -> bool:
        """Tell whether it is reached, without waiting."""

    def seconds_after(self, earlier: Any) -> float:
        """Return the seconds from another moment to this one; both are reached."""


class ClockMoment:
    """A moment of a device whose work is done when it has been queued, such as a CPU."""

    def __init__(self) -> None:
        """Take the time."""
        self._time = time.monotonic()

    def wait(self) -> None:
        """Return at once."""

    def reached(self) -> bool:
        """Return True."""
        return True

    def seconds_after(self, earlier: "ClockMoment") -> float:
        """Return the seconds between two moments."""
        return self._time - earlier._time


class CudaMoment:
    """A moment in the stream of a GPU."""

    def __init__(self, device: torch.device) -> None:
        """Record an event behind all that was queued."""
        # Blocking: a thread that waits must not keep a core busy, which another thread needs.
        self._event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(device))

    def wait(self) -> None:
        """Return when it is reached. Other threads may run in the meantime."""
        self._event.synchronize()

    def reached(self) -> bool:
        """Tell whether it is reached, without waiting."""
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def seconds_after(self, earlier: "CudaMoment") -> float:
        """Return the seconds between two moments that are reached."""
        return float(earlier._event.elapsed_time(self._event)) / 1000


@dataclass(frozen=True, slots=True)
class Fetched:
    """Numbers on their way to the host.

    Attributes:
        kept: Where they will be.
        arrived: When they are there.
    """

    kept: Tensor
    arrived: Moment


@dataclass(frozen=True, slots=True)
class Begun:
    """Work that is being queued.

    Attributes:
        moment: When the device can begin it.
        clock: When the host began to queue it, as `time.monotonic` gives it.
    """

    moment: Moment
    clock: float


@dataclass(frozen=True, slots=True)
class _Span:
    """Work on the device from one moment to another, and where it is counted."""

    work: Work
    begin: Moment
    end: Moment


class DeviceQueue:
    """The queue of one device in this process.

    Attributes:
        device: The device.
    """

    def __init__(
        self,
        device: torch.device,
        mark: Callable[[], Moment],
        pin: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Begin with nothing queued; most callers want `of`.

        Args:
            device: The device.
            mark: Returns the moment behind all that is queued now.
            pin: Returns a copy in pinned memory, from which and to which the device copies while
                the host goes on; None if the device copies at once.
        """
        self.device = device
        self._mark = mark
        self._pin = pin
        self._turn = threading.Lock()
        self._spans: deque[_Span] = deque()
        self._last: Moment | None = None  # the end of the work that was settled last
        self._settling = threading.Lock()

    @classmethod
    def of(cls, device: torch.device) -> "DeviceQueue":
        """Return a new queue of a device."""
        if device.type != "cuda":
            return cls(device, ClockMoment)
        # Torch keeps pinned memory for reuse, and does not give it away before a copy has ended.
        return cls(device, partial(CudaMoment, device), Tensor.pin_memory)

    @contextmanager
    def turn(self, work: Work) -> Iterator[None]:
        """Let one thread at a time queue work. Only what must be done in one go belongs in here.

        Args:
            work: Where the time of waiting for the turn is counted.
        """
        with _counted_wait(work):
            self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def send(self, values: npt.NDArray[np.generic]) -> Tensor:
        """Copy an array to the device. The host goes on before a GPU has it."""
        tensor = torch.from_numpy(values)
        if self._pin is None:
            return tensor.to(self.device)
        return self._pin(tensor).to(self.device, non_blocking=True)

    def fetch(self, values: Tensor) -> Fetched:
        """Begin to copy numbers to the host; `received` waits for them."""
        kept = torch.empty(values.shape, dtype=values.dtype)
        if self._pin is not None:
            kept = self._pin(kept)
        kept.copy_(values, non_blocking=self._pin is not None)
        return Fetched(kept, self._mark())

    def received(self, fetched: Fetched, work: Work) -> FloatArray:
        """Wait for numbers that were fetched, outside the turn, and return them.

        Args:
            fetched: The numbers.
            work: Where the time of waiting is counted.
        """
        with _counted_wait(work):
            fetched.arrived.wait()
        self._settle()
        values: FloatArray = fetched.kept.numpy()
        return values

    def begin(self) -> Begun:
        """Begin to queue work whose time is counted; `end` ends it."""
        return Begun(self._mark(), time.monotonic())

    def end(self, begun: Begun, work: Work) -> None:
        """Count the time of the work that was queued since `begin`, once the device has done it.

        Work ends in the order in which it began. It may overlap; no time is counted twice.
        """
        self._settle()  # so that spans do not pile up where nothing is fetched
        self._spans.append(_Span(work, begun.moment, self._mark()))
        # A GPU that is busy begins this work later. If it has begun already, it may have waited
        # for the rest of it.
        if self._pin is not None and begun.moment.reached():
            work.late_seconds += time.monotonic() - begun.clock

    def _settle(self) -> None:
        """Count the times of all work that is done."""
        with self._settling:
            while self._spans and self._spans[0].end.reached():
                self._count(self._spans.popleft())

    def _count(self, span: _Span) -> None:
        work, last = span.work, self._last
        waited = 0.0 if last is None else span.begin.seconds_after(last)
        if last is None or waited >= 0:
            work.idle_seconds += waited
            work.busy_seconds += span.end.seconds_after(span.begin)
        else:
            work.busy_seconds += max(span.end.seconds_after(last), 0.0)
        if last is None or span.end.seconds_after(last) > 0:
            self._last = span.end


@contextmanager
def _counted_wait(work: Work) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        work.waited_seconds += time.monotonic() - started
