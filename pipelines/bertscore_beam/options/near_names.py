"""Suggest a known name for a word that is not known."""

import difflib
from collections.abc import Iterable, Sequence

from bertscore_core.errors import ConfigError

_DESTROYS = frozenset({"overwrite", "no_overwrite"})
"""Options that no suggestion may name, nor their opposites."""

_ALIKE = 0.68
"""Least ratio of difflib at which a word is suggested: `compare` and `score` have 0.67."""


def unknown_key(key: str, known: list[str], source: str) -> ConfigError:
    """Return the error for an unknown key, with the key that is probably meant."""
    near = nearest(key, known)
    hint = f"Did you mean {near!r}?" if near else "Remove it."
    return ConfigError(
        f"unknown option in {source}: got {key!r}; expected one of {', '.join(sorted(known))}. "
        f"{hint}"
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a word probably stands for; None if no name is near.

    First a name with as many words, where each word begins with the other or the other way round
    (--ref-col); then a name with a similar spelling; then the longest name all of whose words occur
    in the given one. Never an option that destroys something.
    """
    names = {_bare(name): name for name in known if _bare(name) not in _DESTROYS}
    asked = _bare(word)
    words = asked.split("_")
    begun = [name for name in names if _begin_alike(words, name.split("_"))]
    alike = difflib.get_close_matches(asked, names, n=1, cutoff=_ALIKE)
    within = [name for name in names if set(name.split("_")) <= set(words)]
    for found in (begun, alike, sorted(within, key=len, reverse=True)):
        if found:
            return names[found[0]]
    return None


def _bare(name: str) -> str:
    return name.strip("-").replace("-", "_")


def _begin_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    return len(first) == len(second) and all(
        one.startswith(other) or other.startswith(one)
        for one, other in zip(first, second, strict=True)
    )
