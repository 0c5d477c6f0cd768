"""From the scores of each candidate with each reference to the scores of candidates.

matching --flat--> texts without weight --> rules for empty texts --> best over references
    --> rescaling --> Scores
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.baseline import rescale
from bertscore_core.config import Settings
from bertscore_core.empty_texts import EmptySides, drop_empty, score_empty
from bertscore_core.errors import ConfigError
from bertscore_core.idf import TokenWeights
from bertscore_core.scores import Scores
from bertscore_core.tokenized_pairs import TokenizedPairs, reduce_groups
from bertscore_core.tokens import BoolArray, FloatArray, IntArray, TextPairs, TokenIds


def assemble(
    flat: FloatArray, pairs: TokenizedPairs, settings: Settings, *, of_nothing: float
) -> Scores:
    """Take the best score over each group of references, rescale, and add facts about pairs.

    Args:
        flat: Precision, recall and F1 of each candidate with each of its references; NaN where all
            tokens of a text weigh 0. Shape (layers, P, 3).
        pairs: N candidates and their P references.
        settings: The rules for empty and long texts, and what to rescale with.
        of_nothing: What replaces NaN where no side is empty; see `TokenWeights`.
    """
    tokens, counts = pairs.texts, pairs.counts
    starts = np.cumsum(counts) - counts
    empty = EmptySides.find(pairs.flat(), settings.tokenizer.empty_ids)
    all_empty, rule = reduce_groups(np.logical_and, empty.either, starts), settings.empty
    # Empty texts have a rule of their own.
    weightless = np.isnan(flat) & ~empty.either[:, None]
    flat = score_empty(np.where(weightless, np.float32(of_nothing), flat), empty.either, rule)
    # Each measure by itself, as bert-score does.
    raw = drop_empty(reduce_groups(np.maximum, flat, starts, axis=1), all_empty, rule)
    is_too_long = too_long(pairs, settings)
    raw = np.where(is_too_long[None, :, None], np.float32(np.nan), raw)
    baseline = _baseline_rows(settings)
    final = raw if baseline is None else rescale(raw, baseline)
    lengths = tokens.lengths.astype(np.int32)
    best = _best_in_group(flat[..., 2], starts, counts)

    def of_layers(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return rows if settings.config.all_layers else rows[0]

    return Scores(
        precision=of_layers(final[..., 0]),
        recall=of_layers(final[..., 1]),
        f1=of_layers(final[..., 2]),
        raw_precision=of_layers(raw[..., 0]),
        raw_recall=of_layers(raw[..., 1]),
        raw_f1=of_layers(raw[..., 2]),
        best_reference=of_layers(best),
        candidate_tokens=lengths[pairs.candidates],
        reference_tokens=reduce_groups(np.add, lengths[pairs.references], starts).astype(np.int32),
        truncated=pairs.over_all(np.logical_or, tokens.truncated) & ~is_too_long,
        too_long=is_too_long,
        windows=_windows(pairs, settings),
        empty_candidate=reduce_groups(np.logical_or, empty.candidate, starts),
        empty_reference=reduce_groups(np.logical_and, empty.reference, starts),
        counted_as_empty=reduce_groups(np.logical_and, empty.counted | empty.either, starts)
        & ~all_empty,
        only_special=reduce_groups(
            np.logical_and, weightless.any(axis=(0, 2)) | empty.either, starts
        )
        & ~(all_empty | np.isnan(of_nothing)),
    )


def too_long(pairs: TokenizedPairs, settings: Settings) -> BoolArray:
    """Tell which candidates are not scored, since a text of theirs is too long. Shape (N,)."""
    if settings.config.long_text != "error":
        return np.zeros(len(pairs.counts), dtype=np.bool_)
    return pairs.over_all(np.logical_or, pairs.texts.truncated)


_MEND = "Mend the model's weights, or choose another model."

_CURES = {
    "float16": "Numbers above 65,504 do not fit into float16: choose bfloat16 (--dtype bfloat16).",
    "bfloat16": "Choose float32 (--dtype float32).",
    "tf32": _MEND,
    "float32": _MEND,
}
"""What to do if numbers are not finite. bfloat16 has the range of float32."""


def check_finite(
    flat: FloatArray, pairs: TextPairs, weights: TokenWeights, *, model: str, dtype: str
) -> None:
    """Check that no score is NaN although the weights of its text have a sum.

    Args:
        flat: Scores of P pairs. Shape (layers, P, 3).
        pairs: The pairs.
        weights: What they were scored with.
        model: The model's name, for the message.
        dtype: The format of the encoder's products, for the message.

    Raises:
        ConfigError: One is.
    """
    for measure, texts in ((0, pairs.candidates), (1, pairs.references)):
        for pair in np.flatnonzero(np.isnan(flat[..., measure]).any(axis=0)):
            if _have_a_sum(weights.of(pairs.texts.row(int(texts[pair])))):
                raise ConfigError(
                    f"the encoder's numbers are not finite in {dtype}: got none that can be "
                    f"compared for pair {pair} from {model}; expected finite ones. {_CURES[dtype]}"
                )


def _have_a_sum(weights: FloatArray) -> bool:
    """Tell whether the sum of weights is not 0. A user's weights may be negative and cancel out."""
    # Relative to the weights: a sum in float32 is rarely exactly 0.
    return bool(abs(weights.sum()) > 1e-6 * np.abs(weights).sum())


def _windows(pairs: TokenizedPairs, settings: Settings) -> TokenIds:
    """Return the most windows of a text of each candidate. Shape (N,), int32."""
    shape = settings.tokenizer.windows
    if shape is None:
        return np.ones(len(pairs.counts), dtype=np.int32)
    return pairs.over_all(np.maximum, shape.counts(pairs.texts.lengths)).astype(np.int32)


def _baseline_rows(settings: Settings) -> FloatArray | None:
    """Return the baseline in a shape that broadcasts with (layers, N, 3); None without one."""
    if settings.baseline is None:
        return None
    if settings.config.all_layers:
        return settings.baseline.rows.astype(np.float32)[:, None, :]
    return settings.baseline.row(settings.num_layers)


def _best_in_group(
    f1: npt.NDArray[np.float32], starts: IntArray, counts: IntArray
) -> npt.NDArray[np.int32]:
    """Find the first reference with the highest F1. Shape (layers, N), int32."""
    best = np.zeros((len(f1), len(counts)), dtype=np.int32)
    for row in np.flatnonzero(counts > 1):  # a single reference is always the best, 0
        best[:, row] = f1[:, starts[row] : starts[row] + counts[row]].argmax(axis=1)
    return best
