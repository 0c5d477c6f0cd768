"""Bounds on memory, and how a lack of it is recognised."""

from dataclasses import dataclass

import torch

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
_FREE_SHARE = 4
_NUMBERS_PER_TOKEN = 24
"""Numbers a forward pass holds for a token, in hidden sizes: an inner layer of four times three
(before its activation, after it, as a half-precision copy), and a dozen of the hidden size."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """Bounds on what is in memory at once; lowered for good when memory does not suffice for them.

    Attributes:
        batch_tokens: Padded tokens a forward pass.
        window_bytes: Bytes of embeddings on the device.
        match_elements: Numbers gathered for one matching batch, embeddings and similarities.
        pieces: Batches to make of what would fit into fewer.
    """

    batch_tokens: int
    window_bytes: int
    match_elements: int
    pieces: int = 1

    def batch_limit(self, tokens: int) -> int:
        """Return how many padded tokens a batch may have where so many are to be encoded."""
        if self.pieces == 1:
            return self.batch_tokens
        return min(self.batch_tokens, max(-(-tokens // self.pieces), _LEAST_PIECE_TOKENS))

    @classmethod
    def for_device(
        cls, device: torch.device, batch_tokens: int | None = None, *, hidden_size: int = 1024
    ) -> "Budget":
        """Choose for a device.

        On a CPU a batch is as large as was measured best (two cores, three sizes of model). On a
        GPU it is large enough to fill it, and takes a quarter of the free memory at most.

        Args:
            device: Where the encoder is, its weights loaded.
            batch_tokens: Padded tokens a forward pass, when the user has chosen.
            hidden_size: Length of an embedding, H.
        """
        kind = "cpu" if device.type == "cpu" else "cuda"
        window = _WINDOW_BYTES[kind]
        tokens = _BATCH_TOKENS[kind]
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            window = min(window, free // _FREE_SHARE)
            fitting = free // _FREE_SHARE // (4 * _NUMBERS_PER_TOKEN * hidden_size)
            while tokens > max(fitting, _LEAST_BATCH_TOKENS):
                tokens //= 2
        return cls(
            batch_tokens=batch_tokens or tokens,
            window_bytes=window,
            match_elements=_MATCH_ELEMENTS[kind],
            pieces=_CPU_PIECES if kind == "cpu" and batch_tokens is None else 1,
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that the memory of the device or of the host does not suffice."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in words for part in _OUT_OF_MEMORY)
