"""The texts that a caller gives: checked, grouped by candidate, and numbered."""

from collections.abc import Collection, Iterable, Sequence, Sized
from typing import Any, TypeGuard

import numpy as np

from bertscore_core.errors import InputError
from bertscore_core.tokenization import is_encodable
from bertscore_core.tokens import IntArray

References = Sequence[str] | Sequence[Sequence[str]]
"""One text for each candidate, or a list of texts for each."""


def as_groups(references: References) -> list[Sequence[str]]:
    """Return a list of references for every candidate."""
    if isinstance(references, str):
        raise InputError("references is one text; expected a list of texts. Put it in a list.")
    return [(group,) if isinstance(group, str) else group for group in references]


def check_texts(candidates: Sequence[object], groups: Sequence[object]) -> None:
    """Check that there is a text, or a list of texts, for every candidate.

    Raises:
        InputError: lengths differ, a list of references is empty, a value is not a text, or a
            text has lone surrogates. The message names the pair.
    """
    # A text is a sequence of texts, too: its characters would be scored one by one.
    if isinstance(candidates, str):
        raise InputError("candidates is one text; expected a list of texts. Put it in a list.")
    if not isinstance(candidates, Sized):
        raise InputError(
            f"candidates is a {type(candidates).__name__}, which has no length; expected a list of "
            "texts. Make one of it: list(candidates)."
        )
    if len(candidates) != len(groups):
        raise InputError(
            f"got {len(candidates)} candidates and {len(groups)} references; expected one "
            "reference, or one list of references, for every candidate."
        )
    if _all_are_texts(candidates, groups):
        return
    for position, (candidate, group) in enumerate(zip(candidates, groups, strict=True)):
        references = group if _is_group(group) else [group]
        texts = [candidate, *references]
        if not all(isinstance(text, str) for text in texts):
            raise _no_text(position, candidate, references)
        if len(texts) == 1:
            raise InputError(
                f"pair {position} has an empty list of references; expected at least one. Leave "
                "the pair out."
            )
        if not all(isinstance(text, str) and is_encodable(text) for text in texts):
            raise InputError(
                f"pair {position} holds a lone surrogate, which is no character; expected valid "
                "Unicode. Decode the source with errors='replace'."
            )


def _all_are_texts(candidates: Sequence[Any], groups: Sequence[Any]) -> bool:
    """Tell quickly whether all candidates are valid texts, and all groups lists of them."""
    # Loops inside the interpreter, which holds up other threads ten times less than one in Python.
    if not all(type(group) is list and group for group in groups):
        return False
    try:
        for texts in (candidates, *groups):
            if not all(map(str.isascii, texts)) and not all(map(is_encodable, texts)):
                return False
    except TypeError:  # something is not a text
        return False
    return True


def _is_group(group: object) -> TypeGuard[Collection[object]]:
    return isinstance(group, Collection) and not isinstance(group, (str, bytes))


def _no_text(position: int, candidate: object, references: Iterable[object]) -> InputError:
    """Return an error that names the side that is not a text and its type, but not its value."""
    sides = [("candidate", candidate), *(("reference", text) for text in references)]
    side, value = next((side, text) for side, text in sides if not isinstance(text, str))
    is_nan = isinstance(value, (float, np.floating)) and np.isnan(value)  # missing, to pandas
    found = type(value).__name__ + (" (nan)" if is_nan else "")
    missing = is_nan or value is None
    cure = "Fill what is missing, or leave the pair out." if missing else "Convert it."
    return InputError(
        f"pair {position} holds something that is no text: got a {side} of type {found}; expected "
        f"str. {cure}"
    )


def number_texts(
    candidates: Sequence[str], groups: Sequence[Sequence[str]]
) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """Number the distinct texts, references first, in order of appearance."""
    numbers: dict[str, int] = {}
    reference_ids = [numbers.setdefault(text, len(numbers)) for group in groups for text in group]
    candidate_ids = [numbers.setdefault(text, len(numbers)) for text in candidates]
    return (
        list(numbers),
        np.array(candidate_ids, dtype=np.int64),
        np.array(reference_ids, dtype=np.int64),
        np.array([len(group) for group in groups], dtype=np.int64),
    )
