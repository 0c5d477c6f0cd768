"""Why a row has no scores, or scores to be careful with."""

from enum import StrEnum

from bertscore_core import reasoning


class Reason(StrEnum):
    """The values of bertscore_error."""

    NULL_CANDIDATE = "null_candidate"
    NO_CANDIDATES = "no_candidates"
    NULL_REFERENCE = "null_reference"
    NO_REFERENCES = "no_references"
    INVALID_UTF8 = "invalid_utf8"
    NOT_TEXT = "not_text"
    NULL_LANGUAGE = "null_language"
    UNKNOWN_LANGUAGE = "unknown_language"
    LANGUAGE_WITHOUT_SETTING = "language_without_setting"
    LANGUAGE_WITHOUT_BASELINE = "language_without_baseline"
    REASONING = reasoning.REASONING
    STRIPPED_REASONING = "stripped_reasoning"
    ONLY_REASONING = "only_reasoning"
    TOO_LONG = "too_long"
    NO_IDF_GROUP = "no_idf_group"
    NO_IDF_TABLE = "no_idf_table"
    NO_WEIGHTED_TOKEN = "no_weighted_token"
    ONLY_SPECIAL_TOKENS = "only_special_tokens"
    COUNTED_AS_EMPTY = "counted_as_empty"
    EMPTY_CANDIDATE = "empty_candidate"
    EMPTY_REFERENCE = "empty_reference"
    BAD_LINE = "bad_line"
    TYPE_DRIFT = "type_drift"
    LINE_TOO_LONG = "line_too_long"


MARKS = frozenset({Reason.REASONING, Reason.STRIPPED_REASONING})
"""Those that say nothing of the tokens of a row: its texts alone tell."""
