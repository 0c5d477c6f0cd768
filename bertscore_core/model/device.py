"""The queue of a device.

A GPU works through what the host has queued, in order, while the host goes on. So a thread takes
its turn only to queue work, and waits for the results after its turn is over. Times are differences
between moments of the queue. On a GPU a moment is a CUDA event, so that nothing waits for it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.tokens import FloatArray
from bertscore_core.work import Work

AMPERE = (8, 0)
"""Compute capability of the first NVIDIA GPUs that multiply in bfloat16 and TF32."""


class Moment:
    """A moment in the queue of a device whose work is done when it has been queued, as on a CPU."""

    def __init__(self) -> None:
        self._time = time.monotonic()

    def wait(self) -> None:
        """Return when all work that was queued before the moment is done."""

    def reached(self) -> bool:
        """Tell whether it is done, without waiting."""
        return True

    def seconds_after(self, earlier: Any) -> float:
        """Return the seconds from another moment to this one; both are reached."""
        seconds: float = self._time - earlier._time
        return seconds


class CudaMoment(Moment):
    """A moment in the stream of a GPU."""

    def __init__(self, device: torch.device) -> None:
        # Blocking: a thread that waits must not keep a core busy, which another thread needs.
        self._event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(device))

    def wait(self) -> None:
        """Let other threads run meanwhile."""
        self._event.synchronize()

    def reached(self) -> bool:
        """Ask the device."""
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def seconds_after(self, earlier: Any) -> float:
        """Return what the device has measured."""
        return float(earlier._event.elapsed_time(self._event)) / 1000


@dataclass(frozen=True, slots=True)
class Fetched:
    """Numbers on their way to the host: `on_host` holds them when `arrived` is reached."""

    on_host: Tensor
    arrived: Moment


@dataclass(frozen=True, slots=True)
class Begun:
    """Work queued since `clock`, by `time.monotonic`; the device can begin it at `moment`."""

    moment: Moment
    clock: float


class DeviceQueue:
    """The queue of one device in this process."""

    def __init__(
        self,
        device: torch.device,
        mark: Callable[[], Moment],
        pin: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Begin with nothing queued; most callers want `of`.

        `mark` returns the moment behind all that is queued now. `pin` returns a copy in pinned
        memory, which the device copies while the host goes on; None if it copies at once.
        """
        self.device = device
        self._mark = mark
        self._pin = pin
        self._turn = threading.Lock()
        self._spans: deque[tuple[Work, Moment, Moment]] = deque()  # begin and end of work
        self._last: Moment | None = None  # the end of the work that was settled last
        self._settling = threading.Lock()

    @classmethod
    def of(cls, device: torch.device) -> "DeviceQueue":
        """Return a new queue of a device."""
        if device.type != "cuda":
            return cls(device, Moment)
        # Torch keeps pinned memory for reuse, and does not give it away before a copy has ended.
        return cls(device, partial(CudaMoment, device), Tensor.pin_memory)

    @contextmanager
    def turn(self, work: Work) -> Iterator[None]:
        """Let one thread at a time queue work. Only what must be done in one go belongs in here."""
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
        on_host = torch.empty(values.shape, dtype=values.dtype, device="cpu")
        if self._pin is not None:
            on_host = self._pin(on_host)
        on_host.copy_(values, non_blocking=self._pin is not None)
        return Fetched(on_host, self._mark())

    def received(self, fetched: Fetched, work: Work) -> FloatArray:
        """Wait for numbers that were fetched, outside the turn, and return them."""
        with _counted_wait(work):
            fetched.arrived.wait()
        self._settle()
        values: FloatArray = fetched.on_host.numpy()
        return values

    def begin(self) -> Begun:
        """Begin to queue work whose time is counted; `end` ends it."""
        return Begun(self._mark(), time.monotonic())

    def end(self, begun: Begun, work: Work) -> None:
        """Count the time of the work that was queued since `begin`, once the device has done it.

        Work ends in the order in which it began. It may overlap; no time is counted twice.
        """
        self._settle()  # so that spans do not pile up where nothing is fetched
        self._spans.append((work, begun.moment, self._mark()))
        # A GPU that is busy begins this work later. If it has begun already, it may have waited
        # for the rest of it.
        if self._pin is not None and begun.moment.reached():
            work.late_seconds += time.monotonic() - begun.clock

    def _settle(self) -> None:
        with self._settling:
            while self._spans and self._spans[0][2].reached():
                self._count(*self._spans.popleft())

    def _count(self, work: Work, begin: Moment, end: Moment) -> None:
        last = self._last
        waited = 0.0 if last is None else begin.seconds_after(last)
        if last is None or waited >= 0:
            work.idle_seconds += waited
            work.busy_seconds += end.seconds_after(begin)
        else:
            work.busy_seconds += max(end.seconds_after(last), 0.0)
        if last is None or end.seconds_after(last) > 0:
            self._last = end


@contextmanager
def _counted_wait(work: Work) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        work.waited_seconds += time.monotonic() - started
