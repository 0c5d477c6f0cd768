"""What a sample is made of: the same at every size, by length of page and by size of host."""

import numpy as np
import pytest

from bertscore_beam.crawl import (
    HostedSentences,
    Page,
    cap_hosts,
    extract_sentences,
    is_sampled,
    lowest,
)
from tests.support.crawl_texts import sentences

SEED, PAGE_CAP, HOST_CAP = 4, 8, 10
LONG, SHORT = 100, 10
SIZES = (60, 250, 800)


class Crawl:
    """The capped pool of a made-up crawl, and where each of its sentences is from."""

    def __init__(self):
        # Large hosts of ten pages and small ones of one; every third page is long.
        hosts = [f"large{n // 10}" for n in range(150)] + [f"small{n}" for n in range(150)]
        lengths = [LONG if n % 3 == 0 else SHORT for n in range(len(hosts))]
        texts = iter(sentences("en", sum(lengths), seed=3))
        self.is_long, self.is_of_large = {}, {}
        pages = []
        for host, length in zip(hosts, lengths, strict=True):
            sources = [next(texts) for _ in range(length)]
            self.is_long |= dict.fromkeys(sources, length == LONG)
            self.is_of_large |= dict.fromkeys(sources, host.startswith("large"))
            url = f"https://{host}.example/{len(pages)}"
            pages.append(Page(url=url, languages=("eng",), text="\n".join(sources)))
        rows = extract_sentences(pages, frozenset({"en"}), SEED, PAGE_CAP).rows["en"]
        self.pool = cap_hosts(HostedSentences.of_table(rows), HOST_CAP)
        text_of = dict(zip(rows["priority"].to_pylist(), rows["text"].to_pylist(), strict=True))
        self.texts = [text_of[result] for result in self.pool.priorities.tolist()]

    def excess(self, kinds: dict[str, bool], size: int) -> float:
        """Return how far the share of a kind in a sample is from the pool's, in standard errors.

        Its square is the chi-square of the two kinds, for a sample without replacement.
        """
        has = np.array([kinds[text] for text in self.texts])
        in_sample = is_sampled(self.pool.priorities, lowest([self.pool.priorities], size))
        share = has.mean()
        error = np.sqrt(share * (1 - share) / size * (1 - size / len(has)))
        return float((has[in_sample].mean() - share) / error)


@pytest.fixture(scope="module")
def crawl():
    return Crawl()


def test_pool_has_what_the_caps_leave(crawl):
    assert len(crawl.texts) == 15 * HOST_CAP + 150 * PAGE_CAP
    assert np.unique(crawl.pool.hosts, return_counts=True)[1].max() == HOST_CAP


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["is_long", "is_of_large"])
def test_a_sample_of_any_size_has_the_composition_of_the_pool(crawl, kind, size):
    assert abs(crawl.excess(getattr(crawl, kind), size)) < 3


def test_cap_of_a_host_does_not_prefer_its_long_pages(crawl):
    """A third of the pages of large hosts is long, and so is a third of their sentences."""
    long = [crawl.is_long[text] for text in crawl.texts if crawl.is_of_large[text]]
    assert len(long) == 15 * HOST_CAP
    assert abs(np.mean(long) - 1 / 3) < 3 * np.sqrt(2 / 9 / len(long))
