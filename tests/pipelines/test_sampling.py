"""Sampling and pairing by hashes: exact, whatever the order, and uniform."""

import json
import random

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from pipelines.baseline import layout
from pipelines.commoncrawl.pairing import SENTENCE_SCHEMA, pair_neighbours
from pipelines.commoncrawl.sampling import (
    GROUP_BITS,
    cap_hosts,
    host_hash,
    is_sampled,
    leading_bits,
    lowest,
    pairing_order,
    part_bits,
    sentence_priority,
)
from pipelines.transforms import pairs as pairs_module
from pipelines.transforms import sample as sample_module
from pipelines.transforms.pairs import PairingPlan, PairSentences
from pipelines.transforms.sample import (
    CapHosts,
    SentenceBlock,
    TakeLowest,
    TakeSample,
    lanes_of,
    load_sample,
    rows_by_value,
    sample_digest,
    save_sample,
)

few_hashes = st.lists(st.integers(0, 12), max_size=30)
shown = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=40)


def as_hashes(values):
    return np.array(list(values), dtype=np.uint64)


def sentences(texts, seed=0):
    return pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "order": as_hashes(pairing_order(seed, "en", text) for text in texts),
            "host": as_hashes(host_hash(text[:1]) for text in texts),
        },
        schema=SENTENCE_SCHEMA,
    )


def pairs_of(table):
    return list(zip(table["candidate"].to_pylist(), table["reference"].to_pylist(), strict=True))


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


@given(st.lists(shown, max_size=5), st.integers(1, 3), st.integers(0, 10), st.randoms())
def test_sample_of_parts_is_that_of_the_whole_in_any_order(parts, cap, count, generator):
    caps, take = CapHosts(cap), TakeLowest(count)
    arrays = [tuple(as_hashes(row[side] for row in part) for side in (0, 1)) for part in parts]
    generator.shuffle(arrays)
    merged = caps.create_accumulator()
    for array in arrays:
        merged = caps.merge_accumulators((caps.add_input(caps.create_accumulator(), array), merged))
    whole = [row for part in parts for row in part]
    kept, _ = cap_hosts(*(as_hashes(row[side] for row in whole) for side in (0, 1)), cap)
    halves = [take.add_input(take.create_accumulator(), half) for half in np.array_split(kept, 2)]
    expected = sorted(set(kept.tolist()))[:count]
    assert take.extract_output(take.merge_accumulators(halves)).tolist() == expected
    assert lowest([caps.extract_output(merged)[0]], count).tolist() == expected


@given(
    st.lists(shown, max_size=8),
    st.integers(1, 3),
    st.integers(0, 10),
    st.integers(0, 6),
    st.integers(0, 8),
)
def test_when_hashes_are_put_together_changes_nothing(parts, cap, count, few, cut):
    arrays = [tuple(as_hashes(row[side] for row in part) for side in (0, 1)) for part in parts]
    caps, take = CapHosts(cap), TakeLowest(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_module, "_FEW_ROWS", few)
        for combine, elements in ((caps, arrays), (take, [array[0] for array in arrays])):
            merged = []
            for some in (elements[:cut], elements[cut:]):
                gathered = combine.create_accumulator()
                for element in some:
                    gathered = combine.add_input(gathered, element)
                merged.append(combine.compact(gathered) if len(merged) else gathered)
            found = combine.extract_output(combine.merge_accumulators(merged))
            np.testing.assert_array_equal(found, combine._together(elements))


def test_sorting_grows_with_the_hashes_and_not_with_their_square(monkeypatch):
    rows = []
    real = sample_module.cap_hosts

    def counted(priorities, hosts, cap):
        rows.append(len(priorities))
        return real(priorities, hosts, cap)

    monkeypatch.setattr(sample_module, "cap_hosts", counted)
    generator = np.random.default_rng(5)
    combine = CapHosts(1000)
    added, merged = combine.create_accumulator(), combine.create_accumulator()
    for _ in range(300):
        block = generator.integers(0, 1 << 63, 500, dtype=np.uint64)
        added = combine.add_input(added, (block, block % np.uint64(900)))
        one = combine.add_input(combine.create_accumulator(), (block, block % np.uint64(900)))
        merged = combine.merge_accumulators([merged, one])
    np.testing.assert_array_equal(combine.extract_output(added), combine.extract_output(merged))
    # Of 150,000 hashes: sorting all of them with every block would be 22 million for each way.
    assert sum(rows) < 2 * 4 * 150_000


@given(few_hashes)
def test_rows_are_dealt_out_by_their_value(values):
    found = dict(rows_by_value(as_hashes(values)))
    assert {value: rows.tolist() for value, rows in found.items()} == {
        value: [row for row, other in enumerate(values) if other == value] for value in set(values)
    }


def block(language, name="0"):
    return SentenceBlock(language=language, path=f"{language}/{name}.parquet")


def test_lanes_hold_the_blocks_of_one_language_in_order():
    blocks = [block(language, str(number)) for number in range(5) for language in ("de", "en")]
    blocks.append(block("fr"))
    lanes = lanes_of(blocks, size=3)
    assert [(lane[0].language, len(lane)) for lane in lanes] == [
        ("de", 3),
        ("de", 2),
        ("en", 3),
        ("en", 2),
        ("fr", 1),
    ]
    assert [each for lane in lanes for each in lane] == sorted(blocks, key=lambda b: b.language)
    assert lanes_of([]) == []
    assert [len(lane) for lane in lanes_of([block("en", str(n)) for n in range(65)])] == [64, 1]


