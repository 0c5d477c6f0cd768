"""Texts as token ids: pairs, empty texts, batches and windows, in plain numpy.

Axis letters used in every docstring of this package: N texts or pairs, T tokens of all texts
together, B pairs in a batch, C candidate tokens, R reference tokens, H hidden size, V vocabulary,
L layers of the encoder (so L + 1 rows of hidden states).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_core.sums import Sums

IntArray = npt.NDArray[np.int64]
TokenIds = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedTexts:
    """Token ids of N texts, laid end to end.

    Attributes:
        ids: Token ids of all texts, special tokens included. Shape (T,), int32.
        offsets: Text n has `ids[offsets[n]:offsets[n + 1]]`. Shape (N + 1,), int64.
        truncated: Whether text n was longer than the maximum length. Shape (N,), bool.
    """

    ids: TokenIds
    offsets: IntArray
    truncated: BoolArray

    def __len__(self) -> int:
        return len(self.truncated)

    @property
    def lengths(self) -> IntArray:
        """Tokens per text, special tokens included. Shape (N,)."""
        return np.diff(self.offsets)

    def row(self, index: int) -> TokenIds:
        """Return the token ids of one text. Shape (tokens,)."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, rows: IntArray) -> TokenIds:
        """Return the token ids of some texts, laid end to end. Shape (their tokens,)."""
        return laid_out(self.ids, self.offsets[rows], self.lengths[rows])

    def select(self, rows: IntArray) -> "TokenizedTexts":
        """Return some of the texts, in another order."""
        return TokenizedTexts(
            ids=self.gather(rows),
            offsets=np.concatenate([[0], np.cumsum(self.lengths[rows])]),
            truncated=self.truncated[rows],
        )

    def count(self, ids: Sequence[int]) -> IntArray:
        """Return how many tokens of each text are one of these. Shape (N,)."""
        upto = np.concatenate([[0], np.cumsum(np.isin(self.ids, ids))])
        return np.diff(upto[self.offsets])

    @classmethod
    def joined(cls, parts: "Sequence[TokenizedTexts]") -> "TokenizedTexts":
        """Return the texts of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(
            ids=np.concatenate([part.ids for part in parts]),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            truncated=np.concatenate([part.truncated for part in parts]),
        )

    @classmethod
    def from_rows(
        cls, rows: Sequence[Sequence[int]], truncated: Sequence[bool] | None = None
    ) -> "TokenizedTexts":
        """Lay the token ids of N texts end to end."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = [np.asarray(row, dtype=np.int32) for row in rows if len(row)]
        return cls(
            ids=np.concatenate(flat) if flat else np.zeros(0, dtype=np.int32),
            offsets=offsets,
            truncated=np.asarray(
                truncated if truncated is not None else [False] * len(rows), dtype=np.bool_
            ),
        )


def laid_out(ids: TokenIds, begins: IntArray, counts: IntArray) -> TokenIds:
    """Return pieces of token ids, which begin there and have this many, laid end to end."""
    # Positions of all tokens at once, without a loop over pieces.
    shifts = begins - (np.cumsum(counts) - counts)
    places: IntArray = np.repeat(shifts, counts) + np.arange(counts.sum())
    return ids[places]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextPairs:
    """P pairs of texts, by the indices of their sides, (P,), among the distinct texts."""

    texts: TokenizedTexts
    candidates: IntArray
    references: IntArray

    def __len__(self) -> int:
        return len(self.candidates)

    def select(self, rows: IntArray | BoolArray) -> "TextPairs":
        """Return some of the pairs, by index or by mask."""
        return TextPairs(
            texts=self.texts, candidates=self.candidates[rows], references=self.references[rows]
        )

    def used_texts(self) -> IntArray:
        """Return the indices of the texts that are in some pair, each once, in order."""
        is_used = np.zeros(len(self.texts), dtype=np.bool_)  # `np.unique` takes ten times as long
        is_used[self.candidates] = is_used[self.references] = True
        return np.flatnonzero(is_used)

    def without_mirrored(self) -> tuple["TextPairs", IntArray, BoolArray]:
        """Return the pairs that differ by more than their order: Q of P.

        Also which of them each pair is, and whether it is that pair the other way round. Shapes
        (P,).
        """
        low = np.minimum(self.candidates, self.references)
        high = np.maximum(self.candidates, self.references)
        _, rows, places = np.unique(
            low * len(self.texts) + high, return_index=True, return_inverse=True
        )
        pairs = self.select(rows)
        return pairs, places, self.candidates != pairs.candidates[places]


