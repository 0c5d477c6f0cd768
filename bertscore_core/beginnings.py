"""Which beginnings of a text have the same first tokens as the whole text."""

import json
import re
from collections.abc import Mapping
from typing import Any

# Where a long text may be cut: before a space. No normaliser joins a space to the character before
# it, except to white space and to marks that are written with what follows; these are excluded.
_WORD_END = re.compile(
    r"[^\s\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U00010000-\U0010ffff](?= )"
)


def beginning_of(text: str, size: int) -> str:
    """Return the beginning of a long text, up to the first end of a word after `size` characters.

    Return the whole text if it is not much longer, or if there is no such place.
    """
    if len(text) <= 2 * size:
        return text
    end = _WORD_END.search(text, size)
    return text if end is None else text[: end.end()]


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
        and _splits_at_spaces(state["pre_tokenizer"])
    )


def _keeps_spaces(step: Mapping[str, Any] | None) -> bool:
    """Tell whether a normaliser, given by its saved state, never looks across a space."""
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


def _splits_at_spaces(step: Mapping[str, Any] | None) -> bool:
    """Tell whether a pre-tokenizer, given by its saved state, splits a text at every space."""
    match step:
        case {"type": "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit"}:
            return True
        case {"type": "ByteLevel", "use_regex": splits} | {"type": "Metaspace", "split": splits}:
            return bool(splits)
        case {"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}:
            return behavior in ("Removed", "Isolated", "MergedWithNext")
        case {"type": "Sequence", "pretokenizers": [first, *_]}:
            return _splits_at_spaces(first)  # the others see its pieces one by one
    return False