@pytest.fixture
def written(tmp_path):
    """Blocks of two languages, the last of each without a sentence."""
    generator = random.Random(3)
    texts = {code: [f"{code} {n}" for n in range(60)] for code in ("de", "en")}
    blocks = []
    for code, several in texts.items():
        for number in range(7):
            some = [] if number == 6 else generator.sample(several, 25)
            table = pa.table(
                {
                    "text": pa.array(some, pa.string()),
                    "priority": as_hashes(sentence_priority(1, code, text) for text in some),
                    "host": as_hashes(host_hash(text[-1]) for text in some),
                }
            )
            path = f"{tmp_path}/{code}-{number}.parquet"
            pq.write_table(table, path)
            blocks.append(SentenceBlock(language=code, path=path))
    return blocks


def read_blocks(blocks, language):
    tables = [pq.read_table(each.path) for each in blocks if each.language == language]
    return pa.concat_tables(tables)


@pytest.mark.parametrize("held", [1, 30, 1 << 20])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_samples_and_pairs_do_not_depend_on_the_lanes(tmp_path, monkeypatch, written, size, held):
    monkeypatch.setattr(sample_module, "_LANE_ROWS", held)
    monkeypatch.setattr(pairs_module, "_LANE_ROWS", held)
    output = str(tmp_path / "run")
    expected = {}
    for code in ("de", "en"):
        whole = read_blocks(written, code)
        kept, _ = cap_hosts(whole["priority"].to_numpy(), whole["host"].to_numpy(), 3)
        expected[code] = lowest([kept], 24)
    lanes = lanes_of(written, size=size)
    with test_pipeline.TestPipeline() as pipeline:
        found = pipeline | beam.Create(lanes) | TakeSample(output=output, count=24, host_cap=3)
        assert_that(found, equal_to([(code, len(sample)) for code, sample in expected.items()]))
    plans = {
        code: PairingPlan(sample=sample_digest(sample), bits=2) for code, sample in expected.items()
    }
    with test_pipeline.TestPipeline() as pipeline:
        found = pipeline | beam.Create(lanes) | PairSentences(output=output, seed=1, plans=plans)
        assert_that(found, equal_to(["de", "en"]))
    for code, sample in expected.items():
        np.testing.assert_array_equal(load_sample(f"{output}/{layout.sample_path(code)}"), sample)
        record = json.loads((tmp_path / "run" / layout.pairs_record_path(code)).read_text())
        pairs = [
            pair
            for part in record["parts"]
            for pair in pairs_of(pq.read_table(f"{output}/{layout.pairs_path(code, part['name'])}"))
        ]
        whole = read_blocks(written, code)
        chosen = whole.filter(pa.array(is_sampled(whole["priority"].to_numpy(), sample)))
        assert pairs == paired_by_hand(set(chosen["text"].to_pylist()), code)


def paired_by_hand(texts, language, bits=2):
    """Pair neighbours in each part, then those left over."""
    parts, left = {}, []
    for text in sorted(texts, key=lambda text: pairing_order(1, language, text)):
        parts.setdefault(pairing_order(1, language, text) >> (64 - bits), []).append(text)
    pairs = []
    for _, part in sorted(parts.items()):
        pairs += list(zip(part[0::2], part[1::2], strict=False))
        left += part[len(part) // 2 * 2 :]
    return pairs + list(zip(left[0::2], left[1::2], strict=False))


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
    pairs, left = pair_neighbours(sentences(texts))
    used = [text for pair in pairs_of(pairs) for text in pair] + left["text"].to_pylist()
    assert sorted(used) == sorted(set(texts))
    assert len(left) == len(set(texts)) % 2
    shuffled = texts.copy()
    generator.shuffle(shuffled)
    assert pair_neighbours(sentences(shuffled))[0].equals(pairs)


def test_pairing_is_uniform():
    """Over many seeds each of the 15 pairs that 6 sentences can form comes up equally often."""
    counts = {}
    for seed in range(3_000):
        for pair in pairs_of(pair_neighbours(sentences(list("abcdef"), seed))[0]):
            key = "".join(sorted(pair))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 15
    spread = np.array(list(counts.values())) / 3_000
    np.testing.assert_allclose(spread, 1 / 5, atol=0.03)  # 4 standard deviations


def test_a_pair_says_its_group_and_whether_one_host_shows_both():
    texts = [f"{letter}{number}" for letter in "ab" for number in range(100)]
    pairs, _ = pair_neighbours(sentences(texts))
    for (candidate, reference), group, same in zip(
        pairs_of(pairs), pairs["group"].to_pylist(), pairs["same_host"].to_pylist(), strict=True
    ):
        assert group == pairing_order(0, "en", candidate) >> (64 - GROUP_BITS)
        assert same == (candidate[0] == reference[0])


@pytest.mark.parametrize(
    ("pairs", "bits"), [(1, 0), (4_095, 0), (8_192, 1), (100_000, 4), (1_000_000, 7), (10**9, 10)]
)
def test_a_part_holds_some_thousands_of_pairs(pairs, bits):
    assert part_bits(pairs) == bits


def test_sample_is_read_as_it_was_written(tmp_path):
    values = np.sort(as_hashes(random.Random(1).getrandbits(64) for _ in range(50)))
    save_sample(str(tmp_path / "a.npy"), values)
    np.testing.assert_array_equal(load_sample(str(tmp_path / "a.npy")), values)
