"""Part 9, the last, since nobody knows how long compiling takes: torch.compile on one shape."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from bertscore_core import BertScorer
from bertscore_core.model import LastLayer, PackedBatch, load_encoder, packed_forward
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.rates import best_of
from tests.benchmarks.first_contact.report import Checks, stopwatch
from tests.benchmarks.texts import mixed

TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
"""How far F1 may move."""


class OneShape:
    """Compiles a forward pass, and fills every batch up to the same number of tokens.

    The number of texts, and the tokens of the longest, are rounded up to powers of two.
    """

    def __init__(self, scorer: BertScorer, backend: str) -> None:
        forward = packed_forward(LastLayer(scorer.encoder.model))

        def on_tensors(ids: Tensor, positions: Tensor, ends: Tensor, longest: int) -> Tensor:
            return forward(PackedBatch(ids=ids, positions=positions, ends=ends, longest=longest))

        self._compiled = torch.compile(on_tensors, dynamic=False, backend=backend)
        self._tokens = 0
        self.shapes: set[tuple[int, ...]] = set()

    @torch.inference_mode()
    def __call__(self, batch: PackedBatch) -> Tensor:
        """Encode a batch; the hidden states of the first, which must be the largest, and more."""
        self._tokens = max(self._tokens, batch.ids.shape[1])
        missing = self._tokens - batch.ids.shape[1]
        ids, positions = (
            nn.functional.pad(rows, (0, missing)) for rows in (batch.ids, batch.positions)
        )
        texts = 1 << (len(batch.ends) - 1).bit_length()
        ends = torch.cat([batch.ends, batch.ends[-1:].expand(texts + 1 - len(batch.ends))])
        longest = 1 << (batch.longest - 1).bit_length()
        self.shapes.add((self._tokens, texts, longest))
        hidden: Tensor = self._compiled(ids, positions, ends, longest)
        return hidden


def run(checks: Checks, given: Given) -> None:
    """Compare rates and scores with and without."""
    dtype = "float16" if given.on_gpu else "float32"
    pairs = mixed(10 if given.quick else 10_000 if given.on_gpu else 300, mean_tokens=30)
    scorer = given.scorer(given.large(), dtype)
    if scorer.encoder.packing is None:  # a CPU pads by default
        settings = scorer.settings
        scorer.encoder = load_encoder(settings.files, replace(settings.encoder_options, packs=True))
    tokens = scorer.tokenize(pairs.candidates, pairs.references)
    weights = scorer.token_weights(None)
    expected = scorer.score_tokenized(tokens, weights).f1
    seconds, work = best_of(scorer, tokens, 2)
    forward = OneShape(scorer, "inductor" if given.on_gpu else "eager")
    scorer.encoder = replace(scorer.encoder, forward=partial(partial, forward))
    with stopwatch() as compiling:
        found = scorer.score_tokenized(tokens, weights).f1
    compiled, _ = best_of(scorer, tokens, 2)
    apart = float(np.abs(found - expected).max())
    checks.check(
        f"torch.compile, {dtype}",
        apart <= TOLERANCES[dtype],
        f"F1 differs by at most {apart:.2g}; expected {TOLERANCES[dtype]:g}",
        tokens_per_second=work.tokens / compiled,
        times_default=seconds / compiled,
        compiling_seconds=compiling[0],
        shapes=sorted(forward.shapes),
    )
