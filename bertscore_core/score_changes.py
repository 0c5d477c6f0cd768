"""Which versions moved scores, and so which earlier scores may be taken over.

A signature names every version that made its scores. Most new versions change no score. The ones
that do are listed under "Scores" in CHANGELOG.md, and here.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, fields

from bertscore_core.signature import Signature

SCORE_CHANGES: dict[str, tuple[str, ...]] = {
    "version": ("0.1.0",),
    "torch": (),
    "transformers": (),
    "openvino": (),
}
"""Versions whose scores differ from those of the version before, by package, in their order.

`version` is this package: every release with a heading "Scores" in CHANGELOG.md. The others are
versions of packages of which that heading says that they moved scores.
"""

FREE_FIELDS = ("baseline",)
"""Fields that do not count: only raw scores are taken over."""

_VERSIONED = ("version", "torch", "transformers")
_NEVER_FREE = tuple(
    f.name for f in fields(Signature) if f.name not in (*FREE_FIELDS, *_VERSIONED, "backend")
)
_EXACT_DTYPE = "float32"


def exact_fields(signature: Signature) -> tuple[str, ...]:
    """Return the fields that must be equal whatever the versions: a key to find equal settings."""
    return tuple(getattr(signature, name) for name in _NEVER_FREE)


def score_differences(earlier: Signature, now: Signature) -> dict[str, tuple[str, str]]:
    """Return why raw scores of one signature cannot stand for those of another.

    In float32 a version counts only if scores moved on the way from one to the other. In other
    formats every field counts: there a version that changes nothing else can move a score in the
    third digit.

    Args:
        earlier: How the earlier scores were made.
        now: How scores are made now.

    Returns:
        Both values of each field in which they differ, by field; empty if the scores are the same.
    """
    before, after = asdict(earlier), asdict(now)
    return {
        name: (before[name], value)
        for name, value in after.items()
        if name not in FREE_FIELDS
        and before[name] != value
        and not _is_harmless(name, before[name], value, now.dtype)
    }


def moving_fields(one: Signature, other: Signature) -> frozenset[str]:
    """Return the fields whose difference moves the scores that two signatures stand for.

    The order of the two does not matter. The baseline counts: it is the final scores that are
    compared, not those before rescaling.
    """
    older, newer = sorted((one, other), key=lambda signature: _number(signature.version))
    free = {name for name in FREE_FIELDS if getattr(one, name) != getattr(other, name)}
    return frozenset(score_differences(older, newer)) | free


def _is_harmless(name: str, earlier: str, now: str, dtype: str) -> bool:
    """Tell whether two different values of a field give the same scores."""
    if dtype != _EXACT_DTYPE:
        return False
    if name in _VERSIONED:
        return not _moved(SCORE_CHANGES[name], earlier, now, is_own=name == "version")
    if name == "backend":
        kinds = [value.partition("-") for value in (earlier, now)]
        if kinds[0][0] == kinds[1][0] == "openvino":
            return not _moved(SCORE_CHANGES["openvino"], kinds[0][2], kinds[1][2], is_own=False)
    return False


def _moved(changes: Sequence[str], earlier: str, now: str, *, is_own: bool) -> bool:
    """Tell whether scores moved between two versions, in either direction."""
    low, high = sorted((_number(earlier), _number(now)))
    if not low or (is_own and _number(earlier) > _number(now)):
        return True  # a version that cannot be read, or that this one cannot know
    return any(low < _number(change) <= high for change in changes)


def _number(version: str) -> tuple[int, ...]:
    """Return the numbers of a release, as 2.13.0+cpu is 2.13.0; empty if it has none."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
