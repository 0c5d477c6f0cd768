import random

import pytest

from bertscore_beam.crawl.sampling import host_hash, host_order, page_order, sentence_priority
from bertscore_beam.crawl.sentences import extract_sentences, host_of
from bertscore_beam.crawl.warc import Page
from tests.support.crawl_texts import HEADER_CODES, page_text, sentences

LANGUAGES = frozenset({"en", "de", "zh"})
ENGLISH = frozenset({"en"})
SEED = 11
CODES = [*list(HEADER_CODES)[:6], "zh"]


def made_pages(count: int) -> list[Page]:
    """Pages of seven languages on five hosts, a third of them without a language header."""
    pages = []
    for number in range(count):
        language = CODES[number % len(CODES)]
        # Some pages of a language are the same, on one host or on several.
        text = page_text(language, 12, seed=number % 20)
        codes = () if number % 3 == 0 else (HEADER_CODES[language],)
        url = f"https://www.host-{number % 5}.example/{number}"
        pages.append(Page(url=url, languages=codes, text=text))
    return pages


def page(text: str, url: str = "https://a.example/", languages: str = "eng") -> Page:
    return Page(url=url, languages=tuple(languages.split()), text=text)


def test_rows_depend_on_neither_the_order_of_pages_nor_the_other_languages():
    pages = made_pages(60)
    first = extract_sentences(pages, LANGUAGES, SEED, 4)
    random.Random(0).shuffle(pages)
    assert extract_sentences(pages, LANGUAGES, SEED, 4) == first
    for language in LANGUAGES:
        assert len(first[language]) > 20
        alone = extract_sentences(pages, frozenset({language}), SEED, 4)
        assert alone == {language: first[language]}


def test_rows_hold_hashes_of_text_and_host_and_are_sorted():
    hosts = {host_hash(f"host-{number}.example") for number in range(5)}
    for language, table in extract_sentences(made_pages(40), LANGUAGES, SEED, 4).items():
        for row in table.to_pylist():
            assert row["priority"] == sentence_priority(SEED, language, row["text"])
            assert row["host_order"] == host_order(SEED, language, row["text"])
            assert row["host"] in hosts
        rows = list(zip(table["host"].to_pylist(), table["text"].to_pylist(), strict=True))
        assert rows == sorted(set(rows))


def test_sentences_of_lowest_order_are_kept_of_a_page():
    text = page_text("en", 30, seed=1)
    everything, capped = (
        extract_sentences([page(text)], ENGLISH, SEED, cap)["en"]["text"].to_pylist()
        for cap in (1_000, 8)
    )
    assert len(everything) >= 29
    assert capped == sorted(sorted(everything, key=lambda one: page_order(SEED, "en", one))[:8])


def test_sentence_counts_once_for_each_host():
    sentence = sentences("en", 1, seed=0)[0]
    urls = ["https://a.example/1", "http://www.A.example:8080/2", "https://b.example/"]
    pages = [page(f"{sentence} {sentence}\n{sentence}", url=url) for url in urls]
    rows = extract_sentences(pages, ENGLISH, SEED, 8)["en"]
    assert rows["text"].to_pylist() == [sentence, sentence]
    assert set(rows["host"].to_pylist()) == {host_hash("a.example"), host_hash("b.example")}


def test_sentences_and_pages_in_other_languages_are_left_out():
    text = "The ferry leaves at noon. Das Schiff legt mittags von der Insel ab. Read on."
    rows = extract_sentences([page(text)], ENGLISH, SEED, 8)["en"]
    assert rows["text"].to_pylist() == ["The ferry leaves at noon."]
    german = extract_sentences([page(text, languages="deu eng")], LANGUAGES, SEED, 8)
    assert {code: len(table) for code, table in german.items()} == {"en": 0, "de": 1, "zh": 0}


@pytest.mark.parametrize(
    ("host", "urls"),
    {
        "example.org": ["https://www.Example.ORG:8080/a?b#c", "http://user:secret@example.org./"],
        "www2.example.org": ["https://www2.example.org/"],
        "bücher.example": ["https://bücher.example/"],
        "::1": ["http://[::1]/"],
        "": ["http://[::1/", "http://\ud800.example/", "no address"],
    }.items(),
)
def test_host_is_what_tells_sites_apart(host, urls):
    assert {host_of(url) for url in urls} == {host}
