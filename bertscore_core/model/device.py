"""A device: its memory, its queue, and how its loss is recognised.

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
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.errors import DeviceLostError
from bertscore_core.tokens import FloatArray, Work

# Bounds on memory, and how a lack of memory is recognised.

Result = TypeVar("Result")

AMPERE = (8, 0)
"""Compute capability of the first NVIDIA GPUs that multiply in bfloat16 and TF32."""

# Words of a RuntimeError that means too little memory: from torch on Linux, on Windows, on MPS and
# CUDA, from CUDA's libraries (the first product of a thread on a full GPU cannot be set up, which
# is CUBLAS_STATUS_NOT_INITIALIZED), and from OpenVINO.
_OUT_OF_MEMORY = (
    "can't alloc", "not enough memory", "out of memory", "alloc_failed",
    "cublas_status_not_initialized", "failed to allocate", "bad_alloc", "broken promise",
)  # fmt: skip

_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}

# A batch of a narrow model has more tokens on a GPU: the host takes as long to queue its layers as
# those of a wide one, and the device would wait. It has as much work as one of this hidden size.
_BATCH_WIDTH, _MOST_BATCH_TOKENS = 1024, 1 << 17
_BLOCK_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
_MATCH_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}

# On a CPU, a small number of texts is cut into this many batches of at least this many tokens, for
# the threads to share. The number of threads plays no part, so that scores do not depend on it.
_CPU_PIECES, _LEAST_PIECE_TOKENS = 4, 128

_LEAST_BATCH_TOKENS = 1024

# Memory for a forward pass on a GPU: a quarter of 16 GB, a small GPU. It does not depend on the
# memory that is free, since in bfloat16 and float16 scores depend on the batches.
_BATCH_BYTES = 4 << 30

# Numbers that a forward pass keeps for a token, as a multiple of the hidden size: 12 for an inner
# layer of four hidden sizes (before its activation, after it, and a half-precision copy), and 12
# more.
_NUMBERS_PER_TOKEN = 24


@dataclass(slots=True, kw_only=True)
class Budget:
    """Bounds on what is in memory at the same time. If it is too small they are lowered for good.

    The requested bounds depend only on the options, the kind of device and the model, so that equal
    jobs compute equal batches.

    Attributes:
        batch_tokens: Padded tokens of a forward pass.
        block_bytes: Bytes of embeddings on the device.
        match_elements: Numbers gathered for one matching batch; also the similarities of a tile.
        pair_elements: Similarities of one pair above which it is matched in tiles.
        pieces: Batches to make at least, if the texts are long enough for that.
        lowered: Whether memory was too small for the requested bounds.
    """

    batch_tokens: int
    block_bytes: int
    match_elements: int
    pair_elements: int = 1 << 24
    pieces: int = 1
    lowered: bool = False

    @property
    def label(self) -> str:
        """The batches, as the signature names them: `1024`, or `1024/4` with four pieces."""
        return f"{self.batch_tokens}" + (f"/{self.pieces}" if self.pieces > 1 else "")

    def lower(self, *, batch_tokens: int | None = None, block_bytes: int | None = None) -> None:
        """Lower a bound, for this call and all later ones."""
        # Never raised again: what failed once would fail again, and each failure costs a retry.
        if batch_tokens is not None:
            self.batch_tokens = min(self.batch_tokens, batch_tokens)
        if block_bytes is not None:
            self.block_bytes = min(self.block_bytes, block_bytes)
        self.lowered = True

    def batch_limit(self, tokens: int) -> int:
        """Return the padded tokens that a batch may have if there are `tokens` to encode in all."""
        if self.pieces == 1:
            return self.batch_tokens
        return min(self.batch_tokens, max(-(-tokens // self.pieces), _LEAST_PIECE_TOKENS))

    @classmethod
    def for_device(
        cls, device: torch.device, batch_tokens: int | None = None, *, hidden_size: int = 1024
    ) -> "Budget":
        """Choose bounds for a kind of device, which may be missing on this machine.

        On a CPU, batches have the size that was fastest on two cores; on a GPU they fill all of it.
        """
        kind = "cpu" if device.type == "cpu" else "cuda"
        tokens = _BATCH_TOKENS[kind]
        # By halves and doubles, so that it stays a power of two.
        while kind == "cuda" and 2 * tokens * hidden_size <= _BATCH_TOKENS[kind] * _BATCH_WIDTH:
            tokens *= 2
        tokens = min(tokens, _MOST_BATCH_TOKENS)
        fitting = _BATCH_BYTES // (4 * _NUMBERS_PER_TOKEN * hidden_size)
        while tokens > max(fitting, _LEAST_BATCH_TOKENS):
            tokens //= 2
        return cls(
            batch_tokens=batch_tokens or tokens,
            block_bytes=_BLOCK_BYTES[kind],
            match_elements=_MATCH_ELEMENTS[kind],
            pieces=_CPU_PIECES if kind == "cpu" and batch_tokens is None else 1,
        )


def attempt(step: Callable[[], Result]) -> Result | None:
    """Run a step; None if memory is too small for it.

    On return the memory that the failed step had taken is free.
    """
    try:
        return step()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    # Not in the handler above. There the error is still alive, and its traceback refers to the
    # frames of the step, which hold the tensors to be freed.
    torch.cuda.empty_cache()
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that the device or the host has too little memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # Backends raise plain RuntimeErrors, which only their message tell apart.
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in message for part in _OUT_OF_MEMORY)


# A GPU that has failed: how that is recognised, and the error that says so.
#
# After an illegal access, a failed launch, an assert on the device or a memory error of the
# hardware, every later call of the process to its GPU fails, too. Only another process can use the
# GPU again.

# Words of a RuntimeError from torch, from CUDA's libraries by way of torch, and from Triton.
_OF_CUDA = ("cuda error", "cudnn error", "cusparse error", "cusolver error", "triton error [cuda]")

# Errors of CUDA after which the GPU can be used as before: the call was refused, or the driver
# refused code that Triton has compiled.
_REFUSED = (
    "device kernel image is invalid", "driver version is insufficient", "invalid argument",
    "invalid configuration argument", "invalid device function", "invalid device ordinal",
    "invalid_value", "no cuda-capable device", "no kernel image", "not_supported",
    "operation not supported", "unsupported toolchain",
)  # fmt: skip


@contextmanager
def noticing_a_lost_device() -> Iterator[None]:
    """Raise errors of a GPU that has failed as `DeviceLostError`.

    Raises:
        DeviceLostError: The GPU has failed in the body.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, DeviceLostError) or not is_device_lost(error):
            raise
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise DeviceLostError(
            f"the GPU has failed: got {first_line!r}; expected scores. No later call of "
            "this process to the GPU can succeed: end the process and start a new one."
        ) from error


def is_device_lost(error: BaseException) -> bool:
    """Tell whether an error means that this process can no longer use its GPU.

    That is each error of CUDA, except those that mean a lack of memory or that a call was refused.

    References:
        CUDA Runtime API, `cudaError_t`: "the process must be terminated and relaunched".
    """
    if not isinstance(error, RuntimeError) or is_out_of_memory(error):
        return False
    message = str(error).lower()
    is_of_cuda = isinstance(error, torch.AcceleratorError) or any(w in message for w in _OF_CUDA)
    return is_of_cuda and not any(part in message for part in _REFUSED)


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
