import random
from collections import Counter

import pytest

from bertscore_beam.crawl import (
    PAGES_OF_LANGUAGE,
    REASONS,
    REJECTED,
    SENTENCES_KEPT,
    SENTENCES_OVER_PAGE_CAP,
    SENTENCES_REPEATED,
    SENTENCES_SEEN,
    Extracted,
    Page,
    extract_sentences,
    host_hash,
    host_of,
    host_order,
    page_order,
    sentence_priority,
)
from tests.support.crawl_texts import HEADER_CODES, page_text, sentences

LANGUAGES = frozenset({"en", "de", "zh"})
SEED = 11


def made_pages(count: int) -> list[Page]:
    """Pages of six languages on five hosts, a third of them without a language header."""
    codes = [*list(HEADER_CODES)[:6], "zh"]
    pages = []
    for number in range(count):
        language = codes[number % len(codes)]
        pages.append(
            Page(
                url=f"https://www.host-{number % 5}.example/{number}",
                languages=() if number % 3 == 0 else (HEADER_CODES[language],),
                # Some pages of a language are the same, on one host or on several.
                text=page_text(language, 12, seed=number % 20),
            )
        )
    return pages


def rows(extracted: Extracted, language: str) -> list[tuple[int, str]]:
    """Return host and text of each row."""
    table = extracted.rows[language]
    return list(zip(table["host"].to_pylist(), table["text"].to_pylist(), strict=True))


def texts_of(extracted: Extracted, language: str = "en") -> list[str]:
    return extracted.rows[language]["text"].to_pylist()


def page(
    text: str, *, url: str = "https://a.example/", languages: tuple[str, ...] = ("eng",)
) -> Page:
    return Page(url=url, languages=languages, text=text)


def test_rows_do_not_depend_on_the_order_of_pages():
    pages = made_pages(60)
    first = extract_sentences(pages, LANGUAGES, SEED, 4)
    random.Random(0).shuffle(pages)
    second = extract_sentences(pages, LANGUAGES, SEED, 4)
    for language in LANGUAGES:
        assert len(first.rows[language]) > 20
        assert rows(first, language) == rows(second, language)
        assert first.counts[language] == second.counts[language]


def test_rows_do_not_depend_on_the_other_languages():
    pages = made_pages(40)
    together = extract_sentences(pages, LANGUAGES, SEED, 4)
    alone = extract_sentences(pages, frozenset({"de"}), SEED, 4)
    assert rows(alone, "de") == rows(together, "de")
    assert alone.counts["de"] == together.counts["de"]


def test_rows_hold_hashes_of_text_and_host_and_are_sorted():
    extracted = extract_sentences(made_pages(40), LANGUAGES, SEED, 4)
    hosts = {host_hash(f"host-{number}.example") for number in range(5)}
    for language, table in extracted.rows.items():
        for row in table.to_pylist():
            assert row["priority"] == sentence_priority(SEED, language, row["text"])
            assert row["host_order"] == host_order(SEED, language, row["text"])
            assert row["host"] in hosts
        assert rows(extracted, language) == sorted(set(rows(extracted, language)))


def test_sentences_of_lowest_order_are_kept_of_a_page():
    text = page_text("en", 30, seed=1)
    everything = texts_of(extract_sentences([page(text)], frozenset({"en"}), SEED, 1_000))
    capped = extract_sentences([page(text)], frozenset({"en"}), SEED, 8)
    lowest = sorted(everything, key=lambda one: page_order(SEED, "en", one))[:8]
    assert texts_of(capped) == sorted(lowest)
    assert len(everything) >= 29
    assert capped.counts["en"][SENTENCES_OVER_PAGE_CAP] >= len(everything) - 8


def test_sentence_counts_once_for_each_host():
    sentence = sentences("en", 1, seed=0)[0]
    urls = ["https://a.example/1", "http://www.A.example:8080/2", "https://b.example/"]
    pages = [page(f"{sentence} {sentence}\n{sentence}", url=url) for url in urls]
    extracted = extract_sentences(pages, frozenset({"en"}), SEED, 8)
    assert texts_of(extracted) == [sentence, sentence]
    assert set(extracted.rows["en"]["host"].to_pylist()) == {
        host_hash("a.example"),
        host_hash("b.example"),
    }
    assert extracted.counts["en"][SENTENCES_REPEATED] == 7


def test_sentence_in_another_language_is_dropped_and_counted():
    text = "The ferry leaves at noon. Das Schiff legt mittags von der Insel ab. Read on."
    extracted = extract_sentences([page(text)], frozenset({"en"}), SEED, 8)
    assert texts_of(extracted) == ["The ferry leaves at noon."]
    assert extracted.counts["en"]["sentence_other_language"] == 1
    assert extracted.counts["en"]["sentence_too_short"] == 1


def test_every_sentence_is_accounted_for():
    extracted = extract_sentences(made_pages(60), LANGUAGES, SEED, 4)
    for language, counts in extracted.counts.items():
        dropped = sum(counts[REJECTED + reason] for reason in REASONS)
        passed = counts[SENTENCES_REPEATED] + counts[SENTENCES_OVER_PAGE_CAP]
        assert counts[SENTENCES_SEEN] == counts[SENTENCES_KEPT] + dropped + passed
        assert counts[SENTENCES_KEPT] == len(extracted.rows[language])
        assert counts[PAGES_OF_LANGUAGE] > 0


def test_pages_of_other_languages_are_not_looked_at():
    english = sentences("en", 5, seed=0)
    pages = [page(" ".join(english), languages=("deu", "eng"))]
    extracted = extract_sentences(pages, frozenset({"en", "de"}), SEED, 8)
    assert extracted.counts["en"] == Counter()
    assert extracted.counts["de"][PAGES_OF_LANGUAGE] == 1
    assert len(extracted.rows["de"]) == 0
    assert extract_sentences(pages, frozenset({"en"}), SEED, 8).counts == {"en": Counter()}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://www.Example.ORG:8080/a?b#c", "example.org"),
        ("http://user:secret@example.org/", "example.org"),
        ("https://example.org./", "example.org"),
        ("https://www2.example.org/", "www2.example.org"),
        ("https://bücher.example/", "bücher.example"),
        ("http://[::1]/", "::1"),
        ("http://[::1/", ""),
        ("http://[nonsense]/", ""),
        ("http://\ud800.example/", ""),
        ("no address", ""),
        ("", ""),
    ],
)
def test_host_is_what_tells_sites_apart(url, host):
    assert host_of(url) == host
