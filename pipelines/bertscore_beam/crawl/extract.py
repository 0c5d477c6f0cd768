"""Turn the pages of one file into rows of sentences: the unit of work of the baseline job.

    page (wanted language?) -> sentences -> those of lowest order in the page -> rows of the file

The result depends only on the set of pages, not on their order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

from bertscore_beam.crawl.sampling import (
    HostedSentences,
    host_hash,
    host_order,
    page_order,
    sentence_priority,
)
from bertscore_beam.crawl.sentences import PageRules, is_kept, page_language, page_sentences
from bertscore_beam.crawl.warc import Page

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentenceRows:
    """Sentences of one language, by host and then text.

    Attributes:
        texts: The sentences, normalized. Length N.
        hashes: Ranks and host of each. N rows.
    """

    texts: list[str]
    hashes: HostedSentences

    @classmethod
    def of(cls, seed: int, language: str, rows: Sequence[tuple[int, str]]) -> "SentenceRows":
        """Rank sentences.

        Args:
            seed: Seed of the ranks.
            language: The language they are in.
            rows: Host, as a hash, and text of each.
        """
        texts = [text for _, text in rows]
        ranks = (
            [rank(seed, language, text) for text in texts]
            for rank in (sentence_priority, host_order)
        )
        columns = (*ranks, [host for host, _ in rows])
        return cls(
            texts=texts,
            hashes=HostedSentences(*(np.array(column, dtype=np.uint64) for column in columns)),
        )

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self.texts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extracted:
    """The sentences of a file for every wanted language, also for languages without any.

    Attributes:
        rows: Sentences by language. A sentence is there once for each host that has it.
        counts: What was seen and what was dropped, by language.
    """

    rows: Mapping[str, SentenceRows]
    counts: Mapping[str, Counter[str]]


def extract_sentences(
    pages: Iterable[Page],
    languages: frozenset[str],
    seed: int,
    page_cap: int,
    rules: PageRules | None = None,
) -> Extracted:
    """Extract the sentences of some languages from the pages of a file, in one pass.

    Args:
        pages: The pages. Errors from reading them are not caught.
        languages: Codes as `check_language` returns them.
        seed: Seed of the ranks.
        page_cap: Most distinct sentences of a page: those of lowest order.
        rules: What else decides which sentences are kept.
    """
    rules = rules or PageRules()
    counts: dict[str, Counter[str]] = {language: Counter() for language in languages}
    rows: dict[str, set[_Row]] = {language: set() for language in languages}
    for page in pages:
        language = page_language(page.text, page.languages, rules.detectors[0])
        if language is None or language not in languages:
            continue
        count, found = counts[language], rows[language]
        count[PAGES_OF_LANGUAGE] += 1
        given = list(page_sentences(page.text, language, count, rules.words))
        if not given:
            continue
        host = host_hash(host_of(page.url))
        ranked = sorted((page_order(seed, language, text), text) for text in set(given))
        count[SENTENCES_REPEATED] += len(given) - len(ranked)
        # These are the most expensive steps, so they stop when the page's cap is reached.
        left = page_cap
        for place, (_, text) in enumerate(ranked):
            if not left:
                count[SENTENCES_OVER_PAGE_CAP] += len(ranked) - place
                break
            if is_kept(text, language, count, rules.detectors):
                left -= 1
                row = (host, text)
                count[SENTENCES_REPEATED if row in found else SENTENCES_KEPT] += 1
                found.add(row)
    return Extracted(
        rows={
            language: SentenceRows.of(seed, language, sorted(rows[language]))
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
