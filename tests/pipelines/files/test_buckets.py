"""Rows come back, from memory and from the disk, each with those of its bucket, in order."""

import tempfile

import numpy as np
import pytest
from hypothesis import given

from bertscore_beam.files.buckets import Buckets, bucket_of, in_order, rows_by_value
from tests.support.hashes import as_hashes, few_hashes

ROW = np.dtype([("key", "<u8"), ("number", "<i4")])


@pytest.mark.parametrize("bits", [0, 3, 9])
def test_every_row_comes_back_once_with_those_of_its_bucket(tmp_path, monkeypatch, bits):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rng = np.random.default_rng(1)
    rows = np.empty(9000, dtype=ROW)
    rows["key"] = rng.integers(0, 2**63, 9000, dtype=np.uint64) * 2
    rows["number"] = np.arange(9000)
    buckets = Buckets(bits, lambda rows: rows["key"])
    for piece in np.split(rows, [10, 10, 700]):
        buckets.add(piece)
    assert list(tmp_path.iterdir()) == []  # a process that is killed leaves nothing
    taken = list(buckets.take(ROW))
    files = min(bits, 7)  # a process may have so few files open
    assert len(taken) == 2**files
    for bucket, in_bucket in enumerate(taken):
        expected = rows[bucket_of(rows["key"], files) == bucket]
        assert len(in_bucket) > 0
        assert np.array_equal(in_bucket, expected)
    assert list(tmp_path.iterdir()) == []


@given(few_hashes)
def test_rows_are_dealt_out_by_their_value(values):
    result = dict(rows_by_value(as_hashes(values)))
    assert {value: rows.tolist() for value, rows in result.items()} == {
        value: [row for row, second in enumerate(values) if second == value]
        for value in set(values)
    }


@given(few_hashes)
def test_rows_in_order_of_two_columns_keep_their_turn_and_show_the_first_of_each(values):
    pairs = [(value % 3, value) for value in values]
    lefts, rights = (np.array([pair[side] for pair in pairs], dtype=np.uint64) for side in (0, 1))
    order, first = in_order(lefts, rights)
    assert order.tolist() == sorted(range(len(pairs)), key=pairs.__getitem__)
    assert {pairs[row]: row for row in order[first].tolist()} == {
        pair: pairs.index(pair) for pair in pairs
    }
    assert np.count_nonzero(first) == len(set(pairs))
