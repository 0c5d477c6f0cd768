"""Samples and pairs by hashes: exact, uniform, of which sentences, and how much pairs overlap."""

import numpy as np
import pyarrow as pa
import pytest
import sacrebleu
from hypothesis import given, strategies as st

from bertscore_beam.crawl import (
    Page,
    cap_hosts,
    count_overlap,
    describe_overlap,
    extract_sentences,
    hashes_of,
    host_hash,
    host_order,
    is_sampled,
    leading_bits,
    lowest,
    page_order,
    pair_neighbours,
    pairing_order,
    part_bits,
    sentence_priority,
    tokenizer_of,
)
from bertscore_core.stats import HOST_BITS
from tests.support.crawl_texts import sentences
from tests.support.hashes import as_hashes, as_hosted, few_hashes, pairs_of, sentences_table, shown


@given(shown, st.integers(1, 3))
def test_capped_hosts_are_those_of_brute_force(rows, cap):
    result = cap_hosts([as_hosted(rows)], cap)
    expected = {
        (host, order, priority)
        for host in {row[2] for row in rows}
        for order, priority in sorted({(row[1], row[0]) for row in rows if row[2] == host})[:cap]
    }
    assert [tuple(row.values())[::-1] for row in result.to_pylist()] == sorted(expected)


@given(st.lists(shown, max_size=5), st.integers(1, 3), st.integers(0, 10))
def test_sample_of_parts_is_that_of_the_whole(parts, cap, count):
    whole = cap_hosts(map(as_hosted, parts), cap)
    assert cap_hosts([cap_hosts([as_hosted(part)], cap) for part in parts], cap).equals(whole)
    expected = sorted(set(whole["priority"].to_pylist()))[:count]
    halves = [lowest([half], count) for half in np.array_split(whole["priority"].to_numpy(), 2)]
    assert lowest(halves, count).tolist() == expected


@given(few_hashes, few_hashes)
def test_membership_is_that_of_a_set(values, sample):
    result = is_sampled(as_hashes(values), lowest([as_hashes(sample)]))
    assert result.tolist() == [value in set(sample) for value in values]


def test_priorities_are_uniform_and_decided_by_seed_language_and_text():
    values = as_hashes(sentence_priority(1, "en", str(number)) for number in range(20_000))
    shares = np.bincount(leading_bits(values, 4), minlength=16) / 20_000
    np.testing.assert_allclose(shares, 1 / 16, atol=0.008)  # 4.7 standard deviations
    base = sentence_priority(1, "en", "a")
    others = {
        sentence_priority(2, "en", "a"),
        sentence_priority(1, "de", "a"),
        sentence_priority(1, "en", "b"),
        pairing_order(1, "en", "a"),
        page_order(1, "en", "a"),
        host_order(1, "en", "a"),
    }
    assert base not in others
    assert len(others) == 6
    assert sentence_priority(1, "en", "a") == base


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=20), st.randoms())
def test_pairs_use_every_sentence_once_whatever_the_order(texts, generator):
    pairs, left = pair_neighbours(sentences_table(texts))
    used = [text for pair in pairs_of(pairs) for text in pair] + left["text"].to_pylist()
    assert sorted(used) == sorted(set(texts))
    assert len(left) == len(set(texts)) % 2
    shuffled = texts.copy()
    generator.shuffle(shuffled)
    assert pair_neighbours(sentences_table(shuffled))[0].equals(pairs)


def test_pairing_is_uniform():
    """Over many seeds each of the 15 pairs that 6 sentences can form comes up equally often."""
    counts = {}
    for seed in range(3_000):
        for pair in pairs_of(pair_neighbours(sentences_table(list("abcdef"), seed))[0]):
            key = "".join(sorted(pair))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 15
    spread = np.array(list(counts.values())) / 3_000
    np.testing.assert_allclose(spread, 1 / 5, atol=0.03)  # 4 standard deviations


def test_a_pair_says_the_hosts_of_its_sentences():
    texts = [f"{letter}{number}" for letter in "ab" for number in range(100)]
    pairs, _ = pair_neighbours(sentences_table(texts))
    for row in pairs.to_pylist():
        for side in ("candidate", "reference"):
            assert row[f"{side}_host"] == host_hash(row[side][0]) >> (64 - HOST_BITS)
        assert row["same_host"] == (row["candidate"][0] == row["reference"][0])


