"""Texts read word by word, each different word once.

A tokenizer takes 1.5 microseconds for a token. Most words of a dump have been seen before, so texts
are cut at their spaces, and the tokens of each word are looked up. That is right where neither the
words before a space nor those after it change the tokens of a word, which is a property of the
tokenizer (`reads_word_by_word`) and of the word (`WordReader._is_plain`). Texts with other words
are left to the tokenizer.
"""

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_core.tokens import (
    IntArray,
    TokenIds,
    TokenizedTexts,
    laid_out,
    offsets_of,
    places_within,
)

WORD_END = re.compile(
    r"[^\s\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U00010000-\U0010ffff](?= )"
)
"""The end of a word that no normaliser joins the space behind it to: white space and marks that are
written with what follows are excluded."""

# What normalisers may join to a space before it, beside marks.
_JOINS_BEFORE = re.compile("[\u0e33\u0eb3\uff9e\uff9f\U00010000-\U0010ffff]")

_LONGEST_WORD = 64
"""Characters; what is longer is not a word that comes again."""

_MOST_WORDS = 1 << 18
"""Words that are remembered, some 50 MB."""

_REPEATED = 4
"""Words are learnt if at most one of this many is new. One alone takes as long as six in their
text, which is soon made up for. Where there are always more, as in Chinese, none is learnt."""

_FEWEST_TEXTS = 2
"""A text alone may be very long, and only its beginning be needed."""


