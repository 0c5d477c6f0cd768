"""The layers of an encoder: where they are kept, cutting above one, and returning all of them.

Some stacks end in a layer norm (T5, mBART, Pegasus, ModernBERT). An encoder that is cut at layer k
still applies it, so what is scored is norm(state k). To return all layers as they are scored one by
one ("cut"), the same norm must be applied to every state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bertscore_core.errors import ConfigError
from bertscore_core.model.lost_device import is_device_lost
from bertscore_core.model.switches import exact_products

# Names that architectures give to their list of layers.
_LISTS = ("layer", "block", "layers")

# Names that architectures give to the norm after their last layer.
#
# The same name may mean something else: in DeBERTa-v2, the norm of its relative positions.
_FINAL_NORMS = (
    "final_layer_norm", "layer_norm", "final_norm", "norm", "ln", "emb_layer_norm_after",
    "LayerNorm",
)  # fmt: skip

_CHECKED_TOKENS = 8
# Largest distance between unit vectors that counts as rounding.
#
# On a CPU the right norm gave exactly the same vectors. No norm or a wrong one moves them by 0.01
# or more.
_LARGEST_DIFFERENCE = 1e-4


class LastLayer(nn.Module):
    """Hidden states of the last layer, (1, B, S, H)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor | None, **options: Any) -> Tensor:
        """Encode ids and mask, each (B, S); what else is given goes to the encoder."""
        # The encoder may compute in a shorter format; scores are computed in float32.
        hidden: Tensor = self.model(ids, attention_mask=mask, **options)[0]
        return hidden.float()[None]


class EveryLayer(nn.Module):
    """Hidden states of all layers, the embeddings first, (L + 1, B, S, H).

    The norm is what a cut encoder does to its last state; None to return every state as it is.
    """

    def __init__(self, model: nn.Module, norm: nn.Module | None) -> None:
        super().__init__()
        self.model = model
        self.norm = norm

    def forward(self, ids: Tensor, mask: Tensor | None, **options: Any) -> Tensor:
        """Encode ids and mask, each (B, S); what else is given goes to the encoder."""
        output = self.model(ids, attention_mask=mask, output_hidden_states=True, **options)
        states = tuple(output.hidden_states)
        if self.norm is not None:
            # The model has applied its norm to the last state only.
            states = (*map(self.norm, states[:-1]), output[0])
        return torch.stack([state.float() for state in states])


def check_layer(num_layers: int, depth: int, name: str) -> None:
    """Check that a layer exists.

    Raises:
        ConfigError: it is below 0 or above the depth of the encoder.
    """
    if not 0 <= num_layers <= depth:
        raise ConfigError(
            f"num_layers {num_layers} is out of range for {name}; expected 0 (the embeddings) to "
            f"{depth}."
        )


def cut(model: Any, num_layers: int | None) -> None:
    """Drop the layers above `num_layers`, in place, wherever the architecture keeps them.

    None keeps them all.

    Raises:
        ConfigError: layer out of range, or no stack of layers where bert-score looks for one.
    """
    if num_layers is None:
        return
    owner, name = _place(model)
    layers = getattr(owner, name)
    counted = isinstance(layers, int)
    check_layer(num_layers, layers if counted else len(layers), type(model).__name__)
    setattr(owner, name, num_layers if counted else layers[:num_layers])


def find_final_norm(model: Any) -> nn.Module:
    """Find the norm that an encoder applies to the hidden state of the layer it is cut at.

    All norms in the usual places are tried, and no norm, which is an `Identity`: their results on
    random tokens are compared with the encoder cut in the middle and below its last layer. The
    model, in evaluation mode, is unchanged on return.

    Raises:
        ConfigError: none of them gives the same as the cut encoder.
    """
    owner, name = _place(model)
    layers = getattr(owner, name)
    depth = layers if isinstance(layers, int) else len(layers)
    places = [owner, model] if isinstance(owner, nn.Module) and owner is not model else [model]
    modules = [getattr(place, norm, None) for place in places for norm in _FINAL_NORMS]
    norms = [nn.Identity(), *(norm for norm in modules if isinstance(norm, nn.Module))]
    # Not at layer 0, where DeBERTa-v2 fails, unless there is no other.
    differences = _differences(model, norms, {depth // 2, depth - 1} - {0} or {0})
    best = min(range(len(norms)), key=differences.__getitem__)  # the first of equal ones
    if not differences[best] <= _LARGEST_DIFFERENCE:  # so that NaN is refused, too
        raise ConfigError(
            f"all layers of {type(model).__name__} cannot be returned as they are scored one by "
            f"one: got unit vectors that differ by {differences[best]:.2g} from the encoder cut "
            f"at a layer; expected {_LARGEST_DIFFERENCE} at most. Score the layers one by one, or "
            "choose layer_semantics='hidden'."
        )
    return norms[best]


@exact_products()
@torch.inference_mode()
def _differences(model: Any, norms: list[nn.Module], layers: set[int]) -> list[float]:
    device = next(model.parameters()).device
    random = torch.Generator().manual_seed(0)
    vocabulary = int(getattr(model.config, "vocab_size", 1))
    shape = 1, _CHECKED_TOKENS
    ids = torch.randint(0, vocabulary, shape, generator=random, device="cpu").to(device)
    # One text without padding: what differs then is the layer, not the treatment of padding.
    mask = torch.ones_like(ids)
    states = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    largest = [0.0] * len(norms)
    for layer in layers:
        with _cut_for_now(model, layer):
            expected = model(ids, attention_mask=mask)[0]
        for index, norm in enumerate(norms):
            try:
                apart = largest_distance(norm(states[layer]), expected)
            except RuntimeError as error:
                if is_device_lost(error):
                    raise
                # The norm has another width.
                apart = float("inf")
            # NaN compares false with everything, so `max` could lose it.
            largest[index] = max(largest[index], apart if apart == apart else float("inf"))
    return largest


def largest_distance(first: Tensor, second: Tensor) -> float:
    """Return the largest distance between a token's unit vectors in two encoders; NaN if one is.

    Hidden states of the same tokens, of equal shapes, (..., H).
    """
    ours, theirs = (nn.functional.normalize(each.float(), dim=-1) for each in (first, second))
    return float((ours - theirs).norm(dim=-1).max())


@contextmanager
def _cut_for_now(model: Any, num_layers: int) -> Iterator[None]:
    owner, name = _place(model)
    whole = getattr(owner, name)
    cut(model, num_layers)
    try:
        yield
    finally:
        setattr(owner, name, whole)


def _place(model: Any) -> tuple[Any, str]:
    if hasattr(model, "n_layers"):  # XLM counts, and indexes its lists by the count
        return model, "n_layers"
    owner = model.encoder if hasattr(model, "encoder") else model
    if hasattr(owner, "albert_layer_groups"):  # ALBERT has a count: its layers share weights
        return owner.config, "num_hidden_layers"
    if hasattr(model, "transformer"):  # DistilBERT
        owner = model.transformer
    for name in _LISTS:
        if isinstance(getattr(owner, name, None), nn.ModuleList):
            return owner, name
    raise ConfigError(
        f"{type(model).__name__} cannot be cut: expected its layers under n_layers, layer, "
        "encoder.layer, encoder.block, transformer.layer or layers. Use an encoder, or an "
        "encoder-decoder."
    )
