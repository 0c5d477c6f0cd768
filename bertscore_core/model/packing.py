"""Texts of a batch laid end to end without padding, through transformers' own modules.

Everything in an encoder but attention treats each token by itself, so a batch may be one row of T
tokens, (1, T), if attention is told where each text ends, and every token has the position that it
has in its text. No mask is made, and nothing is computed for padding but what fills the row up to
one of few sizes, so that the shapes of a GPU's work repeat. Scores are those of padded batches up
to rounding.

`POSITIONS` says which architectures are encoded so. The others are padded: MPNet, T5, DeBERTa and
XLNet add a bias that depends on the distance of two tokens; BART and its kin take positions from
the row; ModernBERT and Gemma have layers with a window, which one of the kernels lacks; decoders
see earlier tokens only.
"""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bertscore_core.errors import ModelLoadError
from bertscore_core.model.architectures import reads_left_to_right
from bertscore_core.model.device import is_device_lost, is_out_of_memory
from bertscore_core.model.layers import EveryLayer, LastLayer
from bertscore_core.tokens import IntArray, TokenIds

# Attention within each of several texts that are laid end to end.
#
# Transformers' modules call it by its name, `ATTENTION`, once their configuration says so. Where
# texts begin and end comes with the call, so no mask is made.
#
# The kernel is chosen by device and number format: on a GPU, flash attention in half precision from
# compute capability 8.0 (Ampere), and torch's memory-efficient attention in float32 or on older
# ones (T4); on a CPU, torch's attention for texts of one length at a time.

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

    Queries have the shape (1, heads, T, D), keys and values (1, heads or fewer, T, D). A mask is an
    error: `cu_seq_lens_q`, (N + 1,), int32, says where the texts end, and `max_length_q` has the
    tokens of the longest. Returns the mixed values, (1, T, heads, D), undefined after the last
    text, and no weights.
    """
    if cu_seq_lens_q is None or max_length_q is None or attention_mask is not None:
        raise RuntimeError(
            f"{type(module).__name__} was not told where packed texts end, or was given a mask; "
            "expected the ends and no mask. To call the encoder with padded texts, load the scorer "
            "with attention='sdpa'"
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    rows = tuple(part.transpose(1, 2) for part in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    case = query.device, query.dtype
    if case not in _KERNELS:
        _KERNELS[case] = choose_kernel(*case)
    return _KERNELS[case](rows, cu_seq_lens_q, max_length_q, scale), None


logger = logging.getLogger(__name__)

# Queries, keys and values, each (1, T, heads, D).
_Rows = tuple[Tensor, ...]
_Kernel = Callable[[_Rows, Tensor, int, float], Tensor]

# Chosen once for a device and a format. A dictionary, since torch.compile ignores other caches.
_KERNELS: dict[tuple[torch.device, torch.dtype], _Kernel] = {}


def choose_kernel(device: torch.device, dtype: torch.dtype) -> _Kernel:
    """Return the attention of packed texts on a device."""
    if device.type != "cuda":
        return attend_by_lengths
    capable = torch.cuda.get_device_capability(device) >= _FLASH_CAPABILITY
    return _flash() if capable and dtype != torch.float32 else attend_efficiently


def _flash() -> _Kernel:
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


def _leave_flash(case: tuple[torch.device, torch.dtype]) -> bool:
    if _KERNELS.get(case) in (None, attend_efficiently, attend_by_lengths):
        return False
    _KERNELS[case] = attend_efficiently
    return True


def _attend_flash(
    varlen: Callable[..., Any], rows: _Rows, ends: Tensor, longest: int, scale: float
) -> Tensor:
    texts = (part[0] for part in rows)
    mixed: Tensor = varlen(*texts, ends, ends, longest, longest, scale=scale)
    return mixed[None]


def attend_efficiently(rows: _Rows, ends: Tensor, longest: int, scale: float) -> Tensor:
    """Attend by torch's memory-efficient kernel: every GPU, and float32. Arguments as below."""
    mixed: Tensor = torch.ops.aten._efficient_attention_forward(
        *rows, None, ends, ends, longest, longest, 0.0, 0, scale=scale
    )[0]
    return mixed


