"""What can go wrong, as one tree, what its messages are made of, and JSON that may be damaged.

    BertScoreError
    ├── ConfigError (also ValueError)      the settings cannot be used
    │   ├── UnknownModelError              no such model in the registry, cache or file system
    │   ├── UnknownLanguageError           no default model for the language
    │   ├── BaselineNotFoundError          nothing to rescale with
    │   ├── IdfError                       the idf table does not fit the tokenizer
    │   └── SignatureError                 earlier results were made with other settings
    ├── ModelLoadError                     the weights or the tokenizer cannot be loaded
    ├── DeviceMemoryError                  not even the longest text alone fits the memory
    ├── DeviceLostError                    the GPU has failed, and this process cannot use it again
    └── InputError (also ValueError)       the texts, pairs or files cannot be used

Every message says what is wrong, what it got, what was expected, and what to do. None contains the
text of a candidate or a reference.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any


class BertScoreError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(BertScoreError, ValueError):
    """The settings contradict each other or name something that does not exist."""


class UnknownModelError(ConfigError):
    """The model is neither in the registry, nor a local folder, nor in the local cache."""


class UnknownLanguageError(ConfigError):
    """The language has no default model."""


class BaselineNotFoundError(ConfigError):
    """No baseline is known for the (language, model, layer) asked for."""


class IdfError(ConfigError):
    """The idf table was made for another tokenizer or truncation, or cannot be read."""


class SignatureError(ConfigError):
    """Earlier scores were made with other settings, or a signature cannot be parsed."""


class ModelLoadError(BertScoreError):
    """The encoder or its tokenizer cannot be loaded."""


class DeviceMemoryError(BertScoreError):
    """Memory is too small even for the smallest batch."""


class DeviceLostError(BertScoreError):
    """The GPU has failed; only a new process can use it again."""


class InputError(BertScoreError, ValueError):
    """The texts, pairs or files given cannot be scored."""


def check_package(module: str, need: str, extra: str) -> None:
    """Check that a module can be imported that what is asked for needs, and an extra brings.

    Raises:
        ConfigError: it cannot.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{need} needs {module.partition('.')[0]} ({error}); expected the packages of the "
            f"extra {extra!r}. In the checkout: pip install '.[{extra}]'."
        ) from error


# JSON of others, whose every fault is a `ValueError`.


def load_json(data: str | bytes) -> Any:
    """Return the value of JSON that this run did not write itself.

    Raises:
        ValueError: it is not JSON, or it nests deeper than can be read. The json module reports the
            latter as a `RecursionError`, which is not one.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("brackets within brackets beyond what can be read") from error


# A file of a Git repository whose content is elsewhere: Git LFS keeps it.

LFS_BYTES = 1024
"""More bytes than a pointer of Git LFS has, by its specification."""
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"


def check_no_pointer(path: str, head: bytes) -> None:
    """Check by its first 40 bytes that a file of fewer than `LFS_BYTES` is no pointer of Git LFS.

    Raises:
        InputError: it is one.
    """
    if head.startswith(_LFS_HEAD):
        raise InputError(
            f"{path!r} holds a pointer of Git LFS in the place of its content: got "
            f"{_LFS_HEAD.decode()!r} at its start; expected the file itself. Fetch it: run "
            "`git lfs pull` in its repository."
        )


# Text with codes in place of what cannot be seen: for terminals, pages, charts and drawings.

# Controls (C0 except tab and newline, DEL, C1), marks that change the direction of writing, other
# invisible characters, separators of lines and paragraphs, lone surrogates, and the two
# noncharacters that XML 1.0 forbids. All characters that XML 1.0 forbids are among these.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_text(text: str) -> str:
    """Return a text with the characters of `INVISIBLE` as codes; newlines and tabs stay."""
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)


def listed(names: Iterable[str], most: int = 10) -> str:
    """Return names for a message: the first ones, and how many there are besides."""
    names = [*names]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# Suggest a known name for a word that is not known.

_DESTROYS = frozenset({"overwrite", "no_overwrite"})
"""Options that no suggestion may name, nor their opposites."""

_ALIKE = 0.76
"""Least ratio of difflib at which a word is suggested: `json` and `join` have 0.75."""


def unknown_argument(key: str, known: list[str]) -> ConfigError:
    """Return the error for an unknown argument, with the one that is probably meant."""
    near = nearest(key, known)
    hint = f"Did you mean {near!r}?" if near else "Remove it."
    return ConfigError(
        f"unknown option in the arguments: got {key!r}; expected one of "
        f"{', '.join(sorted(known))}. {hint}"
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a word probably stands for; None if no name is near.

    First a name that is one slip away; then one with as many words, where each word begins with the
    other or the other way round (--ref-col); then one with a similar spelling; then the longest
    name all of whose words occur in the given one. Never an option that destroys something.
    """
    names = {_bare(name): name for name in known if _bare(name) not in _DESTROYS}
    asked = _bare(word)
    if slip := next((name for name in names if _is_slip(asked, name)), None):
        return names[slip]
    words = asked.split("_")
    begun = [name for name in names if _begin_alike(words, name.split("_"))]
    alike = difflib.get_close_matches(asked, names, n=1, cutoff=_ALIKE)
    within = [name for name in names if set(name.split("_")) <= set(words)]
    for matches in (begun, alike, sorted(within, key=len, reverse=True)):
        if matches:
            return names[matches[0]]
    return None


def _bare(name: str) -> str:
    return name.strip("-").replace("-", "_")


def _is_slip(word: str, name: str) -> bool:
    """Tell whether a letter was left out, added or changed, or two neighbours swapped."""
    pairs = enumerate(zip(word, name, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(word), len(name)))
    left, right = word[same:], name[same:]
    return right in (left[1:], left[1::-1] + left[2:]) or right[1:] in (left, left[1:])


def _begin_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    return len(first) == len(second) and all(
        left.startswith(right) or right.startswith(left)
        for left, right in zip(first, second, strict=True)
    )
