"""Extract the sentences of pages, and keep those that look like written language.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from urllib.parse import urlsplit

import pyarrow as pa

from bertscore_beam.crawl.filters import (
    CHARACTERS_A_WORD,
    CLOSING,
    DETECTORS_DISAGREE,
    MARKS,
    OTHER_LANGUAGE,
    PAGE_WORDS,
    PHRASE_LANGUAGES,
    WordLimits,
    compiled,
    describe_form,
    form_reason,
    is_placeholder,
    is_unspaced,
    prose_reason,
)
from bertscore_beam.crawl.languages import (
    CLOSE_LANGUAGES,
    NONCHARACTERS,
    chinese_variant,
    describe_detectors,
    detect_language,
    header_language,
    installed_detectors,
    is_other_language,
)
from bertscore_beam.crawl.sampling import (
    host_hash,
    host_order,
    page_order,
    sentence_priority,
)
from bertscore_beam.crawl.warc import Page

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

    The detectors, the preferred one first, are chosen where the run starts, so that all workers use
    the same.
    """

    words: WordLimits = PAGE_WORDS
    detectors: tuple[str, ...] = field(default_factory=installed_detectors)


def page_language(text: str, languages: Sequence[str], detector: str | None = None) -> str | None:
    """Return the main language of a page; None if it is unknown or none of ours.

    The codes (ISO 639-3) from the crawl, the main one first, are trusted: the crawl's detector is
    pycld2's, and it saw the page with its markup. Without them the start of the page is examined.
    """
    if languages:
        return header_language(languages[0])
    return detect_language(text[:DETECTED_CHARACTERS], detector)


def page_sentences(
    text: str, language: str, counts: Counter[str], words: WordLimits = PAGE_WORDS
) -> Iterator[str]:
    """Yield the sentences of a page that are fit for a baseline by their form, normalized.

    A sentence that the page repeats is yielded each time. Lines, sentences seen, and those dropped
    by reason are counted. `is_kept` is a separate step: it costs more than all this.
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
    """Tell whether a sentence of `page_sentences` is prose in a language; count it if not."""
    reason = prose_reason(sentence, language)
    if reason is not None:
        counts[REJECTED + reason] += 1
        return False
    return is_in_language(sentence, language, counts, detectors)


def is_in_language(
    sentence: str, language: str, counts: Counter[str], detectors: Sequence[str] = ()
) -> bool:
    """Tell whether a normalized sentence is in a language, and count it if not.

    Of close languages two detectors must agree, if there are two; that is counted, and so is the
    script of Chinese.
    """
    first, *further = detectors or installed_detectors()
    if detect_language(sentence, first) != language or is_other_language(sentence, language):
        counts[REJECTED + OTHER_LANGUAGE] += 1
        return False
    if further and language in CLOSE_LANGUAGES:
        if detect_language(sentence, further[0]) != language:
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
    long or have too many marks are counted and left out, and so are those that cannot be split.
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


# Turn the pages of one file into rows of sentences: the unit of work of the baseline job.
#
#     page (wanted language?) -> sentences -> those of lowest order in the page -> rows of the file
#
# The result depends only on the set of pages, not on their order.

PAGES_OF_LANGUAGE = "pages_of_language"
"""Pages in the language; the others were not split."""
SENTENCES_REPEATED = "sentences_repeated"
"""Sentences that the page, or another page of its host in this file, had before."""
SENTENCES_OVER_PAGE_CAP = "sentences_over_page_cap"
"""Distinct sentences of a page beyond its cap, in any language."""
SENTENCES_KEPT = "sentences_kept"
"""Rows of the result."""

_Row = tuple[int, str]
"""Hash of the host, text."""


FILE_SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("priority", pa.uint64()),
        ("host_order", pa.uint64()),
        ("host", pa.uint64()),
    ]
)
"""Normalized sentences of a file in one language, by host and then text; ranks and host of each."""


def sentences_table(seed: int, language: str, rows: Sequence[_Row]) -> pa.Table:
    """Rank sentences and put them into a table of `FILE_SCHEMA`."""
    texts = [text for _, text in rows]
    ranks = (
        [rank(seed, language, text) for text in texts] for rank in (sentence_priority, host_order)
    )
    columns = (texts, *ranks, [host for host, _ in rows])
    arrays = [pa.array(c, kind) for c, kind in zip(columns, FILE_SCHEMA.types, strict=True)]
    return pa.table(arrays, schema=FILE_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extracted:
    """The sentences of a file, and what became of the others, by language."""

    rows: Mapping[str, pa.Table]
    counts: Mapping[str, Counter[str]]


def extract_sentences(
    pages: Iterable[Page],
    languages: frozenset[str],
    seed: int,
    page_cap: int,
    rules: PageRules | None = None,
) -> Extracted:
    """Extract the sentences of some languages from the pages of a file, in one pass.

    Of a page at most `page_cap` distinct sentences are kept: those of lowest order. A sentence is
    there once for each host that has it. Errors from reading the pages are not caught.
    """
    rules = rules or PageRules()
    counts: dict[str, Counter[str]] = {language: Counter() for language in languages}
    rows: dict[str, set[_Row]] = {language: set() for language in languages}
    for page in pages:
        language = page_language(page.text, page.languages, rules.detectors[0])
        if language is None or language not in languages:
            continue
        count, of_language = counts[language], rows[language]
        count[PAGES_OF_LANGUAGE] += 1
        fit = list(page_sentences(page.text, language, count, rules.words))
        if not fit:
            continue
        host = host_hash(host_of(page.url))
        ranked = sorted((page_order(seed, language, text), text) for text in set(fit))
        count[SENTENCES_REPEATED] += len(fit) - len(ranked)
        # These are the most expensive steps, so they stop when the page's cap is reached.
        left = page_cap
        for place, (_, text) in enumerate(ranked):
            if not left:
                count[SENTENCES_OVER_PAGE_CAP] += len(ranked) - place
                break
            if is_kept(text, language, count, rules.detectors):
                left -= 1
                row = (host, text)
                count[SENTENCES_REPEATED if row in of_language else SENTENCES_KEPT] += 1
                of_language.add(row)
    return Extracted(
        rows={
            language: sentences_table(seed, language, sorted(rows[language]))
            for language in sorted(languages)
        },
        counts=counts,
    )


def host_of(url: str) -> str:
    """Return the host of an address, in lower case and without "www."; "" if there is none."""
    try:
        host = urlsplit(url).hostname or ""
        host.encode()
    except ValueError:  # unmatched brackets, or a lone surrogate
        return ""
    return host.rstrip(".").removeprefix("www.")
