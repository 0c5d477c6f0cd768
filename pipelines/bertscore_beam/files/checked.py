"""What was written earlier and is checked when it is read: digests, and the types of values.

A digest finds damage, such as a flipped bit. It does not protect against forgery: whoever can write
a file can write its digest.
"""

import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from bertscore_core.errors import load_json

Made = TypeVar("Made")

_MAPPINGS = (dict, Mapping)
_IN_JSON: Mapping[Any, Any] = {tuple: list, bytes: str}
_PLAIN: frozenset[Any] = frozenset({str, int, bool, NoneType})

MOST_TIMES = 100
"""How many times larger than packed our files are at most: each line of them has a digest."""
# After all other keys; the digest is of the bytes before it.
_LAST_KEY = re.compile(rb',?\s*"digest": "(.{32})"\s*\}\Z', re.DOTALL)
_MOST_LAST = 100
"""Most bytes of that key with its digest."""


def digest_of(data: bytes | str, digits: int = 32) -> str:
    """Return the first hexadecimal digits of the SHA-256 of bytes, such as a file, or of a text.

    A text may hold names of files that are not UTF-8.
    """
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return hashlib.sha256(data).hexdigest()[:digits]


def unpacked(data: bytes) -> bytes:
    """Return what gzip packed, of which nothing is held beyond a bound.

    Raises:
        ValueError: It is damaged, or `MOST_TIMES` larger than packed, as no file of ours is.
    """
    most = MOST_TIMES * len(data)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"no whole gzip data: {error}") from error
    if len(content) > most:
        raise ValueError(f"more than {most} bytes in {len(data)}")
    return content


def to_line(content: Mapping[str, Any]) -> bytes:
    """Return a JSON object in one line, equal bytes for equal content, for `typed`.

    Raises:
        ValueError: It holds a NaN or an infinity.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False, default=bytes.hex)
    return text.encode()


def to_json(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return a JSON object whose last key is a digest of the bytes before that key.

    Raises:
        ValueError: It holds a NaN or an infinity, or has that key already.
    """
    if "digest" in content:
        raise ValueError("the key 'digest' is taken")
    if indent is None:
        text = to_line(content)
    else:
        how: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "default": bytes.hex}
        text = json.dumps(content, indent=indent, **how).encode()
    before = text[:-1].rstrip()
    comma, line = "," if content else "", " " if indent is None else "\n"
    last = f'{comma}{line}{" " * (indent or 0)}"digest": "{digest_of(before)}"{line.strip(" ")}}}'
    return before + last.encode()


def from_json(data: bytes) -> dict[str, Any]:
    """Return the JSON object that `to_json` was given.

    Raises:
        ValueError: It is damaged, or no JSON object.
    """
    content = load_json(data)
    if not isinstance(content, dict):
        raise ValueError("no JSON object")
    last = _LAST_KEY.search(data, max(0, len(data) - _MOST_LAST))
    if last is None or digest_of(data[: last.start()]).encode() != last[1]:
        raise ValueError("other bytes than were written")
    del content["digest"]
    return content


def typed(kind: type[Made], content: Mapping[str, Any]) -> Made:
    """Make a dataclass from the values of its fields in JSON; other values are left out.

    A field may be a dataclass itself. A number is finite, a bool is not a number, and bytes are
    written in hexadecimal digits.

    Raises:
        ValueError: A field is missing that has no default, or a value is of another type.
    """
    given = {}
    for name, type_, plain, has_default in _fields(cast("Any", kind)):
        if type(content.get(name, content)) in plain:  # nearly all: a run may have a million
            given[name] = content[name]
            continue
        if name not in content:
            if not has_default:
                raise ValueError(f"no {name!r}")
            continue
        try:
            given[name] = _typed(content[name], type_)
        except (TypeError, ValueError) as error:
            raise ValueError(f"no usable value of {name!r}") from error
    return kind(**given)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, frozenset[Any], bool], ...]:
    """Return name, type, types whose values fit in any case, and whether there is a default."""
    types = get_type_hints(kind)
    return tuple(
        (
            field.name,
            types[field.name],
            _PLAIN.intersection(_one_of(types[field.name])),
            field.default is not MISSING or field.default_factory is not MISSING,
        )
        for field in fields(kind)
    )


def _one_of(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is UnionType else (kind,)


def _typed(value: Any, kind: Any) -> Any:
    is_number = type(value) in (int, float) and abs(value) <= sys.float_info.max
    if kind is Any or (kind is float and is_number):
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        for one in arguments:
            with suppress(TypeError):
                return _typed(value, one)
        raise TypeError
    is_object = is_dataclass(kind) or origin in _MAPPINGS
    in_json: Any = dict if is_object else _IN_JSON.get(origin or kind, origin or kind)
    if kind is float or type(value) is not in_json:
        raise TypeError
    if is_dataclass(kind):
        return typed(cast("type[Any]", kind), value)
    if origin in (list, tuple):
        return origin(_typed(one, arguments[0]) for one in value)
    if origin in _MAPPINGS:
        return {name: _typed(one, arguments[1]) for name, one in value.items()}
    return bytes.fromhex(value) if kind is bytes else value
