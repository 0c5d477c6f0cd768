"""Unit-length token embeddings of many texts, laid end to end on the device.

All index arithmetic is done on the host with numpy, ahead of time: while a GPU computes a batch,
the host prepares the next.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertscore_core import tokens
from bertscore_core.batches import BatchLayout, plan_batches
from bertscore_core.idf import TokenWeights
from bertscore_core.model.device import Begun, DeviceQueue
from bertscore_core.model.encoder import Encoder
from bertscore_core.model.memory import Budget, Result, attempt
from bertscore_core.model.packing import PackedBatch
from bertscore_core.windows import Windows, WindowShape
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Unit-length embeddings of some of N texts, laid end to end.

    Attributes:
        vectors: On the device. Shape (layers, T, H), float32.
        weights: Of every token with each of W weightings, on the device. Shape (W, T), float32.
        starts: First token of each text; -1 if the text is not embedded. Shape (N,).
        lengths: Tokens of each text. Shape (N,).
    """

    vectors: Tensor
    weights: Tensor
    starts: tokens.IntArray
    lengths: tokens.IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What texts are embedded with.

    Attributes:
        queue: The queue of the encoder's device.
        budget: Memory bounds. They are lowered if memory is too small.
        shape: The windows of texts that are too long for one pass; None if every text fits.
    """

    encoder: Encoder
    queue: DeviceQueue
    budget: Budget
    pad_id: int
    shape: WindowShape | None = None

    @property
    def layout(self) -> BatchLayout:
        """How texts lie in a batch."""
        return BatchLayout(packed=self.encoder.packing is not None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingPlan:
    """Which windows are encoded together, and where their vectors go.

    Attributes:
        batches: The windows of each batch, numbered in the order in which they are laid out.
        windows: W windows, in that order; `ids` are their token ids, laid end to end.
        id_ends: First id of each window, and the end. Shape (W + 1,).
        vector_ends: First vector of each window that is kept, and the end. Shape (W + 1,).
        weights, starts, lengths: As in `EmbeddedTexts`.
    """

    batches: list[tokens.IntArray]
    windows: Windows
    ids: tokens.TokenIds
    id_ends: tokens.IntArray
    vector_ends: tokens.IntArray
    weights: tokens.FloatArray
    starts: tokens.IntArray
    lengths: tokens.IntArray


def plan_embedding(
    engine: Engine,
    texts: tokens.TokenizedTexts,
    needed: tokens.IntArray,
    weightings: Sequence[TokenWeights],
) -> EmbeddingPlan:
    """Plan how the texts with the indices `needed` are embedded. This uses no device."""
    lengths = texts.lengths
    windows = Windows.cut(needed, lengths[needed], engine.shape)
    limit = engine.budget.batch_limit(int(windows.lengths.sum()))
    batches = plan_batches(windows.lengths, max_batch_tokens=limit, layout=engine.layout)
    # In the order in which they are laid out. The windows of a text are as long as any, so they
    # stay side by side, and the vectors that are kept of them lie end to end.
    windows = windows.select(np.concatenate(batches))
    vector_ends = tokens.offsets_of(windows.kept)
    begins = np.flatnonzero(windows.starts == 0)  # the first window of each text
    laid_out = texts.gather(windows.texts[begins])
    starts = np.full(len(texts), -1, dtype=np.int64)
    starts[windows.texts[begins]] = vector_ends[begins]
    return EmbeddingPlan(
        batches=_runs(batches),
        windows=windows,
        ids=windows.gather(texts),
        id_ends=tokens.offsets_of(windows.lengths),
        vector_ends=vector_ends,
        weights=np.stack([weights.of(laid_out) for weights in weightings]),
        starts=starts,
        lengths=lengths,
    )


def embed(engine: Engine, plan: EmbeddingPlan, work: Work) -> EmbeddedTexts:
    """Embed texts as planned; each vector is divided by its length, without an epsilon.

    The caller has its turn in the queue. On a GPU this only queues the work. If memory is too small
    for a batch, it is encoded in pieces and the budget is lowered to their size.
    """
    encoder, windows = engine.encoder, plan.windows
    shape = (encoder.num_outputs, int(plan.vector_ends[-1]), encoder.hidden_size)
    vectors = torch.empty(shape, dtype=torch.float32, device=encoder.device)
    queue = _Queue(plan.batches[::-1], windows.lengths, engine.layout, engine.budget, work)
    running: deque[_Running] = deque()
    try:
        while queue.pending or running:
            if queue.pending and len(running) < encoder.in_flight:
                rows = queue.take()
                started = queue.attempt(rows, partial(_start, engine, plan, rows))
                if started is not None:
                    running.append(started)
            else:
                batch = running.popleft()
                if queue.attempt(batch.rows, partial(_finish, batch, vectors)) is not None:
                    engine.queue.end(batch.begun, work)
                    work.batches += 1
                    work.lowered_batches += engine.budget.lowered
                    work.tokens += int(windows.lengths[batch.rows].sum())
                    work.padded_tokens += batch.padded_tokens
    finally:
        # After an error, a batch that still runs must not lose the memory it writes to.
        for batch in running:
            with suppress(Exception):
                batch.hidden()
    return EmbeddedTexts(vectors, engine.queue.send(plan.weights), plan.starts, plan.lengths)


def _runs(batches: list[tokens.IntArray]) -> list[tokens.IntArray]:
    ends = tokens.offsets_of(np.array([len(batch) for batch in batches], dtype=np.int64))
    return [np.arange(first, end) for first, end in pairwise(ends)]


@dataclass(slots=True)
class _Queue:
    """Batches that wait for the encoder, longest windows first. The last batch is the next."""

    pending: list[tokens.IntArray]
    lengths: tokens.IntArray
    layout: BatchLayout
    budget: Budget
    work: Work

    def take(self) -> tokens.IntArray:
        rows = self.pending.pop()
        count = self.layout.fit(self.lengths[rows], self.budget.batch_tokens)
        if len(rows) > count:
            self.pending.append(rows[count:])
        return rows[:count]

    def attempt(self, rows: tokens.IntArray, step: Callable[[], Result]) -> Result | None:
        if len(rows) == 1:
            return step()  # nothing smaller can be tried, so any error is the caller's
        result = attempt(step)
        if result is None:
            self.budget.lower(batch_tokens=self.layout.size(self.lengths[rows]) // 2)
            self.pending.append(rows)
            self.work.retries += 1
        return result


def _finish(batch: "_Running", vectors: Tensor) -> Tensor:
    own = vectors[:, batch.place]
    _normalize(batch.hidden().flatten(1, 2), batch.positions, out=own)
    return own


def _normalize(hidden: Tensor, positions: Tensor | slice, out: Tensor) -> None:
    if hidden.device.type == "cpu":
        # In numpy, on one thread. Torch would use several threads, which spin for a while after the
        # work and slow down the batches that run: by 7% in float32, 12% in bfloat16.
        places = positions if isinstance(positions, slice) else positions.numpy()
        chosen = hidden.numpy()[:, places]
        with np.errstate(all="ignore"):  # the scorer checks later for what is not finite
            np.divide(chosen, np.linalg.norm(chosen, axis=-1, keepdims=True), out=out.numpy())
        return
    selected = hidden[:, positions]
    torch.div(selected, selected.norm(dim=-1, keepdim=True), out=out)


class _Running(NamedTuple):
    """A batch of windows that is being encoded.

    Attributes:
        place: Where the tokens that are kept go among all embeddings.
        hidden: Waits for the hidden states, (layers, B, S, H); B is 1 if texts are laid end to end.
        positions: Positions of the tokens that are kept, among all B * S; or their range.
    """

    rows: tokens.IntArray
    place: slice
    hidden: Callable[[], Tensor]
    positions: Tensor | slice
    padded_tokens: int
    begun: Begun


def _start(engine: Engine, plan: EmbeddingPlan, rows: tokens.IntArray) -> _Running:
    first, end = rows[0], rows[-1] + 1
    place = slice(int(plan.vector_ends[first]), int(plan.vector_ends[end]))
    ids, windows = plan.ids[plan.id_ends[first] : plan.id_ends[end]], plan.windows.select(rows)
    encoder, queue, counts = engine.encoder, engine.queue, windows.lengths
    is_kept = windows.is_kept()
    positions: Tensor | slice
    if encoder.packing is None:
        inside = np.arange(counts[0])[None, :] < counts[:, None]
        padded = np.full(inside.shape, engine.pad_id, dtype=np.int64)
        padded[inside] = ids
        places, size = np.flatnonzero(inside)[is_kept], inside.size
        begun = queue.begin()
        positions = queue.send(places)
        hidden = encoder.start(queue.send(padded), queue.send(counts))
    else:
        laid_out, ends = encoder.packing.lay_out(ids, counts, filler=engine.pad_id)
        size = laid_out.shape[1]
        begun = queue.begin()
        # As a rule all are kept, and then they need not be gathered.
        everything = slice(0, len(is_kept))
        positions = everything if is_kept.all() else queue.send(np.flatnonzero(is_kept))
        batch = PackedBatch.of(queue.send(laid_out), queue.send(ends), counts)
        hidden = encoder.start_packed(batch)
    return _Running(rows, place, hidden, positions, size, begun)
