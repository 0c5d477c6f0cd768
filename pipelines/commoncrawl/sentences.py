"""Take the sentences out of a page, and keep those that look like written language.

    page -> lines -> pieces -> normalized sentences -> cheap filters -> detector -> kept

A web page is mostly menus, buttons and lists. Baselines are about sentences, so a piece is kept
only if it has a usual length, consists of letters, ends as a sentence ends and is in the language
asked for. Filters cannot tell a cookie notice from prose; what repeats between hosts is one
sentence in the sample.

The work for a page grows with its length, whatever is in it: lines are bounded before the splitter
sees them, and sentences before any regular expression does.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from pipelines.commoncrawl.languages import (
    NONCHARACTERS,
    detect_language,
    detector_version,
    header_language,
)

if TYPE_CHECKING:
    import regex

FILTER_VERSION = "2"
"""Raised with every change that may keep other sentences."""

MIN_WORDS, MAX_WORDS = 4, 31
"""The published baselines have fewer than 32 words; shorter ones are headings and buttons."""
MIN_CHARACTERS, MAX_CHARACTERS = 8, 100
"""The same in code points, for languages that put no spaces between words."""
MIN_LETTER_SHARE = 0.75
"""Least share of letters and their marks among what is no space."""
MAX_WORD_CHARACTERS = 40
"""Longer ones are addresses, code and lost spaces."""
MAX_LINE_CHARACTERS = 5_000
"""Longer lines are lists and code, and sentencex 1.0.32 takes quadratic time for some of them."""
MAX_LINE_MARKS = 500
"""Most punctuation and symbols of a line. Prose of the longest line has half as many; a line of
quotation marks alone would take the splitter 40 ms."""
MIN_PHRASE_LINE_CHARACTERS = 40
"""Where nothing ends a sentence, short lines are menus; those with several phrases are prose."""
DETECTED_CHARACTERS = 2_000
"""What is looked at of a page that does not say its language."""

UNSPACED_LANGUAGES = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "zh"})
"""Counted in characters. Not Korean or Vietnamese, which have spaces."""
PHRASE_LANGUAGES = frozenset({"lo", "th"})
"""Without marks at the end of a sentence: a space ends a clause or sentence, so it is cut there."""

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
"""Why a sentence is dropped, in the order in which it is asked."""

LINES = "lines"
"""Lines of the pages, blank ones too."""
LINES_TOO_SHORT = "lines_too_short"
"""Lines in which no sentence can be long enough; they are not split."""
LINES_TOO_LONG = "lines_too_long"
"""Lines over `MAX_LINE_CHARACTERS`."""
LINES_CLUTTERED = "lines_cluttered"
"""Lines with more than `MAX_LINE_MARKS`."""
LINES_UNSPLITTABLE = "lines_unsplittable"
"""Lines at which the splitter gave up for an error of its own."""
SENTENCES_SEEN = "sentences_seen"
"""Pieces that the lines were split into."""
REJECTED = "sentence_"
"""Before the reason in the name of a count."""

_MARKS = {"km": "។៕!?", "bo": "།༎༏༐༑", "dz": "།༎༏༐༑"}
"""What ends a sentence where sentencex sees no end."""
_MORE_MARKS = {"el": ";", **_MARKS}
"""What ends a sentence beside Unicode's own list. The Greek question mark is a semicolon."""
_CLOSING = "\"'”’“‘»«›‹)]}」』】》〉）］〕｣ "
"""May follow the mark. Each kind of quotation mark closes somewhere: „so“, »so«, “so”."""

# Compiled when the first page is read: given sentences are normalized without the extra `baseline`.
_TERMINAL = r"\p{STerm}"
_NO_LETTER = r"[^\p{L}\p{M}\s\u200c\u200d]"
_CLUTTER = r"[\p{P}\p{S}]"
# Where it suffices, the standard library's `re` is twice as fast as `regex`.
_MARKUP = re.compile(r"[@{}|©<>\ufffd]")
_ADDRESS = re.compile(r"\.(?:com|edu|gov|html?|info|net|org|php)\b", re.IGNORECASE)

# ZWNJ and ZWJ (U+200C, U+200D) stay: they change how Persian and Indic words are written. So do
# signs of category Cf that are seen, such as the Arabic number sign.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\U000e0000-\U000e007f\ud800-\udfff{NONCHARACTERS}]+"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def page_language(text: str, languages: Sequence[str]) -> str | None:
    """Return the main language of a page; None if it is unknown or none of ours.

    Args:
        text: The page, of which the start is looked at if there are no `languages`.
        languages: What the crawl says, ISO 639-3, the main one first. Its detector is the same as
            ours and saw the page with its markup, so its word stands.
    """
    return (
        header_language(languages[0]) if languages else detect_language(text[:DETECTED_CHARACTERS])
    )


