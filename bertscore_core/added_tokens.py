"""The added tokens, at which a text is split before anything else.

The slow tokenizers of transformers 4 looked for them in the raw text and took in white space beside
them by Python's `str.strip`; the batched ones know less white space (not U+001C to U+001F).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscore_core.resolve import read_json

HIDDEN = "\U0010ffff"
"""Put into text that only looks like an added token, and removed after the split. It is a
noncharacter, which no text should hold; where a text does, it is replaced by `_OTHER`."""
_OTHER = "\U0010fffe"

_EXTRA_ID = re.compile(r"<extra_id_\d+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTokens:
    """The added tokens of one tokenizer.

    Attributes:
        pattern: Matches one of them, the longest first; in one group.
        eat_left: Those that take in the white space before them.
        eat_right: Those that take in the white space after them.
    """

    pattern: re.Pattern[str]
    eat_left: frozenset[str]
    eat_right: frozenset[str]

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text, tokens at odd places, without the space they take in."""
        pieces = self.pattern.split(text)
        for index in range(1, len(pieces), 2):
            if pieces[index] in self.eat_left:
                pieces[index - 1] = pieces[index - 1].rstrip()
            if pieces[index] in self.eat_right:
                pieces[index + 1] = pieces[index + 1].lstrip()
        return pieces

    def strip(self, text: str) -> str:
        """Return a text without the white space that added tokens take in."""
        return "".join(self.split(text))

    def lower(self, text: str) -> str:
        """Lowercase everything except added tokens, character by character."""
        pieces = self.pattern.split(text)
        pieces[::2] = ["".join(map(str.lower, piece)) for piece in pieces[::2]]
        return "".join(pieces)

    def hide(self, piece: str) -> str:
        """Mark text between added tokens that looks like one, so that it is not taken for one."""
        if HIDDEN in piece:
            piece = piece.replace(HIDDEN, _OTHER)
        return self.pattern.sub(lambda match: match[0][0] + HIDDEN + match[0][1:], piece)


def read_added_tokens(
    tokenizer: Any, *, folder: Path, stated: Mapping[str, Any], mask_eats: bool
) -> AddedTokens:
    """Collect a tokenizer's added tokens, with the white space that each takes in.

    Args:
        tokenizer: A tokenizer of transformers 5.
        folder: Where it was loaded from.
        stated: Content of its tokenizer_config.json.
        mask_eats: Whether the slow class has its mask token take in the space before it, where the
            files do not say.
    """
    tokens = {token.content for token in tokenizer.added_tokens_decoder.values()}
    tokens |= set(tokenizer.all_special_tokens)
    left = {str(tokenizer.mask_token)} & tokens if mask_eats else set()
    right = set()
    if type(tokenizer).__name__ == "T5Tokenizer":
        right = set(filter(_EXTRA_ID.fullmatch, tokens))
        left |= right
    for token in stated_tokens(folder, stated):
        for eaters, eats in ((left, token.get("lstrip")), (right, token.get("rstrip"))):
            (eaters.add if eats else eaters.discard)(token["content"])
    return AddedTokens(
        pattern=pattern_of(tokens),
        eat_left=frozenset(left & tokens),
        eat_right=frozenset(right & tokens),
    )


def pattern_of(tokens: set[str]) -> re.Pattern[str]:
    """Match one of some tokens, the longest first; in one group."""
    return re.compile("(" + "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) + ")")


def stated_tokens(folder: Path, stated: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the added tokens that the files describe, where transformers 4 looked for them."""
    if "added_tokens_decoder" in stated:
        found = list(stated["added_tokens_decoder"].values())
    else:
        found = read_json(folder / "tokenizer.json").get("added_tokens") or []
    mask = stated.get("mask_token")
    for token in (*found, mask):
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            yield token
