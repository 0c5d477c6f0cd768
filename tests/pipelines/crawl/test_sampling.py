"""Sampling and pairing by hashes: exact, whatever the order, and uniform."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.crawl.pairing import pair_neighbours
from pipelines.crawl.sampling import (
    GROUP_BITS,
    cap_hosts,
    is_sampled,
    leading_bits,
    lowest,
    pairing_order,
    part_bits,
    sentence_priority,
)
from tests.support.hashes import as_hashes, few_hashes, pairs_of, sentences_table, shown


@given(shown, st.integers(1, 3))
def test_capped_hosts_are_those_of_brute_force(rows, cap):
    priorities, hosts = (as_hashes(row[side] for row in rows) for side in (0, 1))
    found = set(zip(*(array.tolist() for array in cap_hosts(priorities, hosts, cap)), strict=True))
    expected = {
        (priority, host)
        for host in {row[1] for row in rows}
        for priority in sorted({row[0] for row in rows if row[1] == host})[:cap]
    }
    assert found == expected


@given(few_hashes, few_hashes)
def test_membership_is_that_of_a_set(values, sample):
    found = is_sampled(as_hashes(values), lowest([as_hashes(sample)]))
    assert found.tolist() == [value in set(sample) for value in values]


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
    }
    assert base not in others
    assert len(others) == 4
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


def test_a_pair_says_its_group_and_whether_one_host_shows_both():
    texts = [f"{letter}{number}" for letter in "ab" for number in range(100)]
    pairs, _ = pair_neighbours(sentences_table(texts))
    for (candidate, reference), group, same in zip(
        pairs_of(pairs), pairs["group"].to_pylist(), pairs["same_host"].to_pylist(), strict=True
    ):
        assert group == pairing_order(0, "en", candidate) >> (64 - GROUP_BITS)
        assert same == (candidate[0] == reference[0])


@pytest.mark.parametrize(
    ("pairs", "bits"),
    [(1, 0), (255, 0), (256, 1), (8_192, 6), (262_144, 6), (10**6, 7), (10**7, 10), (10**9, 10)],
)
def test_a_small_language_has_parts_for_several_workers_and_a_large_one_larger_parts(pairs, bits):
    assert part_bits(pairs) == bits
