"""The job: Beam wiring, Parquet, plans, manifests and the command line; no mathematics.

What other pipelines may use is public here: a model handler for RunInference, and a transform.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.transforms.score_pairs import BertScoreModelHandler, PairScore, ScorePairs

_PUBLIC = "pipelines.transforms.score_pairs"
"""Where they live; it imports Beam and torch, which takes seconds, and is loaded when asked for."""


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC), name)
    return value


def _is_not_about_bigquery(record: logging.LogRecord) -> bool:
    """Drop what Beam logs on every import where its optional BigQuery client is not installed."""
    return not record.getMessage().startswith("apitools not found")


logging.getLogger().addFilter(_is_not_about_bigquery)

__all__ = ["BertScoreModelHandler", "PairScore", "ScorePairs"]
