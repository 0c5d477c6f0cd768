"""The encoder's forward pass on OpenVINO, which is faster than torch on CPUs.

The torch model is traced, converted and compiled. A trace loses every branch that depends on the
input, so the result is compared with torch on texts of several shapes before it is used.
"""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertscore_core.errors import ModelLoadError
from bertscore_core.model.kept_encoders import find_encoder, new_encoder
from bertscore_core.model.layers import EveryLayer, LastLayer, largest_distance
from bertscore_core.model.switches import exact_products, float32_by_default

logger = logging.getLogger(__name__)

OPENVINO_DTYPES = {"float32": "f32", "bfloat16": "bf16"}
"""Number formats, and OpenVINO's names for them."""

_LARGEST_DIFFERENCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Largest distance between a token's unit vectors here and in torch that counts as rounding.

Measured: 1e-6 and 0.03."""

# Bits of a NaN that no computation gives. It marks an output that was not written.
_UNWRITTEN = 0x7FC0BEEF

# Batches computed at the same time, each by a share of the threads. More would cost memory.
_MOST_STREAMS = 4

_MOST_KERNELS = 1000
"""Kernels of each kind that a stream keeps, those of the shapes of batches that came last.

With OpenVINO's own 5,000 the memory of a worker still grew after 3,400 shapes: by 560 MB so far
with a tiny encoder, where these take 340 MB, and no more from 2,600 shapes on. 448 shapes that come
again and again take the same time with both."""

_CHECKED_SHAPES = ((1, 1, 1), (3, 17, 8), (2, 40, 20))
"""Numbers of texts, and tokens of the longest and of the shortest, on which the compiled model is
checked, in addition to one text of full length."""


def openvino_version() -> str | None:
    """Return the version installed, without loading it, or None."""
    try:
        return version("openvino")
    except PackageNotFoundError:
        return None


@cache
def computes_in(dtype: str) -> bool:
    """Tell whether OpenVINO multiplies in a number format here. If not, it would use float32.

    Its list of formats is the processor's. Under a limit of oneDNN (ONEDNN_MAX_CPU_ISA) it has no
    kernel for some of them, which it says only when a product is compiled.
    """
    if dtype == "float32":
        return True
    openvino, name = _import_openvino(), OPENVINO_DTYPES[dtype]
    core = openvino.Core()
    if name.upper() not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        return False
    left, right = (openvino.opset13.parameter([16, 16], np.float32) for _ in "ab")
    product = openvino.opset13.matmul(left, right, False, False)
    try:
        core.compile_model(openvino.Model([product], [left, right]), "CPU", settings(dtype, 1, 1))
    except RuntimeError:
        return False
    return True


def processor() -> str:
    """Return the name of this processor and the number formats that it computes in."""
    core = _import_openvino().Core()
    names = ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
    return " ".join(str(core.get_property("CPU", name)) for name in names)


class CompiledEncoder:
    """An encoder on OpenVINO that computes several batches, or `streams`, at the same time.

    Threads with a batch each never wait for each other. With two threads this is 8% faster in
    float32 and 17% in bfloat16 than both threads on one batch, and gives the same bits.
    """

    def __init__(self, compiled: Any, streams: int, layers: int, width: int) -> None:
        # One more than it computes, so that the next batch is ready when one is done.
        self.in_flight = streams + 1 if streams > 1 else 1
        self._compiled = compiled
        self._tensor = _import_openvino().Tensor
        self._shape = layers, width
        self._idle: list[Any] = []

    def start(self, ids: Tensor, mask: Tensor) -> Callable[[], Tensor]:
        """Start to encode a batch; see `Encoder.start`, to which `mask` shows the tokens."""
        layers, width = self._shape
        hidden = np.empty((layers, *ids.shape, width), dtype=np.float32)
        # The first and the last number tell later whether the output was written.
        ends = hidden.reshape(-1)[:: max(hidden.size - 1, 1)].view(np.uint32)
        ends[:] = _UNWRITTEN
        inputs = [ids.numpy(), mask.numpy()]
        request = self._idle.pop() if self._idle else self._compiled.create_infer_request()
        request.set_output_tensor(self._tensor(hidden, shared_memory=True))
        request.start_async(inputs, share_inputs=True)

        def result() -> Tensor:
            request.wait()
            inputs.clear()  # OpenVINO shares these arrays, so they had to live until now
            self._idle.append(request)
            if (ends == _UNWRITTEN).any():
                # OpenVINO may run out of memory without an error and leave the output as it was.
                raise MemoryError("OpenVINO returned without a result")
            return torch.from_numpy(hidden)

        return result

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode a batch; see `start`."""
        return self.start(ids, mask)()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How an encoder is compiled and compared with torch.

    Attributes:
        dtype: Format of matrix products, one of `OPENVINO_DTYPES`; the rest stays in float32.
        layers: Hidden states that the encoder returns: 1, or L + 1 for all; of length `width`.
        longest: Tokens of the longest text that it is compared with torch on.
    """

    dtype: str
    layers: int
    width: int
    longest: int


def find_compiled(key: str, options: CompileOptions) -> CompiledEncoder | None:
    """Compile an encoder that was kept by `compile_encoder`; None if there is none."""
    model = find_encoder(key, lambda path: _import_openvino().Core().read_model(path))
    return None if model is None else _compiled(model, options)


def compile_encoder(
    module: LastLayer | EveryLayer, options: CompileOptions, *, vocabulary: int, key: str | None
) -> CompiledEncoder:
    """Convert an encoder that torch runs on the CPU, in evaluation mode and in float32.

    It is kept for the next process under its key, if it has one.

    Raises:
        ModelLoadError: it cannot be converted, or computes something else than torch.
    """
    name = type(module.model).__name__
    size = sum(4 * parameter.numel() for parameter in module.parameters())

    def checked(model: Any) -> CompiledEncoder:
        forward, most = _compiled(model, options), _LARGEST_DIFFERENCE[options.dtype]
        difference = _difference(module, forward, vocabulary, options.longest)
        if not difference <= most:  # so that NaN is refused, too
            raise ModelLoadError(
                f"{name} computes something else on OpenVINO: got unit vectors that differ from "
                f"torch's by {difference:.2g}; expected {most} at most. Choose another backend "
                "(--backend torch)."
            )
        return forward

    try:
        converted = _convert(module, options.longest)
        try:
            with new_encoder(key, size) as path:
                if path is not None:
                    return checked(_written(converted, path))
        except Exception as error:
            # The disk is full, or the encoder computes other values after it is read back. DeBERTa
            # does on some processors: its buckets of distances are rounded logarithms.
            forward = checked(converted)
            logger.info("The converted %s is used as it is and not kept: %s", name, error)
            return forward
        return checked(converted)
    except ModelLoadError:
        raise
    except Exception as error:
        raise ModelLoadError(
            f"{name} cannot be converted to OpenVINO: {error}. Choose another "
            "backend (--backend torch)."
        ) from error


def _written(model: Any, path: Path) -> Any:
    openvino = _import_openvino()
    openvino.serialize(model, path)
    return openvino.Core().read_model(path)


def _convert(model: nn.Module, longest: int) -> Any:
    openvino = _import_openvino()
    # The longest text: DeBERTa's span of relative positions becomes a constant of the trace, and
    # that of the longest text is right for shorter ones, too.
    example = (torch.ones((2, longest), dtype=torch.int64, device="cpu"),) * 2
    with warnings.catch_warnings(), _quiet(), torch.no_grad(), float32_by_default():
        warnings.simplefilter("ignore")  # it warns of every branch, which `_difference` checks
        trace: Any = torch.jit.trace
        traced = trace(model, example, strict=False, check_trace=False)
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        decoder = TorchScriptPythonDecoder(traced, example_input=example)
        frontend = openvino.frontend.FrontEndManager().load_by_framework("pytorch")
        converted = frontend.convert(frontend.load(decoder))
    for parameter in converted.get_parameters():
        parameter.set_element_type(openvino.Type.i64)
        parameter.set_partial_shape(openvino.PartialShape([-1, -1]))
    converted.validate_nodes_and_infer_types()
    return converted


def _compiled(model: Any, options: CompileOptions) -> CompiledEncoder:
    threads = torch.get_num_threads()
    # All layers of a batch take much memory, so one batch at a time.
    streams = 1 if options.layers > 1 else min(threads, _MOST_STREAMS)
    how = settings(options.dtype, threads, streams)
    compiled = _import_openvino().Core().compile_model(model, "CPU", how)
    return CompiledEncoder(compiled, streams, options.layers, options.width)


def settings(dtype: str, threads: int, streams: int) -> dict[str, object]:
    """Return what a model is compiled with; its streams share the threads."""
    return {
        "INFERENCE_PRECISION_HINT": OPENVINO_DTYPES[dtype],
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": streams,
        "CPU_RUNTIME_CACHE_CAPACITY": _MOST_KERNELS,
        # Or else all worker processes would be pinned to the same first cores.
        "ENABLE_CPU_PINNING": False,
    }


@exact_products()
@torch.inference_mode()
def _difference(model: nn.Module, forward: CompiledEncoder, vocabulary: int, longest: int) -> float:
    random = np.random.default_rng(0)
    largest: list[float] = []
    for texts, tokens, shortest in _checked_shapes(model, longest):
        width = min(tokens, longest)
        ids = torch.from_numpy(random.integers(0, vocabulary, (texts, width)))
        last = min(shortest, width)
        lengths = torch.linspace(width, last, texts, dtype=torch.float32, device="cpu").long()
        inside = torch.arange(width, device="cpu")[None, :] < lengths[:, None]
        hidden = (each(ids, inside.long())[:, inside] for each in (forward, model))
        largest.append(largest_distance(*hidden))
    return float(np.max(largest))  # unlike the built-in max, numpy's never loses a NaN


def _checked_shapes(model: nn.Module, longest: int) -> list[tuple[int, int, int]]:
    shapes = [*_CHECKED_SHAPES, (1, longest, longest)]
    window = getattr(getattr(model.model, "config", None), "sliding_window", None)
    if isinstance(window, int):
        # A short text beside one so long that some of its padding sees no token of it.
        shapes.append((2, 2 * window + 4, 1))
    return shapes


def _import_openvino() -> Any:
    with _without_telemetry():
        import openvino
    return openvino


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from logging that an encoder has no loss: the tracer asks for it."""
    logger = logging.getLogger("transformers.modeling_utils")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """OpenVINO reports its import to a server by another package; it imports without it, too."""
    name = "openvino_telemetry"
    known = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # how Python marks a module as absent
    try:
        yield
    finally:
        if known is None:
            sys.modules.pop(name, None)  # another thread may have done it already
        else:
            sys.modules[name] = known
