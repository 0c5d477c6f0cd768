"""Filters of sentences by their form: what is not a sentence, or not prose, is named.

`form_reason` is cheap, refuses much and sees every piece of a page. `prose_reason` refuses little
and is asked, like the detector, only until a page has given what it may give.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from bertscore_beam.crawl.fragments import is_cut_off, is_list_item, starts_inside
from bertscore_beam.crawl.phrases import has_phrase
from bertscore_beam.crawl.scripts import MIN_SCRIPT_SHARE, is_in_script
from bertscore_beam.crawl.words import (
    CHARACTERS_A_WORD,
    PAGE_WORDS,
    TOO_LONG,
    TOO_SHORT,
    UNSPACED_LANGUAGES,
    WordLimits,
    count_words,
    is_unspaced,
)

if TYPE_CHECKING:
    import regex

MIN_LETTER_SHARE = 0.75
"""Least share of letters and their marks among all characters but spaces."""
MAX_WORD_CHARACTERS = 40
"""Longer ones are addresses, code and lost spaces."""
PHRASE_LANGUAGES = frozenset({"lo", "th"})
"""They have no mark at the end of a sentence; lines are split at spaces, which end clauses."""

LONG_WORD = "long_word"
NO_TERMINAL_MARK = "no_terminal_mark"
MARKUP = "markup"
FEW_LETTERS = "few_letters"
LIST_ITEM = "list_item"
CUT_OFF = "cut_off"
LOWER_START = "lower_start"
OTHER_SCRIPT = "other_script"
PHRASE = "phrase"
OTHER_LANGUAGE = "other_language"
DETECTORS_DISAGREE = "detectors_disagree"
REASONS = (
    TOO_SHORT,
    TOO_LONG,
    LONG_WORD,
    NO_TERMINAL_MARK,
    MARKUP,
    FEW_LETTERS,
    LIST_ITEM,
    CUT_OFF,
    LOWER_START,
    OTHER_SCRIPT,
    PHRASE,
    OTHER_LANGUAGE,
    DETECTORS_DISAGREE,
)
"""Why a sentence is dropped, in the order of the checks."""

MARKS = {"km": "។៕!?", "bo": "།༎༏༐༑", "dz": "།༎༏༐༑"}
"""Marks that end a sentence in languages where sentencex does not know them."""
_MORE_MARKS = {"el": ";", **MARKS}
"""Marks that end a sentence but are not in Unicode's list: the Greek question mark is ";"."""
CLOSING = "\"'”’“‘„»«›‹)]}」』】》〉）］〕｣ "
"""May follow the mark. Each quotation mark is a closing one somewhere: „so“, »so«, “so”."""

# Compiled when the first page is read, since given sentences need no package `regex`.
_TERMINAL = r"\p{STerm}"
_NO_LETTER = r"[^\p{L}\p{M}\s\u200c\u200d]"
# The standard library's `re` is twice as fast as `regex`, and enough for these.
_MARKUP = re.compile(r"[@{}|©<>\ufffd]")
_ADDRESS = re.compile(r"\.(?:com|edu|gov|html?|info|net|org|php)\b", re.IGNORECASE)


def reject_reason(sentence: str, language: str, limits: WordLimits = PAGE_WORDS) -> str | None:
    """Return why a sentence is not fit for a baseline, by all filters; None if it is.

    Args:
        sentence: Normalized.
        language: The language whose rules apply. It is not detected here.
        limits: How many words it may have.
    """
    return form_reason(sentence, language, limits) or prose_reason(sentence, language)


def form_reason(sentence: str, language: str, limits: WordLimits = PAGE_WORDS) -> str | None:
    """Return why something does not have the form of a sentence; None if it has.

    Args:
        sentence: Normalized.
        language: The language whose rules apply. It is not detected here.
        limits: How many words it may have.

    References:
        bert-score 0.3.13 keeps lines with `0 < len(line.split(" ")) < 32`, which accepts an empty
        line and does not limit the length in languages without spaces.
    """
    bad_length = _length_reason(sentence, language, limits)
    if bad_length is not None:
        return bad_length
    if language not in PHRASE_LANGUAGES and not _is_ended(sentence, language):
        return NO_TERMINAL_MARK
    if _has_markup(sentence):
        return MARKUP
    solid = len(sentence) - sentence.count(" ")
    if solid - len(compiled(_NO_LETTER).findall(sentence)) < MIN_LETTER_SHARE * solid:
        return FEW_LETTERS
    return None


def prose_reason(sentence: str, language: str) -> str | None:
    """Return why something with the form of a sentence is a part of one, or is no prose.

    Args:
        sentence: Normalized; `form_reason` found nothing.
        language: The language whose rules apply. It is not detected here.
    """
    if is_list_item(sentence, language):
        return LIST_ITEM
    if is_cut_off(sentence.rstrip(CLOSING), language):
        return CUT_OFF
    if starts_inside(sentence, language):
        return LOWER_START
    if not is_in_script(sentence, language):
        return OTHER_SCRIPT
    return PHRASE if has_phrase(sentence, language) else None


@cache
def compiled(pattern: str) -> "regex.Pattern[str]":
    """Compile a pattern that needs Unicode's properties, once a process."""
    import regex

    return regex.compile(pattern)


def _length_reason(sentence: str, language: str, limits: WordLimits) -> str | None:
    """Return what is wrong with the number of words of a sentence, or with one of them."""
    if is_unspaced(language):
        return limits.reason(count_words(sentence, language)) or (None if sentence else TOO_SHORT)
    words = sentence.split()
    reason = limits.reason(len(words))
    if reason is not None:
        return reason
    return LONG_WORD if max(map(len, words), default=0) > MAX_WORD_CHARACTERS else None


def _is_ended(sentence: str, language: str) -> bool:
    """Tell whether a sentence ends with a mark that ends sentences. Dots (...) show a cut.

    Quotation marks and brackets may follow.
    """
    end = sentence.rstrip(CLOSING)
    if not end or end.endswith(("..", ". .")):
        return False
    mark = end[-1]
    return mark in _MORE_MARKS.get(language, "") or compiled(_TERMINAL).match(mark) is not None


def _has_markup(sentence: str) -> bool:
    """Tell whether a sentence contains a URL, or signs of code, menus or broken encodings."""
    return (
        _MARKUP.search(sentence) is not None
        or "://" in sentence
        or "www." in sentence
        or _ADDRESS.search(sentence) is not None
    )


def describe_form() -> dict[str, object]:
    """Return the settings of the filters as plain values."""
    return {
        "characters_a_word": CHARACTERS_A_WORD,
        "unspaced_languages": sorted(UNSPACED_LANGUAGES),
        "phrase_languages": sorted(PHRASE_LANGUAGES),
        "min_letter_share": MIN_LETTER_SHARE,
        "min_script_share": MIN_SCRIPT_SHARE,
        "max_word_characters": MAX_WORD_CHARACTERS,
        "reasons": list(REASONS),
    }
