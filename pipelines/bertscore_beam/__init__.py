"""The jobs: Beam pipelines, Parquet, plans, records and the command line; no mathematics.

What other pipelines may use is public here: a model handler for
RunInference, a transform, and a function on Arrow tables for other engines.
`docs/architecture.md` shows the rooms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertscore_beam.pairs.batches import ScoreBatches
    from bertscore_beam.pairs.handler import BertScoreModelHandler, PairScore
    from bertscore_beam.pairs.settings import ByLanguage
    from bertscore_beam.pairs.transform import ScorePairs

_PUBLIC = {
    "BertScoreModelHandler": "bertscore_beam.pairs.handler",
    "ByLanguage": "bertscore_beam.pairs.settings",
    "PairScore": "bertscore_beam.pairs.handler",
    "ScoreBatches": "bertscore_beam.pairs.batches",
    "ScorePairs": "bertscore_beam.pairs.transform",
}
"""Their modules. Beam and torch take seconds to import, so each is loaded when asked for."""


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


__all__ = ["BertScoreModelHandler", "ByLanguage", "PairScore", "ScoreBatches", "ScorePairs"]