# Which texts go through the encoder together.

# Texts of a batch at most: the attention kernels of a GPU have one block of threads for each in a
# dimension of their grid that ends there.
_MOST_TEXTS = 65_535


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """How texts, the longest first, lie in a batch: end to end, or filled up to the longest."""

    packed: bool

    def fit(self, lengths: IntArray, tokens: int) -> int:
        """Return how many of the first texts make a batch of `tokens` at most; at least 1."""
        if not self.packed:
            count = tokens // max(int(lengths[0]), 1)  # a text may have no tokens
            return min(max(count, 1), _MOST_TEXTS)
        # No more than that many texts fit, so no more need to be added up.
        ends = np.cumsum(np.maximum(lengths[: min(max(tokens, 1), _MOST_TEXTS)], 1))
        return max(int(np.searchsorted(ends, tokens, side="right")), 1)

    def size(self, lengths: IntArray) -> int:
        """Return the tokens of a batch, with what fills it up."""
        return int(lengths.sum()) if self.packed else len(lengths) * int(lengths[0])


_PADDED = BatchLayout(packed=False)


def plan_batches(
    lengths: Sequence[int] | IntArray, *, max_batch_tokens: int, layout: BatchLayout = _PADDED
) -> list[IntArray]:
    """Group texts of similar length so that each batch stays within a token budget.

    Texts are taken from the longest to the shortest (ties in input order), so padding is small, the
    largest batch comes first, and the plan depends on the lengths alone. A longer text than the
    budget is a batch of its own. Returns the indices of the texts of each batch; every index
    exactly once.

    Examples:
        >>> [batch.tolist() for batch in plan_batches([3, 9, 4, 4], max_batch_tokens=9)]
        [[1], [2, 3], [0]]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")  # stable: the plan is the same on every machine
    batches: list[IntArray] = []
    start = 0
    while start < len(order):
        # No more than that many texts fit, so no more need to be looked up.
        rest = order[start : start + max(max_batch_tokens, 1)]
        count = layout.fit(lengths[rest], max_batch_tokens)
        batches.append(rest[:count])
        start += count
    return batches


# Empty texts: which texts are empty, and what a pair with an empty side scores.
#
# A text is empty if it has the same tokens as "": white space, or zero-width characters that the
# tokenizer drops. One rule applies in the library, the job and every pipeline, also to candidates
# with several references. It is part of the signature:
#
#     reference   What bert-score does. A text of exactly two tokens counts as empty: precision and
#                 recall are 0, and F1 is kept if it is a number. An empty text that has one special
#                 token (T5, Pegasus) or three is scored by its special tokens.
#     zero        Precision, recall and F1 are 0 if a side is empty, whatever the tokenizer. All
#                 other pairs score as under `reference`.
#     null        No score (NaN) if a side is empty. An empty reference among others is skipped.

EMPTY_LENGTH = 2
"""bert-score treats a text as empty if it has exactly this many tokens (its two special ones)."""

EMPTY_RULES = ("reference", "zero", "null")
"""Rules for what a pair with an empty side scores; see above."""


def are_empty(tokens: TokenizedTexts, empty_ids: Sequence[int]) -> BoolArray:
    """Tell which of N texts are empty; `empty_ids` are the tokens of an empty text. Shape (N,)."""
    # Few texts have that length, so only those are compared token by token.
    same_length = np.flatnonzero(tokens.lengths == len(empty_ids))
    empty = np.zeros(len(tokens), dtype=np.bool_)
    empty[same_length] = [
        np.array_equal(tokens.row(int(index)), empty_ids) for index in same_length
    ]
    return empty


def score_empty(scores: FloatArray, empty: BoolArray, rule: str) -> FloatArray:
    """Apply one of `EMPTY_RULES` to the scores (layers, P, 3) of pairs with an empty side, (P,).

    Under `null` such a pair scores minus infinity, so it is the best of several references only if
    all are empty; then it has no score.
    """
    if rule == "reference":
        return scores
    # Not NaN yet under `null`: NaN would win the maximum over several references.
    value = np.float32(0.0 if rule == "zero" else -np.inf)
    return np.where(empty[None, :, None], value, scores)


REFERENCE_RULES = ("best", "mean")
"""What several references give: the best of each measure, or the mean."""


def over_references(scores: FloatArray, starts: IntArray, rule: str) -> FloatArray:
    """Apply one of `REFERENCE_RULES` to scores (layers, P, 3) of references that begin at `starts`.

    A mean is over those that are scores, neither NaN nor minus infinity; NaN without any.
    """
    if rule == "best":
        return reduce_groups(np.maximum, scores, starts, axis=1)
    scored = np.isfinite(scores)
    # In double precision the order of so few references does not move the sum.
    sums = reduce_groups(np.add, np.where(scored, scores, np.float64(0)), starts, axis=1)
    with np.errstate(invalid="ignore"):
        means = sums / reduce_groups(np.add, scored.astype(np.float64), starts, axis=1)
    return np.asarray(means, dtype=np.float32)


# Pairs of texts as token ids, and values of a pair's references combined.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPairs:
    """N candidates and their references as token ids.

    Attributes:
        candidates: Index of each candidate among the distinct texts. Shape (N,).
        references: Indices of all references, those of the first candidate first.
        counts: Number of references of each candidate. Shape (N,).
    """

    texts: TokenizedTexts
    candidates: IntArray
    references: IntArray
    counts: IntArray

    def over_all(self, combine: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Combine a value of each text over a candidate and all its references. Shape (N,)."""
        starts = np.cumsum(self.counts) - self.counts
        over: npt.NDArray[Any] = combine(
            values[self.candidates], reduce_groups(combine, values[self.references], starts)
        )
        return over

    def flat(self) -> TextPairs:
        """Return one pair for each reference."""
        return TextPairs(
            texts=self.texts,
            candidates=np.repeat(self.candidates, self.counts),
            references=self.references,
        )