def test_a_pair_of_unknown_hosts_says_so():
    table = sentences_table(list("abcd"))
    unknown = table.set_column(2, "host", pa.nulls(4, pa.uint64()))
    pairs, _ = pair_neighbours(unknown)
    assert pairs.drop_columns(["candidate_host", "reference_host", "same_host"]).equals(
        pair_neighbours(table)[0].select(["candidate", "reference"])
    )
    for name in ("candidate_host", "reference_host", "same_host"):
        assert pairs[name].null_count == len(pairs) == 2


@pytest.mark.parametrize(
    ("pairs", "bits"),
    [(1, 0), (255, 0), (256, 1), (8_192, 6), (262_144, 6), (10**6, 7), (10**7, 10), (10**9, 10)],
)
def test_a_small_language_has_parts_for_several_workers_and_a_large_one_larger_parts(pairs, bits):
    assert part_bits(pairs) == bits


TEXTS = sentences("en", 60, seed=1)


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_bleu_of_parts_is_that_of_sacrebleu_of_all_pairs(language):
    candidates, references = TEXTS[:30], TEXTS[30:]
    tokenize = tokenizer_of(language)
    expected = sacrebleu.corpus_bleu(
        candidates, [references], smooth_method="none", tokenize=tokenize
    )
    parts = [slice(start, start + 10) for start in (20, 0, 10)]
    counts = [count_overlap(candidates[part], references[part], language) for part in parts]
    said = describe_overlap(counts, language)
    assert expected.score > 1
    assert said["bleu"] == pytest.approx(expected.score, abs=1e-12)
    assert f"tok:{tokenize}" in said["signature"]


def test_equal_sentences_have_all_and_foreign_ones_nothing_in_common():
    def bleu(candidates, references):
        return describe_overlap([count_overlap(candidates, references, "en")], "en")["bleu"]

    assert bleu(TEXTS[:5], TEXTS[:5]) == pytest.approx(100)
    assert bleu(["one two three four five"], ["six seven eight nine ten"]) == 0
    assert bleu(["a b"], ["a b"]) is None  # no n-gram of four tokens


def test_languages_without_spaces_are_compared_by_character():
    codes = ["de", "zh", "ja", "th"]
    assert [tokenizer_of(code) for code in codes] == ["13a", "zh", "char", "char"]


def test_an_unknown_host_has_one_sentence_alone():
    columns = {"priority": as_hashes([5, 4, 3]), "host_order": as_hashes([1, 2, 3])}
    table = pa.table(columns | {"host": pa.array([None, None, 9], pa.uint64())})
    assert hashes_of(table)["host"].to_pylist() == [5, 4, 9]


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
        rows = extract_sentences(pages, frozenset({"en"}), SEED, PAGE_CAP)["en"]
        self.pool = cap_hosts([hashes_of(rows)], HOST_CAP)
        self.priorities = self.pool["priority"].to_numpy()
        text_of = dict(zip(rows["priority"].to_pylist(), rows["text"].to_pylist(), strict=True))
        self.texts = [text_of[result] for result in self.priorities.tolist()]

    def excess(self, kinds: dict[str, bool], size: int) -> float:
        """Return how far the share of a kind in a sample is from the pool's, in standard errors.

        Its square is the chi-square of the two kinds, for a sample without replacement.
        """
        has = np.array([kinds[text] for text in self.texts])
        in_sample = is_sampled(self.priorities, lowest([self.priorities], size))
        share = has.mean()
        error = np.sqrt(share * (1 - share) / size * (1 - size / len(has)))
        return float((has[in_sample].mean() - share) / error)


@pytest.fixture(scope="module")
def crawl():
    return Crawl()


def test_pool_has_what_the_caps_leave(crawl):
    assert len(crawl.texts) == 15 * HOST_CAP + 150 * PAGE_CAP
    assert np.unique(crawl.pool["host"], return_counts=True)[1].max() == HOST_CAP


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["is_long", "is_of_large"])
def test_a_sample_of_any_size_has_the_composition_of_the_pool(crawl, kind, size):
    assert abs(crawl.excess(getattr(crawl, kind), size)) < 3


def test_cap_of_a_host_does_not_prefer_its_long_pages(crawl):
    """A third of the pages of large hosts is long, and so is a third of their sentences."""
    long = [crawl.is_long[text] for text in crawl.texts if crawl.is_of_large[text]]
    assert len(long) == 15 * HOST_CAP
    assert abs(np.mean(long) - 1 / 3) < 3 * np.sqrt(2 / 9 / len(long))
