from .baseline import (
    Baseline as Baseline,
    baseline_path as baseline_path,
    choose_table as choose_table,
    find_baseline as find_baseline,
    format_baseline as format_baseline,
    parse_baseline as parse_baseline,
    published_baselines as published_baselines,
    rescale as rescale,
)
from .batches import plan_batches as plan_batches
from .config import Settings as Settings, settle as settle
from .dropin import (
    BERTScorer as BERTScorer,
    replace_bert_score as replace_bert_score,
    score as score,
)
from .errors import (
    BaselineNotFoundError as BaselineNotFoundError,
    BertScoreError as BertScoreError,
    ConfigError as ConfigError,
    DeviceLostError as DeviceLostError,
    DeviceMemoryError as DeviceMemoryError,
    IdfError as IdfError,
    InputError as InputError,
    ModelLoadError as ModelLoadError,
    SignatureError as SignatureError,
    UnknownLanguageError as UnknownLanguageError,
    UnknownModelError as UnknownModelError,
)
from .explanations.explanation import Explanation as Explanation, explain as explain
from .idf import (
    DocumentFrequencies as DocumentFrequencies,
    IdfTable as IdfTable,
    TokenWeights as TokenWeights,
)
from .match.matching import PairScores as PairScores, greedy_match as greedy_match
from .reasoning import without_reasoning as without_reasoning
from .registry import (
    EMBEDDED_MODEL as EMBEDDED_MODEL,
    ModelSpec as ModelSpec,
    get_model_spec as get_model_spec,
    known_languages as known_languages,
    known_models as known_models,
    model_for_language as model_for_language,
)
from .scorer import BertScorer as BertScorer
from .scorer_config import ScorerConfig as ScorerConfig
from .signature import Signature as Signature
from .stats.agreement import (
    auc as auc,
    kendall as kendall,
    pearson as pearson,
    spearman as spearman,
)
from .stats.moments import Moments as Moments
from .stats.paired import PairedResult as PairedResult, compare_paired as compare_paired
from .stats.scores import Scores as Scores
from .tokenizer.tokenization import TextTokenizer as TextTokenizer, load_tokenizer as load_tokenizer
from .tokens import TokenizedTexts as TokenizedTexts
