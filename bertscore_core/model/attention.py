"""Attention within each of several texts that are laid end to end.

Transformers' modules call `attend` by its name, `ATTENTION`, once their configuration says so.
Where texts begin and end, and the kernel, come with the call, so no mask is made.

Which kernels there are depends on device and number format: `ways_of` has them, the fastest first.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertscore_core.model.device import AMPERE
from bertscore_core.tokens import IntArray, offsets_of

ATTENTION = "bertscore_packed"
"""Name of `attend` among transformers' attention functions.

No function that makes masks is registered with that name, so transformers makes none."""

TILES = (16, 32, 64, 128)
"""Tokens of the longest text of each class of short texts, which have a kernel of their own."""

# Numbers of a head that the kernel of short texts takes.
_HEAD_SIZES = (16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class TextRange:
    """Neighbouring texts of one class of lengths.

    Attributes:
        first, count: The first of them, and how many they are.
        begin, end: Their tokens.
        longest: Tokens of the longest.
    """

    first: int
    count: int
    begin: int
    end: int
    longest: int


@dataclass(frozen=True, slots=True)
class PackedTexts:
    """Where N texts lie that are laid end to end.

    Attributes:
        ends: Where each text begins and the last one ends, on the device. Shape (N + 1,), int32.
        ranges: The same texts by classes of lengths. The host knows the lengths; to read them from
            the device would wait for it.
    """

    ends: Tensor
    ranges: tuple[TextRange, ...]

    @classmethod
    def of(cls, ends: Tensor, lengths: IntArray) -> "PackedTexts":
        """Find the ranges of N texts of these lengths, (N,)."""
        tokens = offsets_of(lengths)
        changes = np.flatnonzero(np.diff(np.searchsorted(TILES, lengths))) + 1
        ranges = (
            TextRange(
                first,
                end - first,
                int(tokens[first]),
                int(tokens[end]),
                int(max(lengths[first:end])),
            )
            for first, end in pairwise([0, *changes.tolist(), len(lengths)])
        )
        return cls(ends, tuple(ranges))

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return max(each.longest for each in self.ranges)

    def only(self, texts: TextRange) -> "PackedTexts":
        """Return one range alone, as it lies among its own tokens."""
        if len(self.ranges) == 1:
            return self
        ends = self.ends[texts.first : texts.first + texts.count + 1] - texts.begin
        alone = TextRange(0, texts.count, 0, texts.end - texts.begin, texts.longest)
        return PackedTexts(ends, (alone,))


Rows = tuple[Tensor, ...]
"""Queries, keys and values, each (1, T, heads, D)."""

Kernel = Callable[[Rows, PackedTexts, float], Tensor]
"""Mixes the values of each text: (1, T, heads, D), undefined after the last text.

