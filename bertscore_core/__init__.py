"""BERTScore for large corpora: correct, batched, with a signature on every number.

Everything public is listed below, grouped by file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bertscore_core.baseline import (
    Baseline,
    baseline_path,
    choose_table,
    find_baseline,
    format_baseline,
    parse_baseline,
    published_baselines,
    rescale,
)
from bertscore_core.batching import plan_batches
from bertscore_core.errors import (
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    DeviceLostError,
    DeviceMemoryError,
    IdfError,
    InputError,
    ModelLoadError,
    SignatureError,
    UnknownLanguageError,
    UnknownModelError,
)
from bertscore_core.idf import DocumentFrequencies, IdfTable, TokenWeights
from bertscore_core.moments import Moments
from bertscore_core.registry import (
    EMBEDDED_MODEL,
    ModelSpec,
    get_model_spec,
    known_languages,
    known_models,
    model_for_language,
)
from bertscore_core.scores import Scores, ScoreSummary
from bertscore_core.signature import Signature
from bertscore_core.tokens import TokenizedTexts

if TYPE_CHECKING:
    from bertscore_core.config import Settings, settle
    from bertscore_core.dropin import BERTScorer, score
    from bertscore_core.explanation import Explanation, explain
    from bertscore_core.matching import PairScores, greedy_match
    from bertscore_core.paired import PairedResult, compare_paired
    from bertscore_core.scorer import BertScorer
    from bertscore_core.scorer_config import ScorerConfig
    from bertscore_core.tokenization import TextTokenizer, load_tokenizer

# Names that most callers do not need, loaded on first use. The files of most of them import torch
# and transformers, which takes seconds.
_ON_DEMAND = {
    "ScorerConfig": "bertscore_core.scorer_config",
    "Settings": "bertscore_core.config",
    "settle": "bertscore_core.config",
    "BERTScorer": "bertscore_core.dropin",
    "score": "bertscore_core.dropin",
    "Explanation": "bertscore_core.explanation",
    "explain": "bertscore_core.explanation",
    "PairScores": "bertscore_core.matching",
    "greedy_match": "bertscore_core.matching",
    "PairedResult": "bertscore_core.paired",
    "compare_paired": "bertscore_core.paired",
    "BertScorer": "bertscore_core.scorer",
    "TextTokenizer": "bertscore_core.tokenization",
    "load_tokenizer": "bertscore_core.tokenization",
}


def __getattr__(name: str) -> Any:
    """Load a name of `_ON_DEMAND`."""
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept in the module, so that the next access does not come here.
    value = globals()[name] = getattr(import_module(_ON_DEMAND[name]), name)
    return value


__all__ = [
    "EMBEDDED_MODEL",
    "BERTScorer",
    "Baseline",
    "BaselineNotFoundError",
    "BertScoreError",
    "BertScorer",
    "ConfigError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DocumentFrequencies",
    "Explanation",
    "IdfError",
    "IdfTable",
    "InputError",
    "ModelLoadError",
    "ModelSpec",
    "Moments",
    "PairScores",
    "PairedResult",
    "ScoreSummary",
    "ScorerConfig",
    "Scores",
    "Settings",
    "Signature",
    "SignatureError",
    "TextTokenizer",
    "TokenWeights",
    "TokenizedTexts",
    "UnknownLanguageError",
    "UnknownModelError",
    "baseline_path",
    "choose_table",
    "compare_paired",
    "explain",
    "find_baseline",
    "format_baseline",
    "get_model_spec",
    "greedy_match",
    "known_languages",
    "known_models",
    "load_tokenizer",
    "model_for_language",
    "parse_baseline",
    "plan_batches",
    "published_baselines",
    "rescale",
    "score",
    "settle",
]
