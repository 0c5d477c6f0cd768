"""A sum and the layer norm behind it in one kernel, for float16 and bfloat16.

BERT and its kin add the input of each half of a layer to its result, and normalise the sum. Torch
does that in two kernels, which move five rows of numbers for each token; one kernel moves three.
Inside, the arithmetic is float32, and the sum is not rounded before it is normalised.

This module imports Triton, so import it only if the device is a GPU.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertscore_core.model.triton_jit import jit, launching_on, tl

# Rows of a program, and its threads, 32 to a warp: the fastest on one H200.
_ROWS, _WARPS = 4, 4

# The inner modules of the half of a layer that is replaced, as BERT, RoBERTa, XLM-R, CamemBERT and
# ELECTRA name them. Dropout does nothing in evaluation mode.
_PARTS = {"dense": nn.Linear, "LayerNorm": nn.LayerNorm, "dropout": nn.Dropout}
_WEIGHTS = ["LayerNorm.weight", "LayerNorm.bias"]
_ARGUMENTS = ["hidden_states", "input_tensor"]


def fuse(model: nn.Module) -> Callable[[], None]:
    """Let the end of each half of a layer run in one kernel, where it is as BERT's; undo by a call.

    Weights stay where they are. A model of another kind is left as it is.
    """
    found = list(_ends_of_halves(model))
    for parent, name, half in found:
        setattr(parent, name, _DenseAddNorm(half))

    def undo() -> None:
        for parent, name, half in found:
            setattr(parent, name, half)

    return undo


def _ends_of_halves(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    for parent in model.modules():
        for name, child in parent.named_children():
            parts = {part: type(module) for part, module in child.named_children()}
            arguments = list(inspect.signature(child.forward).parameters)
            weights = [weight for weight, _ in child.named_parameters() if "LayerNorm" in weight]
            if (parts, arguments, weights) == (_PARTS, _ARGUMENTS, _WEIGHTS):
                yield parent, name, child


class _DenseAddNorm(nn.Module):
    """A product, the sum with what came in, and a layer norm."""

    def __init__(self, half: nn.Module) -> None:
        super().__init__()
        # Under the names that they had, so that the names of weights stay.
        self.dense: nn.Module = cast(nn.Module, half.dense)
        self.LayerNorm = cast(nn.LayerNorm, half.LayerNorm)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        norm = self.LayerNorm
        return add_norm(self.dense(hidden_states), input_tensor, norm.weight, norm.bias, norm.eps)


def add_norm(left: Tensor, right: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalise a sum, as `layer_norm` of torch does: each row of H numbers by itself.

    Shapes: left, right and the result (..., H); weight and bias (H,).
    """
    left, right = left.contiguous(), right.contiguous()
    result = torch.empty_like(left)
    hidden = left.shape[-1]
    rows = left.numel() // hidden
    with launching_on(left):
        kernel[(-(-rows // _ROWS),)](
            left,
            right,
            weight,
            bias,
            result,
            rows,
            eps,
            hidden=hidden,
            width=1 << (hidden - 1).bit_length(),
            block=_ROWS,
            num_warps=_WARPS,
        )
    return result


def _add_and_normalise(
    left: tl.tensor,
    right: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    result: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    hidden: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Normalise the sums of `block` rows; `width` is the power of two that holds a row."""
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    number = tl.arange(0, width)
    of_row = number < hidden
    inside = (row < rows)[:, None] & of_row[None, :]
    place = row[:, None] * hidden + number[None, :]
    total = tl.load(left + place, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(right + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=1) / hidden
    apart = tl.where(of_row[None, :], total - mean[:, None], 0.0)
    variance = tl.sum(apart * apart, axis=1) / hidden
    scale = tl.load(weight + number, mask=of_row, other=0.0).to(tl.float32)
    shift = tl.load(bias + number, mask=of_row, other=0.0).to(tl.float32)
    normal = apart * tl.rsqrt(variance + eps)[:, None] * scale[None, :] + shift[None, :]
    tl.store(result + place, normal.to(result.dtype.element_ty), mask=inside)


kernel: Any = jit(do_not_specialize=["rows"])(_add_and_normalise)