def reduce_groups(
    combine: np.ufunc, values: npt.NDArray[Any], starts: IntArray, axis: int = 0
) -> npt.NDArray[Any]:
    """Combine the values of each group of references, which begin at `starts`.

    A maximum is NaN if one of the values is. Without groups, which `reduceat` refuses, the values
    are returned, of which there are none.
    """
    if not len(starts):
        return values
    reduced: npt.NDArray[Any] = combine.reduceat(values, starts, axis=axis)
    return reduced


# Long texts in overlapping windows, and the window that each token's vector is taken from.
#
# A text of `a` leading special tokens, n others and `b` trailing special ones is longer than the
# maximum length M if a + n + b > M. Each of its windows then has the same special tokens and c = M
# - a - b others, so M tokens in all. Window k begins at token
#
#     p(k) = min(k * s, n - c),   s = max(floor(c / 2), 1),   k = 0 ... ceil((n - c) / s)
#
# so that windows overlap by half and the last one ends with the text. The vector of token t is that
# of the window whose middle is nearest:
#
#     k(t) = argmin over k of |t - p(k) - (c - 1) / 2|, the first of two that are equally near
#
# This is the window in which the token has the most context on its shorter side: a quarter of a
# window at least, unless the text begins or ends there. The leading special tokens are those of the
# first window, the trailing ones those of the last. So the text has one vector for each of its a +
# n + b tokens, as a text that fits.

