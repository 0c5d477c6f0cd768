"""Unit-length token embeddings of many texts, laid end to end on the device.

All index arithmetic is done on the host with numpy, and the results are sent to the device ahead of
time. So the host never waits for a GPU: it prepares the next batch while one is computed.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.batching import PACKED, PADDED, BatchLayout, plan_batches
from bertscore_core.encoder import Encoder
from bertscore_core.idf import TokenWeights, Weightings
from bertscore_core.memory import Budget, Result, attempt
from bertscore_core.packing import PackedBatch, Packing
from bertscore_core.tokens import IntArray, TokenizedTexts
from bertscore_core.windows import Windows, WindowShape
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Unit-length embeddings of some texts, laid end to end.

    Attributes:
        vectors: On the device. Shape (layers, T, H), float32.
        weights: Weight of every token, on the device. Shape (T,), float32; (W, T) for W weightings.
        starts: First token of each of all texts; -1 if the text is not embedded. Shape (N,).
        lengths: Tokens of each of all texts. Shape (N,).
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
    weights: TokenWeights | Weightings,
    *,
    pad_id: int,
    budget: Budget,
    work: Work,
    shape: WindowShape | None = None,
) -> EmbeddedTexts:
    """Embed some of the texts; each vector is divided by its length, without an epsilon.

    If memory is too small for a batch, the batch is encoded in pieces and the budget is lowered to
    their size.

    Args:
        encoder: The encoder.
        texts: All texts.
        needed: Indices of the texts to embed.
        weights: Token weights, one or several.
        pad_id: Token id to pad with.
        budget: Memory bounds.
        work: Where the forward passes are counted.
        shape: The windows of texts that are too long for one pass; None if every text fits.
    """
    device, lengths = encoder.device, texts.lengths
    windows = Windows.cut(needed, lengths[needed], shape)
    limit = budget.batch_limit(int(windows.lengths.sum()))
    layout = PADDED if encoder.packing is None else PACKED
    batches = plan_batches(windows.lengths, max_batch_tokens=limit, layout=layout)
    # In the order in which they are laid out. The windows of a text are as long as any, so they
    # stay side by side, and the vectors that are kept of them lie end to end.
    windows = windows.select(np.concatenate(batches))
    ids, given, kept = windows.gather(texts), _ends(windows.lengths), _ends(windows.kept)
    begins = np.flatnonzero(windows.starts == 0)  # the first window of each text
    starts = np.full(len(texts), -1, dtype=np.int64)
    starts[windows.texts[begins]] = kept[begins]
    vectors = torch.empty((encoder.num_outputs, kept[-1], encoder.hidden_size), device=device)
    queue = _Queue(_runs(batches)[::-1], windows.lengths, layout, budget, work)
    running: deque[_Running] = deque()
    try:
        while queue.pending or running:
            if queue.pending and len(running) < encoder.in_flight:
                rows = queue.take()
                first, end = rows[0], rows[-1] + 1
                place = slice(int(kept[first]), int(kept[end]))
                own = ids[given[first] : given[end]]
                inputs = _Inputs(own, windows.select(rows), pad_id, budget.batch_tokens)
                start = partial(_start, encoder, rows, place, inputs)
                started = queue.attempt(rows, start)
                if started is not None:
                    running.append(started)
            else:
                batch = running.popleft()
                if queue.attempt(batch.rows, partial(_finish, batch, vectors)) is not None:
                    work.batches += 1
                    work.lowered_batches += budget.lowered
                    work.tokens += int(windows.lengths[batch.rows].sum())
                    work.padded_tokens += batch.padded_tokens
    finally:
        # After an error, a batch that still runs must not lose the memory it writes to.
        for batch in running:
            with suppress(Exception):
                batch.hidden()
    laid_out = weights.of(texts.gather(windows.texts[begins]))
    return EmbeddedTexts(vectors, to_device(laid_out, device), starts, lengths)


def _ends(counts: IntArray) -> IntArray:
    """Return where each of N runs of so many begins, and where the last ends. Shape (N + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)])


def _runs(batches: list[IntArray]) -> list[IntArray]:
    """Number what the batches hold, one after the other."""
    ends = _ends(np.array([len(batch) for batch in batches], dtype=np.int64))
    return [np.arange(first, end) for first, end in pairwise(ends)]


