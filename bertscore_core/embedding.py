"""Unit-length token embeddings of many texts, laid end to end on the device.

Everything about a batch that the host knows is worked out there with numpy and sent ahead, so that
a GPU is never waited for: it computes one batch while the next is laid out.
"""

from dataclasses import dataclass

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
    batches = plan_batches(lengths[needed], max_batch_tokens=budget.batch_tokens)
    order = needed[np.concatenate(batches)]  # texts in the order in which they are laid out
    ids = texts.gather(order)
    starts = np.full(len(texts), -1, dtype=np.int64)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    vectors = torch.empty((encoder.num_outputs, len(ids), encoder.hidden_size), device=device)
    pending = [needed[batch] for batch in reversed(batches)]
    filled = 0
    while pending:
        rows = pending.pop()
        longest = int(lengths[rows[0]])
        count = max(budget.batch_tokens // max(longest, 1), 1)
        if len(rows) > count:
            pending.append(rows[count:])
            rows = rows[:count]
        end = filled + int(lengths[rows].sum())
        try:
            hidden = _encode(encoder, ids[filled:end], lengths[rows], pad_id)
            torch.div(hidden, hidden.norm(dim=-1, keepdim=True), out=vectors[:, filled:end])
        except Exception as error:
            if len(rows) == 1 or not is_out_of_memory(error):
                raise
            budget.batch_tokens = len(rows) * longest // 2
            pending.append(rows)
            work.retries += 1
            torch.cuda.empty_cache()
            continue
        work.batches += 1
        work.tokens += end - filled
        work.padded_tokens += len(rows) * longest
        filled = end
    return EmbeddedTexts(vectors, to_device(weights.of(ids), device), starts, lengths)


def to_device(values: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array to a device; to a GPU without waiting for it."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _encode(encoder: Encoder, ids: npt.NDArray[np.int32], counts: IntArray, pad_id: int) -> Tensor:
    """Encode B texts laid end to end. Shape (layers, their tokens, H)."""
    device = encoder.device
    inside = np.arange(counts[0])[None, :] < counts[:, None]
    padded = np.full(inside.shape, pad_id, dtype=np.int64)
    padded[inside] = ids
    hidden = encoder.encode(to_device(padded, device), to_device(counts, device))
    positions = to_device(np.flatnonzero(inside), device)
    return hidden.flatten(1, 2).index_select(1, positions)
