"""Strict values of options: of the right type, in range, and free of credentials when shown."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from bertscore_core.errors import ConfigError
from pipelines.io.files import mask_credentials

_KINDS: Mapping[object, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "nothing",
}

_MOST_BITS = 64
_MOST_SHOWN = 500
"""Characters shown of a value."""
_DESTROYS = frozenset({"overwrite", "no_overwrite"})
"""Options that no suggestion may name, nor their opposites."""

_ALIKE = 0.68
"""Least ratio of difflib's at which a word may be meant: `compare` and `score` have 0.67."""


def fit_value(name: str, value: object, hint: Any, source: str) -> Any:
    """Return a value as the type of its field, or raise."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ConfigError(
            f"{name!r} in {source} does not fit: got a number of {value.bit_length()} bits; "
            f"expected less than 2**{_MOST_BITS}. Write a smaller one."
        )
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Union else choices
    for choice in choices:
        if typing.get_origin(choice) is Literal:
            if isinstance(value, str) and value in typing.get_args(choice):
                return value
        elif typing.get_origin(choice) is tuple:
            items = [value] if isinstance(value, str) else value
            if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
                return tuple(items)
        elif choice is float and type(value) in (int, float):
            return float(typing.cast("float", value))
        elif type(value) is choice:
            return value
    expected = " or ".join(_kind(choice) for choice in choices)
    quotes = " Put the word in quotes." if isinstance(value, bool) and str in choices else ""
    raise ConfigError(
        f"{name!r} in {source} does not fit: got {mask_credentials(repr(value))[:_MOST_SHOWN]} "
        f"({type(value).__name__}); expected {expected}.{quotes}"
    )


def _kind(choice: Any) -> str:
    """Say what a type stands for."""
    if typing.get_origin(choice) is Literal:
        return " or ".join(repr(word) for word in typing.get_args(choice))
    return "a list of texts" if typing.get_origin(choice) is tuple else _KINDS[choice]


def plain_value(value: object) -> Any:
    """Return a value as JSON knows it, without credentials."""
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return mask_credentials(value) if isinstance(value, str) else value


def unknown_key(key: str, known: list[str], source: str) -> ConfigError:
    """Say that a key is not known, and which one may be meant."""
    near = nearest(key, known)
    hint = f"Did you mean {near!r}?" if near else "Remove it."
    return ConfigError(
        f"unknown option in {source}: got {key!r}; expected one of {', '.join(sorted(known))}. "
        f"{hint}"
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a word is likely meant for, None where none is near.

    One of as many words, each the beginning of the other's, comes first (--ref-col); then one that
    is spelt alike; then the longest whose words are all there. Never one that destroys something.
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


def check_value(fine: bool, name: str, got: object, expected: str, cure: str) -> None:
    """Raise unless a value is fine."""
    if not fine:
        raise ConfigError(f"{name!r} cannot be used: got {got!r}; expected {expected}. {cure}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise unless a number is large enough."""
    check_value(value >= least, name, value, f"at least {least}", "Leave it out for the default.")


def check_share(name: str, value: float) -> None:
    """Raise unless a number is a share."""
    check_value(
        0.0 <= value <= 1.0, name, value, "a share from 0 to 1", "For 5 percent write 0.05."
    )
