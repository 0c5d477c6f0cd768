"""The score of one candidate, worked out: every token, its match, its weight, and the sums.

    P = sum over candidate tokens of  weight / sum of weights * highest similarity
    R = the same over reference tokens
    F1 = 2 P R / (P + R)

References:
    Zhang et al. 2020, section 3, and figure 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core.embedding import EmbeddedTexts
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.idf import IdfTable, TokenWeights
from bertscore_core.scorer import BertScorer
from bertscore_core.scores import Scores
from bertscore_core.token_text import readable_tokens
from bertscore_core.tokenized_pairs import TokenizedPairs
from bertscore_core.tokens import FloatArray, IntArray
from bertscore_core.windows import Windows

MOST_SIMILARITIES = 1 << 24
"""Most similarities of one pair that are explained: two texts of 4,096 tokens, 64 MB."""

NO_MATCH = -1
"""The match of a token if the other text has no token."""


class Measures(NamedTuple):
    """Precision, recall and F1. NaN is no score."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedText:
    """One text of a pair, token by token. T tokens, special ones included.

    Attributes:
        text: The text.
        tokens: What each token stands for; see `readable_tokens`. Shape (T,).
        weights: Weight of each token. Shape (T,), float32.
        matches: The most similar token of the other text, the first of equals; `NO_MATCH` if it has
            none. Shape (T,).
        similarities: Cosine with that token; NaN without one. Shape (T,), float32.
        windows: The window that each token's vector is from, from 0. Shape (T,).
        truncated: Whether the text was cut at the maximum length.
    """

    text: str
    tokens: tuple[str, ...]
    weights: FloatArray
    matches: IntArray
    similarities: FloatArray
    windows: IntArray
    truncated: bool

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of each token in the sum of weights; NaN if that is 0. Shape (T,)."""
        total = self.weights.sum(dtype=np.float64)
        if total == 0:
            return np.full(len(self.weights), np.nan)
        shares: npt.NDArray[np.float64] = self.weights / total
        return shares

    @property
    def contributions(self) -> npt.NDArray[np.float64]:
        """What each token adds: its share times its similarity. Shape (T,)."""
        # Without weight a token adds nothing, even if it has no match.
        found: npt.NDArray[np.float64] = np.where(self.weights == 0, 0.0, self.similarities)
        return found * self.shares

    @property
    def total(self) -> float:
        """Sum of the contributions: precision of a candidate, recall of a reference."""
        return float(self.contributions.sum()) if len(self.tokens) else math.nan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedPair:
    """A candidate and one reference.

    Attributes:
        candidate: The candidate, matched with the reference.
        reference: The reference, matched with the candidate.
        similarities: Cosines of all tokens. Shape (C, R), float32.
        raw: Scores of the pair before rescaling.
        scores: Scores of the pair, as `BertScorer.score` gives them for this reference alone.
        rule: Why the scores are not the sums: `empty_candidate`, `empty_reference`,
            `counted_as_empty`, `too_long`, `only_special_tokens` or `no_weighted_token`; None if
            they are.
    """

    candidate: ExplainedText
    reference: ExplainedText
    similarities: FloatArray
    raw: Measures
    scores: Measures
    rule: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """The scores of one candidate, worked out.

    Attributes:
        pairs: The candidate with each reference, in their order.
        scores: Its scores: each measure is the best over the references.
        raw: The same before rescaling.
        best: The reference that gives each measure, from 0; the first of equals.
        baseline: What the scores are rescaled with; None if they are not.
        model: Name of the model.
        num_layers: The layer whose embeddings are compared.
        idf: Whether the tokens are weighted by inverse document frequency.
    """

    pairs: tuple[ExplainedPair, ...]
    scores: Measures
    raw: Measures
    best: tuple[int, int, int]
    baseline: Measures | None
    model: str
    num_layers: int
    idf: bool

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers and tokens as plain values, for JSON; None for what is no number."""
        return {
            "model": self.model,
            "num_layers": self.num_layers,
            "idf": self.idf,
            "scores": _plain(self.scores),
            "raw": _plain(self.raw),
            "baseline": None if self.baseline is None else _plain(self.baseline),
            "best_reference": dict(zip(Measures._fields, self.best, strict=True)),
            "pairs": [_describe_pair(pair) for pair in self.pairs],
        }

    def _repr_html_(self) -> str:
        """Show the explanation in a notebook."""
        from bertscore_core.explanation_html import fragment

        return fragment(self)


