"""The job: Beam wiring, Parquet, plans, manifests and the command line; no mathematics.

What other pipelines may use is public here: a model handler for RunInference, and a transform.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.transforms.pair_handler import BertScoreModelHandler, PairScore
    from pipelines.transforms.score_pairs import ScorePairs

_PUBLIC = {
    "BertScoreModelHandler": "pipelines.transforms.pair_handler",
    "PairScore": "pipelines.transforms.pair_handler",
    "ScorePairs": "pipelines.transforms.score_pairs",
}
"""Where they live; Beam and torch take seconds to import, so each is loaded when asked for."""


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def _is_not_about_bigquery(record: logging.LogRecord) -> bool:
    """Drop what Beam logs on every import where its optional BigQuery client is not installed."""
    return not record.getMessage().startswith("apitools not found")


logging.getLogger().addFilter(_is_not_about_bigquery)

__all__ = ["BertScoreModelHandler", "PairScore", "ScorePairs"]
