"""Unit-length token embeddings of many texts, laid end to end on the device.

All index arithmetic is done on the host with numpy: a plan, made before the device is used, and the
padding of each batch. A GPU gets them ahead of time: while it computes a batch, the host prepares
the next.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertscore_core.batching import plan_batches
from bertscore_core.device_queue import Begun, DeviceQueue
from bertscore_core.encoder import Encoder
from bertscore_core.idf import TokenWeights, Weightings
from bertscore_core.memory import Budget, Result, attempt
from bertscore_core.tokens import FloatArray, IntArray, TokenIds, TokenizedTexts
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What texts are embedded with.

    Attributes:
        encoder: The encoder.
        queue: The queue of its device.
        budget: Memory bounds. They are lowered if memory is too small.
        pad_id: Token id to pad with.
        shape: The windows of texts that are too long for one pass; None if every text fits.
    """

    encoder: Encoder
    queue: DeviceQueue
    budget: Budget
    pad_id: int
    shape: WindowShape | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingPlan:
    """Which windows are encoded together, and where their vectors go.

    Attributes:
        batches: The windows of each batch, numbered in the order in which they are laid out.
        windows: W windows, in that order.
        ids: Their token ids, laid end to end.
        given: First id of each window, and the end. Shape (W + 1,).
        kept: First vector of each window that is kept, and the end. Shape (W + 1,).
        weights: Weight of every token that is kept. Shape (T,); (W, T) for W weightings.
        starts: As in `EmbeddedTexts`. Shape (N,).
        lengths: As in `EmbeddedTexts`. Shape (N,).
    """

    batches: list[IntArray]
    windows: Windows
    ids: TokenIds
    given: IntArray
    kept: IntArray
    weights: FloatArray
    starts: IntArray
    lengths: IntArray


def plan_embedding(
    texts: TokenizedTexts,
    needed: IntArray,
    weights: TokenWeights | Weightings,
    *,
    budget: Budget,
    shape: WindowShape | None = None,
) -> EmbeddingPlan:
    """Plan how some of the texts are embedded. This needs no device.

    Args:
        texts: All texts.
        needed: Indices of the texts to embed.
        weights: Token weights, one or several.
        budget: Memory bounds.
        shape: The windows of texts that are too long for one pass; None if every text fits.
    """
    lengths = texts.lengths
    windows = Windows.cut(needed, lengths[needed], shape)
    limit = budget.batch_limit(int(windows.lengths.sum()))
    batches = plan_batches(windows.lengths, max_batch_tokens=limit)
    # In the order in which they are laid out. The windows of a text are as long as any, so they
    # stay side by side, and the vectors that are kept of them lie end to end.
    windows = windows.select(np.concatenate(batches))
    kept = _ends(windows.kept)
    begins = np.flatnonzero(windows.starts == 0)  # the first window of each text
    starts = np.full(len(texts), -1, dtype=np.int64)
    starts[windows.texts[begins]] = kept[begins]
    return EmbeddingPlan(
        batches=_runs(batches),
        windows=windows,
        ids=windows.gather(texts),
        given=_ends(windows.lengths),
        kept=kept,
        weights=weights.of(texts.gather(windows.texts[begins])),
        starts=starts,
        lengths=lengths,
    )


@torch.inference_mode()
def embed(engine: Engine, plan: EmbeddingPlan, work: Work) -> EmbeddedTexts:
    """Embed texts as planned; each vector is divided by its length, without an epsilon.

    On a GPU this only queues the work. If memory is too small for a batch, the batch is encoded in
    pieces and the budget is lowered to their size.

    Args:
        engine: What they are embedded with, while it is the caller's turn in its queue.
        plan: The plan.
        work: Where the forward passes are counted.
    """
    encoder, windows = engine.encoder, plan.windows
    shape = (encoder.num_outputs, int(plan.kept[-1]), encoder.hidden_size)
    vectors = torch.empty(shape, device=encoder.device)
    queue = _Queue(plan.batches[::-1], windows.lengths, engine.budget, work)
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
        budget: Memory bounds, which are lowered if memory is too small.
        work: Where failed attempts are counted.
    """

    pending: list[IntArray]
    lengths: IntArray
    budget: Budget
    work: Work

    def take(self) -> IntArray:
        """Return the next batch, or as much of it as the budget still allows."""
        rows = self.pending.pop()
        count = max(self.budget.batch_tokens // max(int(self.lengths[rows[0]]), 1), 1)
        if len(rows) > count:
            self.pending.append(rows[count:])
        return rows[:count]

    def attempt(self, rows: IntArray, step: Callable[[], Result]) -> Result | None:
        """Run a step of a batch. If memory is too small: halve the budget, put the batch back."""
        if len(rows) == 1:
            return step()  # nothing smaller can be tried, so any error is the caller's
        result = attempt(step)
        if result is None:
            self.budget.lower(batch_tokens=len(rows) * int(self.lengths[rows[0]]) // 2)
            self.pending.append(rows)
            self.work.retries += 1
        return result


def _finish(batch: "_Running", vectors: Tensor) -> Tensor:
    """Wait for a batch and write its unit vectors to their place, which is returned."""
    own = vectors[:, batch.place]
    _normalize(batch.hidden().flatten(1, 2), batch.positions, out=own)
    return own


def _normalize(hidden: Tensor, positions: Tensor, out: Tensor) -> None:
    """Divide the vectors at some positions by their lengths.

    Args:
        hidden: Hidden states of a padded batch. Shape (layers, B * S, H).
        positions: Positions of tokens. Shape (tokens,).
        out: The results. Shape (layers, tokens, H).
    """
    if hidden.device.type == "cpu":
        # In numpy, on one thread. Torch would use several threads, which spin for a while after the
        # work and slow down the batches that run: by 7% in float32, 12% in bfloat16.
        chosen = hidden.numpy()[:, positions.numpy()]
        with np.errstate(all="ignore"):  # the scorer checks later for what is not finite
            np.divide(chosen, np.linalg.norm(chosen, axis=-1, keepdims=True), out=out.numpy())
        return
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
        begun: When it was begun.
    """

    rows: IntArray
    place: slice
    hidden: Callable[[], Tensor]
    positions: Tensor
    padded_tokens: int
    begun: Begun


def _start(engine: Engine, plan: EmbeddingPlan, rows: IntArray) -> _Running:
    """Start to encode B windows whose tokens are laid end to end, the longest first."""
    first_row, end_row = rows[0], rows[-1] + 1
    place = slice(int(plan.kept[first_row]), int(plan.kept[end_row]))
    windows, queue = plan.windows.select(rows), engine.queue
    counts = windows.lengths
    steps = np.arange(counts[0])[None, :]
    inside = steps < counts[:, None]
    padded = np.full(inside.shape, engine.pad_id, dtype=np.int64)
    padded[inside] = plan.ids[plan.given[first_row] : plan.given[end_row]]
    first = windows.first[:, None]
    is_kept = (steps >= first) & (steps < first + windows.kept[:, None])
    begun = queue.begin()
    positions = queue.send(np.flatnonzero(is_kept))
    hidden = engine.encoder.start(queue.send(padded), queue.send(counts))
    return _Running(rows, place, hidden, positions, inside.size, begun)
