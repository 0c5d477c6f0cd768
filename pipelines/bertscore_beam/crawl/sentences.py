"""Extract the sentences of pages, and keep those that look like written language.

    page -> lines -> pieces -> normalized sentences -> cheap filters -> detector -> kept

A web page is mostly menus, buttons and lists. Baselines are about sentences, so a piece is kept
only if it has a usual length, consists mostly of letters, begins and ends like a sentence and is in
the wanted language. What filters cannot tell from prose, such as a notice on cookies, counts once
in the sample, however many hosts repeat it.

The work for a page is proportional to its length, whatever its content: the length of lines is
limited before they are split, and that of sentences before any regular expression is applied.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from urllib.parse import urlsplit

import pyarrow as pa

from bertscore_beam.crawl import filters
from bertscore_beam.crawl.languages import detect_language, header_language
from bertscore_beam.crawl.sampling import host_hash, host_order, page_order, sentence_priority
from bertscore_beam.crawl.warc import Page

FILTER_VERSION = "4"
"""Raise it with every change by which other sentences may be kept."""

MAX_LINE_CHARACTERS = 5_000
"""Longer lines are lists and code, and sentencex 1.0.32 takes quadratic time for some of them."""
MAX_LINE_MARKS = 500
"""Most punctuation and symbols of a line. Prose of the longest line has half as many; a line of
quotation marks alone would take the splitter 40 ms."""
_MIN_PHRASE_LINE_CHARACTERS = 40
"""For languages without sentence marks: shorter lines are menus, longer ones are prose."""
_DETECTED_CHARACTERS = 2_000
"""Characters from which the language of a page is detected if the crawl does not say it."""

_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
"""Unicode's 66 noncharacters, written for the brackets of a regular expression."""
_CLUTTER = r"[\p{P}\p{S}]"

# ZWNJ and ZWJ (U+200C, U+200D) stay: they change how Persian and Indic words are written. So do
# visible signs of category Cf, such as the Arabic number sign.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\U000e0000-\U000e007f\ud800-\udfff{_NONCHARACTERS}]+"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def page_language(text: str, languages: Sequence[str]) -> str | None:
    """Return the main language of a page; None if it is unknown or none of ours.

    The codes (ISO 639-3) from the crawl, the main one first, are trusted: the crawl's detector is
    the same, and it saw the page with its markup. Without them the start of the page is examined.
    """
    if languages:
        return header_language(languages[0])
    return detect_language(normalize(text[:_DETECTED_CHARACTERS]))


def page_sentences(
    text: str, language: str, words: filters.WordLimits = filters.PAGE_WORDS
) -> Iterator[str]:
    """Yield the sentences of a page that are fit for a baseline by their form, normalized.

    A sentence that the page repeats is yielded each time. `is_kept` is a separate step: it costs
    more than all this.
    """
    for piece in split_sentences(text, language, words):
        sentence = normalize(piece)
        if filters.has_form(sentence, language, words):
            yield sentence


def is_kept(sentence: str, language: str) -> bool:
    """Tell whether a sentence of `page_sentences` is prose in a language."""
    return filters.is_prose(sentence, language) and detect_language(sentence) == language


def split_sentences(
    text: str, language: str, words: filters.WordLimits = filters.PAGE_WORDS
) -> Iterator[str]:
    """Yield the pieces of a page that may be sentences, unchanged.

    A line of a page is a paragraph, so no sentence crosses its end. Lines that are too short, too
    long or have too many marks are left out, and so are those that cannot be split.
    """
    split, marks = _splitter(language), filters.compiled(_CLUTTER)
    fewest = max(words.least or 1, 1)
    if language in filters.PHRASE_LANGUAGES:
        least, parts = _MIN_PHRASE_LINE_CHARACTERS, 1
    elif filters.is_unspaced(language):
        least, parts = filters.CHARACTERS_A_WORD * (fewest - 1) + 1, 1
    else:
        # So many words with spaces between them need at least this length.
        least, parts = 2 * fewest - 1, fewest
    for line in text.splitlines():
        if (
            least <= len(line) <= MAX_LINE_CHARACTERS
            and len(line.split(None, parts - 1)) >= parts
            and (len(line) <= MAX_LINE_MARKS or len(marks.findall(line)) <= MAX_LINE_MARKS)
        ):
            yield from split(line)


