"""Rows come back from the disk, each with those of its bucket, in their order."""

import numpy as np

from bertscore_beam.files.buckets import Buckets, bucket_of

ROW = np.dtype([("key", "<u8"), ("number", "<i4")])


def test_every_row_comes_back_once_with_those_of_its_bucket(tmp_path):
    rng = np.random.default_rng(1)
    rows = np.empty(1000, dtype=ROW)
    rows["key"] = rng.integers(0, 2**63, 1000, dtype=np.uint64) * 2
    rows["number"] = np.arange(1000)
    buckets = Buckets(tmp_path, 3)
    for piece in np.split(rows, [10, 10, 700]):
        buckets.add(piece, piece["key"])
    assert buckets.count == 8
    taken = [buckets.take(bucket, ROW) for bucket in range(8)]
    for bucket, some in enumerate(taken):
        expected = rows[bucket_of(rows["key"], 3) == bucket]
        assert len(some) > 0
        assert np.array_equal(some, expected)
    assert sum(map(len, taken)) == 1000
    assert list(tmp_path.iterdir()) == []


def test_bucket_without_rows_is_empty(tmp_path):
    assert len(Buckets(tmp_path, 0).take(0, ROW)) == 0
