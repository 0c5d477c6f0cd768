"""BERTScore for large corpora: right, batched, with a signature on every number.

Below is everything public, grouped by the file it lives in: the table of contents.
"""

from bertscore_core.baseline import (
    Baseline,
    find_baseline,
    parse_baseline,
    published_baselines,
    rescale,
)
from bertscore_core.batching import padding_fraction, plan_batches
from bertscore_core.config import ScorerConfig, Settings, settle
from bertscore_core.dropin import BERTScorer, score
from bertscore_core.errors import (
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    IdfError,
    InputError,
    ModelLoadError,
    SignatureError,
    UnknownLanguageError,
    UnknownModelError,
)
from bertscore_core.idf import DocumentFrequencies, IdfTable, TokenWeights
from bertscore_core.matching import PairScores, greedy_match, greedy_match_pair
from bertscore_core.registry import (
    EMBEDDED_MODEL,
    ModelSpec,
    get_model_spec,
    known_languages,
    known_models,
    model_for_language,
)
from bertscore_core.scorer import BertScorer
from bertscore_core.scores import Scores, ScoreSummary
from bertscore_core.signature import Signature
from bertscore_core.tokenization import TextTokenizer, load_tokenizer
from bertscore_core.tokens import TokenizedTexts

__all__ = [
    "EMBEDDED_MODEL",
    "BERTScorer",
    "Baseline",
    "BaselineNotFoundError",
    "BertScoreError",
    "BertScorer",
    "ConfigError",
    "DocumentFrequencies",
    "IdfError",
    "IdfTable",
    "InputError",
    "ModelLoadError",
    "ModelSpec",
    "PairScores",
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
    "find_baseline",
    "get_model_spec",
    "greedy_match",
    "greedy_match_pair",
    "known_languages",
    "known_models",
    "load_tokenizer",
    "model_for_language",
    "padding_fraction",
    "parse_baseline",
    "plan_batches",
    "published_baselines",
    "rescale",
    "score",
    "settle",
]