def explain(
    scorer: BertScorer,
    candidate: str,
    references: str | Sequence[str],
    *,
    idf: IdfTable | None = None,
) -> Explanation:
    """Work out the scores of one candidate.

    Args:
        scorer: The scorer, of one layer.
        candidate: The candidate.
        references: The reference, or all references of the candidate.
        idf: As in `BertScorer.score`.

    Raises:
        InputError: A text is none, there is no reference, or two texts are too long together.
        ConfigError: The scorer scores all layers at once.
        IdfError: The idf table belongs to another tokenizer or truncation.
    """
    if scorer.config.all_layers:
        raise ConfigError(
            "a scorer of all layers cannot be explained: got all_layers; expected one layer. Make "
            "a scorer with num_layers."
        )
    group = [references] if isinstance(references, str) else list(references)
    pairs = scorer.tokenize([candidate], [group])
    _check_size(pairs)
    if idf is None and scorer.config.idf:  # as `score` does
        idf = scorer.count_idf([group])
    weights = scorer.token_weights(idf)
    together = scorer.score_tokenized(pairs, weights)
    each = together
    if len(group) > 1:
        each = scorer.score_tokenized(
            scorer.tokenize([candidate] * len(group), [[text] for text in group]), weights
        )
    baseline = scorer.baseline
    return Explanation(
        pairs=_explain_pairs(scorer, pairs, weights, [candidate, *group], each),
        scores=_scores_of(together, 0),
        raw=_raw_of(together, 0),
        best=_best(each, _raw_of(together, 0)),
        baseline=None
        if baseline is None
        else Measures(*baseline.row(scorer.settings.num_layers).tolist()),
        model=scorer.settings.files.name,
        num_layers=scorer.settings.num_layers,
        idf=idf is not None,
    )


def _check_size(pairs: TokenizedPairs) -> None:
    lengths = pairs.texts.lengths
    tokens, longest = int(lengths[pairs.candidates[0]]), int(lengths[pairs.references].max())
    if tokens * longest > MOST_SIMILARITIES:
        raise InputError(
            f"the texts are too long to be explained: got {tokens:,} tokens in the candidate and "
            f"{longest:,} in a reference; expected at most {MOST_SIMILARITIES:,} similarities. "
            "Lower max_length, or shorten the texts."
        )


def _explain_pairs(
    scorer: BertScorer,
    pairs: TokenizedPairs,
    weights: TokenWeights,
    texts: Sequence[str],
    each: Scores,
) -> tuple[ExplainedPair, ...]:
    """Explain the candidate with each reference.

    Args:
        scorer: The scorer.
        pairs: The candidate and its references.
        weights: Token weights.
        texts: The candidate, then its references.
        each: The scores with each reference alone.
    """
    numbers = np.concatenate([pairs.candidates, pairs.references])
    needed = np.unique(numbers[pairs.texts.lengths[numbers] > 0])
    embedded = scorer.embed(pairs.texts, needed, weights) if len(needed) else None
    sides = [_side(scorer, pairs, weights, int(number)) for number in numbers]
    found = []
    for index in range(1, len(texts)):
        similarities = _similarities(embedded, numbers[0], numbers[index])
        found.append(
            ExplainedPair(
                candidate=_matched(texts[0], sides[0], similarities),
                reference=_matched(texts[index], sides[index], similarities.T),
                similarities=similarities,
                raw=_raw_of(each, index - 1),
                scores=_scores_of(each, index - 1),
                rule=_rule(each, index - 1),
            )
        )
    return tuple(found)


class _Side(NamedTuple):
    """What is known of a text before it is matched; the fields are those of `ExplainedText`."""

    tokens: tuple[str, ...]
    weights: FloatArray
    windows: IntArray
    truncated: bool


