"""The added tokens: a text is split at them before anything else.

The slow tokenizers of transformers 4 looked for them in the raw text and removed the white space
next to some of them with Python's `str.strip`. The batched tokenizers know less white space: not
U+001C to U+001F.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscore_core.resolve import read_json

HIDDEN = "\U0010ffff"
"""Put into text that only looks like an added token, and removed after the split. It is a
noncharacter, which should not occur in texts; if it does, it is replaced by `_OTHER`."""
_OTHER = "\U0010fffe"

_EXTRA_ID = re.compile(r"<extra_id_\d+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTokens:
    """The added tokens of one tokenizer.

    Attributes:
        pattern: Matches any of them, the longest first, as its only group.
        eat_left: Tokens that remove the white space before them.
        eat_right: Tokens that remove the white space after them.
    """

    pattern: re.Pattern[str]
    eat_left: frozenset[str]
    eat_right: frozenset[str]

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text, added tokens at odd indices, without the space they eat."""
        pieces = self.pattern.split(text)
        # A pattern with one group splits into text, token, text, token, ..., text.
        for index in range(1, len(pieces), 2):
            if pieces[index] in self.eat_left:
                pieces[index - 1] = pieces[index - 1].rstrip()
            if pieces[index] in self.eat_right:
                pieces[index + 1] = pieces[index + 1].lstrip()
        return pieces

    def strip(self, text: str) -> str:
        """Return a text without the white space that added tokens eat."""
        return "".join(self.split(text))

    def lower(self, text: str) -> str:
        """Lowercase everything except added tokens, character by character."""
        pieces = self.pattern.split(text)
        # By character, since the slow tokenizers did: a final sigma stays an ordinary one.
        pieces[::2] = ["".join(map(str.lower, piece)) for piece in pieces[::2]]
        return "".join(pieces)

    def hide(self, piece: str) -> str:
        """Break up text that looks like an added token but is none."""
        if HIDDEN in piece:
            piece = piece.replace(HIDDEN, _OTHER)
        # After its first character, so that the backend does not find the token any more.
        return self.pattern.sub(lambda match: match[0][0] + HIDDEN + match[0][1:], piece)


def read_added_tokens(
    tokenizer: Any, *, folder: Path, stated: Mapping[str, Any], mask_eats: bool
) -> AddedTokens:
    """Collect a tokenizer's added tokens, with the white space that each of them eats.

    Args:
        tokenizer: A tokenizer of transformers 5.
        folder: Where it was loaded from.
        stated: Content of its tokenizer_config.json.
        mask_eats: Whether the mask token eats the space before it if the files do not say.
    """
    tokens = {token.content for token in tokenizer.added_tokens_decoder.values()}
    tokens |= set(tokenizer.all_special_tokens)
    left = {str(tokenizer.mask_token)} & tokens if mask_eats else set()
    right = set()
    if type(tokenizer).__name__ == "T5Tokenizer":  # its sentinels eat the space on both sides
        right = set(filter(_EXTRA_ID.fullmatch, tokens))
        left |= right
    for token in stated_tokens(folder, stated):
        # What the files say overrides the defaults of the class, in both directions.
        for eaters, eats in ((left, token.get("lstrip")), (right, token.get("rstrip"))):
            (eaters.add if eats else eaters.discard)(token["content"])
    return AddedTokens(
        pattern=pattern_of(tokens),
        eat_left=frozenset(left & tokens),
        eat_right=frozenset(right & tokens),
    )


def pattern_of(tokens: set[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of some tokens, the longest first, as its only group."""
    return re.compile("(" + "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) + ")")


def stated_tokens(folder: Path, stated: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the added tokens described in the files that transformers 4 read."""
    if "added_tokens_decoder" in stated:
        found = list(stated["added_tokens_decoder"].values())
    else:
        found = read_json(folder / "tokenizer.json").get("added_tokens") or []
    mask = stated.get("mask_token")
    for token in (*found, mask):
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            yield token
