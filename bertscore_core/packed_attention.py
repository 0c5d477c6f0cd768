"""Attention within each of several texts that are laid end to end.

Transformers' modules call it by its name, `ATTENTION`, once their configuration says so. Where
texts begin and end comes with the call, so no mask is made.

The kernel is chosen by device and number format: on a GPU, flash attention in half precision from
compute capability 8.0 (Ampere), and torch's memory-efficient attention in float32 or on older ones
(T4); on a CPU, torch's attention for texts of one length at a time.
"""

import inspect
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ATTENTION = "bertscore_packed"
"""Name of `attend` among transformers' attention functions.

No function that makes masks is registered with that name, so transformers makes none."""

# Compute capability from which torch has flash attention.
_FLASH_CAPABILITY = (8, 0)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Let each token attend to the tokens of its text; in the form that transformers calls.

    Args:
        module: The layer; not used.
        query: Queries. Shape (1, heads, T, D).
        key: Keys. Shape (1, heads or fewer, T, D).
        value: Values, in the shape of the keys.
        attention_mask: None; another one is an error.
        scaling: Factor of the similarities; None for 1 / sqrt(D).
        cu_seq_lens_q: Where the texts end. Shape (N + 1,), int32.
        max_length_q: Tokens of the longest text.

    Returns:
        The mixed values, shape (1, T, heads, D), and no weights. After the last text they are
        undefined.

    Raises:
        RuntimeError: The caller or the encoder did not pass on where texts end, or made a mask.
    """
    if cu_seq_lens_q is None or max_length_q is None or attention_mask is not None:
        raise RuntimeError(
            f"{type(module).__name__} was not told where packed texts end, or was given a mask; "
            "expected the ends and no mask. To call the encoder with padded texts, load the scorer "
            "with attention='sdpa'"
        )
    # Rotated queries and keys are float32 even under autocast, which rounds them for torch's own
    # attention, but not for these kernels.
    query, key = query.to(value.dtype), key.to(value.dtype)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    left, right, given = (part.transpose(1, 2) for part in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    case = query.device, query.dtype
    if case not in _KERNELS:
        _KERNELS[case] = choose_kernel(*case)
    kernel = _KERNELS[case]
    return kernel(left, right, given, cu_seq_lens_q, max_length_q, scale), None


def register() -> None:
    """Tell transformers of `attend`. Only those who load an encoder need its large modules."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend)


_Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, int, float], Tensor]

# Chosen once for a device and a format. A dictionary, since torch.compile ignores other caches.
_KERNELS: dict[tuple[torch.device, torch.dtype], _Kernel] = {}


def choose_kernel(device: torch.device, dtype: torch.dtype) -> _Kernel:
    """Return the attention of packed texts on a device."""
    if device.type != "cuda":
        return attend_by_lengths
    capable = torch.cuda.get_device_capability(device) >= _FLASH_CAPABILITY
    return _flash() if capable and dtype != torch.float32 else attend_efficiently


def _flash() -> _Kernel:
    """Return flash attention, or the other kernel for a torch that lacks it."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # torch before 2.10
        return attend_efficiently
    if "scale" not in inspect.signature(varlen_attn).parameters:
        return attend_efficiently
    # `num_splits=1` is not given, since torch 2.12 refuses it without another kernel. It is not
    # needed: keys are split only for texts of one token with grouped heads, and `attend` gives each
    # head keys of its own.
    return partial(_attend_flash, varlen_attn)


def _attend_flash(
    varlen: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    longest: int,
    scale: float,
) -> Tensor:
    rows = (query[0], key[0], value[0])
    mixed: Tensor = varlen(*rows, ends, ends, longest, longest, scale=scale)
    return mixed[None]


def attend_efficiently(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
) -> Tensor:
    """Attend by torch's memory-efficient kernel: every GPU, and float32. Arguments as below."""
    found = torch.ops.aten._efficient_attention_forward(
        query, key, value, None, ends, ends, longest, longest, 0.0, 0, scale=scale
    )
    mixed: Tensor = found[0]
    return mixed


def attend_by_lengths(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
) -> Tensor:
    """Attend on a CPU: neighbours of equal length are one batch without padding.

    Args:
        query: Queries. Shape (1, T, heads, D).
        key: Keys, in the same shape.
        value: Values, in the same shape.
        ends: Where the texts end. Shape (N + 1,).
        longest: Tokens of the longest text; not used.
        scale: Factor of the similarities.

    Returns:
        The mixed values. Shape (1, T, heads, D).
    """
    mixed = torch.zeros_like(query)
    begin = 0
    for length, texts in groupby(np.diff(ends.numpy()).tolist()):
        count = len(list(texts))
        end = begin + count * length
        if length:
            shape = (count, length, *query.shape[2:])
            left, right, given = (
                part[0, begin:end].view(shape).transpose(1, 2) for part in (query, key, value)
            )
            found = nn.functional.scaled_dot_product_attention(left, right, given, scale=scale)
            mixed[0, begin:end].view(shape).copy_(found.transpose(1, 2))
        begin = end
    return mixed
