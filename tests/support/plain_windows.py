"""Vectors of a long text, by their definition: one window at a time, straight from transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForTextEncoding

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
    """Load the whole encoder of a tiny model, as transformers gives it."""
    loader = AutoModelForTextEncoding if family in ("t5", "byt5") else AutoModel
    model = loader.from_pretrained(folder, dtype=torch.float32).eval()
    return getattr(model, "encoder", model) if hasattr(model, "decoder") else model


@torch.inference_mode()
def plain_states(model: Any, ids: Sequence[int]) -> Tensor:
    """Encode one window alone. Shape (L + 1, tokens, H); the last row is the model's output."""
    given = torch.tensor([list(ids)])
    output = model(given, attention_mask=torch.ones_like(given), output_hidden_states=True)
    return torch.stack([*(state[0] for state in output.hidden_states[:-1]), output[0][0]])


def plain_vectors(
    model: Any, ids: Sequence[int], *, length: int, leading: int, trailing: int
) -> Tensor:
    """Return the states of every token of a text, special ones included. Shape (L + 1, T, H).

    Args:
        model: The encoder.
        ids: Token ids of the whole text, T of them.
        length: Tokens of a window.
        leading: Special tokens at the start.
        trailing: Special tokens at the end.
    """
    if len(ids) <= length:
        return plain_states(model, ids)
    before, after = list(ids[:leading]), list(ids[len(ids) - trailing :])
    content = list(ids[leading : len(ids) - trailing])
    size = length - leading - trailing
    starts = [0]
    while starts[-1] + size < len(content):
        starts.append(min(starts[-1] + max(size // 2, 1), len(content) - size))
    states = [
        plain_states(model, [*before, *content[start : start + size], *after]) for start in starts
    ]
    columns = [states[0][:, place] for place in range(leading)]
    for token in range(len(content)):
        # Tokens of context on the shorter side, in each window that has the token; the edges of
        # the text count like those of a window.
        context = [min(token - start, start + size - 1 - token) for start in starts]
        best = context.index(max(context))
        columns.append(states[best][:, leading + token - starts[best]])
    columns += [states[-1][:, length - trailing + place] for place in range(trailing)]
    return torch.stack(columns, dim=1)
