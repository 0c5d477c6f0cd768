"""Samples and pairs by hashes: exact, uniform, of which sentences, and how much pairs overlap."""

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import sacrebleu
from hypothesis import given, strategies as st

from bertscore_beam import crawl
from bertscore_core.stats import HOST_BITS
from tests.support.crawl_texts import sentences
from tests.support.hashes import as_hashes, as_hosted, few_hashes, pairs_of, sentences_table, shown


@given(shown, st.integers(1, 3))
def test_capped_hosts_are_those_of_brute_force(rows, cap):
    result = crawl.cap_hosts([as_hosted(rows)], cap)
    expected = {
        (host, order, priority)
        for host in {row[2] for row in rows}
        for order, priority in sorted({(row[1], row[0]) for row in rows if row[2] == host})[:cap]
    }
    assert [tuple(row.values())[::-1] for row in result.to_pylist()] == sorted(expected)


@given(st.lists(shown, max_size=5), st.integers(1, 3), st.integers(0, 10))
def test_sample_of_parts_is_that_of_the_whole(parts, cap, count):
    whole = crawl.cap_hosts(map(as_hosted, parts), cap)
    assert crawl.cap_hosts([crawl.cap_hosts([as_hosted(part)], cap) for part in parts], cap).equals(
        whole
    )
    expected = sorted(set(whole["priority"].to_pylist()))[:count]
    halves = [
        crawl.lowest([half], count) for half in np.array_split(whole["priority"].to_numpy(), 2)
    ]
    assert crawl.lowest(halves, count).tolist() == expected


@given(few_hashes, few_hashes)
def test_membership_is_that_of_a_set(values, sample):
    result = crawl.is_sampled(as_hashes(values), crawl.lowest([as_hashes(sample)]))
    assert result.tolist() == [value in set(sample) for value in values]


def test_priorities_are_uniform_and_decided_by_seed_language_and_text():
    values = as_hashes(crawl.sentence_priority(1, "en", str(number)) for number in range(20_000))
    shares = np.bincount(crawl.leading_bits(values, 4), minlength=16) / 20_000
    np.testing.assert_allclose(shares, 1 / 16, atol=0.008)  # 4.7 standard deviations
    base = crawl.sentence_priority(1, "en", "a")
    ranks = (crawl.pairing_order, crawl.page_order, crawl.host_order)
    others = {rank(1, "en", "a") for rank in ranks}
    others |= {
        crawl.sentence_priority(*key) for key in ((2, "en", "a"), (1, "de", "a"), (1, "en", "b"))
    }
    assert len(others | {base}) == 7
    assert crawl.sentence_priority(1, "en", "a") == base


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=20), st.randoms())
def test_pairs_use_every_sentence_once_whatever_the_order(texts, generator):
    pairs, left = crawl.pair_neighbours(sentences_table(texts))
    used = [text for pair in pairs_of(pairs) for text in pair] + left["text"].to_pylist()
    assert sorted(used) == sorted(set(texts))
    assert len(left) == len(set(texts)) % 2
    shuffled = texts.copy()
    generator.shuffle(shuffled)
    assert crawl.pair_neighbours(sentences_table(shuffled))[0].equals(pairs)


def test_pairing_is_uniform():
    """Over many seeds each of the 15 pairs that 6 sentences can form comes up equally often."""
    counts = {}
    for seed in range(3_000):
        for pair in pairs_of(crawl.pair_neighbours(sentences_table(list("abcdef"), seed))[0]):
            key = "".join(sorted(pair))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 15
    spread = np.array(list(counts.values())) / 3_000
    np.testing.assert_allclose(spread, 1 / 5, atol=0.03)  # 4 standard deviations


def test_a_pair_says_the_hosts_of_its_sentences():
    texts = [f"{letter}{number}" for letter in "ab" for number in range(100)]
    pairs, _ = crawl.pair_neighbours(sentences_table(texts))
    for row in pairs.to_pylist():
        for side in ("candidate", "reference"):
            assert row[f"{side}_host"] == crawl.host_hash(row[side][0]) >> (64 - HOST_BITS)
        assert row["same_host"] == (row["candidate"][0] == row["reference"][0])


def test_a_pair_of_unknown_hosts_says_so():
    table = sentences_table(list("abcd"))
    unknown = table.set_column(2, "host", pa.nulls(4, pa.uint64()))
    pairs, _ = crawl.pair_neighbours(unknown)
    assert pairs_of(pairs) == pairs_of(crawl.pair_neighbours(table)[0])
    assert [column.null_count for column in pairs.columns] == [0, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("pairs", "bits"),
    [(1, 0), (255, 0), (256, 1), (8_192, 6), (262_144, 6), (10**6, 7), (10**7, 10), (10**9, 10)],
)
def test_a_small_language_has_parts_for_several_workers_and_a_large_one_larger_parts(pairs, bits):
    assert crawl.part_bits(pairs) == bits


