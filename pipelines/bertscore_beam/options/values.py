"""Values of options: made to fit the type of their field, and shown without credentials."""

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import ConfigError

_KINDS: Mapping[object, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "nothing",
}


@runtime_checkable
class Described(Protocol):
    """A value of several parts that can describe itself."""

    def describe(self) -> dict[str, Any]:
        """Return it in the types of JSON, without credentials."""


_MOST_BITS = 64
_MOST_SHOWN = 500
"""Characters shown of a value."""


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types that a field may have: the members of a union, or its one type."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def fit_value(name: str, value: object, hint: Any, source: str) -> Any:
    """Return a value as the type of its field.

    Args:
        name: The field.
        value: Its value, as YAML or a flag gives it.
        hint: The type of the field.
        source: Where the value comes from, for the error message.

    Raises:
        ConfigError: If it does not fit.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ConfigError(
            f"{name!r} in {source} does not fit: got a number of {value.bit_length()} bits; "
            f"expected less than 2**{_MOST_BITS}. Write a smaller one."
        )
    choices = alternatives(hint)
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
    """Name a type for people."""
    if typing.get_origin(choice) is Literal:
        return " or ".join(repr(word) for word in typing.get_args(choice))
    return "a list of texts" if typing.get_origin(choice) is tuple else _KINDS[choice]


def plain_value(value: object) -> Any:
    """Return a value in the types of JSON, without credentials."""
    if isinstance(value, Described):
        return value.describe()
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return mask_credentials(value) if isinstance(value, str) else value