def page_sentences(text: str, language: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the sentences of a page that are fit for a baseline by their form, normalized.

    A sentence that the page repeats comes each time. Whether it is in the language is for
    `is_in_language` to tell, which costs more than all that is done here.

    Args:
        text: The page.
        language: The language whose rules hold.
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
    """Tell whether a sentence is in a language, and count it where it is not."""
    if detect_language(sentence) == language:
        return True
    counts[REJECTED + OTHER_LANGUAGE] += 1
    return False


def split_sentences(text: str, language: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the pieces of a page that may be sentences, as they stand.

    A line of a page is a paragraph, so no sentence goes over its end. Lines that are too short, too
    long or too full of marks to be of use are counted and left out, and so are those that the
    splitter cannot split.
    """
    split = _splitter(language)
    if language in PHRASE_LANGUAGES:
        least, words = MIN_PHRASE_LINE_CHARACTERS, 1
    elif language in UNSPACED_LANGUAGES:
        least, words = MIN_CHARACTERS, 1
    else:
        # No shorter line has that many words with spaces between.
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
    """Return what splits a line of a language into pieces; None instead of them where it fails."""
    if language in PHRASE_LANGUAGES:
        return str.split
    if language in _MARKS:
        marks = re.escape(_MARKS[language])
        after = re.escape(_CLOSING)
        return re.compile(f"[^{marks}]*+[{marks}]++[{after}]*+|[^{marks}]++").findall
    # Needed for reading pages alone; see `languages.py`.
    import sentencex

    def split(line: str) -> list[str] | None:
        # sentencex 1.0.32 panics where white space of several bytes stands between a Latin capital
        # and a full stop, as in "Vitamin A\u00a0.", in most languages. Without such white space it
        # did not in 3.8 million calls on random lines in 61 languages.
        line = " ".join(line.split())
        try:
            pieces: list[str] = sentencex.segment(language, line)
        except UnicodeEncodeError:  # a lone surrogate
            return split(line.encode(errors="ignore").decode())
        except BaseException as error:
            # A panic in Rust is no Exception, and its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            return None
        return pieces

    return split


def normalize(sentence: str) -> str:
    """Return a sentence in the one form in which sentences are compared, hashed and kept.

    Unicode's composed form (NFC); no control characters; no invisible ones that change nothing but
    line breaks and direction; one space wherever there was white space, and none at the ends. The
    result can be written as UTF-8, and normalizing it again changes nothing.
    """
    if not sentence.isprintable():  # rare and quick to tell
        sentence = _CONTROL.sub(" ", _INVISIBLE.sub("", sentence))
    if not sentence.isascii():
        sentence = unicodedata.normalize("NFC", sentence)
    return " ".join(sentence.split())


def reject_reason(sentence: str, language: str) -> str | None:
    """Say why a sentence is not fit for a baseline; None if it is, as far as can be told by sight.

    Args:
        sentence: Normalized.
        language: The language it should be in. Whether it is, is not looked at.

    References:
        bert-score 0.3.13 keeps lines with `0 < len(line.split(" ")) < 32`, which an empty line
        meets, and for languages without spaces bounds nothing.
    """
    if language in UNSPACED_LANGUAGES:
        if len(sentence) < MIN_CHARACTERS:
            return TOO_SHORT
        if len(sentence) > MAX_CHARACTERS:
            return TOO_LONG
    else:
        words = sentence.split()
        if len(words) < MIN_WORDS:
            return TOO_SHORT
        if len(words) > MAX_WORDS:
            return TOO_LONG
        if max(map(len, words)) > MAX_WORD_CHARACTERS:
            return LONG_WORD
    if language not in PHRASE_LANGUAGES and not _is_ended(sentence, language):
        return NO_TERMINAL_MARK
    if _has_markup(sentence):
        return MARKUP
    solid = len(sentence) - sentence.count(" ")
    if solid - len(_compiled(_NO_LETTER).findall(sentence)) < MIN_LETTER_SHARE * solid:
        return FEW_LETTERS
    return None


def _is_ended(sentence: str, language: str) -> bool:
    """Tell whether a sentence ends in a mark that ends sentences, but not in dots: those are cuts.

    Quotation marks and brackets may follow.
    """
    end = sentence.rstrip(_CLOSING)
    if not end or end.endswith(("..", ". .")):
        return False
    mark = end[-1]
    more = _MORE_MARKS.get(language, "")
    return mark in more or _compiled(_TERMINAL).match(mark) is not None


def _has_markup(sentence: str) -> bool:
    """Tell whether a sentence holds an address or signs of code, menus and broken encodings."""
    return (
        _MARKUP.search(sentence) is not None
        or "://" in sentence
        or "www." in sentence
        or _ADDRESS.search(sentence) is not None
    )


def describe_filters() -> dict[str, object]:
    """Return everything that decides which sentences are kept, as JSON knows it, for provenance."""
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