def reads_word_by_word(tokenizer: Any) -> bool:
    """Tell whether text after a space never changes the tokens before it.

    True if the backend normalises character by character, splits at every space before its model
    sees the pieces, cuts texts at the end, and has no added token with a space. False for anything
    else, which may read texts as a whole.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    return (
        tokenizer.truncation_side == "right"
        and not any(" " in token["content"] for token in state["added_tokens"])
        and _keeps_spaces(state["normalizer"])
        and splits_at_spaces(state["pre_tokenizer"])
    )


def _keeps_spaces(step: Mapping[str, Any] | None) -> bool:
    match step:
        case None | {"type": "BertNormalizer" | "Precompiled" | "Lowercase" | "StripAccents"}:
            return True
        case {"type": "NFC" | "NFD" | "NFKC" | "NFKD"}:
            return True
        case {"type": "Replace", "pattern": {"String": old}, "content": new}:
            return " " not in old + new
        case {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}:
            return True
        case {"type": "Sequence", "normalizers": steps}:
            return all(map(_keeps_spaces, steps))
    return False


def splits_at_spaces(step: Mapping[str, Any] | None) -> bool:
    """Tell whether a pre-tokenizer, as the backend states it, splits at every space first."""
    match step:
        case {"type": "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit"}:
            return True
        case {"type": "ByteLevel", "use_regex": splits} | {"type": "Metaspace", "split": splits}:
            return bool(splits)
        case {"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}:
            return behavior in ("Removed", "Isolated", "MergedWithNext")
        case {"type": "Sequence", "pretokenizers": [first, *_]}:
            return splits_at_spaces(first)  # the others see its pieces one by one
    return False


def _reads_each_alone(state: Mapping[str, Any]) -> bool:
    # Beside what `reads_word_by_word` asks: no piece is read by where it stands, none at random.
    steps = state["pre_tokenizer"].get("pretokenizers", [])
    by_place = any(step.get("prepend_scheme") == "first" for step in steps)
    return not by_place and not state["model"].get("dropout")


class WordReader:
    """Reads texts with a backend of which `reads_word_by_word` is true. Threads may share it."""

    def __init__(
        self, backend: Any, *, leading: TokenIds, trailing: TokenIds, most: int | None
    ) -> None:
        """Remember no word yet; most callers want `of`.

        `leading` and `trailing` are the special tokens of a text, `most` the tokens at which it is
        cut, special ones included.
        """
        self._backend = backend
        self._leading, self._trailing = leading, trailing
        self._room = None if most is None else most - len(leading) - len(trailing)
        self._normalize = str if backend.normalizer is None else backend.normalizer.normalize_str
        tokens = [token.content for token in backend.get_added_tokens_decoder().values()]
        added = {*tokens, *map(self._normalize, tokens)} - {""}
        self._added = re.compile("|".join(map(re.escape, added)) or "(?!)")
        self._lock = threading.Lock()
        self._forget()

    @classmethod
    def of(cls, backend: Any, empty: Sequence[int], most: int | None) -> "WordReader | None":
        """Return the reader of a backend; None if its texts cannot be read word by word.

        `empty` are the tokens of an empty text.
        """
        alone = backend.encode("a", add_special_tokens=False).ids
        whole = backend.encode("a")
        if (
            not _reads_each_alone(json.loads(backend.to_str()))
            or 0 not in whole.special_tokens_mask
        ):
            return None
        at = whole.special_tokens_mask.index(0)
        if whole.ids != [*empty[:at], *alone, *empty[at:]]:
            return None
        leading, trailing = np.array(empty[:at], np.int32), np.array(empty[at:], np.int32)
        return cls(backend, leading=leading, trailing=trailing, most=most)

    def encode(
        self, texts: Sequence[str], encode: Callable[[Sequence[str]], TokenizedTexts]
    ) -> TokenizedTexts:
        """Return the token ids of N texts, those that `encode` returns, which reads the rest."""
        if len(texts) < _FEWEST_TEXTS:
            return encode(texts)
        pieces = pc.split_pattern(pa.array(texts, pa.string()), pattern=" ")
        words = pc.dictionary_encode(pieces.values)
        starts = pieces.offsets.to_numpy()[:-1].astype(np.int64)
        # The first word of a text is read without a space before it, the others with one. An even
        # number stands for the first.
        numbers = words.indices.to_numpy().astype(np.int64) * 2 + 1
        numbers[starts] -= 1
        places = self._look_up(numbers, words.dictionary)
        if places is None:
            return encode(texts)
        begins, lengths, ids, known = places
        counts = lengths[known]
        is_plain = np.minimum.reduceat(counts, starts) >= 0
        if is_plain.all():
            return self._joined(
                np.add.reduceat(counts, starts), laid_out(ids, begins[known], counts)
            )
        others = np.flatnonzero(~is_plain)
        rest = encode([texts[row] for row in others.tolist()])
        chosen = np.repeat(is_plain, np.diff(pieces.offsets.to_numpy()))
        counts = counts[chosen]
        totals = np.add.reduceat(np.where(chosen, lengths[known], 0), starts)[is_plain]
        own = self._joined(totals, laid_out(ids, begins[known[chosen]], counts))
        order = np.empty(len(texts), dtype=np.int64)
        order[np.concatenate([np.flatnonzero(is_plain), others])] = np.arange(len(texts))
        return TokenizedTexts.joined([own, rest]).select(order)

    def _joined(self, totals: IntArray, content: TokenIds) -> TokenizedTexts:
        """Cut texts of these lengths, which are laid end to end, and add the special tokens."""
        truncated = np.zeros(len(totals), dtype=np.bool_)
        if self._room is not None and (totals > self._room).any():
            truncated = totals > self._room
            step = places_within(totals)
            content, totals = content[step < self._room], np.minimum(totals, self._room)
        before, behind = len(self._leading), len(self._trailing)
        offsets = offsets_of(totals + before + behind)
        ids = np.empty(int(offsets[-1]), dtype=np.int32)
        is_content = np.ones(len(ids), dtype=np.bool_)
        for place, token in enumerate(self._leading):
            ids[offsets[:-1] + place], is_content[offsets[:-1] + place] = token, False
        for place, token in enumerate(self._trailing):
            at = offsets[1:] - behind + place
            ids[at], is_content[at] = token, False
        ids[is_content] = content
        return TokenizedTexts(ids=ids, offsets=offsets, truncated=truncated)

    def _forget(self) -> None:
        self._known: dict[str, int] = {}
        self._begins, self._lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ids = np.zeros(0, np.int32)

    def _look_up(
        self, numbers: IntArray, words: pa.StringArray
    ) -> tuple[IntArray, IntArray, TokenIds, IntArray] | None:
        """Return where the tokens of the known words lie, and which of them each piece is.

        None if too many words are new. A word that is not plain has -1 tokens.
        """
        is_used = np.zeros(2 * len(words), dtype=np.bool_)
        is_used[numbers] = True
        used = np.flatnonzero(is_used)
        spelled = words.to_pylist()
        forms = [
            f" {spelled[number >> 1]}" if number % 2 else spelled[number >> 1]
            for number in used.tolist()
        ]
        with self._lock:
            new = [form for form in forms if form not in self._known]
            if len(new) * _REPEATED > len(numbers):
                return None
            if len(self._known) + len(new) > _MOST_WORDS:
                self._forget()
                new = forms
            if new:
                self._learn(new)
            known = np.empty(2 * len(words), dtype=np.int64)
            known[used] = np.fromiter(map(self._known.__getitem__, forms), np.int64, len(forms))
            return self._begins, self._lengths, self._ids, known[numbers]

    def _learn(self, forms: Sequence[str]) -> None:
        is_plain = [self._is_plain(form) for form in forms]
        plain = [form for form, fits in zip(forms, is_plain, strict=True) if fits]
        rows = [
            encoding.ids
            for encoding in self._backend.encode_batch_fast(plain, add_special_tokens=False)
        ]
        tokens = TokenizedTexts.from_rows(rows)
        lengths = np.full(len(forms), -1, dtype=np.int64)
        lengths[is_plain] = tokens.lengths
        begins = np.zeros(len(forms), dtype=np.int64)
        begins[is_plain] = tokens.offsets[:-1] + len(self._ids)
        numbers = range(len(self._known), len(self._known) + len(forms))
        self._known.update(zip(forms, numbers, strict=True))
        # New arrays: other threads use those that they were given.
        self._begins = np.concatenate([self._begins, begins])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._ids = np.concatenate([self._ids, tokens.ids])

    def _is_plain(self, form: str) -> bool:
        """Tell whether nothing around a word, with the space before it, changes its tokens."""
        word = form.removeprefix(" ")
        if not word:
            return not form
        # No white space, and nothing that vanishes or becomes space.
        if len(word) > _LONGEST_WORD or not word.isprintable():
            return False
        if not word.isascii() and (
            WORD_END.match(f"{word} ", len(word) - 1) is None
            or unicodedata.category(word[0])[0] == "M"
            or _JOINS_BEFORE.match(word) is not None
        ):
            return False
        normal = self._normalize(form)
        stays = (
            normal.strip() and not normal[-1].isspace() and normal[0].isspace() >= (word != form)
        )
        return bool(stays) and self._added.search(f"{word} {normal}") is None
