"""Scores by the specification, of vectors from transformers: one text or window at a time."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForTextEncoding

from bertscore_core import BertScorer, specification as spec

CANDIDATES = [
    "The old harbour slept under a thin grey fog.",
    "rain",
    "Nobody knows who rang the bell at noon, but it was heard in New York and in Rome.",
]
REFERENCES = [
    "Under a grey fog the harbour slept.",
    "A cat on the warm roof watched the rivers bend around old stones.",
    "Who rang the bell?",
]
"""Pairs for tests that need any."""

SPECIAL_TOKENS = {
    "bert": (1, 1),
    "roberta": (1, 1),
    "mpnet": (1, 1),
    "prophetnet": (0, 1),
    "t5": (0, 1),
    "byt5": (0, 1),
    "xlnet": (0, 2),
    "mbart_50": (1, 1),
    "mbart": (0, 2),
}
"""Special tokens before and after a text, by tiny model."""


def load_plain(folder: Path, family: str) -> Any:
    """Load the whole encoder of a model, as transformers gives it."""
    loader = AutoModelForTextEncoding if family in ("t5", "byt5") else AutoModel
    model = loader.from_pretrained(folder, dtype=torch.float32).eval()
    return getattr(model, "encoder", model) if hasattr(model, "decoder") else model


@torch.inference_mode()
def plain_states(model: Any, ids: Sequence[int]) -> Tensor:
    """Encode one window alone. Shape (L + 1, tokens, H); the last row is the model's output."""
    batch = torch.tensor([list(ids)])
    output = model(batch, attention_mask=torch.ones_like(batch), output_hidden_states=True)
    return torch.stack([*(state[0] for state in output.hidden_states[:-1]), output[0][0]])


class Specified:
    """A model whose texts are scored by the specification.

    Args:
        folder: Where the model is.
        family: What it is.
        norm: Name of the norm behind its last layer, if it has one.
    """

    def __init__(self, folder: Path, family: str, norm: str | None = None) -> None:
        model = load_plain(folder, family)
        self.norm = None if norm is None else _of_arrays(model.get_submodule(norm))
        self.states = cache(lambda ids: plain_states(model, ids).numpy())

    def scores(
        self,
        scorer: BertScorer,
        candidates: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        num_layers: int | None = None,
        documents: Sequence[str] = (),
    ) -> tuple[spec.Array, list[int]]:
        """Score as a scorer is configured to, at one layer, with idf of the references or of these.

        Returns:
            The scores, (N, 3), and the number of each candidate's best reference.
        """
        config, tokenizer, windows = scorer.config, scorer.tokenizer, scorer.tokenizer.windows
        layer = scorer.settings.num_layers if num_layers is None else num_layers
        norm = None if config.all_layers and config.layer_semantics == "hidden" else self.norm
        documents = documents or [text for row in references for text in row]
        corpus = [set(tokenizer.encode([text]).ids.tolist()) for text in documents]

        def encode(ids: Sequence[int]) -> spec.Array:
            return spec.vectors_at(self.states(tuple(ids)), layer, norm)

        @cache
        def encoded(text: str) -> spec.Text:
            ids = tokenizer.encode([text]).ids.tolist()
            shape = (len(ids), 0, 0)
            if windows is not None:
                shape = (windows.length, windows.leading, windows.trailing)
            weights = spec.plain_weights(ids, tokenizer.zero_weight_ids)
            if config.idf:
                weights = spec.idf_weights(ids, corpus)
            return spec.Text(
                ids, spec.vectors_in_windows(ids, encode, shape) if ids else [], weights
            )

        rules = {
            "empty_ids": tokenizer.empty_ids,
            "rule": scorer.settings.empty,
            "weightless": math.nan if config.idf else 0.0,
        }
        results = [
            spec.best([spec.score_pair(encoded(text), encoded(other), **rules) for other in row])
            for text, row in zip(candidates, references, strict=True)
        ]
        scores = np.array([score for score, _ in results])
        if scorer.baseline is not None:
            scores = spec.rescale(scores, scorer.baseline.rows[layer])
        return scores, [number for _, number in results]


def _of_arrays(norm: torch.nn.Module) -> Callable[[spec.Array], spec.Array]:
    """Let a norm of torch take and return arrays."""
    return torch.inference_mode()(lambda states: norm(torch.from_numpy(states)).numpy())
