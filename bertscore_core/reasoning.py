"""Reasoning that a model writes before its answer: which tags are known, and what is left.

<think>...</think> answer      known tags, at the beginning
...</think> answer             the prompt has opened it
<think>...                     never closed, as at a token limit: nothing is left
<|channel|>analysis<|message|>...<|channel|>final<|message|>answer<|return|>    Harmony
analysis...assistantfinal answer    the same, decoded without special tokens
"""

import re
from collections.abc import Sequence
from itertools import repeat

_TAGS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen and most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<|channel>thought", "<channel|>"),  # Gemma 4
)
_ANY_TAG = re.compile(r"<(?:/?(?:think|thinking|thought|reasoning|seed:think)>|\|?channel)")
"""Any of these, and of Harmony's, but for Magistral's: one that begins with a letter is fast."""
_BEGIN = ("<|channel|>", "<|start|>assistant")
_BEFORE_FINAL = re.compile(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_AFTER_FINAL = re.compile(r"<\|(?:return|end|start|call)\|>")
_PLAIN, _PLAIN_FINAL = "analysis", "assistantfinal"

REASONING = "reasoning"
"""The reason of a row that is scored with its reasoning."""

MUCH_REASONING = 0.01
"""Share of candidates with reasoning from which people are warned: hardly any answer begins with
these tags by chance."""


def may_hold_reasoning(texts: Sequence[str]) -> bool:
    """Tell whether any text may hold reasoning: most texts are seen to have none at once."""
    joined = "\n".join(texts)  # a loop over the texts would take twice as long
    has_tags = "<" in joined or ("[" in joined and "THINK]" in joined)
    return has_tags or any(map(str.startswith, texts, repeat(_PLAIN)))


def without_reasoning(text: str) -> str:
    """Return the answer in a text, without white space around it; "" if nothing is left.

    A text without reasoning is returned itself. The first closing tag ends reasoning, as it does
    where models are served. Tags after the beginning of an answer stay, as do fenced blocks, JSON,
    and what else is around it, such as `<answer>`.
    """
    is_known = _ANY_TAG.search(text) or "THINK]" in text or text.startswith(_PLAIN)
    left = _answer_in(text) if is_known else None
    answer = text
    while left is not None:
        answer = left.strip()
        left = _after_block(answer)
    return answer


def _answer_in(text: str) -> str | None:
    """Return what follows the reasoning; None without any."""
    if text.startswith(_PLAIN) and _PLAIN_FINAL in text:
        return text.rpartition(_PLAIN_FINAL)[2]
    parts, text = _BEFORE_FINAL.split(text), text.lstrip()
    if len(parts) > 1:
        return _AFTER_FINAL.split(parts[-1], maxsplit=1)[0]
    if text.startswith(_BEGIN):
        return ""
    if (answer := _after_block(text)) is not None:
        return answer
    for opening, closing in _TAGS:
        before, closed, answer = text.partition(closing)
        if closed and opening not in before:
            return answer
    return None


def _after_block(text: str) -> str | None:
    """Return what follows the block that a text begins with; None if it begins with none."""
    for opening, closing in _TAGS:
        if text.startswith(opening):
            return text.partition(closing)[2]
    return None