def attend_by_lengths(rows: _Rows, ends: Tensor, longest: int, scale: float) -> Tensor:
    """Attend on a CPU: neighbours of equal length are one batch without padding.

    Queries, keys, values and the result have the shape (1, T, heads, D); `ends` has (N + 1,).
    """
    mixed = torch.zeros_like(rows[0])
    begin = 0
    for length, texts in groupby(np.diff(ends.numpy()).tolist()):
        count = len(list(texts))
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


Forward = Callable[..., Tensor]
"""A forward pass on padded ids and mask, or on a `PackedBatch`."""

FROM_ZERO, AFTER_PADDING = "from zero", "after padding"

POSITIONS = {
    "albert": FROM_ZERO,
    "bert": FROM_ZERO,
    "camembert": AFTER_PADDING,
    "distilbert": FROM_ZERO,
    "electra": FROM_ZERO,
    "eurobert": FROM_ZERO,
    "gte": FROM_ZERO,
    "jina_embeddings_v3": FROM_ZERO,
    "nomic_bert": FROM_ZERO,
    "roberta": AFTER_PADDING,
    "xlm-roberta": AFTER_PADDING,
}
"""Architectures that can be packed, and the position of a text's first token: 0, or one more than
the padding token's id. The tests compare each of them with padded batches."""

# Largest distance between a token's unit vectors in a packed and a padded batch that counts as
# rounding, by the format of the products. Other texts' tokens or wrong positions move them by far
# more than the first.
_LARGEST_DIFFERENCE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}

# Tokens of the texts that a packed encoder is compared with a padded one on, when it is loaded.
_CHECKED_LENGTHS = (33, 17, 17, 3)

# Tokens that a batch on a GPU is filled up to a multiple of: rows of whole tiles of its products.
_STEP = 64

_CURE = "Pad them (--attention sdpa; attention='sdpa' in the library)."