LONG_TEXT_RULES = ("truncate", "error", "windows")
"""What is done with a text longer than the maximum length: cut it, do not score it, or score all of
it in windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowShape:
    """The windows of long texts.

    Attributes:
        length: Tokens of a window, special ones included.
        leading: Special tokens before the others.
        trailing: Special tokens after the others.
    """

    length: int
    leading: int
    trailing: int

    @property
    def content(self) -> int:
        """Tokens of a window without the special ones, c."""
        return self.length - self.leading - self.trailing

    @property
    def stride(self) -> int:
        """Tokens from one window to the next, s."""
        return max(self.content // 2, 1)

    def counts(self, lengths: IntArray) -> IntArray:
        """Return the number of windows of texts with these numbers of tokens. Shape (N,)."""
        beyond = np.maximum(lengths - self.length, 0)
        counts: IntArray = 1 + -(-beyond // self.stride)
        return counts

    def encoded_tokens(self, lengths: IntArray) -> int:
        """Return how many tokens are encoded for texts with these numbers of tokens, (N,)."""
        # All windows of a text have the same length.
        return int((self.counts(lengths) * np.minimum(lengths, self.length)).sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """W inputs of the encoder: a window each, or a whole text that fits.

    The windows of a text follow each other. Together they keep each of its tokens once, in order.

    Attributes:
        texts: Index of each window's text. Shape (W,).
        starts: Tokens of the text that are left out after the leading special ones. Shape (W,).
        lengths: Tokens of the window. Shape (W,).
        first: First token of the window whose vector is kept. Shape (W,).
        kept: Number of tokens whose vectors are kept. Shape (W,).
        shape: The shape of windows; None if every text is one.
    """

    texts: IntArray
    starts: IntArray
    lengths: IntArray
    first: IntArray
    kept: IntArray
    shape: WindowShape | None

    @classmethod
    def cut(cls, texts: IntArray, lengths: IntArray, shape: WindowShape | None) -> "Windows":
        """Cut the texts with these indices and lengths, (N,), into windows."""
        if shape is None or not (lengths > shape.length).any():
            nothing = np.zeros_like(lengths)
            return cls(
                texts=texts,
                starts=nothing,
                lengths=lengths,
                first=nothing,
                kept=lengths,
                shape=None,
            )
        counts = shape.counts(lengths)
        number = _counted(counts)  # of each window in its text, from 0
        whole = np.repeat(lengths, counts)
        is_first, is_last = number == 0, number == np.repeat(counts, counts) - 1
        starts = np.minimum(number * shape.stride, np.maximum(whole - shape.length, 0))
        # Token t goes to the earlier of two windows while 2 t <= p + p' + c - 1.
        ends = np.where(is_last, 0, (starts + np.roll(starts, -1) + shape.content - 1) // 2 + 1)
        begins = np.where(is_first, 0, np.roll(ends, 1))
        own = np.minimum(whole, shape.length)
        first = np.where(is_first, 0, shape.leading + begins - starts)
        end = np.where(is_last, own, shape.leading + ends - starts)
        return cls(
            texts=np.repeat(texts, counts),
            starts=starts,
            lengths=own,
            first=first,
            kept=end - first,
            shape=shape,
        )

    def select(self, rows: IntArray) -> "Windows":
        """Return some of the windows, in another order."""
        names = ("texts", "starts", "lengths", "first", "kept")
        return Windows(**{name: getattr(self, name)[rows] for name in names}, shape=self.shape)

    def is_kept(self) -> BoolArray:
        """Tell for each token of the windows, laid end to end, whether its vector is kept."""
        step = _counted(self.lengths)
        first = np.repeat(self.first, self.lengths)
        kept: BoolArray = (step >= first) & (step < first + np.repeat(self.kept, self.lengths))
        return kept

    def gather(self, texts: TokenizedTexts) -> TokenIds:
        """Return the token ids of the windows, laid end to end. Shape (their tokens,)."""
        if self.shape is None:
            return texts.gather(self.texts)
        step = _counted(self.lengths)
        skipped = np.repeat(self.starts, self.lengths)
        skipped[step < self.shape.leading] = 0
        # The trailing special tokens are the last of the text, wherever the window is.
        is_trailing = step >= np.repeat(self.lengths - self.shape.trailing, self.lengths)
        beyond = np.repeat(texts.lengths[self.texts] - self.lengths, self.lengths)
        skipped[is_trailing] = beyond[is_trailing]
        begins = np.repeat(texts.offsets[self.texts], self.lengths)
        ids: TokenIds = texts.ids[begins + step + skipped]
        return ids


def _counted(counts: IntArray) -> IntArray:
    ends = np.cumsum(counts)
    counted: IntArray = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    return counted


# Counts of the work that an encoder did.


@dataclass(slots=True, kw_only=True)
class Work(Sums):
    """Counts of one call. They only grow.

    Attributes:
        batches: Forward passes.
        planned_tokens: Tokens of the texts to encode; some may be encoded again.
        tokens: Tokens encoded, in each window of a long text.
        padded_tokens: The same with padding, which is computed, too.
        retries: Forward passes or blocks of pairs repeated in pieces because memory was too small.
        lowered_batches: Forward passes under a budget that was lowered because memory was too
            small, in this call or before. They are not the batches that the signature names.
        busy_seconds: Time in which the device computed for the call.
        idle_seconds: Time in which the device waited before work of the call, after the work that
            it had before, of any scorer that shares its queue. 0 before the first.
        late_seconds: Time in which the host queued work that a GPU had begun already, and may have
            waited for; `busy_seconds` has it, too.
        waited_seconds: Time in which the call waited for its turn to queue work, and for results.
    """

    batches: int = 0
    planned_tokens: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    retries: int = 0
    lowered_batches: int = 0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    late_seconds: float = 0.0
    waited_seconds: float = 0.0

    @property
    def share(self) -> float:
        """Share of the planned tokens that is encoded, from 0 to 1."""
        return min(self.tokens / self.planned_tokens, 1.0) if self.planned_tokens else 0.0

    @property
    def padding(self) -> float:
        """Share of the computed tokens that are padding, 0 if there are none."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0
