"""Long texts in overlapping windows, and the window that each token's vector is taken from.

A text of `a` leading special tokens, n others and `b` trailing special ones is longer than the
maximum length M if a + n + b > M. Each of its windows then has the same special tokens and c = M
- a - b others, so M tokens in all. Window k begins at token

    p(k) = min(k * s, n - c),   s = max(floor(c / 2), 1),   k = 0 ... ceil((n - c) / s)

so that windows overlap by half and the last one ends with the text. The vector of token t is that
of the window whose middle is nearest:

    k(t) = argmin over k of |t - p(k) - (c - 1) / 2|, the first of two that are equally near

This is the window in which the token has the most context on its shorter side: a quarter of a
window at least, unless the text begins or ends there. The leading special tokens are those of the
first window, the trailing ones those of the last. So the text has one vector for each of its a +
n + b tokens, as a text that fits.
"""

from dataclasses import dataclass

import numpy as np

from bertscore_core.tokens import BoolArray, IntArray, TokenIds, TokenizedTexts, places_within

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
        number = places_within(counts)  # of each window in its text
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
        step = places_within(self.lengths)
        first = np.repeat(self.first, self.lengths)
        kept: BoolArray = (step >= first) & (step < first + np.repeat(self.kept, self.lengths))
        return kept

    def gather(self, texts: TokenizedTexts) -> TokenIds:
        """Return the token ids of the windows, laid end to end. Shape (their tokens,)."""
        if self.shape is None:
            return texts.gather(self.texts)
        step = places_within(self.lengths)
        skipped = np.repeat(self.starts, self.lengths)
        skipped[step < self.shape.leading] = 0
        # The trailing special tokens are the last of the text, wherever the window is.
        is_trailing = step >= np.repeat(self.lengths - self.shape.trailing, self.lengths)
        beyond = np.repeat(texts.lengths[self.texts] - self.lengths, self.lengths)
        skipped[is_trailing] = beyond[is_trailing]
        begins = np.repeat(texts.offsets[self.texts], self.lengths)
        ids: TokenIds = texts.ids[begins + step + skipped]
        return ids
