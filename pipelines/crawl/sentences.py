"""Extract the sentences of a page, and keep those that look like written language.

    page -> lines -> pieces -> normalized sentences -> cheap filters -> detector -> kept

A web page is mostly menus, buttons and lists. Baselines are about sentences, so a piece is kept
only if it has a usual length, consists mostly of letters, ends like a sentence and is in the wanted
language. Filters cannot tell a cookie notice from prose; a sentence that many hosts repeat counts
once in the sample.

The work for a page is proportional to its length, whatever its content: the length of lines is
limited before they are split, and that of sentences before any regular expression is applied.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from pipelines.crawl.languages import (
    NONCHARACTERS,
    detect_language,
    detector_version,
    header_language,
)

if TYPE_CHECKING:
    import regex

FILTER_VERSION = "2"
"""Raise it with every change by which other sentences may be kept."""

MIN_WORDS, MAX_WORDS = 4, 31
"""The published baselines have fewer than 32 words; shorter ones are headings and buttons."""
MIN_CHARACTERS, MAX_CHARACTERS = 8, 100
"""The same in code points, for languages that put no spaces between words."""
MIN_LETTER_SHARE = 0.75
"""Least share of letters and their marks among all characters but spaces."""
MAX_WORD_CHARACTERS = 40
"""Longer ones are addresses, code and lost spaces."""
MAX_LINE_CHARACTERS = 5_000
"""Longer lines are lists and code, and sentencex 1.0.32 takes quadratic time for some of them."""
MAX_LINE_MARKS = 500
"""Most punctuation and symbols of a line. Prose of the longest line has half as many; a line of
quotation marks alone would take the splitter 40 ms."""
MIN_PHRASE_LINE_CHARACTERS = 40
"""For languages without sentence marks: shorter lines are menus, longer ones are prose."""
DETECTED_CHARACTERS = 2_000
"""Characters from which the language of a page is detected if the crawl does not say it."""

UNSPACED_LANGUAGES = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "zh"})
"""Counted in characters. Not Korean or Vietnamese, which have spaces."""
PHRASE_LANGUAGES = frozenset({"lo", "th"})
"""They have no mark at the end of a sentence; lines are split at spaces, which end clauses."""

TOO_SHORT = "too_short"
TOO_LONG = "too_long"
LONG_WORD = "long_word"
NO_TERMINAL_MARK = "no_terminal_mark"
MARKUP = "markup"
FEW_LETTERS = "few_letters"
OTHER_LANGUAGE = "other_language"
REASONS = (
    TOO_SHORT,
    TOO_LONG,
    LONG_WORD,
    NO_TERMINAL_MARK,
    MARKUP,
    FEW_LETTERS,
    OTHER_LANGUAGE,
)
"""Why a sentence is dropped, in the order of the checks."""

LINES = "lines"
"""Lines of the pages, also blank ones."""
LINES_TOO_SHORT = "lines_too_short"
"""Lines in which no sentence can be long enough; they are not split."""
LINES_TOO_LONG = "lines_too_long"
"""Lines over `MAX_LINE_CHARACTERS`."""
LINES_CLUTTERED = "lines_cluttered"
"""Lines with more than `MAX_LINE_MARKS`."""
LINES_UNSPLITTABLE = "lines_unsplittable"
"""Lines that the splitter cannot split because of an error of its own."""
SENTENCES_SEEN = "sentences_seen"
"""Pieces that the lines were split into."""
REJECTED = "sentence_"
"""Prefix of the counts of dropped sentences, before the reason."""

_MARKS = {"km": "។៕!?", "bo": "།༎༏༐༑", "dz": "།༎༏༐༑"}
"""Marks that end a sentence in languages where sentencex does not know them."""
_MORE_MARKS = {"el": ";", **_MARKS}
"""Marks that end a sentence but are not in Unicode's list: the Greek question mark is ";"."""
_CLOSING = "\"'”’“‘»«›‹)]}」』】》〉）］〕｣ "
"""May follow the mark. Each quotation mark is a closing one somewhere: „so“, »so«, “so”."""

