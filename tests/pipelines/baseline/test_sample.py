"""The transforms that sample and pair: the same result, whatever the order and the lanes."""

import random
from types import SimpleNamespace

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, strategies as st

from bertscore_beam.baseline import (
    PairingPlan,
    PairSentences,
    PairsRecord,
    SentenceBlock,
    TakeSample,
    capping_hosts,
    lanes_of_blocks,
    pair as pairs_module,
    pairs_path,
    pairs_record_path,
    read_sample,
    rows_by_value,
    sample as sample_module,
    sample_digest,
    taking_lowest,
    write_sample,
)
from bertscore_beam.crawl import (
    HostedSentences,
    cap_hosts,
    host_hash,
    host_order,
    is_sampled,
    lowest,
    pairing_order,
    sentence_priority,
)
from tests.support.hashes import as_hashes, as_hosted, few_hashes, pairs_of, shown


@given(st.lists(shown, max_size=5), st.integers(1, 3), st.integers(0, 10), st.randoms())
def test_sample_of_parts_is_that_of_the_whole_in_any_order(parts, cap, count, generator):
    caps, take = capping_hosts(cap), taking_lowest(count)
    blocks = list(map(as_hosted, parts))
    generator.shuffle(blocks)
    merged = caps.create_accumulator()
    for result in blocks:
        merged = caps.merge_accumulators(
            (caps.add_input(caps.create_accumulator(), result), merged)
        )
    left = cap_hosts(as_hosted([row for part in parts for row in part]), cap).priorities
    halves = [take.add_input(take.create_accumulator(), half) for half in np.array_split(left, 2)]
    expected = sorted(set(left.tolist()))[:count]
    assert take.extract_output(take.merge_accumulators(halves)).tolist() == expected
    assert lowest([caps.extract_output(merged).priorities], count).tolist() == expected


@given(
    st.lists(shown, max_size=8),
    st.integers(1, 3),
    st.integers(0, 10),
    st.integers(0, 6),
    st.integers(0, 8),
)
def test_the_time_of_a_merge_changes_nothing(parts, cap, count, few, cut):
    blocks = list(map(as_hosted, parts))
    caps, take = capping_hosts(cap), taking_lowest(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_module, "_FEW_ROWS", few)
        for combine, elements in ((caps, blocks), (take, [block.priorities for block in blocks])):
            merged = []
            for part in (elements[:cut], elements[cut:]):
                gathered = combine.create_accumulator()
                for element in part:
                    gathered = combine.add_input(gathered, element)
                merged.append(combine.compact(gathered) if len(merged) else gathered)
            result = combine.extract_output(combine.merge_accumulators(merged))
            np.testing.assert_array_equal(result, combine._merge(elements))


def test_sorting_grows_with_the_hashes_and_not_with_their_square(monkeypatch):
    rows = []
    real = sample_module.cap_hosts

    def counted(found, cap):
        rows.append(len(found.hosts))
        return real(found, cap)

    monkeypatch.setattr(sample_module, "cap_hosts", counted)
    generator = np.random.default_rng(5)
    combine = capping_hosts(1000)
    added, merged = combine.create_accumulator(), combine.create_accumulator()
    for _ in range(300):
        values = generator.integers(0, 1 << 63, 500, dtype=np.uint64)
        block = HostedSentences(values, values ^ np.uint64(1 << 40), values % np.uint64(900))
        added = combine.add_input(added, block)
        first = combine.add_input(combine.create_accumulator(), block)
        merged = combine.merge_accumulators([merged, first])
    np.testing.assert_array_equal(combine.extract_output(added), combine.extract_output(merged))
    # Of 150,000 hashes: sorting all of them with every block would be 22 million for each way.
    assert sum(rows) < 2 * 4 * 150_000


@given(few_hashes)
def test_rows_are_dealt_out_by_their_value(values):
    result = dict(rows_by_value(as_hashes(values)))
    assert {value: rows.tolist() for value, rows in result.items()} == {
        value: [row for row, second in enumerate(values) if second == value]
        for value in set(values)
    }


def block(language, name="0"):
    return SentenceBlock(language=language, path=f"{language}/{name}.parquet")