def can_pack(architecture: Any, *, own_code: bool = False) -> bool:
    """Tell whether texts of an architecture, run by transformers' code, can be laid end to end."""
    known = getattr(architecture, "model_type", None) in POSITIONS
    return known and not own_code and not reads_left_to_right(architecture)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """Texts laid end to end, and filled up to T tokens.

    Shapes: ids and positions, as the encoder counts them, (1, T); `ends`, where each of N texts
    begins and the last one ends, (N + 1,), int32. `longest` has the tokens of the longest text.
    """

    ids: Tensor
    positions: Tensor
    ends: Tensor
    longest: int

    @classmethod
    def of(cls, rows: Tensor, ends: Tensor, longest: int) -> "PackedBatch":
        """Join what `Packing.lay_out` returned, on the device."""
        return cls(ids=rows[:1], positions=rows[1:], ends=ends, longest=longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How texts of an encoder are laid end to end.

    Attributes:
        pad_id: Token id that does not count, and the position before that of a text's first token;
            None if positions count from 0 and every token counts.
        fills: Whether batches are filled up to a multiple of 64 tokens.
    """

    pad_id: int | None
    fills: bool

    @classmethod
    def of(cls, architecture: Any, device: torch.device) -> "Packing":
        """Return the rules of an architecture that can be packed."""
        # On a CPU shapes need not repeat, and what fills a batch takes time.
        fills = device.type == "cuda"
        from_zero = POSITIONS[architecture.model_type] == FROM_ZERO
        return cls(pad_id=None if from_zero else int(architecture.pad_token_id), fills=fills)

    def lay_out(
        self, ids: TokenIds, lengths: IntArray, *, filler: int
    ) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """Fill up N texts that are laid end to end, and count their positions.

        Takes their token ids, (tokens,), and lengths, (N,). The row is filled up with `filler`.
        Returns token ids and positions, shape (2, T), and where the texts end, shape (N + 1,).
        """
        tokens = len(ids)
        size = -(-tokens // _STEP) * _STEP if self.fills else tokens
        rows = np.zeros((2, size), dtype=np.int64)  # no text sees the position of what fills up
        rows[0, :tokens], rows[0, tokens:] = ids, filler
        rows[1, :tokens] = self._positions(ids, lengths)
        return rows, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

    def _positions(self, ids: TokenIds, lengths: IntArray) -> IntArray:
        begins = np.cumsum(lengths) - lengths
        if self.pad_id is None:
            positions: IntArray = np.arange(len(ids)) - np.repeat(begins, lengths)
            return positions
        # As in `create_position_ids_from_input_ids` of transformers: a padding token in the middle
        # of a text, which a user may write, does not count.
        counts = ids != self.pad_id
        counted = np.cumsum(counts)
        before = np.repeat(counted[begins] - counts[begins], lengths)
        return np.where(counts, counted - before + self.pad_id, self.pad_id)


def pack(
    module: LastLayer | EveryLayer,
    as_forward: Callable[[Forward], Forward],
    *,
    dtype: str,
    device: torch.device,
    positions: int | None,
) -> tuple[Packing, Forward]:
    """Let an encoder take texts laid end to end. It cannot take padded ones any more.

    A few short texts are encoded padded first, and then packed, to compare the two.

    The module is in evaluation mode, on its device, with weights in the number format `dtype`.
    """
    model: Any = module.model
    packing = Packing.of(model.config, device)
    lengths = np.minimum(_CHECKED_LENGTHS, positions or max(_CHECKED_LENGTHS))
    random = np.random.default_rng(0)
    texts = [random.integers(0, model.config.vocab_size, length) for length in lengths]
    ids = torch.zeros((len(texts), max(lengths)), dtype=torch.int64, device="cpu")
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.from_numpy(text)
    places = torch.arange(ids.shape[1], device="cpu")
    inside = places[None, :] < torch.from_numpy(lengths)[:, None]
    expected = as_forward(module)(ids.to(device), inside.long().to(device))[:, inside.to(device)]
    forward = as_forward(packed_forward(module))
    try:
        from transformers import AttentionInterface  # here, since it imports large modules

        AttentionInterface.register(ATTENTION, attend)
        model.set_attn_implementation(ATTENTION)
        rows, ends = packing.lay_out(np.concatenate(texts), lengths, filler=0)
        batch = PackedBatch.of(
            torch.from_numpy(rows).to(device), torch.from_numpy(ends).to(device), int(max(lengths))
        )
        weight = next(model.parameters())
        case = weight.device, weight.dtype
        try:
            vectors = forward(batch)
        except Exception as error:
            if is_device_lost(error) or is_out_of_memory(error) or not _leave_flash(case):
                raise
            logger.warning(
                "torch's flash attention fails here: %s. Its memory-efficient kernel is used, "
                "which is slower.",
                error,
            )
            try:
                vectors = forward(batch)
            except Exception:
                del _KERNELS[case]  # it was not flash attention that failed: choose anew
                raise
        vectors = vectors[:, 0, : int(lengths.sum())]
        unit = nn.functional.normalize
        apart = float((unit(vectors, dim=-1) - unit(expected, dim=-1)).norm(dim=-1).max())
    except Exception as error:
        if is_device_lost(error) or is_out_of_memory(error):
            raise
        raise ModelLoadError(
            f"{type(model).__name__} cannot encode texts laid end to end: {error}. {_CURE}"
        ) from error
    if not apart <= _LARGEST_DIFFERENCE[dtype]:  # so that NaN is refused, too
        raise ModelLoadError(
            f"{type(model).__name__} computes something else on texts laid end to end: got unit "
            f"vectors that differ by {apart:.2g} from those of padded texts; expected "
            f"{_LARGEST_DIFFERENCE[dtype]} at most. {_CURE}"
        )
    return packing, forward


def packed_forward(module: LastLayer | EveryLayer) -> Callable[[PackedBatch], Tensor]:
    """Return the forward pass of a module, whose attention is `attend`, on packed batches."""
    model: Any = module.model
    takes_types = "token_type_ids" in inspect.signature(model.forward).parameters

    def forward(batch: PackedBatch) -> Tensor:
        # Some encoders would make as many types as they have positions, which may be fewer than T.
        types = {"token_type_ids": torch.zeros_like(batch.ids)} if takes_types else {}
        hidden: Tensor = module(
            batch.ids,
            None,
            position_ids=batch.positions,
            # Under the names that transformers passes on to attention.
            cu_seq_lens_q=batch.ends,
            cu_seq_lens_k=batch.ends,
            max_length_q=batch.longest,
            max_length_k=batch.longest,
            **types,
        )
        return hidden

    return forward
