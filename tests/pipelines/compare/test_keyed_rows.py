"""Rows as entries: keys, groups and clusters of awkward columns; pairing in buckets."""

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.compare import (
    ABSENT,
    ENTRY,
    CompareOptions,
    RowReader,
    keyed_rows,
    pair_entries,
    row_buckets,
)
from bertscore_beam.dump import census
from bertscore_beam.records import open_finished
from bertscore_core.errors import InputError
from tests.support.made_runs import made_run, scored


@pytest.fixture
def entries_of(tmp_path):
    """Return a function that gives the entries of a run with these columns, and their reader."""

    def read(wanted, parts=1, **given):
        count = len(next(iter(given.values())))
        rows = scored(np.linspace(0.1, 0.9, count), **given)
        folder = made_run(
            tmp_path / str(len(list(tmp_path.iterdir()))), {"a": rows}, part_rows=-(-count // parts)
        )
        options = CompareOptions(run="run", against=("other",), **wanted)
        reader = RowReader(options, *options.measure)
        return np.concatenate(list(reader.read(open_finished(str(folder))))), reader

    return read


def keys(entries):
    return [(int(entry["high"]), int(entry["low"])) for entry in entries]


def test_keys_are_equal_where_their_values_are_whatever_the_type(entries_of):
    texts = pa.array(["7", "8", "9"])
    spellings = (
        pa.array([7, 8, 9]),
        pa.array([7.0, 8.0, 9.0]),
        texts,
        texts.cast(pa.large_string()),
        texts.dictionary_encode(),
    )
    other = pa.array([True, False, True])
    every = {tuple(keys(entries_of({"key": ("k", "o")}, k=k, o=other)[0])) for k in spellings}
    (only,) = every
    assert len(set(only)) == 3


def test_the_columns_of_a_key_do_not_run_into_each_other(entries_of):
    x, y = pa.array(["a", "ab", "", "abc"]), pa.array(["bc", "c", "abc", ""])
    entries, _ = entries_of({"key": ("x", "y")}, x=x, y=y)
    assert len(set(keys(entries))) == 4


def test_rows_without_a_key_are_left_out_and_counted(entries_of):
    entries, reader = entries_of({"key": ("k",)}, k=pa.array([1.5, None, float("nan"), 2.0]))
    assert reader.without_key == 2
    assert entries["row"].tolist() == [0, 3]


def test_groups_are_numbered_alike_in_all_parts_and_nulls_are_a_group(entries_of):
    system = pa.array(["b", None, "a", "b", "a", None]).dictionary_encode()
    year = pa.array([1, 1, 1, 1, 2, 1])
    entries, reader = entries_of({"by": ("system", "year")}, 3, system=system, year=year)
    names = list(reader.groups)
    assert [names[number] for number in entries["group"].tolist()] == [
        ("b", "1"), (None, "1"), ("a", "1"), ("b", "1"), ("a", "2"), (None, "1"),
    ]  # fmt: skip


def test_too_many_groups_are_refused_by_name(entries_of, monkeypatch):
    monkeypatch.setattr(census, "MOST_GROUPS", 3)
    with pytest.raises(InputError, match=r"got more than 3; .* Leave it out of --by"):
        entries_of({"by": ("k",)}, k=pa.array(range(4)))


def test_a_row_without_a_cluster_is_one_by_itself(entries_of):
    document = pa.array(["x", None, "x", None, "y"])
    clusters = entries_of({"cluster": "document"}, document=document)[0]["cluster"].tolist()
    assert clusters[0] == clusters[2]
    assert len(set(clusters)) == 4


def test_other_measures_take_their_columns(entries_of):
    recall = np.array([0.25, 0.5])
    assert entries_of({"measure": ("recall",)}, recall=recall)[0]["score"].tolist() == [0.25, 0.5]


def random_entries(count, sides, seed=0):
    """Return entries of distinct keys on each side, of which most are on several."""
    random = np.random.default_rng(seed)
    rows = []
    for side in range(sides):
        chosen = random.permutation(count)[: count * 3 // 4]
        entries = np.zeros(len(chosen), dtype=ENTRY)
        entries["high"], entries["low"], entries["side"] = chosen % 5, chosen, side
        rows.append(entries)
    return np.concatenate(rows)


@pytest.mark.parametrize("bucket_rows", [10, 10_000])
def test_rows_of_a_key_meet_in_one_bucket(monkeypatch, bucket_rows):
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", bucket_rows)
    entries = random_entries(400, 3)
    buckets = row_buckets(len(entries))
    for part in np.array_split(entries, 7):
        buckets.add(part)
    found = {}
    for _, rows in buckets.take(ENTRY):
        bucket = pair_entries(rows, 3)
        assert not bucket.repeated.any()
        for places in bucket.places.tolist():
            there = [side for side, place in enumerate(places) if place != ABSENT]
            lows = {int(bucket.entries["low"][places[side]]) for side in there}
            assert [int(bucket.entries["side"][places[side]]) for side in there] == there
            (low,) = lows
            assert low not in found
            found[low] = there
    expected = {}
    for one in entries:
        expected.setdefault(int(one["low"]), []).append(int(one["side"]))
    assert found == {low: sorted(sides) for low, sides in expected.items()}


def test_keys_that_repeat_are_counted_by_side():
    entries = random_entries(40, 2)
    again = np.concatenate([entries, entries[:3], entries[:1]])
    bucket = pair_entries(again, 2)
    assert bucket.repeated_keys.tolist() == [3, 0]
    assert bucket.repeated.tolist() == [7, 0]
