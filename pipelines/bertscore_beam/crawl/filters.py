"""Filters of sentences by their form: what is not a sentence, or not prose.

`has_form` is cheap, refuses much and sees every piece of a page. `is_prose` refuses little and is
asked, like the detector, only until a page has given what it may give.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from bertscore_beam.crawl.languages import is_cased

if TYPE_CHECKING:
    import regex

# The length of a sentence in words, in every language.

_UNSPACED_LANGUAGES = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"})
"""They put no spaces between words. Not Korean or Vietnamese, which do."""
CHARACTERS_A_WORD = 3
"""Characters that count as a word in these languages. Chinese has about 1.6 in a word,
Japanese 2.3, Thai, Khmer and Burmese 4 to 5: a convention, so that one option serves all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLimits:
    """How many words a sentence may have, at least and at most; None for no limit."""

    least: int | None = None
    most: int | None = None

    def __bool__(self) -> bool:
        return self.least is not None or self.most is not None

    @property
    def shown(self) -> str:
        """The limits in words."""
        if self.least is None or self.most is None:
            return f"at least {self.least}" if self.most is None else f"at most {self.most}"
        return f"{self.least} to {self.most}"

    def allow(self, words: int) -> bool:
        """Tell whether a sentence may have this many words."""
        return (self.least or 0) <= words and (self.most is None or words <= self.most)


PAGE_WORDS = WordLimits(least=4, most=31)
"""For sentences of web pages. The published baselines have fewer than 32 words; shorter sentences
are headings and buttons."""


@cache
def is_unspaced(language: str) -> bool:
    """Tell whether a language puts no spaces between words."""
    return language.partition("-")[0] in _UNSPACED_LANGUAGES


