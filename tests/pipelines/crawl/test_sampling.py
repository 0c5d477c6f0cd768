"""Samples and pairs by hashes: exact, uniform, of which sentences, and how much pairs overlap."""

import numpy as np
import pyarrow as pa
import pytest
import sacrebleu
from hypothesis import given, strategies as st

from bertscore_beam.crawl.sampling import (
    cap_hosts,
    count_overlap,
    describe_overlap,
    hashes_of,
    host_hash,
    host_order,
    is_sampled,
    lowest,
    page_order,
    pair_neighbours,
    pairing_order,
    part_bits,
    sentence_priority,
)
from bertscore_beam.files.buckets import bucket_of
from bertscore_core.stats.moments import HOST_BITS
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
def test_sample_is_of_distinct_sentences_and_does_not_depend_on_the_order_of_files(
    files, cap, count
):
    capped = cap_hosts(map(as_hosted, files), cap)
    assert cap_hosts(map(as_hosted, files[::-1]), cap).equals(capped)
    expected = sorted(set(capped["priority"].to_pylist()))[:count]
    assert lowest(capped["priority"].to_numpy(), count).tolist() == expected


@given(few_hashes, few_hashes)
def test_membership_is_that_of_a_set(values, sample):
    result = is_sampled(as_hashes(values), lowest(as_hashes(sample)))
    assert result.tolist() == [value in set(sample) for value in values]


RANKS = (sentence_priority, pairing_order, page_order, host_order)


def test_ranks_are_uniform_independent_and_decided_by_seed_language_and_text():
    """So a cap of pages or hosts does not decide which of its sentences are in a small sample."""
    values = [as_hashes(rank(1, "en", str(number)) for number in range(20_000)) for rank in RANKS]
    for ranks in values:
        shares = np.bincount(bucket_of(ranks, 4), minlength=16) / 20_000
        np.testing.assert_allclose(shares, 1 / 16, atol=0.008)  # 4.7 standard deviations
    np.testing.assert_allclose(np.corrcoef(values), np.eye(4), atol=0.03)  # 4 of them
    keys = ((1, "en", "a"), (2, "en", "a"), (1, "de", "a"), (1, "en", "b"))
    assert len({rank(*key) for rank in RANKS for key in keys}) == 16


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=20), st.randoms())
def test_pairs_use_every_sentence_once_whatever_the_order(texts, generator):
    pairs, left = pair_neighbours(sentences_table(texts))
    used = [text for pair in pairs_of(pairs) for text in pair] + left["text"].to_pylist()
    assert sorted(used) == sorted(set(texts))
    assert len(left) == len(set(texts)) % 2
    shuffled = texts.copy()
    generator.shuffle(shuffled)
    assert pair_neighbours(sentences_table(shuffled))[0].equals(pairs)


def test_a_pair_says_the_hosts_of_its_sentences():
    texts = [f"{letter}{number}" for letter in "ab" for number in range(100)]
    pairs, _ = pair_neighbours(sentences_table(texts))
    for row in pairs.to_pylist():
        for side in ("candidate", "reference"):
            assert row[f"{side}_host"] == host_hash(row[side][0]) >> (64 - HOST_BITS)
        assert row["same_host"] == (row["candidate"][0] == row["reference"][0])


@pytest.mark.parametrize(
    ("pairs", "bits"),
    [(1, 0), (255, 0), (256, 1), (8_192, 6), (262_144, 6), (10**6, 7), (10**7, 10), (10**9, 10)],
)
def test_a_small_language_has_parts_for_several_workers_and_a_large_one_larger_parts(pairs, bits):
    assert part_bits(pairs) == bits


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
    counts = [count_overlap(candidates[part], references[part], language) for part in parts]
    said = describe_overlap(counts, language)
    assert expected.score > 1
    assert said["bleu"] == pytest.approx(expected.score, abs=1e-12)
    assert f"tok:{tokenize}" in said["signature"]


@pytest.mark.parametrize(
    ("candidate", "reference", "bleu"),
    [("one two three four five", "six seven eight nine ten", 0), ("a b", "a b", None)],
)
def test_bleu_is_zero_without_common_words_and_none_of_short_texts(candidate, reference, bleu):
    counts = count_overlap([candidate], [reference], "en")
    assert describe_overlap([counts], "en")["bleu"] == bleu


def test_an_unknown_host_has_one_sentence_alone():
    columns = {"priority": as_hashes([5, 4, 3]), "host_order": as_hashes([1, 2, 3])}
    table = pa.table(columns | {"host": pa.array([None, None, 9], pa.uint64())})
    assert hashes_of(table)["host"].to_pylist() == [5, 4, 9]
