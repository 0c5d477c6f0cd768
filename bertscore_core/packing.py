"""Texts of a batch laid end to end without padding, through transformers' own modules.

Everything in an encoder but attention treats each token by itself, so a batch may be one row of T
tokens, shape (1, T), if

- attention lets a token see its own text only: `packed_attention` is told where each text ends;
- every token is given the position that it has in its text.

No mask is made, and nothing is computed for padding but what fills the row up to one of few sizes,
so that the shapes of a GPU's work repeat. Scores are those of padded batches up to rounding.

Which architectures are encoded in this way is said by `POSITIONS`. The others are padded: MPNet,
T5, DeBERTa and XLNet add a bias to attention that depends on the distance of two tokens; BART and
its kin take positions from the row and cannot be told others; ModernBERT and Gemma have layers with
a window, which one of the kernels lacks; decoders see earlier tokens only.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bertscore_core.architectures import reads_left_to_right
from bertscore_core.device_loss import is_device_lost
from bertscore_core.errors import ModelLoadError
from bertscore_core.layers import EveryLayer, LastLayer
from bertscore_core.memory import is_out_of_memory
from bertscore_core.packed_attention import ATTENTION, register
from bertscore_core.tokens import IntArray, TokenIds

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
_LARGEST_DIFFERENCE = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 0.1, "float16": 0.02}

# Tokens of the texts that a packed encoder is compared with a padded one on, when it is loaded.
_CHECKED_LENGTHS = (33, 17, 17, 3)

_LEAST_STEP = 64

_CURE = "Pad them (--attention sdpa; attention='sdpa' in the library)."


def can_pack(architecture: Any, *, own_code: bool = False) -> bool:
    """Tell whether texts of an architecture can be laid end to end.

    Args:
        architecture: A configuration of transformers.
        own_code: Whether code that comes with the model runs instead of transformers'.
    """
    known = getattr(architecture, "model_type", None) in POSITIONS
    return known and not own_code and not reads_left_to_right(architecture)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """Texts laid end to end, and filled up to T tokens.

    Attributes:
        ids: Token ids. Shape (1, T).
        positions: Position of each token as the encoder counts. Shape (1, T).
        ends: Where each of N texts begins, and where the last one ends. Shape (N + 1,), int32.
        longest: Tokens of the longest text.
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
        first: Position of a text's first token.
        pad_id: Token id that has the position before the first; None if there is no such rule.
        fills: Whether batches are filled up to one of few sizes.
    """

    first: int
    pad_id: int | None
    fills: bool

    @classmethod
    def of(cls, architecture: Any, device: torch.device) -> "Packing":
        """Return the rules of an architecture that can be packed."""
        # On a CPU shapes need not repeat, and what fills a batch takes time.
        fills = device.type == "cuda"
        if POSITIONS[architecture.model_type] == FROM_ZERO:
            return cls(first=0, pad_id=None, fills=fills)
        pad_id = int(architecture.pad_token_id)
        return cls(first=pad_id + 1, pad_id=pad_id, fills=fills)

    def lay_out(
        self, ids: TokenIds, lengths: IntArray, *, filler: int, most: int
    ) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """Fill up texts that are laid end to end, and count their positions.

        Args:
            ids: Token ids. Shape (tokens,).
            lengths: Tokens of each text. Shape (N,).
            filler: Token id to fill up with.
            most: Tokens of a full batch.

        Returns:
            Token ids and positions, shape (2, T); and where the texts end, shape (N + 1,).
        """
        tokens = len(ids)
        size = filled(tokens, most) if self.fills else tokens
        rows = np.full((2, size), filler, dtype=np.int64)
        rows[0, :tokens] = ids
        rows[1, :tokens] = self._positions(ids, lengths)
        rows[1, tokens:] = self.first
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


def filled(tokens: int, most: int) -> int:
    """Return the size that a batch is filled up to.

    A batch that is nearly full gets the size of a full one. The last batch of a call, and small
    calls, get one of four sizes between two powers of two.

    Example:
        >>> filled(32_500, 32_768), filled(700, 32_768), filled(40, 32_768)
        (32768, 768, 64)
    """
    step = max(1 << max(tokens.bit_length() - 3, 0), _LEAST_STEP)
    return min(-(-tokens // step) * step, max(most, tokens))


def pack(
    module: LastLayer | EveryLayer,
    in_format: Callable[[Forward], Forward],
    *,
    dtype: str,
    device: torch.device,
    positions: int | None,
) -> tuple[Packing, Forward]:
    """Let an encoder take texts laid end to end. It cannot take padded ones any more.

    A few short texts are encoded padded first, and then packed, to compare the two.

    Args:
        module: The encoder in evaluation mode, on its device, with the layers to return.
        in_format: Makes a forward pass compute in a number format.
        dtype: The name of that format.
        device: Where the encoder is.
        positions: Tokens of the longest text that it has positions for; None for any number.

    Returns:
        How texts are laid out, and the forward pass.

    Raises:
        ModelLoadError: it computes something else in this way.
    """
    model: Any = module.model
    packing = Packing.of(model.config, device)
    lengths = np.minimum(_CHECKED_LENGTHS, positions or max(_CHECKED_LENGTHS))
    random = np.random.default_rng(0)
    texts = [random.integers(0, model.config.vocab_size, length) for length in lengths]
    ids = torch.zeros((len(texts), max(lengths)), dtype=torch.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.from_numpy(text)
    inside = torch.arange(ids.shape[1])[None, :] < torch.from_numpy(lengths)[:, None]
    expected = in_format(module)(ids.to(device), inside.long().to(device))[:, inside.to(device)]
    forward = in_format(packed_forward(module))
    try:
        register()
        model.set_attn_implementation(ATTENTION)
        rows, ends = packing.lay_out(np.concatenate(texts), lengths, filler=0, most=1)
        given = PackedBatch.of(
            torch.from_numpy(rows).to(device), torch.from_numpy(ends).to(device), int(max(lengths))
        )
        found = forward(given)[:, 0, : int(lengths.sum())]
        unit = nn.functional.normalize
        apart = float((unit(found, dim=-1) - unit(expected, dim=-1)).norm(dim=-1).max())
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


def compiled_forward(forward: Forward, *, texts: int, longest: int, **options: Any) -> Forward:
    """Compile a forward pass on packed batches for one shape. To be measured: no option uses it.

    Args:
        forward: The forward pass that `pack` returned.
        texts: Texts of a batch at most. Texts without tokens are added up to that number.
        longest: Tokens of the longest text that may come.
        options: Options of `torch.compile`, such as `mode="reduce-overhead"` for CUDA graphs.
    """
    compiled = torch.compile(forward, dynamic=False, **options)

    def run(batch: PackedBatch) -> Tensor:
        added = batch.ends[-1:].expand(texts + 1 - len(batch.ends))
        hidden: Tensor = compiled(
            replace(batch, ends=torch.cat([batch.ends, added]), longest=longest)
        )
        return hidden

    return run


def packed_forward(module: LastLayer | EveryLayer) -> Callable[[PackedBatch], Tensor]:
    """Return the forward pass of a module on packed batches.

    Args:
        module: `LastLayer` or `EveryLayer`, around an encoder whose attention is `attend`.
    """
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
