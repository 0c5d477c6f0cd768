from .legacy_rules import LegacyRule as LegacyRule, prepare_bert as prepare_bert
from .sentencepiece_rules import (
    AddedTokens as AddedTokens,
    pattern_of as pattern_of,
    prepare_sentencepiece as prepare_sentencepiece,
)
from .tokenization import (
    TextTokenizer as TextTokenizer,
    is_encodable as is_encodable,
    load_tokenizer as load_tokenizer,
    readable_tokens as readable_tokens,
)