@dataclass(slots=True)
class _Queue:
    """Batches that wait for the encoder.

    Attributes:
        pending: Windows of each batch, longest first. The last batch is the next.
        lengths: Tokens of each window.
        layout: How windows lie in a batch.
        budget: Memory bounds, which are lowered if memory is too small.
        work: Where failed attempts are counted.
    """

    pending: list[IntArray]
    lengths: IntArray
    layout: BatchLayout
    budget: Budget
    work: Work

    def take(self) -> IntArray:
        """Return the next batch, or as much of it as the budget still allows."""
        rows = self.pending.pop()
        count = self.layout.fit(self.lengths[rows], self.budget.batch_tokens)
        if len(rows) > count:
            self.pending.append(rows[count:])
        return rows[:count]

    def attempt(self, rows: IntArray, step: Callable[[], Result]) -> Result | None:
        """Run a step of a batch. If memory is too small: halve the budget, put the batch back."""
        if len(rows) == 1:
            return step()  # nothing smaller can be tried, so any error is the caller's
        result = attempt(step)
        if result is None:
            self.budget.lower(batch_tokens=self.layout.size(self.lengths[rows]) // 2)
            self.pending.append(rows)
            self.work.retries += 1
        return result


def _finish(batch: "_Running", vectors: Tensor) -> Tensor:
    """Wait for a batch and write its unit vectors to their place, which is returned."""
    own = vectors[:, batch.place]
    _normalize(batch.hidden().flatten(1, 2), batch.positions, out=own)
    return own


def to_device(values: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array to a device, without waiting if it is a GPU."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        # Only from pinned memory can a copy run while the host goes on.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _normalize(hidden: Tensor, positions: Tensor | slice, out: Tensor) -> None:
    """Divide the vectors at some positions by their lengths.

    Args:
        hidden: Hidden states of a batch. Shape (layers, B * S, H).
        positions: Positions of tokens, shape (tokens,), or their range.
        out: The results. Shape (layers, tokens, H).
    """
    if hidden.device.type == "cpu":
        # In numpy, on one thread. Torch would use several threads, which spin for a while after the
        # work and slow down the batches that run: by 7% in float32, 12% in bfloat16.
        places = positions if isinstance(positions, slice) else positions.numpy()
        chosen = hidden.numpy()[:, places]
        with np.errstate(all="ignore"):  # the scorer checks later for what is not finite
            np.divide(chosen, np.linalg.norm(chosen, axis=-1, keepdims=True), out=out.numpy())
        return
    if isinstance(positions, slice):
        selected = hidden[:, positions]
    else:
        selected = hidden.index_select(1, positions)
    torch.div(selected, selected.norm(dim=-1, keepdim=True), out=out)


class _Running(NamedTuple):
    """A batch that is being encoded.

    Attributes:
        rows: Its windows.
        place: Where the tokens that are kept go among all embeddings.
        hidden: Waits for the hidden states and returns them. Shape (layers, B, S, H).
        positions: Positions of the tokens that are kept, among all B * S.
        padded_tokens: B * S.
    """

    rows: IntArray
    place: slice
    hidden: Callable[[], Tensor]
    positions: Tensor | slice
    padded_tokens: int


class _Inputs(NamedTuple):
    """What a batch is made of.

    Attributes:
        ids: Token ids of its windows, laid end to end.
        windows: The windows, the longest first.
        pad_id: Token id to pad with.
        most: Tokens of a full batch.
    """

    ids: npt.NDArray[np.int32]
    windows: Windows
    pad_id: int
    most: int


def _start(encoder: Encoder, rows: IntArray, place: slice, inputs: _Inputs) -> _Running:
    """Start to encode a batch."""
    if encoder.packing is not None:
        return _Running(rows, place, *_start_packed(encoder, encoder.packing, inputs))
    return _Running(rows, place, *_start_padded(encoder, inputs))


def _start_padded(
    encoder: Encoder, inputs: _Inputs
) -> tuple[Callable[[], Tensor], Tensor | slice, int]:
    device, counts = encoder.device, inputs.windows.lengths
    inside = np.arange(counts[0])[None, :] < counts[:, None]
    padded = np.full(inside.shape, inputs.pad_id, dtype=np.int64)
    padded[inside] = inputs.ids
    positions = to_device(np.flatnonzero(inside)[inputs.windows.is_kept()], device)
    hidden = encoder.start(to_device(padded, device), to_device(counts, device))
    return hidden, positions, inside.size


def _start_packed(
    encoder: Encoder, packing: Packing, inputs: _Inputs
) -> tuple[Callable[[], Tensor], Tensor | slice, int]:
    device, counts = encoder.device, inputs.windows.lengths
    rows, ends = packing.lay_out(inputs.ids, counts, filler=inputs.pad_id, most=inputs.most)
    batch = PackedBatch.of(to_device(rows, device), to_device(ends, device), int(counts.max()))
    is_kept = inputs.windows.is_kept()
    # As a rule all are, and then they need not be gathered.
    positions = (
        slice(0, len(is_kept)) if is_kept.all() else to_device(np.flatnonzero(is_kept), device)
    )
    return encoder.start_packed(batch), positions, rows.shape[1]