The number is what products of queries and keys are multiplied by."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to encode packed texts.

    Attributes:
        name: In messages.
        attention: Its kernel.
        fuses: Whether sums and the norms behind them run in one kernel; see `add_norm_triton`.
    """

    name: str
    attention: Kernel
    fuses: bool = False


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    packed: Callable[[Rows, float], Tensor] | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Let each token attend to the tokens of its text; in the form that transformers calls.

    Queries have the shape (1, heads, T, D), keys and values (1, heads or fewer, T, D). A mask is an
    error: `packed`, a kernel that knows where the texts end, takes its place. Returns the mixed
    values, (1, T, heads, D), undefined after the last text, and no weights.
    """
    if packed is None or attention_mask is not None:
        raise RuntimeError(
            f"{type(module).__name__} was not told where packed texts end, or was given a mask; "
            "expected the ends and no mask. To call the encoder with padded texts, load the scorer "
            "with attention='sdpa'"
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    rows = tuple(part.transpose(1, 2) for part in (query, key, value))
    return packed(rows, query.shape[-1] ** -0.5 if scaling is None else scaling), None


def ways_of(device: torch.device, dtype: torch.dtype) -> tuple[Way, ...]:
    """Return the ways to encode packed texts on a device, the fastest first.

    On a GPU in 16 bits, from compute capability 8.0 (Ampere), these are the kernels of this package
    for short texts and for sums with their norms, and flash attention for long texts; then flash
    attention alone; then torch's memory-efficient attention, which is all that float32 and older
    GPUs (T4) have. On a CPU it is torch's attention for texts of one length at a time.
    """
    if device.type != "cuda":
        return (Way("torch's attention", attend_by_lengths),)
    efficient = Way("torch's memory-efficient attention", attend_efficiently)
    # Before Ampere torch has no flash attention, and Triton multiplies float16 number by number:
    # its code for sm75 has no product of the tensor cores.
    if dtype == torch.float32 or torch.cuda.get_device_capability(device) < AMPERE:
        return (efficient,)
    flash = _flash()
    torchs = (efficient,) if flash is None else (Way("flash attention", flash), efficient)
    from bertscore_core.model import triton_jit  # here, since it imports Triton

    if not triton_jit.is_available(device):
        return torchs
    own = partial(attend_in_tiles, longer=torchs[0].attention)
    return (Way("this package's own attention", own, fuses=True), *torchs)


def _flash() -> Kernel | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # torch before 2.10
        return None
    if "scale" not in inspect.signature(varlen_attn).parameters:
        return None
    # `num_splits=1` is not given, since torch 2.12 refuses it without another kernel. It is not
    # needed: keys are split only for texts of one token with grouped heads, and `attend` gives each
    # head keys of its own.
    return partial(_attend_flash, varlen_attn)


def _attend_flash(
    varlen: Callable[..., Any], rows: Rows, texts: PackedTexts, scale: float
) -> Tensor:
    ends, longest = texts.ends, texts.longest
    mixed: Tensor = varlen(*(part[0] for part in rows), ends, ends, longest, longest, scale=scale)
    return mixed[None]


def attend_efficiently(rows: Rows, texts: PackedTexts, scale: float) -> Tensor:
    """Attend by torch's memory-efficient kernel: every GPU, and float32."""
    ends, longest = texts.ends, texts.longest
    mixed: Tensor = torch.ops.aten._efficient_attention_forward(
        *rows, None, ends, ends, longest, longest, 0.0, 0, scale=scale
    )[0]
    return mixed


def attend_in_tiles(rows: Rows, texts: PackedTexts, scale: float, *, longer: Kernel) -> Tensor:
    """Attend by the kernel of this package where texts are short, and by `longer` elsewhere."""
    from bertscore_core.model.short_attention_triton import attend_one_class

    own = rows[0].shape[-1] in _HEAD_SIZES
    if not own or all(each.longest > TILES[-1] for each in texts.ranges):
        return longer(rows, texts, scale)
    rows = tuple(part if part.stride(-1) == 1 else part.contiguous() for part in rows)
    mixed = torch.empty(rows[0].shape, dtype=rows[0].dtype, device=rows[0].device)
    for each in texts.ranges:
        tile = next((tile for tile in TILES if each.longest <= tile), None)
        if tile is None:
            begin, end = each.begin, each.end
            of_range = tuple(part[:, begin:end] for part in rows)
            mixed[:, begin:end] = longer(of_range, texts.only(each), scale)
        else:
            attend_one_class(
                tuple(part[0] for part in rows),
                texts.ends,
                each.first,
                each.count,
                tile=tile,
                scale=scale,
                out=mixed[0],
            )
    return mixed


def attend_by_lengths(rows: Rows, texts: PackedTexts, scale: float) -> Tensor:
    """Attend on a CPU: neighbours of equal length are one batch without padding."""
    mixed = torch.zeros_like(rows[0])
    begin = 0
    for length, same in groupby(np.diff(texts.ends.numpy()).tolist()):
        count = len(list(same))
        end = begin + count * length
        if length:
            shape = (count, length, *mixed.shape[2:])
            queries, keys, values = (
                part[0, begin:end].view(shape).transpose(1, 2) for part in rows
            )
            attended = nn.functional.scaled_dot_product_attention(
                queries, keys, values, scale=scale
            )
            mixed[0, begin:end].view(shape).copy_(attended.transpose(1, 2))
        begin = end
    return mixed
