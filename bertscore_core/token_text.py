"""Token ids as words that people can read: bytes and pieces as the characters they stand for."""

from collections.abc import Sequence

from bertscore_core.tokenization import TextTokenizer

SPACE = "▁"
"""Shown for a token that is nothing but white space."""

# Stands for bytes that are not a whole character.
_BROKEN = "\ufffd"

# A character of UTF-8 has at most 4 bytes; with marks and joiners, one token may end in another.
_MOST_PIECES = 8


def readable_tokens(tokenizer: TextTokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Return what each token of a text stands for.

    Tokens of a byte-level vocabulary may be parts of one character. They are shown as the character
    and the number of the part, such as `é (1/2)`. A token of white space is `▁`, and a byte that
    belongs to no character is shown as the tokenizer spells it.

    Args:
        tokenizer: The tokenizer.
        ids: The tokens of the text, in order.
    """
    spelled = tokenizer.tokens(ids)
    alone = [tokenizer.decode(token) for token in ids]
    is_part = [_is_part(text, name) for text, name in zip(alone, spelled, strict=True)]
    shown: list[str] = []
    while len(shown) < len(ids):
        start = len(shown)
        if not is_part[start]:
            shown.append(alone[start].strip() or SPACE)
            continue
        end = _end_of_character(tokenizer, ids, is_part, start)
        if end is None:
            shown.append(spelled[start])
            continue
        whole, count = tokenizer.decode(*ids[start:end]).strip(), end - start
        shown += [f"{whole} ({number}/{count})" for number in range(1, count + 1)]
    return tuple(shown)


def _is_part(text: str, spelled: str) -> bool:
    """Tell whether a token is only a part of a character."""
    if _BROKEN in text:
        return True
    # ByT5 gives no text for such a byte; a token of white space is spelled with these.
    return not text.strip() and spelled.strip("▁Ġ \t\r\n") != ""


def _end_of_character(
    tokenizer: TextTokenizer, ids: Sequence[int], is_part: Sequence[bool], start: int
) -> int | None:
    """Return where the tokens end that make whole characters from `start` on; None if none do."""
    for end in range(start + 1, min(start + _MOST_PIECES, len(ids)) + 1):
        if not is_part[end - 1]:
            return None
        text = tokenizer.decode(*ids[start:end])
        if text.strip() and _BROKEN not in text:
            return end
    return None