# Compiled when the first page is read, since given sentences need no package `regex`.
_TERMINAL = r"\p{STerm}"
_NO_LETTER = r"[^\p{L}\p{M}\s\u200c\u200d]"
_CLUTTER = r"[\p{P}\p{S}]"
# The standard library's `re` is twice as fast as `regex`, and enough for these.
_MARKUP = re.compile(r"[@{}|©<>\ufffd]")
_ADDRESS = re.compile(r"\.(?:com|edu|gov|html?|info|net|org|php)\b", re.IGNORECASE)

# ZWNJ and ZWJ (U+200C, U+200D) stay: they change how Persian and Indic words are written. So do
# visible signs of category Cf, such as the Arabic number sign.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\U000e0000-\U000e007f\ud800-\udfff{NONCHARACTERS}]+"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def page_language(text: str, languages: Sequence[str]) -> str | None:
    """Return the main language of a page; None if it is unknown or none of ours.

    Args:
        text: The page. Its start is examined if there are no `languages`.
        languages: ISO 639-3 codes from the crawl, the main one first. They are trusted: the
            crawl's detector is the same as ours, and it saw the page with its markup.
    """
    return (
        header_language(languages[0]) if languages else detect_language(text[:DETECTED_CHARACTERS])
    )


def page_sentences(text: str, language: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the sentences of a page that are fit for a baseline by their form, normalized.

    A sentence that the page repeats is yielded each time. `is_in_language` is a separate step: it
    costs more than all that is done here.

    Args:
        text: The page.
        language: The language whose rules apply.
        counts: Is added to: lines, sentences seen, and dropped by reason.
    """
    for piece in split_sentences(text, language, counts):
        counts[SENTENCES_SEEN] += 1
        sentence = normalize(piece)
        reason = reject_reason(sentence, language)
        if reason is None:
            yield sentence
        else:
            counts[REJECTED + reason] += 1


def is_in_language(sentence: str, language: str, counts: Counter[str]) -> bool:
    """Tell whether a sentence is in a language, and count it if not."""
    if detect_language(sentence) == language:
        return True
    counts[REJECTED + OTHER_LANGUAGE] += 1
    return False


def split_sentences(text: str, language: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the pieces of a page that may be sentences, unchanged.

    A line of a page is a paragraph, so no sentence crosses its end. Lines that are too short, too
    long or have too many marks are counted and left out, and so are those that the splitter cannot
    split.
    """
    split = _splitter(language)
    if language in PHRASE_LANGUAGES:
        least, words = MIN_PHRASE_LINE_CHARACTERS, 1
    elif language in UNSPACED_LANGUAGES:
        least, words = MIN_CHARACTERS, 1
    else:
        # So many words with spaces between them need at least this length.
        least, words = 2 * MIN_WORDS - 1, MIN_WORDS
    lines = text.splitlines()
    counts[LINES] += len(lines)
    for line in lines:
        if len(line) > MAX_LINE_CHARACTERS:
            counts[LINES_TOO_LONG] += 1
        elif len(line) < least or len(line.split(None, words - 1)) < words:
            counts[LINES_TOO_SHORT] += 1
        elif len(line) > MAX_LINE_MARKS and len(_compiled(_CLUTTER).findall(line)) > MAX_LINE_MARKS:
            counts[LINES_CLUTTERED] += 1
        else:
            pieces = split(line)
            if pieces is None:
                counts[LINES_UNSPLITTABLE] += 1
            else:
                yield from pieces


@cache
def _compiled(pattern: str) -> "regex.Pattern[str]":
    """Compile a pattern that needs Unicode's properties, once a process."""
    import regex

    return regex.compile(pattern)


def _splitter(language: str) -> Callable[[str], list[str] | None]:
    """Return the function that splits a line into pieces; it returns None if it fails."""
    if language in PHRASE_LANGUAGES:
        return str.split
    if language in _MARKS:
        marks = re.escape(_MARKS[language])
        after = re.escape(_CLOSING)
        return re.compile(f"[^{marks}]*+[{marks}]++[{after}]*+|[^{marks}]++").findall
    # Only reading pages needs it; see `languages.py`.
    import sentencex

    def split(line: str) -> list[str] | None:
        # In most languages sentencex 1.0.32 panics at white space of several bytes between a Latin
        # capital and a full stop, as in "Vitamin A\u00a0.". With plain spaces it never did in 3.8
        # million calls on random lines in 61 languages.
        line = " ".join(line.split())
        try:
            pieces: list[str] = sentencex.segment(language, line)
        except UnicodeEncodeError:  # a lone surrogate
            return split(line.encode(errors="ignore").decode())
        except BaseException as error:
            # A panic of Rust code is not an Exception, and its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            return None
        return pieces

    return split


def normalize(sentence: str) -> str:
    """Return a sentence in the form in which sentences are compared, hashed and kept.

    That is Unicode's composed form (NFC), without control characters and without invisible
    characters that affect only line breaks and direction, with one space for any white space and
    none at the ends. The result can be written as UTF-8, and normalizing it again changes nothing.
    """
    if not sentence.isprintable():  # rare and quick to tell
        sentence = _CONTROL.sub(" ", _INVISIBLE.sub("", sentence))
    if not sentence.isascii():
        sentence = unicodedata.normalize("NFC", sentence)
    return " ".join(sentence.split())


def reject_reason(sentence: str, language: str) -> str | None:
    """Return why a sentence is not fit for a baseline by its form; None if it is.

    Args:
        sentence: Normalized.
        language: The language whose rules apply. It is not detected here.

    References:
        bert-score 0.3.13 keeps lines with `0 < len(line.split(" ")) < 32`, which accepts an empty
        line and does not limit the length in languages without spaces.
    """
    bad_length = _length_reason(sentence, language)
    if bad_length is not None:
        return bad_length
    if language not in PHRASE_LANGUAGES and not _is_ended(sentence, language):
        return NO_TERMINAL_MARK
    if _has_markup(sentence):
        return MARKUP
    solid = len(sentence) - sentence.count(" ")
    if solid - len(_compiled(_NO_LETTER).findall(sentence)) < MIN_LETTER_SHARE * solid:
        return FEW_LETTERS
    return None


def _length_reason(sentence: str, language: str) -> str | None:
    """Return what is wrong with the length of a sentence, in characters or in words."""
    if language in UNSPACED_LANGUAGES:
        size, least, most, longest = len(sentence), MIN_CHARACTERS, MAX_CHARACTERS, 0
    else:
        words = sentence.split()
        size, least, most = len(words), MIN_WORDS, MAX_WORDS
        longest = max(map(len, words), default=0)
    if size < least:
        return TOO_SHORT
    if size > most:
        return TOO_LONG
    return LONG_WORD if longest > MAX_WORD_CHARACTERS else None


def _is_ended(sentence: str, language: str) -> bool:
    """Tell whether a sentence ends with a mark that ends sentences. Dots (...) show a cut.

    Quotation marks and brackets may follow.
    """
    end = sentence.rstrip(_CLOSING)
    if not end or end.endswith(("..", ". .")):
        return False
    mark = end[-1]
    more = _MORE_MARKS.get(language, "")
    return mark in more or _compiled(_TERMINAL).match(mark) is not None


def _has_markup(sentence: str) -> bool:
    """Tell whether a sentence contains a URL, or signs of code, menus or broken encodings."""
    return (
        _MARKUP.search(sentence) is not None
        or "://" in sentence
        or "www." in sentence
        or _ADDRESS.search(sentence) is not None
    )


def describe_filters() -> dict[str, object]:
    """Return everything that decides which sentences are kept, as plain values, for provenance."""
    return {
        "version": FILTER_VERSION,
        "detector": detector_version(),
        "splitter": f"sentencex-{version('sentencex')}",
        "unicode": unicodedata.unidata_version,
        "words": [MIN_WORDS, MAX_WORDS],
        "characters": [MIN_CHARACTERS, MAX_CHARACTERS],
        "unspaced_languages": sorted(UNSPACED_LANGUAGES),
        "phrase_languages": sorted(PHRASE_LANGUAGES),
        "min_phrase_line_characters": MIN_PHRASE_LINE_CHARACTERS,
        "min_letter_share": MIN_LETTER_SHARE,
        "max_word_characters": MAX_WORD_CHARACTERS,
        "max_line_characters": MAX_LINE_CHARACTERS,
        "max_line_marks": MAX_LINE_MARKS,
        "detected_characters": DETECTED_CHARACTERS,
        "reasons": list(REASONS),
    }
