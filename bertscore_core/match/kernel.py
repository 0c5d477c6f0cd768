"""Scores of many pairs: every distinct text is encoded once, then pairs are matched in place.

Pairs are processed in blocks whose embeddings fit a byte budget on the device. The plan depends
only on the pairs and the budget, so the same split gives the same bits on every worker.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertscore_core.batches import plan_batches
from bertscore_core.errors import DeviceMemoryError
from bertscore_core.idf import TokenWeights
from bertscore_core.match import embedding, matching
from bertscore_core.model.device import DeviceQueue, Fetched
from bertscore_core.model.encoder import Encoder
from bertscore_core.model.lost_device import is_device_lost
from bertscore_core.model.memory import Budget, attempt
from bertscore_core.tokens import FloatArray, IntArray, TextPairs
from bertscore_core.work import Work

logger = logging.getLogger(__name__)


def score_pairs(
    engine: embedding.Engine, pairs: TextPairs, weightings: Sequence[TokenWeights], work: Work
) -> FloatArray:
    """Score P pairs of texts with each of W weightings; they are encoded and matched once.

    Each block is planned, and queued in a turn of its own. While one is computed on a GPU, the next
    is planned, by this thread or by another. Only at the end does this thread wait for the scores.
    If memory is too small for the engine's budget, batches and blocks are halved and the budget is
    lowered, which moves scores by at most 1e-6 in float32, by far more in 16 bits (1.9e-3 was
    measured).

    Returns:
        Precision, recall and F1. Shape (W, layers, P, 3), float32; layers is 1, or L + 1 if the
        encoder returns all of them.

    Raises:
        DeviceMemoryError: memory is too small for a single pair.
    """
    encoder, budget, lengths = engine.encoder, engine.budget, pairs.texts.lengths
    shape_of_all = (len(weightings), encoder.num_outputs, len(pairs), 3)
    scores = np.empty(shape_of_all, dtype=np.float32)
    queued: list[tuple[IntArray, Fetched]] = []
    for planned in _blocks(pairs, encoder, budget):
        pending = [planned]
        while pending:
            rows = pending.pop()
            block = pairs.select(rows)
            # A text that is in several pairs of the block is encoded once.
            plan = embedding.plan_embedding(engine, pairs.texts, block.used_texts(), weightings)
            with engine.queue.turn(work):
                fetched = attempt(partial(_queue_block, engine, plan, block, work))
            if fetched is not None:
                queued.append((rows, fetched))
                continue
            if len(rows) == 1:  # nothing smaller can be tried
                raise _memory_error(encoder.device, lengths, budget)
            # Half of what failed, not of the budget, which may be far above what was needed.
            failed = _bytes_per_token(encoder) * int(lengths[block.used_texts()].sum())
            budget.lower(block_bytes=failed // 2)
            half = len(rows) // 2
            work.retries += 1
            pending += [rows[half:], rows[:half]]
    for rows, fetched in queued:
        scores[:, :, rows] = engine.queue.received(fetched, work)
    return scores


def _queue_block(
    engine: embedding.Engine, plan: embedding.EmbeddingPlan, block: TextPairs, work: Work
) -> Fetched:
    embedded = embedding.embed(engine, plan, work)
    begun = engine.queue.begin()
    sides = block.candidates, block.references
    with engine.encoder.products():
        scores = _match(embedded, *sides, engine.queue, engine.budget)
    engine.queue.end(begun, work)
    return engine.queue.fetch(scores)


def _blocks(pairs: TextPairs, encoder: Encoder, budget: Budget) -> Iterator[IntArray]:
    """Cut the pairs into blocks whose texts fit the budget; equal references stay together.

    All layers of a text take much memory, so their blocks have few batches. They are filled with
    pairs of similar length, since only texts of the same block can share a batch.
    """
    bytes_per_token = _bytes_per_token(encoder)
    lengths, candidates, references = pairs.texts.lengths, pairs.candidates, pairs.references
    # Stable sorts, so that the plan is the same on every machine.
    order = np.argsort(references, kind="stable")
    if encoder.num_outputs > 1:
        order = order[np.argsort(_longest(lengths, candidates, references)[order], kind="stable")]
    whole = int(lengths[pairs.used_texts()].sum())
    if len(order) and whole * bytes_per_token <= budget.block_bytes:
        yield order  # the usual case on a GPU, without a loop over the pairs
        return
    seen: set[int] = set()
    start = tokens = 0
    for position, pair in enumerate(order.tolist()):
        new = {int(candidates[pair]), int(references[pair])} - seen
        added = sum(int(lengths[text]) for text in new)
        if (tokens + added) * bytes_per_token > budget.block_bytes and position > start:
            yield order[start:position]
            # A text of the previous block is encoded again if this one needs it, too.
            seen, start = set(), position
            new = {int(candidates[pair]), int(references[pair])}
            tokens, added = 0, sum(int(lengths[text]) for text in new)
        seen |= new
        tokens += added
    if start < len(order):
        yield order[start:]


def _longest(lengths: IntArray, candidates: IntArray, references: IntArray) -> IntArray:
    longest = lengths.copy()
    np.maximum.at(longest, references, lengths[candidates])
    return longest[references]


def _bytes_per_token(encoder: Encoder) -> int:
    return 4 * encoder.hidden_size * encoder.num_outputs


def _memory_error(device: torch.device, lengths: IntArray, budget: Budget) -> DeviceMemoryError:
    return DeviceMemoryError(
        f"the memory of {device} does not suffice: got no room for a forward pass of at most "
        f"{budget.batch_tokens} tokens, or for one text (the longest has {lengths.max(initial=0)}),"
        " or for what is kept of them; expected room for the longest text alone. Lower "
        "max_batch_tokens (--max-batch-tokens) or max_length (--max-length), use fewer "
        "workers (--workers), or choose another device (--device)."
    )


def _match(
    embedded: embedding.EmbeddedTexts,
    candidates: IntArray,
    references: IntArray,
    queue: DeviceQueue,
    budget: Budget,
) -> Tensor:
    lengths = embedded.lengths
    is_long = lengths[candidates] * lengths[references] > budget.pair_elements
    ways = (
        (~is_long, partial(_match_whole, budget=budget)),
        (is_long, partial(_match_in_tiles, budget=budget)),
    )
    parts = [
        (chosen, match(embedded, candidates[chosen], references[chosen], queue))
        for chosen, match in ways
        if chosen.any()
    ]
    if len(parts) == 1:
        return parts[0][1]
    scores = parts[0][1].new_empty((*parts[0][1].shape[:2], len(candidates), 3))
    for chosen, values in parts:
        scores[:, :, queue.send(np.flatnonzero(chosen))] = values
    return scores


def _match_whole(
    embedded: embedding.EmbeddedTexts,
    candidates: IntArray,
    references: IntArray,
    queue: DeviceQueue,
    budget: Budget,
) -> Tensor:
    # On a GPU the fused kernel needs no padded copies and waits for no transfer.
    fused = _fused_matching(embedded.vectors.device)
    if fused is None:
        return _match_gathered(embedded, candidates, references, queue, budget)
    places = [
        queue.send(values)
        for side in (candidates, references)
        for values in (embedded.starts[side], embedded.lengths[side])
    ]
    shorter = np.minimum(embedded.lengths[candidates], embedded.lengths[references])
    match = partial(fused.greedy_match_ragged, longest=int(shorter.max(initial=0)))
    scores = [
        torch.stack([_stack(match(vectors, weights, *places)) for vectors in embedded.vectors])
        for weights in embedded.weights
    ]
    return torch.stack(scores)


def _match_in_tiles(
    embedded: embedding.EmbeddedTexts,
    candidates: IntArray,
    references: IntArray,
    queue: DeviceQueue,
    budget: Budget,
) -> Tensor:
    """Also on a GPU: the fused kernel would leave a long pair to one of its processors."""
    scores, side = [], max(math.isqrt(budget.match_elements), 1)
    for candidate, reference in zip(candidates, references, strict=True):
        left, right = _slice_of(embedded, candidate), _slice_of(embedded, reference)
        sizes = np.array([[left.stop - left.start], [right.stop - right.start]])
        lengths = queue.send(sizes)
        matches = [
            matching.best_matches_in_tiles(vectors[left], vectors[right], side=side)
            for vectors in embedded.vectors
        ]
        scores += [
            _stack(matching.average(best, weights[None, left], weights[None, right], *lengths))
            for weights in embedded.weights
            for best in matches
        ]
    shape = len(candidates), len(embedded.weights), len(embedded.vectors), 3
    return torch.cat(scores).view(shape).permute(1, 2, 0, 3)


def _slice_of(embedded: embedding.EmbeddedTexts, text: int) -> slice:
    start = int(embedded.starts[text])
    return slice(start, start + int(embedded.lengths[text]))


@cache
def _fused_matching(device: torch.device) -> ModuleType | None:
    """Return the module with the fused kernel if it runs on a device, which is tried only once."""
    if device.type != "cuda":
        return None
    from bertscore_core.match import matching_triton  # here, since it imports Triton
    from bertscore_core.model import triton_jit

    if not triton_jit.is_available(device):
        return None
    # A call on one token: what fails for this device fails here, before any score.
    single = torch.ones(1, dtype=torch.int64, device=device)
    text, weights = (single - 1, single), single.float()
    try:
        matching_triton.greedy_match_ragged(weights[None], weights, *text, *text, longest=1)
    except Exception as error:  # compilers raise errors of many types
        if is_device_lost(error):
            raise
        logger.warning("pairs are matched without the fused kernel: %s", error)
        return None
    return matching_triton


def _match_gathered(
    embedded: embedding.EmbeddedTexts,
    candidates: IntArray,
    references: IntArray,
    queue: DeviceQueue,
    budget: Budget,
) -> Tensor:
    layers, _, hidden_size = embedded.vectors.shape
    longest = np.maximum(embedded.lengths[candidates], embedded.lengths[references])
    # For each token of the longer text: two embeddings, and a row of similarities.
    cost_per_token = 2 * hidden_size + int(longest.max(initial=1))
    weightings = len(embedded.weights)
    scores = embedded.vectors.new_empty((weightings, layers, len(candidates), 3))
    for batch in plan_batches(longest, max_batch_tokens=budget.match_elements // cost_per_token):
        left = _gather(embedded, candidates[batch], queue)
        right = _gather(embedded, references[batch], queue)
        places = queue.send(batch)
        # One layer at a time: the similarities of all layers would take L + 1 times the memory.
        for layer, vectors in enumerate(embedded.vectors):
            best = matching.best_matches(
                vectors[left.positions], vectors[right.positions], left.lengths, right.lengths
            )
            for index in range(weightings):
                matched = matching.average(
                    best, left.weights[index], right.weights[index], left.lengths, right.lengths
                )
                scores[index, layer].index_copy_(0, places, _stack(matched))
    return scores


def _stack(scores: matching.PairScores) -> Tensor:
    return torch.stack(scores, dim=-1)


class _Gathered(NamedTuple):
    """Positions (B, S) of B texts, their lengths (B,) and weights (W, B, S), with 0 on padding."""

    positions: Tensor
    lengths: Tensor
    weights: Tensor


def _gather(embedded: embedding.EmbeddedTexts, rows: IntArray, queue: DeviceQueue) -> _Gathered:
    lengths = embedded.lengths[rows]
    steps = np.arange(lengths.max())[None, :]
    inside = steps < lengths[:, None]
    # Padding repeats the first token, a valid position; the matching masks it.
    places = embedded.starts[rows][:, None] + np.where(inside, steps, 0)
    positions = queue.send(places)
    weights = embedded.weights[:, positions] * queue.send(inside)
    return _Gathered(positions, queue.send(lengths), weights)