def count_words(sentence: str, language: str) -> int:
    """Return the number of words of a normalized sentence.

    Words are what blanks separate. In languages without blanks between words every
    `CHARACTERS_A_WORD` characters count as one, and so do those that are left at the end.
    """
    if is_unspaced(language):
        return -(-len(sentence) // CHARACTERS_A_WORD)
    return len(sentence.split())


# Pieces that look like sentences and are not: items of lists, and parts of sentences.
#
# The splitter ends a sentence at a full stop that belongs to an ordinal or an abbreviation when it
# does not know better: "... im 19." and "Jahrhundert ...". Both halves are refused here. It costs a
# few sentences that end so rightly, such as "It is plan B.".

_ABBREVIATIONS = tomllib.loads(
    resources.files(__package__).joinpath("abbreviations.toml").read_text("utf-8")
)
"""By language, and under `any` those of all."""

_LIST_MARK = re.compile(
    r"""
    [•·・▪▫◦‣⁃●○■□◆◇▶►▸➤➢✓✔✗✘★☆※→①-⑳]     # bullets and numbers in circles
    | [-*+]\s                               # not – and —, which begin direct speech
    | [(（\[]?\d{1,3}[)）\]]                 # (1) 1) [1]
    | \d{1,3}(?:\.(?!\d)|[、．])             # 1. 1、 but not 3.5
    | [(（]?[a-zA-Z]\)\s                     # a) (b)
    | [(（]?[ivxIVX]{1,4}\)\s                # iv)
    | [(（]?[一二三四五六七八九十]{1,3}[、)）]  # 一、 （二）
    """,
    re.VERBOSE,
)
_FULL_WIDTH_STOP = "．"
"""Ends items of lists in Chinese. In Japanese it also ends sentences."""

_ORDINAL_LANGUAGES = frozenset({
    "az", "bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nn", "no",
    "pl", "sk", "sl", "sr", "tr",
})  # fmt: skip
"""Languages that write ordinals as 19. or XIX."""
_ORDINAL = re.compile(r"(?:^|[\s(])(?:\d{1,2}|[IVXL]{2,6})$")
_LETTERED_ORDINAL = re.compile(r"\d(?:[ºª]|ro|do|er|ra|da|to|mo|vo|no)$")
"""Spanish and its neighbours write 1ro., 2do."""
_LETTERED_LANGUAGES = frozenset({"ca", "es", "gl", "it", "pt"})

_OPENING = "\"'”’“‘„‚»«›‹([{¿¡–—-…. \u02bc"
"""May stand before the first word."""


@cache
def _abbreviations(language: str) -> frozenset[str]:
    return frozenset(f"{_ABBREVIATIONS['any']} {_ABBREVIATIONS.get(language, '')}".split())


def _is_list_item(sentence: str, language: str) -> bool:
    if _LIST_MARK.match(sentence) is not None:
        return True
    return language == "zh" and sentence.endswith(_FULL_WIDTH_STOP)


def _is_cut_off(end: str, language: str) -> bool:
    if not end.endswith("."):
        return False
    last = end[:-1]
    if _is_initial(last, language):
        return True
    if language in _ORDINAL_LANGUAGES and _ORDINAL.search(last) is not None:
        return True
    if language in _LETTERED_LANGUAGES and _LETTERED_ORDINAL.search(last) is not None:
        return True
    word = last.rpartition(" ")[2].lstrip(_OPENING).replace("’", "'").rpartition("'")[2].lower()
    if word == "no":
        # The number sign, not the answer: "Bus No." and "She said no."
        return language == "en" and last.endswith("No")
    return word in _abbreviations(language)


def _is_initial(last: str, language: str) -> bool:
    if not last[-1:].isupper() or last[-2:-1].isalnum():
        return False
    return not (language == "en" and last.endswith(" I"))  # so do I


def _starts_inside(sentence: str, language: str) -> bool:
    """Tell whether the first word has no capital, in languages that begin sentences with one.

    A word with a capital further on begins a sentence: iPhone, and the Irish bhFuil.
    """
    start = sentence.lstrip(_OPENING)
    word = start.partition(" ")[0]
    if not (word.islower() and word[0].isalpha() and is_cased(language)):
        return False
    # The Dutch 's Avonds and the Afrikaans 'n Man.
    return len(word) > 1 or sentence[0] not in "'’‘\u02bc"


_MIN_LETTER_SHARE = 0.75
"""Least share of letters and their marks among all characters but spaces."""
_MAX_WORD_CHARACTERS = 40
"""Longer ones are addresses, code and lost spaces."""
PHRASE_LANGUAGES = frozenset({"lo", "th"})
"""They have no mark at the end of a sentence; lines are split at spaces, which end clauses."""

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


def has_form(sentence: str, language: str, limits: WordLimits = PAGE_WORDS) -> bool:
    """Tell whether a normalized text has the form of a sentence.

    References:
        bert-score 0.3.13 keeps lines with `0 < len(line.split(" ")) < 32`, which accepts an empty
        line and does not limit the length in languages without spaces.
    """
    solid = len(sentence) - sentence.count(" ")
    return (
        solid > 0
        and limits.allow(count_words(sentence, language))
        and (is_unspaced(language) or max(map(len, sentence.split())) <= _MAX_WORD_CHARACTERS)
        and (language in PHRASE_LANGUAGES or _is_ended(sentence, language))
        and not _has_markup(sentence)
        and solid - len(compiled(_NO_LETTER).findall(sentence)) >= _MIN_LETTER_SHARE * solid
    )


def is_prose(sentence: str, language: str) -> bool:
    """Tell whether something with the form of a sentence is a whole one."""
    return not (
        _is_list_item(sentence, language)
        or _is_cut_off(sentence.rstrip(CLOSING), language)
        or _starts_inside(sentence, language)
    )


@cache
def compiled(pattern: str) -> "regex.Pattern[str]":
    """Compile a pattern that needs Unicode's properties, once a process."""
    import regex

    return regex.compile(pattern)


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
    return (
        _MARKUP.search(sentence) is not None
        or "://" in sentence
        or "www." in sentence
        or _ADDRESS.search(sentence) is not None
    )
