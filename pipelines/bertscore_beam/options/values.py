"""Values of options: read from YAML, made to fit, checked, and shown without credentials."""

import re
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import yaml

from bertscore_beam.dump.columns import CANDIDATE_FROM
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import NoFileError, UnreachedError
from bertscore_beam.files.read import read_bytes
from bertscore_core.errors import ConfigError

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


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types that a field may have: the members of a union, or its one type."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def fit_value(name: str, value: object, hint: Any, source: str) -> Any:
    """Return a value, as YAML or a flag gives it, as the type of its field."""
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
        elif type(value) is (typing.get_origin(choice) or choice):
            return value
    expected = " or ".join(_kind(choice) for choice in choices)
    words = value if isinstance(value, list) else [value]
    is_misread = bool not in choices and any(isinstance(word, bool) for word in words)
    quotes = " Put the word in quotes." if is_misread else ""
    raise ConfigError(
        f"{name!r} in {source} does not fit: got {mask_credentials(repr(value))[:_MOST_SHOWN]} "
        f"({type(value).__name__}); expected {expected}.{quotes}"
    )


def _kind(choice: Any) -> str:
    if typing.get_origin(choice) is Literal:
        return " or ".join(repr(word) for word in typing.get_args(choice))
    return "a list of texts" if typing.get_origin(choice) is tuple else _KINDS[choice]


def to_json_value(value: Any) -> Any:
    """Return a value in the types of JSON, without credentials."""
    if hasattr(value, "describe"):
        return value.describe()
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json_value(item) for key, item in value.items()}
    return mask_credentials(value) if isinstance(value, str) else value


# Checks of single values of options; each raises the same kind of message.


def check_value(name: str, got: object, *, fine: bool, expected: str, cure: str) -> None:
    """Raise unless a value is fine.

    Raises:
        ConfigError: If it is not.
    """
    if not fine:
        raise ConfigError(f"{name!r} cannot be used: got {got!r}; expected {expected}. {cure}")


def is_text_name(name: str) -> bool:
    """Tell whether a file has the name of one with a text per line."""
    return name.endswith((".txt", ".txt.gz", ".txt.zst"))


def check_ending(output: str, *endings: str) -> str:
    """Return how the name of a file to write ends, in small letters.

    Raises:
        ConfigError: It has another ending than these, or cannot be written.
    """
    from bertscore_beam.files.write import check_can_write  # here, since it takes time to import

    ending = output.rpartition(".")[2].lower()
    if ending not in endings:
        *others, last = (f".{name}" for name in endings)
        raise ConfigError(
            f"--output cannot be written: got {mask_credentials(output)!r}; expected a name that "
            f"ends in {', '.join(others)} or {last}. Rename it."
        )
    check_can_write(output)
    return ending


_OF_GROUPS = re.compile(r"bertscore_.*|metric_.*_(mean|rows|missing)", re.DOTALL)
"""Columns that are written about groups."""


def check_group_columns(columns: Sequence[str]) -> None:
    """Raise unless columns can be those of groups.

    Raises:
        ConfigError: One is named twice, or like a column that is written about groups.
    """
    check_value(
        "by",
        list(columns),
        fine=len(set(columns)) == len(columns)
        and not any(_OF_GROUPS.fullmatch(column) for column in {*columns} - {CANDIDATE_FROM}),
        expected="columns of the input, each once",
        cure="Columns such as bertscore_f1 and metric_bleu_mean say what was scored, and make no "
        "groups.",
    )


# A file of options: YAML in which every key is given once.


def load_yaml(path: str, *, option: str = "config") -> dict[str, Any]:
    """Read a file of options. An empty file has none.

    Args:
        path: The file.
        option: The option that names it, for the error messages.

    Raises:
        ConfigError: If it is not there, is not YAML, holds a key twice or is not a mapping.
    """
    shown = mask_credentials(path)

    def refused(why: str, got: object, expected: str, cure: str) -> ConfigError:
        difference = f"got {str(got)[:_MOST_SHOWN]}; expected {expected}"
        return ConfigError(f"the config file {shown!r} {why}: {difference}. {cure}")

    try:
        data = read_bytes(path)
    except UnreachedError:
        raise
    except NoFileError as error:
        raise ConfigError(f"the config file {error} Check --{option}.") from error
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        got = type(error).__name__
        raise refused(why, got, "a file of YAML", f"Check --{option}.") from error
    try:
        content = yaml.load(data, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        expected = "YAML with `key: value` lines"
        raise refused("is not valid", error, expected, "Correct that line.") from error
    except (TypeError, ValueError, RecursionError) as error:  # TypeError: a list as a key
        found = "brackets within brackets" if isinstance(error, RecursionError) else "a value"
        got = f"{found} beyond what can be read ({error})"
        raise refused(
            "is not valid", got, "short YAML lines `key: value`", "Correct it."
        ) from error
    if not isinstance(content, dict | None):
        got, cure = f"a {type(content).__name__}", f"Check --{option}."
        raise refused("has the wrong shape", got, "`key: value` lines", cure)
    return content or {}


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML that refuses a key given twice, of which PyYAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping; raise if a key is given twice."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