def _splitter(language: str) -> Callable[[str], list[str]]:
    """Return the function that splits a line into pieces: into none if it fails."""
    if language in filters.PHRASE_LANGUAGES:
        return str.split
    if language in filters.MARKS:
        marks = re.escape(filters.MARKS[language])
        after = re.escape(filters.CLOSING)
        return re.compile(f"[^{marks}]*+[{marks}]++[{after}]*+|[^{marks}]++").findall
    # Only reading pages needs it; see `languages.py`.
    import sentencex

    def split(line: str) -> list[str]:
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
            return []
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


def describe_filters(words: filters.WordLimits) -> dict[str, object]:
    """Return everything that decides which sentences are kept, as plain values, for provenance."""
    return {
        "version": FILTER_VERSION,
        "detector": f"pycld2-{version('pycld2')}",
        "splitter": f"sentencex-{version('sentencex')}",
        "unicode": unicodedata.unidata_version,
        "words": [words.least, words.most],
    }


# Turn the pages of one file into rows of sentences: the unit of work of the baseline job.
#
#     page (wanted language?) -> sentences -> those of lowest order in the page -> rows of the file
#
# The result depends only on the set of pages, not on their order.

_Row = tuple[int | None, str]
"""Hash of the host, None if it is not known; text."""


FILE_SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("priority", pa.uint64()),
        ("host_order", pa.uint64()),
        ("host", pa.uint64()),
    ]
)
"""Normalized sentences of a file in one language, by host and then text; ranks and host of each.
The host is null where it is not known."""


def sentences_table(seed: int, language: str, rows: Sequence[_Row]) -> pa.Table:
    """Rank sentences and put them into a table of `FILE_SCHEMA`."""
    texts = [text for _, text in rows]
    ranks = (
        [rank(seed, language, text) for text in texts] for rank in (sentence_priority, host_order)
    )
    columns = (texts, *ranks, [host for host, _ in rows])
    arrays = [pa.array(c, kind) for c, kind in zip(columns, FILE_SCHEMA.types, strict=True)]
    return pa.table(arrays, schema=FILE_SCHEMA)


def extract_sentences(
    pages: Iterable[Page],
    languages: frozenset[str],
    seed: int,
    page_cap: int,
    words: filters.WordLimits = filters.PAGE_WORDS,
) -> dict[str, pa.Table]:
    """Extract the sentences of some languages from the pages of a file, in one pass.

    Of a page at most `page_cap` distinct sentences are kept: those of lowest order. A sentence is
    there once for each host that has it. Errors from reading the pages are not caught.
    """
    rows: dict[str, set[_Row]] = {language: set() for language in sorted(languages)}
    for page in pages:
        language = page_language(page.text, page.languages)
        if language is None or language not in languages:
            continue
        fit = set(page_sentences(page.text, language, words))
        host = host_hash(host_of(page.url))
        # The checks that are left are the most expensive, so they stop at the page's cap.
        ranked = sorted(fit, key=lambda text: (page_order(seed, language, text), text))
        kept = (text for text in ranked if is_kept(text, language))
        rows[language].update((host, text) for text in islice(kept, page_cap))
    return {code: sentences_table(seed, code, sorted(found)) for code, found in rows.items()}


def host_of(url: str) -> str:
    """Return the host of an address, in lower case and without "www."; "" if there is none."""
    try:
        host = urlsplit(url).hostname or ""
        host.encode()
    except ValueError:  # unmatched brackets, or a lone surrogate
        return ""
    return host.rstrip(".").removeprefix("www.")
