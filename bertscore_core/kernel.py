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
from bertscore_core.idf import TokenWeights
from bertscore_core.matching import greedy_match
from bertscore_core.tokens import IntArray, TokenizedTexts

DEFAULT_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
"""Padded tokens a forward pass. CPU: measured best on two cores; CUDA: not yet measured."""

WINDOW_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
"""Embeddings held at once."""

_MATCH_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Numbers gathered for one matching batch: embeddings and similarities."""


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
        encoder returns all of them.
    """
    scores = np.empty((encoder.num_outputs, len(candidates), 3), dtype=np.float32)
    for window in _windows(texts, candidates, references, encoder, budget):
        needed = np.unique(np.concatenate([candidates[window], references[window]]))
        embedded = embed(encoder, texts, needed, weights, pad_id=pad_id, budget=budget)
        scores[:, window] = _match(embedded, candidates[window], references[window], budget)
    return scores


@torch.inference_mode()
def embed(
    encoder: Encoder,
    texts: TokenizedTexts,
    needed: IntArray,
    weights: TokenWeights,
    *,
    pad_id: int,
    budget: Budget,
) -> EmbeddedTexts:
    """Embed some of the texts; each vector is divided by its length, without an epsilon."""
    device = encoder.device
    lengths = texts.lengths
    total = int(lengths[needed].sum())
    starts = np.full(len(texts), -1, dtype=np.int64)
    token_weights = np.empty(total, dtype=np.float32)
    vectors: Tensor | None = None
    filled = 0
    for batch in plan_batches(lengths[needed], max_batch_tokens=budget.batch_tokens):
        rows = needed[batch]
        padded = _pad(texts, rows, pad_id)
        hidden = _encode(encoder, padded.to(device), torch.from_numpy(lengths[rows]).to(device))
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


def _encode(encoder: Encoder, ids: Tensor, lengths: Tensor) -> Tensor:
    """Encode a batch; when the device runs out of memory, in halves."""
    try:
        return encoder.encode(ids, lengths)
    except torch.OutOfMemoryError:
        if len(ids) == 1:
            raise
    torch.cuda.empty_cache()
    half = len(ids) // 2
    parts = [
        _encode(encoder, ids[part], lengths[part]) for part in (slice(half), slice(half, None))
    ]
    return torch.cat(parts, dim=1)


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
