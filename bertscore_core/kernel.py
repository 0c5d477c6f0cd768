"""Scores of many pairs: every distinct text encoded once, then matched where it lies.

Pairs are taken in windows whose embeddings fit a byte budget on the device. Within a window texts
are encoded in batches of similar length, their unit-length embeddings laid end to end without
padding, and pairs are matched from there. What is computed depends on the pairs alone, so the same
split gives the same bits whoever computes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.batching import plan_batches
from bertscore_core.encoder import Encoder
from bertscore_core.errors import DeviceMemoryError
from bertscore_core.idf import TokenWeights
from bertscore_core.matching import greedy_match
from bertscore_core.tokens import IntArray, TokenizedTexts

DEFAULT_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
"""Padded tokens a forward pass. CPU: measured best on two cores; CUDA: not yet measured."""

WINDOW_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
"""Embeddings held at once."""

_MATCH_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Numbers gathered for one matching batch: embeddings and similarities."""

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "alloc_failed")
"""What a RuntimeError says when memory is short: torch on Linux, torch on Windows, MPS, and CUDA's
libraries (CUBLAS_STATUS_ALLOC_FAILED)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds on what is in memory at once.

    Attributes:
        batch_tokens: Padded tokens a forward pass.
        window_bytes: Bytes of embeddings on the device.
        match_elements: Numbers gathered for one matching batch.
    """

    batch_tokens: int
    window_bytes: int
    match_elements: int

    @classmethod
    def for_device(cls, device: torch.device, batch_tokens: int | None = None) -> "Budget":
        """Return the defaults of a device."""
        kind = "cpu" if device.type == "cpu" else "cuda"
        return cls(
            batch_tokens=batch_tokens or DEFAULT_BATCH_TOKENS[kind],
            window_bytes=WINDOW_BYTES[kind],
            match_elements=_MATCH_ELEMENTS[kind],
        )