def test_lanes_hold_the_blocks_of_one_language_in_order():
    blocks = [block(language, str(number)) for number in range(5) for language in ("de", "en")]
    blocks.append(block("fr"))
    lanes = lanes_of_blocks(blocks, size=3)
    assert [(lane[0].language, len(lane)) for lane in lanes] == [
        ("de", 3),
        ("de", 2),
        ("en", 3),
        ("en", 2),
        ("fr", 1),
    ]
    assert [item for lane in lanes for item in lane] == sorted(blocks, key=lambda b: b.language)
    assert lanes_of_blocks([]) == []
    assert [len(lane) for lane in lanes_of_blocks([block("en", str(n)) for n in range(65)])] == [
        64,
        1,
    ]


@pytest.fixture
def written(folder):
    """Blocks of two languages, the last of each without a sentence."""
    generator = random.Random(3)
    texts = {code: [f"{code} {n}" for n in range(60)] for code in ("de", "en")}
    blocks = []
    for code, several in texts.items():
        for number in range(7):
            part = [] if number == 6 else generator.sample(several, 25)
            table = pa.table(
                {
                    "text": pa.array(part, pa.string()),
                    "priority": as_hashes(sentence_priority(1, code, text) for text in part),
                    "host_order": as_hashes(host_order(1, code, text) for text in part),
                    "host": as_hashes(host_hash(text[-1]) for text in part),
                }
            )
            path = f"{code}-{number}.parquet"
            pq.write_table(table, folder.path(path))
            blocks.append(SentenceBlock(language=code, path=path))
    return blocks


def read_blocks(folder, blocks, language):
    paths = [folder.path(item.path) for item in blocks if item.language == language]
    tables = list(map(pq.read_table, paths))
    return pa.concat_tables(tables)


@pytest.mark.job
@pytest.mark.parametrize("held", [1, 30, 1 << 20])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_samples_and_pairs_do_not_depend_on_the_lanes(folder, monkeypatch, written, size, held):
    monkeypatch.setattr(sample_module, "_LANE_ROWS", held)
    monkeypatch.setattr(pairs_module, "_LANE_ROWS", held)
    expected = {}
    for code in ("de", "en"):
        whole = read_blocks(folder, written, code)
        columns = (whole[name].to_numpy() for name in ("priority", "host_order", "host"))
        expected[code] = lowest([cap_hosts(HostedSentences(*columns), 3).priorities], 24)
    lanes = lanes_of_blocks(written, size=size)
    with test_pipeline.TestPipeline() as pipeline:
        result = pipeline | beam.Create(lanes) | TakeSample(folder=folder, count=24, host_cap=3)
        assert_that(result, equal_to([(code, len(sample)) for code, sample in expected.items()]))
    plans = {
        code: PairingPlan(sample=sample_digest(sample), bits=2, hosts_known=code == "en")
        for code, sample in expected.items()
    }
    with test_pipeline.TestPipeline() as pipeline:
        result = pipeline | beam.Create(lanes) | PairSentences(folder=folder, seed=1, plans=plans)
        assert_that(result, equal_to(["de", "en"]))
    for code, sample in expected.items():
        np.testing.assert_array_equal(read_sample(folder, code), sample)
        record = PairsRecord.from_json(folder.read(pairs_record_path(code)))
        tables = [pq.read_table(folder.path(pairs_path(code, part.name))) for part in record.parts]
        pairs = [pair for table in tables for pair in pairs_of(table)]
        unknown = {table["candidate_host"].null_count == len(table) for table in tables}
        assert unknown == {code != "en"}
        whole = read_blocks(folder, written, code)
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


def test_sample_is_read_as_it_was_written(folder):
    values = np.sort(as_hashes(random.Random(1).getrandbits(64) for _ in range(50)))
    write_sample(folder, "en", values)
    np.testing.assert_array_equal(read_sample(folder, "en"), values)


@pytest.mark.parametrize(("digest", "is_kept"), [("of this sample", True), ("of another", False)])
def test_pairs_are_kept_only_if_they_are_of_the_same_sample(folder, digest, is_kept):
    assert pairs_module._find_pairs(folder, SimpleNamespace(language="en")) is None
    record = PairsRecord(language="en", sample="of this sample", parts=())
    folder.write(pairs_record_path("en"), record.to_json())
    kept = pairs_module._find_pairs(folder, SimpleNamespace(language="en", digest=digest))
    assert kept == (record if is_kept else None)
