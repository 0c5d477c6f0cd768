"""Bounds on the memory of a device, and how a lack of memory is recognised."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")

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
