"""Why a pair scores what it scores: token by token, as data, page and picture."""

from typing import Any

from bertscore_core.moved import moved_name

_MOVED = {"picture": "explanation_picture"}


def __getattr__(name: str) -> Any:
    return moved_name(__name__, name, _MOVED)