TEXTS = sentences("en", 60, seed=1)


@pytest.mark.parametrize(
    ("language", "tokenize"), [("en", "13a"), ("de", "13a"), ("zh", "zh"), ("ja", "char")]
)
def test_bleu_of_parts_is_that_of_sacrebleu_of_all_pairs(language, tokenize):
    candidates, references = TEXTS[:30], TEXTS[30:]
    expected = sacrebleu.corpus_bleu(
        candidates, [references], smooth_method="none", tokenize=tokenize
    )
    parts = [slice(start, start + 10) for start in (20, 0, 10)]
    counts = [crawl.count_overlap(candidates[part], references[part], language) for part in parts]
    said = crawl.describe_overlap(counts, language)
    assert expected.score > 1
    assert said["bleu"] == pytest.approx(expected.score, abs=1e-12)
    assert f"tok:{tokenize}" in said["signature"]


def test_equal_sentences_have_all_and_foreign_ones_nothing_in_common():
    def bleu(candidates, references):
        return crawl.describe_overlap([crawl.count_overlap(candidates, references, "en")], "en")[
            "bleu"
        ]

    assert bleu(TEXTS[:5], TEXTS[:5]) == pytest.approx(100)
    assert bleu(["one two three four five"], ["six seven eight nine ten"]) == 0
    assert bleu(["a b"], ["a b"]) is None  # no n-gram of four tokens


def test_an_unknown_host_has_one_sentence_alone():
    columns = {"priority": as_hashes([5, 4, 3]), "host_order": as_hashes([1, 2, 3])}
    table = pa.table(columns | {"host": pa.array([None, None, 9], pa.uint64())})
    assert crawl.hashes_of(table)["host"].to_pylist() == [5, 4, 9]


SEED, PAGE_CAP, HOST_CAP = 4, 8, 10


@pytest.fixture(scope="module")
def pool():
    """Return the capped pool of a made-up crawl: hashes, who is of a long page, of a large host."""
    # Large hosts of ten pages and small ones of one; every third page is long.
    hosts = [f"large{n // 10}" for n in range(150)] + [f"small{n}" for n in range(150)]
    texts = iter(sentences("en", 12_000, seed=3))
    kinds, pages = {}, []
    for number, host in enumerate(hosts):
        is_long = number % 3 == 0
        sources = list(islice(texts, 100 if is_long else 10))
        kinds |= dict.fromkeys(sources, (is_long, host.startswith("large")))
        url = f"https://{host}.example/{number}"
        pages.append(crawl.Page(url=url, languages=("eng",), text="\n".join(sources)))
    rows = crawl.extract_sentences(pages, frozenset({"en"}), SEED, PAGE_CAP)["en"]
    hashes = crawl.cap_hosts([crawl.hashes_of(rows)], HOST_CAP)
    text_of = dict(zip(rows["priority"].to_pylist(), rows["text"].to_pylist(), strict=True))
    has = np.array([kinds[text_of[priority]] for priority in hashes["priority"].to_pylist()])
    return hashes, *has.T


def test_pool_has_what_the_caps_leave(pool):
    hashes, *_ = pool
    assert len(hashes) == 15 * HOST_CAP + 150 * PAGE_CAP
    assert np.unique(hashes["host"], return_counts=True)[1].max() == HOST_CAP


@pytest.mark.parametrize("size", [60, 250, 800])
def test_a_sample_of_any_size_has_the_composition_of_the_pool(pool, size):
    """To three standard errors: their square is the chi-square of two kinds, not put back."""
    priorities = pool[0]["priority"].to_numpy()
    in_sample = crawl.is_sampled(priorities, crawl.lowest([priorities], size))
    for has in pool[1:]:
        share = has.mean()
        error = np.sqrt(share * (1 - share) / size * (1 - size / len(has)))
        assert abs(has[in_sample].mean() - share) < 3 * error


def test_cap_of_a_host_does_not_prefer_its_long_pages(pool):
    """A third of the pages of large hosts is long, and so is a third of their sentences."""
    _, is_long, is_of_large = pool
    long = is_long[is_of_large]
    assert len(long) == 15 * HOST_CAP
    assert abs(np.mean(long) - 1 / 3) < 3 * np.sqrt(2 / 9 / len(long))
