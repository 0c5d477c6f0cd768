from .legacy_rules import LegacyRule as LegacyRule, prepare_bert as prepare_bert
from .tokenization import (
    TextTokenizer as TextTokenizer,
    is_encodable as is_encodable,
    load_tokenizer as load_tokenizer,
    readable_tokens as readable_tokens,
)
