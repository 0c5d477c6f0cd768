"""The transforms that sample and pair: the same result, whatever the order and the lanes."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline

from bertscore_beam.baseline import sample as baseline_sample
from bertscore_beam.baseline.extract import ReadFile, write_sentences
from bertscore_beam.baseline.sample import lanes_of, pair_phases, read_sample, sample_phases
from bertscore_beam.baseline.sources import (
    PairsRecord,
    pairs_path,
    pairs_record_path,
    read_record,
    write_record,
)
from bertscore_beam.crawl.sampling import (
    HOST_COLUMNS,
    cap_hosts,
    hashes_of,
    host_hash,
    is_sampled,
    pairing_order,
)
from bertscore_beam.crawl.sentences import sentences_table
from bertscore_beam.run.run_step import add_phases
from tests.support.hashes import pairs_of


@pytest.fixture
def written(folder):
    """Files of sentences of two languages, those of one without a host; path and tables of each."""
    generator = random.Random(3)
    Path(folder.root).mkdir(parents=True, exist_ok=True)
    files = {}
    for number in range(7):
        tables = []
        for code in ("de", "en"):
            texts = sorted(generator.sample([f"{code} {n}" for n in range(60)], 25))
            hosts = [host_hash(f"{text[-1]}{number % 2}") for text in texts]
            rows = list(zip(hosts if code == "en" else [None] * len(texts), texts, strict=True))
            tables.append((code, sentences_table(1, code, rows)))
        record = ReadFile(file="f", bytes=1, sha256="", retries=(), rows={"de": 0, "en": 0})
        path = f"{number}.pq"
        write_sentences(folder.path(path), record, tables)
        files[path] = dict(tables)
    return files


@pytest.mark.job
@pytest.mark.parametrize(("size", "held"), [(1, 30), (3, 1), (64, 1 << 20)])
def test_samples_and_pairs_do_not_depend_on_the_lanes(folder, monkeypatch, written, size, held):
    monkeypatch.setattr(baseline_sample, "_LANE_FILES", size)
    monkeypatch.setattr(baseline_sample, "_LANE_HASHES", held)
    monkeypatch.setattr(baseline_sample, "_LANE_TEXTS", held)
    monkeypatch.setattr("bertscore_beam.baseline.sample.part_bits", lambda pairs: 2)
    lanes = [lane for code in ("de", "en") for lane in lanes_of(code, list(written))]
    assert len(lanes) == 2 * -(-len(written) // size)
    assert [path for _, paths in lanes for path in paths] == [*written, *written]
    whole = {code: pa.concat_tables(f[code] for f in written.values()) for code in ("de", "en")}
    kept = {code: cap_hosts([hashes_of(table)], 3)["priority"] for code, table in whole.items()}
    samples = {  # a sentence of two hosts is there once
        code: np.array(sorted(set(own.to_pylist()))[:24], dtype=np.uint64)
        for code, own in kept.items()
    }
    assert len(samples["de"]) == 24
    options = SimpleNamespace(pairs=12, sentences_per_host=3, seed=1)
    digests = {code: baseline_sample.sample_digest(sample) for code, sample in samples.items()}
    for phases in (
        sample_phases(folder, options, lanes),
        pair_phases(folder, options.seed, digests, lanes),
    ):
        with test_pipeline.TestPipeline() as pipeline:
            add_phases(pipeline, phases)
    for code, sample in samples.items():
        np.testing.assert_array_equal(read_sample(folder, code), sample)
        record = PairsRecord.of(read_record(folder, pairs_record_path(code)))
        tables = [pq.read_table(folder.path(pairs_path(code, part.name))) for part in record.parts]
        pairs = [pair for table in tables for pair in pairs_of(table)]
        of_hosts = (*HOST_COLUMNS, "same_host")
        unknown = {table[name].null_count == len(table) for table in tables for name in of_hosts}
        assert unknown == {code != "en"}
        chosen = whole[code].filter(
            pa.array(is_sampled(whole[code]["priority"].to_numpy(), sample))
        )
        assert pairs == paired_by_hand(set(chosen["text"].to_pylist()), code)


def paired_by_hand(texts, language):
    """Pair neighbours in each part, then those left over."""
    parts, left = {}, []
    for text in sorted(texts, key=lambda text: pairing_order(1, language, text)):
        parts.setdefault(pairing_order(1, language, text) >> 62, []).append(text)
    pairs = []
    for _, part in sorted(parts.items()):
        pairs += list(zip(part[0::2], part[1::2], strict=False))
        left += part[len(part) // 2 * 2 :]
    return pairs + list(zip(left[0::2], left[1::2], strict=False))


@pytest.mark.parametrize(("digest", "is_kept"), [("of this sample", True), ("of another", False)])
def test_pairs_are_kept_only_if_they_are_of_the_same_sample(folder, digest, is_kept):
    assert baseline_sample._find_pairs(folder, SimpleNamespace(language="en")) is None
    record = PairsRecord(language="en", sample="of this sample", parts=())
    write_record(folder, pairs_record_path("en"), record)
    kept = baseline_sample._find_pairs(folder, SimpleNamespace(language="en", digest=digest))
    assert kept == (record if is_kept else None)
