"""Statistics of scores: sums that merge, errors, intervals, comparisons, agreement with people."""

from typing import Any

from bertscore_core.moved import moved_name

_MOVED = dict.fromkeys(("auc", "kendall", "pearson", "spearman"), "agreement")


def __getattr__(name: str) -> Any:
    return moved_name(__name__, name, _MOVED)
