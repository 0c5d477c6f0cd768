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
from hypothesis import given

from bertscore_beam.baseline import (
    PairingPlan,
    PairSentences,
    PairsRecord,
    SentenceBlock,
    TakeSample,
    lanes_of_blocks,
    pairs_path,
    pairs_record_path,
    read_sample,
    rows_by_value,
    sample as sample_module,
    sample_digest,
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
from tests.support.hashes import as_hashes, few_hashes, pairs_of


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
@pytest.mark.parametrize(("size", "held"), [(1, 30), (3, 1), (64, 1 << 20)])
def test_samples_and_pairs_do_not_depend_on_the_lanes(folder, monkeypatch, written, size, held):
    monkeypatch.setattr(sample_module, "_LANE_HASHES", held)
    monkeypatch.setattr(sample_module, "_LANE_TEXTS", held)
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


@pytest.mark.parametrize(("digest", "is_kept"), [("of this sample", True), ("of another", False)])
def test_pairs_are_kept_only_if_they_are_of_the_same_sample(folder, digest, is_kept):
    assert sample_module._find_pairs(folder, SimpleNamespace(language="en")) is None
    record = PairsRecord(language="en", sample="of this sample", parts=())
    folder.write(pairs_record_path("en"), record.to_json())
    kept = sample_module._find_pairs(folder, SimpleNamespace(language="en", digest=digest))
    assert kept == (record if is_kept else None)
