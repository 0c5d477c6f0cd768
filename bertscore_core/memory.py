"""Bounds on memory, and how a lack of it is recognised."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")

_OUT_OF_MEMORY = (
    "can't alloc",
    "not enough memory",
    "out of memory",
    "alloc_failed",
    "failed to allocate",
    "bad_alloc",
    "broken promise",
)
"""What a RuntimeError says when memory is short: torch on Linux, torch on Windows, MPS and CUDA,
CUDA's libraries (CUBLAS_STATUS_ALLOC_FAILED), OpenVINO."""

_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
_WINDOW_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
_MATCH_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}

_CPU_PIECES, _LEAST_PIECE_TOKENS = 4, 128
"""Few texts on a CPU are cut into so many batches, of so many tokens at least, which threads then
share. How many threads there are plays no part, so that scores do not depend on it."""

_LEAST_BATCH_TOKENS = 1024
_BATCH_BYTES = 4 << 30
"""What a forward pass on a GPU may take: a quarter of 16 GB, the least that is usual. Never taken
from the memory that is free at the moment: in a reduced format scores depend on the batch."""
_NUMBERS_PER_TOKEN = 24
"""Numbers a forward pass holds for a token, in hidden sizes: an inner layer of four times three
(before its activation, after it, as a half-precision copy), and a dozen of the hidden size."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """Bounds on what is in memory at once; lowered permanently when memory is too small for them.

    The requested bounds depend only on the options, the kind of device and the model, so that equal
    jobs compute equal batches.

    Attributes:
        batch_tokens: Padded tokens a forward pass.
        window_bytes: Bytes of embeddings on the device.
        match_elements: Numbers gathered for one matching batch, embeddings and similarities.
        pieces: Batches to make of what would fit into fewer.
        lowered: Whether memory was too small for the requested bounds.
    """

    batch_tokens: int
    window_bytes: int
    match_elements: int
    pieces: int = 1
    lowered: bool = False

    @property
    def label(self) -> str:
        """The batches, as the signature names them: `1024`, or `1024/4` with four pieces."""
        return f"{self.batch_tokens}" + (f"/{self.pieces}" if self.pieces > 1 else "")

    def lower(self, *, batch_tokens: int | None = None, window_bytes: int | None = None) -> None:
        """Lower a bound, for this call and all later ones."""
        if batch_tokens is not None:
            self.batch_tokens = min(self.batch_tokens, batch_tokens)
        if window_bytes is not None:
            self.window_bytes = min(self.window_bytes, window_bytes)
        self.lowered = True

    def batch_limit(self, tokens: int) -> int:
        """Return how many padded tokens a batch may have where so many are to be encoded."""
        if self.pieces == 1:
            return self.batch_tokens
        return min(self.batch_tokens, max(-(-tokens // self.pieces), _LEAST_PIECE_TOKENS))

    @classmethod
    def for_device(
        cls, device: torch.device, batch_tokens: int | None = None, *, hidden_size: int = 1024
    ) -> "Budget":
        """Choose for a kind of device, which may be missing on this machine.

        On a CPU a batch is as large as was measured best (two cores, three sizes of model). On a
        GPU it is large enough to fill it, and smaller for very wide models.

        Args:
            device: Where the encoder will be.
            batch_tokens: Padded tokens a forward pass, when the user has chosen.
            hidden_size: Length of an embedding, H.
        """
        kind = "cpu" if device.type == "cpu" else "cuda"
        tokens = _BATCH_TOKENS[kind]
        fitting = _BATCH_BYTES // (4 * _NUMBERS_PER_TOKEN * hidden_size)
        while tokens > max(fitting, _LEAST_BATCH_TOKENS):
            tokens //= 2
        return cls(
            batch_tokens=batch_tokens or tokens,
            window_bytes=_WINDOW_BYTES[kind],
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
    # Not in the handler above: there the error is still alive, and its traceback refers to the
    # frames of the step, which hold the tensors that shall be freed.
    torch.cuda.empty_cache()
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that the memory of the device or of the host does not suffice."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in words for part in _OUT_OF_MEMORY)
