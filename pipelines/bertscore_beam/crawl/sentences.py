"""Extract the sentences of a page, and keep those that look like written language.

    page -> lines -> pieces -> normalized sentences -> cheap filters -> detector -> kept

A web page is mostly menus, buttons and lists. Baselines are about sentences, so a piece is kept
only if it has a usual length, consists mostly of letters, begins and ends like a sentence, is none
of the most common notices and is in the wanted language. What filters cannot tell from prose counts
once in the sample, however many hosts repeat it.

The work for a page is proportional to its length, whatever its content: the length of lines is
limited before they are split, and that of sentences before any regular expression is applied.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from bertscore_beam.crawl.detection import (
    CLOSE_LANGUAGES,
    NONCHARACTERS,
    describe_detectors,
    detect_language,
    installed_detectors,
    is_other_language,
)
from bertscore_beam.crawl.filters import (
    CLOSING,
    DETECTORS_DISAGREE,
    MARKS,
    OTHER_LANGUAGE,
    PHRASE_LANGUAGES,
    compiled,
    describe_form,
    form_reason,
    prose_reason,
)
from bertscore_beam.crawl.languages import header_language
from bertscore_beam.crawl.phrases import is_placeholder
from bertscore_beam.crawl.scripts import chinese_variant
from bertscore_beam.crawl.words import CHARACTERS_A_WORD, PAGE_WORDS, WordLimits, is_unspaced

FILTER_VERSION = "3"
"""Raise it with every change by which other sentences may be kept."""

MAX_LINE_CHARACTERS = 5_000
"""Longer lines are lists and code, and sentencex 1.0.32 takes quadratic time for some of them."""
MAX_LINE_MARKS = 500
"""Most punctuation and symbols of a line. Prose of the longest line has half as many; a line of
quotation marks alone would take the splitter 40 ms."""
MIN_PHRASE_LINE_CHARACTERS = 40
"""For languages without sentence marks: shorter lines are menus, longer ones are prose."""
DETECTED_CHARACTERS = 2_000
"""Characters from which the language of a page is detected if the crawl does not say it."""

PAGES_OF_PLACEHOLDERS = "pages_of_placeholders"
"""Pages with text that only fills a layout; they are left out."""
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
DETECTORS_AGREE = "sentences_detectors_agree"
"""Sentences of a close language in which two detectors found it."""
OF_VARIANT = "sentences_"
"""Prefix of the counts of Chinese sentences in traditional and in simplified characters."""

_CLUTTER = r"[\p{P}\p{S}]"

# ZWNJ and ZWJ (U+200C, U+200D) stay: they change how Persian and Indic words are written. So do
# visible signs of category Cf, such as the Arabic number sign.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\U000e0000-\U000e007f\ud800-\udfff{NONCHARACTERS}]+"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRules:
    """What decides, beside the language, which sentences of a page are kept.

    Attributes:
        words: How many words a sentence may have.
        detectors: Names of the detectors, the preferred one first. They are chosen where the run
            starts, so that all workers use the same.
    """

    words: WordLimits = PAGE_WORDS
    detectors: tuple[str, ...] = field(default_factory=installed_detectors)


def page_language(text: str, languages: Sequence[str], detector: str | None = None) -> str | None:
    """Return the main language of a page; None if it is unknown or none of ours.

    Args:
        text: The page. Its start is examined if there are no `languages`.
        languages: ISO 639-3 codes from the crawl, the main one first. They are trusted: the
            crawl's detector is pycld2's, and it saw the page with its markup.
        detector: Name of the detector; by default the preferred one of those installed.
    """
    if languages:
        return header_language(languages[0])
    return detect_language(text[:DETECTED_CHARACTERS], detector)


def page_sentences(
    text: str, language: str, counts: Counter[str], words: WordLimits = PAGE_WORDS
) -> Iterator[str]:
    """Yield the sentences of a page that are fit for a baseline by their form, normalized.

    A sentence that the page repeats is yielded each time. `is_kept` is a separate step: it costs
    more than all that is done here.

    Args:
        text: The page.
        language: The language whose rules apply.
        counts: Is added to: lines, sentences seen, and dropped by reason.
        words: How many words a sentence may have.
    """
    if is_placeholder(text):
        counts[PAGES_OF_PLACEHOLDERS] += 1
        return
    for piece in split_sentences(text, language, counts, words):
        counts[SENTENCES_SEEN] += 1
        sentence = normalize(piece)
        reason = form_reason(sentence, language, words)
        if reason is None:
            yield sentence
        else:
            counts[REJECTED + reason] += 1


def is_kept(
    sentence: str, language: str, counts: Counter[str], detectors: Sequence[str] = ()
) -> bool:
    """Tell whether a sentence of a page is prose in a language, and count it if not.

    Args:
        sentence: One that `page_sentences` yielded.
        language: The language of the page.
        counts: Is added to, as by `is_in_language`.
        detectors: Names of the detectors; by default those installed.
    """
    reason = prose_reason(sentence, language)
    if reason is not None:
        counts[REJECTED + reason] += 1
        return False
    return is_in_language(sentence, language, counts, detectors)


def is_in_language(
    sentence: str, language: str, counts: Counter[str], detectors: Sequence[str] = ()
) -> bool:
    """Tell whether a sentence is in a language, and count it if not.

    Of close languages two detectors must agree, if there are two.

    Args:
        sentence: Normalized.
        language: A language.
        counts: Is added to: dropped by reason; agreements of two detectors; Chinese by its script.
        detectors: Names of the detectors; by default those installed.
    """
    first, *others = detectors or installed_detectors()
    if detect_language(sentence, first) != language or is_other_language(sentence, language):
        counts[REJECTED + OTHER_LANGUAGE] += 1
        return False
    if others and language in CLOSE_LANGUAGES:
        if detect_language(sentence, others[0]) != language:
            counts[REJECTED + DETECTORS_DISAGREE] += 1
            return False
        counts[DETECTORS_AGREE] += 1
    if language == "zh" and (variant := chinese_variant(sentence)) is not None:
        counts[OF_VARIANT + variant] += 1
    return True


def split_sentences(
    text: str, language: str, counts: Counter[str], words: WordLimits = PAGE_WORDS
) -> Iterator[str]:
    """Yield the pieces of a page that may be sentences, unchanged.

    A line of a page is a paragraph, so no sentence crosses its end. Lines that are too short, too
    long or have too many marks are counted and left out, and so are those that the splitter cannot
    split.
    """
    split = _splitter(language)
    fewest = max(words.least or 1, 1)
    if language in PHRASE_LANGUAGES:
        least, parts = MIN_PHRASE_LINE_CHARACTERS, 1
    elif is_unspaced(language):
        least, parts = CHARACTERS_A_WORD * (fewest - 1) + 1, 1
    else:
        # So many words with spaces between them need at least this length.
        least, parts = 2 * fewest - 1, fewest
    lines = text.splitlines()
    counts[LINES] += len(lines)
    for line in lines:
        if len(line) > MAX_LINE_CHARACTERS:
            counts[LINES_TOO_LONG] += 1
        elif len(line) < least or len(line.split(None, parts - 1)) < parts:
            counts[LINES_TOO_SHORT] += 1
        elif len(line) > MAX_LINE_MARKS and len(compiled(_CLUTTER).findall(line)) > MAX_LINE_MARKS:
            counts[LINES_CLUTTERED] += 1
        else:
            pieces = split(line)
            if pieces is None:
                counts[LINES_UNSPLITTABLE] += 1
            else:
                yield from pieces


def _splitter(language: str) -> Callable[[str], list[str] | None]:
    """Return the function that splits a line into pieces; it returns None if it fails."""
    if language in PHRASE_LANGUAGES:
        return str.split
    if language in MARKS:
        marks = re.escape(MARKS[language])
        after = re.escape(CLOSING)
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


def describe_filters(rules: PageRules | None = None) -> dict[str, object]:
    """Return everything that decides which sentences are kept, as plain values, for provenance."""
    rules = rules or PageRules()
    return {
        "version": FILTER_VERSION,
        **describe_detectors(rules.detectors),
        "splitter": f"sentencex-{version('sentencex')}",
        "unicode": unicodedata.unidata_version,
        "words": [rules.words.least, rules.words.most],
        "min_phrase_line_characters": MIN_PHRASE_LINE_CHARACTERS,
        "max_line_characters": MAX_LINE_CHARACTERS,
        "max_line_marks": MAX_LINE_MARKS,
        "detected_characters": DETECTED_CHARACTERS,
        **describe_form(),
    }
