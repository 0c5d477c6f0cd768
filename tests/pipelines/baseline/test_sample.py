"""The phases that sample and pair: the same result, whatever the order of files."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline

from bertscore_beam.baseline.extract import ReadFile, write_sentences
from bertscore_beam.baseline.sample import pair_phases, sample_digest
from bertscore_beam.baseline.sources import PairsRecord, read_record
from bertscore_beam.crawl.sampling import (
    HOST_COLUMNS,
    cap_hosts,
    count_overlap,
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


def asked(size, *, is_last):
    """Return the records of samples of this size, before they are taken."""
    how = {"wanted": size, "host_cap": 3, "listing": "", "files": {}, "is_last": is_last}
    return [PairsRecord(language=code, **how) for code in ("de", "en")]


def drawn(folder, records, paths):
    """Sample and pair the sentences of files; return the records by language."""
    phases = pair_phases(folder, 1, [(record, tuple(paths)) for record in records])
    with test_pipeline.TestPipeline() as pipeline:
        add_phases(pipeline, phases)
    return {record.language: read_record(folder, record.language) for record in records}


@pytest.mark.job
@pytest.mark.parametrize(("size", "is_last"), [(24, False), (1000, True)])
def test_a_sample_is_the_lowest_of_capped_hosts_and_its_pairs_are_neighbours(
    folder, monkeypatch, written, size, is_last
):
    monkeypatch.setattr("bertscore_beam.baseline.sample.part_bits", lambda pairs: 2)
    whole = {code: pa.concat_tables(f[code] for f in written.values()) for code in ("de", "en")}
    kept = {code: cap_hosts([hashes_of(table)], 3)["priority"] for code, table in whole.items()}
    records = drawn(folder, asked(size, is_last=is_last), written)
    again = drawn(folder, asked(size, is_last=is_last), [*reversed(written)])
    assert again == records  # whatever the order of files
    for code, record in records.items():
        # A sentence of two hosts is there once.
        sample = np.array(sorted(set(kept[code].to_pylist()))[:size], dtype=np.uint64)
        assert (record.found, record.sample) == (len(sample), sample_digest(sample))
        assert record.is_done
        assert len(sample) == 24 or is_last
        tables = [pq.read_table(folder.path(part.path)) for part in record.parts]
        pairs = [pair for table in tables for pair in pairs_of(table)]
        of_hosts = (*HOST_COLUMNS, "same_host")
        unknown = {table[name].null_count == len(table) for table in tables for name in of_hosts}
        assert unknown == {code != "en"}
        chosen = whole[code].filter(
            pa.array(is_sampled(whole[code]["priority"].to_numpy(), sample))
        )
        assert pairs == paired_by_hand(set(chosen["text"].to_pylist()), code)
        assert record.rows == len(pairs) == len(sample) // 2
        for part, table in zip(record.parts, tables, strict=True):
            sides = (table[side].to_pylist() for side in ("candidate", "reference"))
            assert tuple(part.overlap) == count_overlap(*sides, code)


@pytest.mark.job
def test_a_sample_that_is_too_small_waits_for_more_files_and_one_of_nothing_has_no_pairs(
    folder, written
):
    for paths, found in ((written, True), ((), False)):
        for is_last in (False, True):
            for record in drawn(folder, asked(1000, is_last=is_last), paths).values():
                assert bool(record.found) == found
                assert bool(record.parts) == (found and is_last)
                assert record.is_done == is_last


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
