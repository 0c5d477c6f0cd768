"""Unit-length token embeddings of many texts, laid end to end on the device.

Everything about a batch that the host knows is worked out there with numpy and sent ahead, so that
a GPU is never waited for: it computes one batch while the next is laid out.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.batching import plan_batches
from bertscore_core.encoder import Encoder
from bertscore_core.idf import TokenWeights
from bertscore_core.memory import Budget, is_out_of_memory
from bertscore_core.tokens import IntArray, TokenizedTexts
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Unit-length embeddings of some texts, laid end to end.

    Attributes:
        vectors: On the device. Shape (layers, T, H), float32.
        weights: Weight of every token, on the device. Shape (T,), float32.
        starts: First token of each text of the split, or -1 where it is not embedded. Shape (N,).
        lengths: Tokens of each text of the split. Shape (N,).
    """

    vectors: Tensor
    weights: Tensor
    starts: IntArray
    lengths: IntArray


@torch.inference_mode()
def embed(
    encoder: Encoder,
    texts: TokenizedTexts,
    needed: IntArray,
    weights: TokenWeights,
    *,
    pad_id: int,
    budget: Budget,
    work: Work,
) -> EmbeddedTexts:
    """Embed some of the texts; each vector is divided by its length, without an epsilon.

    A batch for which memory does not suffice is encoded in pieces, and the budget is lowered to
    their size.

    Args:
        encoder: What embeds.
        texts: All texts.
        needed: Indices of those to embed.
        weights: Token weights.
        pad_id: Token id to pad with.
        budget: Memory bounds.
        work: Where the forward passes are counted.
    """
    device = encoder.device
    lengths = texts.lengths
    limit = budget.batch_limit(int(lengths[needed].sum()))
    batches = plan_batches(lengths[needed], max_batch_tokens=limit)
    order = needed[np.concatenate(batches)]  # texts in the order in which they are laid out
    ids = texts.gather(order)
    starts = np.full(len(texts), -1, dtype=np.int64)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    vectors = torch.empty((encoder.num_outputs, len(ids), encoder.hidden_size), device=device)
    pending = [needed[batch] for batch in reversed(batches)]
    running: deque[_Running] = deque()

    def take_apart(rows: IntArray, error: Exception) -> None:
        if len(rows) == 1 or not is_out_of_memory(error):
            raise error
        budget.lower(batch_tokens=len(rows) * int(lengths[rows[0]]) // 2)
        pending.append(rows)
        work.retries += 1
        torch.cuda.empty_cache()

    try:
        while pending or running:
            if pending and len(running) < encoder.in_flight:
                rows = pending.pop()
                count = max(budget.batch_tokens // max(int(lengths[rows[0]]), 1), 1)
                if len(rows) > count:
                    pending.append(rows[count:])
                    rows = rows[:count]
                first = starts[rows[0]]
                place = slice(first, first + int(lengths[rows].sum()))
                try:
                    running.append(_start(encoder, rows, place, ids[place], lengths[rows], pad_id))
                except Exception as error:
                    take_apart(rows, error)
                continue
            batch = running.popleft()
            try:
                own = vectors[:, batch.place]
                _normalize(batch.hidden().flatten(1, 2), batch.positions, out=own)
            except Exception as error:
                take_apart(batch.rows, error)
                continue
            work.batches += 1
            work.lowered_batches += budget.lowered
            work.tokens += own.shape[1]
            work.padded_tokens += batch.padded_tokens
    finally:
        for batch in running:  # what is still computed must not lose its memory
            with suppress(Exception):
                batch.hidden()
    return EmbeddedTexts(vectors, to_device(weights.of(ids), device), starts, lengths)


def to_device(values: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array to a device; to a GPU without waiting for it."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _normalize(hidden: Tensor, positions: Tensor, out: Tensor) -> None:
    """Divide the vectors at some positions by their lengths.

    Args:
        hidden: Shape (layers, positions in all, H).
        positions: Which. Shape (tokens,).
        out: Where they go. Shape (layers, tokens, H).
    """
    if hidden.device.type == "cpu":
        # Torch would spread this over threads, which then spin for a while, and take the cores from
        # the batches that are being computed: 7% of the time in float32, 12% in bfloat16.
        chosen = hidden.numpy()[:, positions.numpy()]
        with np.errstate(all="ignore"):  # what is not finite is found, and named, later
            np.divide(chosen, np.linalg.norm(chosen, axis=-1, keepdims=True), out=out.numpy())
        return
    selected = hidden.index_select(1, positions)
    torch.div(selected, selected.norm(dim=-1, keepdim=True), out=out)


class _Running(NamedTuple):
    """A batch that is being encoded.

    Attributes:
        rows: Its texts.
        place: Their tokens among all embeddings.
        hidden: Waits for the hidden states. Shape (layers, B, S, H).
        positions: Where tokens stand among all B * S positions.
        padded_tokens: B * S.
    """

    rows: IntArray
    place: slice
    hidden: Callable[[], Tensor]
    positions: Tensor
    padded_tokens: int


def _start(
    encoder: Encoder,
    rows: IntArray,
    place: slice,
    ids: npt.NDArray[np.int32],
    counts: IntArray,
    pad_id: int,
) -> _Running:
    """Start to encode B texts laid end to end."""
    device = encoder.device
    inside = np.arange(counts[0])[None, :] < counts[:, None]
    padded = np.full(inside.shape, pad_id, dtype=np.int64)
    padded[inside] = ids
    positions = to_device(np.flatnonzero(inside), device)
    hidden = encoder.start(to_device(padded, device), to_device(counts, device))
    return _Running(rows, place, hidden, positions, inside.size)