@dataclass(slots=True)
class BatchLimit:
    """Padded tokens a forward pass, lowered for good when memory does not suffice for them.

    Attributes:
        tokens: The bound now.
    """

    tokens: int


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Unit-length embeddings of some texts, laid end to end.

    Attributes:
        vectors: Shape (layers, T, H), float32.
        weights: Weight of every token. Shape (T,), float32.
        starts: First token of each text of the split, or -1 where it is not embedded. Shape (N,).
        lengths: Tokens of each text of the split. Shape (N,).
    """

    vectors: Tensor
    weights: Tensor
    starts: Tensor
    lengths: Tensor


def score_pairs(
    encoder: Encoder,
    texts: TokenizedTexts,
    candidates: IntArray,
    references: IntArray,
    weights: TokenWeights,
    *,
    pad_id: int,
    budget: Budget,
) -> npt.NDArray[np.float32]:
    """Score P pairs of texts given by index.

    Args:
        encoder: What embeds.
        texts: The distinct texts.
        candidates: Index of each pair's candidate. Shape (P,).
        references: Index of each pair's reference. Shape (P,).
        weights: Token weights.
        pad_id: Token id to pad with.
        budget: Memory bounds.

    Returns:
        Precision, recall and F1. Shape (layers, P, 3), float32; layers is 1, or L + 1 when the
        encoder returns all of them. A batch for which memory does not suffice is encoded in
        pieces, as are all later ones of its size, which moves a score by rounding alone.

    Raises:
        DeviceMemoryError: memory does not suffice for the longest text alone.
    """
    scores = np.empty((encoder.num_outputs, len(candidates), 3), dtype=np.float32)
    limit = BatchLimit(budget.batch_tokens)
    try:
        for window in _windows(texts, candidates, references, encoder, budget):
            needed = np.unique(np.concatenate([candidates[window], references[window]]))
            embedded = embed(encoder, texts, needed, weights, pad_id=pad_id, limit=limit)
            scores[:, window] = _match(embedded, candidates[window], references[window], budget)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise _memory_error(encoder.device, texts.lengths, limit) from error
    return scores


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that the memory of the device or of the host does not suffice."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in words for part in _OUT_OF_MEMORY)


@torch.inference_mode()
def embed(
    encoder: Encoder,
    texts: TokenizedTexts,
    needed: IntArray,
    weights: TokenWeights,
    *,
    pad_id: int,
    limit: BatchLimit,
) -> EmbeddedTexts:
    """Embed some of the texts; each vector is divided by its length, without an epsilon."""
    device = encoder.device
    lengths = texts.lengths
    total = int(lengths[needed].sum())
    starts = np.full(len(texts), -1, dtype=np.int64)
    token_weights = np.empty(total, dtype=np.float32)
    vectors: Tensor | None = None
    filled = 0
    for batch in plan_batches(lengths[needed], max_batch_tokens=limit.tokens):
        rows = needed[batch]
        padded = _pad(texts, rows, pad_id)
        row_lengths = torch.from_numpy(lengths[rows]).to(device)
        hidden = _encode(encoder, padded.to(device), row_lengths, limit)
        if vectors is None:
            vectors = torch.empty((len(hidden), total, hidden.shape[-1]), device=device)
        counts = lengths[rows]
        starts[rows] = filled + np.cumsum(counts) - counts
        valid = np.arange(padded.shape[1])[None, :] < counts[:, None]
        flat = hidden[:, torch.from_numpy(valid).to(device)]
        end = filled + flat.shape[1]
        vectors[:, filled:end] = flat / flat.norm(dim=-1, keepdim=True)
        token_weights[filled:end] = weights.of(padded.numpy()[valid].astype(np.int32))
        filled = end
    return EmbeddedTexts(
        torch.empty((1, 0, 0), device=device) if vectors is None else vectors,
        torch.from_numpy(token_weights).to(device),
        torch.from_numpy(starts).to(device),
        torch.from_numpy(lengths).to(device),
    )


def _windows(
    texts: TokenizedTexts,
    candidates: IntArray,
    references: IntArray,
    encoder: Encoder,
    budget: Budget,
) -> Iterator[IntArray]:
    """Cut the pairs into windows whose texts fit the budget; equal references stay together."""
    bytes_per_token = 4 * encoder.hidden_size * encoder.num_outputs
    limit = max(budget.window_bytes // bytes_per_token, 1)
    lengths = texts.lengths
    order = np.argsort(references, kind="stable")
    seen: set[int] = set()
    start = tokens = 0
    for position, pair in enumerate(order.tolist()):
        new = {int(candidates[pair]), int(references[pair])} - seen
        added = sum(int(lengths[text]) for text in new)
        if tokens + added > limit and position > start:
            yield order[start:position]
            seen, start = set(), position
            new = {int(candidates[pair]), int(references[pair])}
            tokens, added = 0, sum(int(lengths[text]) for text in new)
        seen |= new
        tokens += added
    if start < len(order):
        yield order[start:]


def _pad(texts: TokenizedTexts, rows: IntArray, pad_id: int) -> Tensor:
    """Right-pad the token ids of some texts. Shape (B, S), int64."""
    counts = texts.lengths[rows]
    padded = np.full((len(rows), int(counts.max())), pad_id, dtype=np.int64)
    for position, row in enumerate(rows.tolist()):
        padded[position, : counts[position]] = texts.row(row)
    return torch.from_numpy(padded)


def _encode(encoder: Encoder, ids: Tensor, lengths: Tensor, limit: BatchLimit) -> Tensor:
    """Encode a batch; when memory does not suffice, in pieces of half the size, and so on."""
    pieces: list[Tensor] = []
    start = 0
    while start < len(ids):
        count = max(limit.tokens // max(ids.shape[1], 1), 1)
        piece = slice(start, start + count)
        try:
            pieces.append(encoder.encode(ids[piece], lengths[piece]))
            start += count
        except Exception as error:
            rows = len(ids[piece])
            if rows == 1 or not is_out_of_memory(error):
                raise
            limit.tokens = rows * ids.shape[1] // 2
            torch.cuda.empty_cache()
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _memory_error(device: torch.device, lengths: IntArray, limit: BatchLimit) -> DeviceMemoryError:
    """Say that halving did not help."""
    return DeviceMemoryError(
        f"the memory of {device} does not suffice: got no room for a forward pass of at most "
        f"{limit.tokens} tokens, or for one text (the longest has {lengths.max(initial=0)}), or "
        "for what is kept of them; expected room for the longest text alone. Lower "
        "max_batch_tokens (--max-batch-tokens) or max_length (--max-length), use fewer --workers, "
        "or choose another device (--device)."
    )


@torch.inference_mode()
def _match(
    embedded: EmbeddedTexts, candidates: IntArray, references: IntArray, budget: Budget
) -> npt.NDArray[np.float32]:
    """Match the pairs of a window. Shape (layers, P, 3)."""
    layers, _, hidden_size = embedded.vectors.shape
    lengths = embedded.lengths.cpu().numpy()
    longest = np.maximum(lengths[candidates], lengths[references])
    cost_per_token = 2 * hidden_size + int(longest.max(initial=1))
    scores = np.empty((layers, len(candidates), 3), dtype=np.float32)
    device = embedded.vectors.device
    for batch in plan_batches(longest, max_batch_tokens=budget.match_elements // cost_per_token):
        left = _gather(embedded, torch.from_numpy(candidates[batch]).to(device))
        right = _gather(embedded, torch.from_numpy(references[batch]).to(device))
        for layer in range(layers):
            matched = greedy_match(
                embedded.vectors[layer][left.positions],
                embedded.vectors[layer][right.positions],
                left.lengths,
                right.lengths,
                left.weights,
                right.weights,
            )
            scores[layer, batch] = torch.stack(matched, dim=-1).cpu().numpy()
    return scores


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Where B texts lie: positions (B, S), lengths (B,), weights (B, S) with 0 on padding."""

    positions: Tensor
    lengths: Tensor
    weights: Tensor


def _gather(embedded: EmbeddedTexts, rows: Tensor) -> _Gathered:
    lengths = embedded.lengths[rows]
    steps = torch.arange(int(lengths.max()), device=lengths.device)[None, :]
    inside = steps < lengths[:, None]
    # Padding repeats the first token, so that the gather stays inside the table.
    positions = embedded.starts[rows][:, None] + torch.where(inside, steps, 0)
    return _Gathered(positions, lengths, embedded.weights[positions] * inside)