def _side(scorer: BertScorer, pairs: TokenizedPairs, weights: TokenWeights, number: int) -> _Side:
    ids = pairs.texts.row(number)
    windows = Windows.cut(np.zeros(1, np.int64), np.array([len(ids)]), scorer.tokenizer.windows)
    return _Side(
        tokens=readable_tokens(scorer.tokenizer, ids.tolist()),
        weights=weights.of(ids),
        windows=np.repeat(np.arange(len(windows.kept)), windows.kept),
        truncated=bool(pairs.texts.truncated[number]),
    )


def _similarities(embedded: EmbeddedTexts | None, candidate: int, reference: int) -> FloatArray:
    """Return the cosines of all tokens of two texts. Shape (C, R)."""
    if embedded is None:
        return np.zeros((0, 0), dtype=np.float32)
    left, right = (_vectors(embedded, text) for text in (candidate, reference))
    with torch.inference_mode():
        # Vectors have unit length, so products are cosines.
        cosines: FloatArray = (left @ right.T).float().cpu().numpy()
    return cosines


def _vectors(embedded: EmbeddedTexts, text: int) -> Tensor:
    """Return the vectors of a text. Shape (T, H)."""
    start, length = int(embedded.starts[text]), int(embedded.lengths[text])
    return embedded.vectors[-1, start : start + length] if length else embedded.vectors[-1, :0]


def _matched(text: str, side: _Side, similarities: FloatArray) -> ExplainedText:
    """Match the tokens of a text with those of the other. `similarities` has shape (T, others)."""
    tokens, others = similarities.shape
    if others:
        matches = similarities.argmax(axis=1).astype(np.int64)
        best = similarities[np.arange(tokens), matches]
    else:
        matches = np.full(len(side.tokens), NO_MATCH, dtype=np.int64)
        best = np.full(len(side.tokens), np.nan, dtype=np.float32)
    return ExplainedText(text=text, matches=matches, similarities=best, **side._asdict())


def _rule(scores: Scores, row: int) -> str | None:
    """Return why the scores of a pair need not be the sums."""
    for name, marks in (
        ("too_long", scores.too_long),
        ("empty_candidate", scores.empty_candidate),
        ("empty_reference", scores.empty_reference),
        ("counted_as_empty", scores.counted_as_empty),
        ("only_special_tokens", scores.only_special),
        ("no_weighted_token", scores.unweighted),
    ):
        if marks[row]:
            return name
    return None


def _best(each: Scores, raw: Measures) -> tuple[int, int, int]:
    """Return the reference that gives each raw measure of the candidate."""
    columns = (each.raw_precision, each.raw_recall, each.raw_f1)
    precision, recall, f1 = (
        int(np.isnan(values).argmax() if math.isnan(value) else np.nanargmin(abs(values - value)))
        for values, value in zip(columns, raw, strict=True)
    )
    return precision, recall, f1


def _scores_of(scores: Scores, row: int) -> Measures:
    measures = (scores.precision[row], scores.recall[row], scores.f1[row])
    return Measures(*map(float, measures))


def _raw_of(scores: Scores, row: int) -> Measures:
    measures = (scores.raw_precision[row], scores.raw_recall[row], scores.raw_f1[row])
    return Measures(*map(float, measures))


def _plain(measures: Measures) -> dict[str, float | None]:
    return {name: _number(value) for name, value in measures._asdict().items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _describe_pair(pair: ExplainedPair) -> dict[str, Any]:
    return {
        "scores": _plain(pair.scores),
        "raw": _plain(pair.raw),
        "rule": pair.rule,
        "candidate": _describe_text(pair.candidate),
        "reference": _describe_text(pair.reference),
        "similarities": [[_number(value) for value in row] for row in pair.similarities.tolist()],
    }


def _describe_text(text: ExplainedText) -> dict[str, Any]:
    return {
        "text": text.text,
        "truncated": text.truncated,
        "sum": _number(text.total),
        "tokens": [
            {
                "token": token,
                "weight": float(text.weights[number]),
                "share": _number(text.shares[number]),
                "match": int(match) if (match := text.matches[number]) != NO_MATCH else None,
                "similarity": _number(text.similarities[number]),
                "contribution": _number(text.contributions[number]),
                "window": int(text.windows[number]),
            }
            for number, token in enumerate(text.tokens)
        ],
    }
