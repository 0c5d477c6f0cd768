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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.errors import ModelLoadError
from bertscore_core.model.architectures import reads_left_to_right
from bertscore_core.model.attention import (
    ATTENTION,
    Kernel,
    PackedTexts,
    Rows,
    Way,
    attend,
    ways_of,
)
from bertscore_core.model.layers import EveryLayer, LastLayer, largest_distance
from bertscore_core.model.lost_device import is_device_lost
from bertscore_core.model.memory import is_out_of_memory
from bertscore_core.tokens import IntArray, TokenIds, offsets_of, places_within

logger = logging.getLogger(__name__)

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

# Tokens of the texts that a packed encoder is compared with a padded one on, when it is loaded: one
# of each class of lengths, so that each kernel that a job can meet has run before its first row.
_CHECKED_LENGTHS = (129, 65, 33, 17, 17, 3)

# Tokens that a batch is filled up to a multiple of: rows of whole tiles of a GPU's products.
_STEP = 64

_CURE = "Choose attention sdpa, which pads them (--attention sdpa)."


def can_pack(architecture: Any, *, own_code: bool = False) -> bool:
    """Tell whether texts of an architecture, run by transformers' code, can be laid end to end."""
    known = getattr(architecture, "model_type", None) in POSITIONS
    return known and not own_code and not reads_left_to_right(architecture)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """Texts laid end to end, and filled up to T tokens.

    Shapes: ids and positions, as the encoder counts them, (1, T).
    """

    ids: Tensor
    positions: Tensor
    texts: PackedTexts

    @classmethod
    def of(cls, rows: Tensor, ends: Tensor, lengths: IntArray) -> "PackedBatch":
        """Join what `Packing.lay_out` returned, on the device; the lengths stay on the host."""
        return cls(ids=rows[:1], positions=rows[1:], texts=PackedTexts.of(ends, lengths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How texts of an encoder are laid end to end.

    Attributes:
        pad_id: Token id that does not count, and the position before that of a text's first token;
            None if positions count from 0 and every token counts.
    """

    pad_id: int | None

    @classmethod
    def of(cls, architecture: Any) -> "Packing":
        """Return the rules of an architecture that can be packed."""
        from_zero = POSITIONS[architecture.model_type] == FROM_ZERO
        return cls(pad_id=None if from_zero else int(architecture.pad_token_id))

    def lay_out(
        self, ids: TokenIds, lengths: IntArray, *, filler: int
    ) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """Fill up N texts that are laid end to end, and count their positions.

        Takes their token ids, (tokens,), and lengths, (N,). The row is filled up with `filler`.
        Returns token ids and positions, shape (2, T), and where the texts end, shape (N + 1,).
        """
        tokens = len(ids)
        size = -(-tokens // _STEP) * _STEP
        rows = np.zeros((2, size), dtype=np.int64)  # no text sees the position of what fills up
        rows[0, :tokens], rows[0, tokens:] = ids, filler
        rows[1, :tokens] = self._positions(ids, lengths)
        return rows, offsets_of(lengths).astype(np.int32)

    def _positions(self, ids: TokenIds, lengths: IntArray) -> IntArray:
        if self.pad_id is None:
            return places_within(lengths)
        # As in `create_position_ids_from_input_ids` of transformers: a padding token in the middle
        # of a text, which a user may write, does not count.
        counts = ids != self.pad_id
        counted = np.cumsum(counts)
        begins = np.cumsum(lengths) - lengths
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
    packing = Packing.of(model.config)
    lengths = np.minimum(_CHECKED_LENGTHS, positions or max(_CHECKED_LENGTHS))
    random = np.random.default_rng(0)
    texts = [random.integers(0, model.config.vocab_size, length) for length in lengths]
    ids = torch.zeros((len(texts), max(lengths)), dtype=torch.int64, device="cpu")
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.from_numpy(text)
    places = torch.arange(ids.shape[1], device="cpu")
    inside = places[None, :] < torch.from_numpy(lengths)[:, None]
    expected = as_forward(module)(ids.to(device), inside.long().to(device))[:, inside.to(device)]
    try:
        from transformers import AttentionInterface  # here, since it imports large modules

        AttentionInterface.register(ATTENTION, attend)
        model.set_attn_implementation(ATTENTION)
        rows, ends = packing.lay_out(np.concatenate(texts), lengths, filler=0)
        batch = PackedBatch.of(
            torch.from_numpy(rows).to(device), torch.from_numpy(ends).to(device), lengths
        )
        forward, vectors = _first_that_runs(
            module, as_forward, ways_of(device, next(model.parameters()).dtype), batch
        )
        apart = largest_distance(vectors[:, 0, : int(lengths.sum())], expected)
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


def _first_that_runs(
    module: LastLayer | EveryLayer,
    as_forward: Callable[[Forward], Forward],
    ways: Sequence[Way],
    batch: PackedBatch,
) -> tuple[Forward, Tensor]:
    """Encode a batch in the first way that does not fail; return that way, and the vectors."""
    way, *slower = ways
    undo = None
    if way.fuses:
        from bertscore_core.model.add_norm_triton import fuse  # here, since it imports Triton

        undo = fuse(module.model)
    forward = as_forward(packed_forward(module, way.attention))
    try:
        return forward, forward(batch)
    except Exception as error:  # compilers raise errors of many types
        if not slower or is_device_lost(error) or is_out_of_memory(error):
            raise
        logger.warning(
            "%s fails here: %s. %s takes its place, which is slower.",
            way.name,
            error,
            slower[0].name,
        )
    if undo is not None:
        undo()
    return _first_that_runs(module, as_forward, slower, batch)


def packed_forward(
    module: LastLayer | EveryLayer, attention: Kernel
) -> Callable[[PackedBatch], Tensor]:
    """Return the forward pass of a module, whose attention is `attend`, on packed batches."""
    model: Any = module.model
    takes_types = "token_type_ids" in inspect.signature(model.forward).parameters

    def forward(batch: PackedBatch) -> Tensor:
        # Some encoders would make as many types as they have positions, which may be fewer than T.
        types = {"token_type_ids": torch.zeros_like(batch.ids)} if takes_types else {}

        def packed(rows: Rows, scale: float) -> Tensor:
            return attention(rows, batch.texts, scale)

        # Transformers passes what it does not know on to attention.
        hidden: Tensor = module(
            batch.ids, None, position_ids=batch.positions, packed=packed, **types
        )
        return hidden

    return forward
