"""Rows as entries: keys, groups and clusters of awkward columns; pairing in buckets."""

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump import groups
from bertscore_beam.results import pairing
from bertscore_beam.results.keyed_rows import ENTRY, LeftOut, Numbers, RowColumns, read_entries
from bertscore_beam.results.pairing import ABSENT, Spill, pair_entries
from bertscore_beam.score.finished import open_finished
from bertscore_core.errors import InputError
from tests.support.made_runs import made_run, scored


def entries_of(folder, wanted, parts=1, **given):
    """Return the entries of a run with these columns, with its numbers and what was left out."""
    count = len(next(iter(given.values())))
    rows = scored(np.linspace(0.1, 0.9, count), **given)
    run = open_finished(str(made_run(folder, {"a": rows}, part_rows=-(-count // parts))))
    numbers, left_out = Numbers(), LeftOut()
    entries = np.concatenate(list(read_entries(run, wanted, numbers, left_out)))
    return entries, numbers, left_out


def keys(entries):
    return [(int(one["high"]), int(one["low"])) for one in entries]


def test_keys_are_equal_where_their_values_are_whatever_the_type(tmp_path):
    wanted = RowColumns(measure="f1", key=("k", "other"))
    spellings = {
        "integers": pa.array([7, 8, 9]),
        "floats": pa.array([7.0, 8.0, 9.0]),
        "texts": pa.array(["7", "8", "9"]),
        "large": pa.array(["7", "8", "9"], pa.large_string()),
        "dictionary": pa.array(["7", "8", "9"]).dictionary_encode(),
    }
    found = [
        keys(entries_of(tmp_path / name, wanted, k=k, other=pa.array([True, False, True]))[0])
        for name, k in spellings.items()
    ]
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == 3


def test_the_columns_of_a_key_do_not_run_into_each_other(tmp_path):
    entries, _, _ = entries_of(
        tmp_path / "run",
        RowColumns(measure="f1", key=("x", "y")),
        x=pa.array(["a", "ab", "", "abc"]),
        y=pa.array(["bc", "c", "abc", ""]),
    )
    assert len(set(keys(entries))) == 4


def test_rows_without_a_key_are_left_out_and_counted(tmp_path):
    entries, _, left_out = entries_of(
        tmp_path / "run",
        RowColumns(measure="f1", key=("k",)),
        k=pa.array([1.5, None, float("nan"), 2.0]),
    )
    assert (len(entries), left_out.without_key) == (2, 2)
    assert entries["row"].tolist() == [0, 3]


def test_groups_are_numbered_alike_in_all_parts_and_nulls_are_a_group(tmp_path):
    system = pa.array(["b", None, "a", "b", "a", None]).dictionary_encode()
    entries, numbers, _ = entries_of(
        tmp_path / "run",
        RowColumns(measure="f1", by=("system", "year")),
        parts=3,
        system=system,
        year=pa.array([1, 1, 1, 1, 2, 1]),
    )
    names = {number: group for group, number in numbers.groups.items()}
    found = [names[number] for number in entries["group"].tolist()]
    expected = [("b", "1"), (None, "1"), ("a", "1"), ("b", "1"), ("a", "2"), (None, "1")]
    assert found == expected


def test_too_many_groups_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)
    with pytest.raises(InputError, match=r"got more than 3; .* Leave it out of --by"):
        entries_of(tmp_path / "run", RowColumns(measure="f1", by=("k",)), k=pa.array(range(4)))


def test_a_row_without_a_cluster_is_one_by_itself(tmp_path):
    entries, _, _ = entries_of(
        tmp_path / "run",
        RowColumns(measure="f1", cluster="document"),
        document=pa.array(["x", None, "x", None, "y"]),
    )
    clusters = entries["cluster"].tolist()
    assert clusters[0] == clusters[2]
    assert len(set(clusters)) == 4


def test_other_measures_take_their_columns(tmp_path):
    recall = np.array([0.25, 0.5])
    rows = scored(np.array([0.3, 0.4]), recall=recall, id=pa.array([1, 2]))
    run = open_finished(str(made_run(tmp_path / "run", {"a": rows})))
    wanted = RowColumns(measure="recall")
    (entries,) = read_entries(run, wanted, Numbers(), LeftOut())
    assert entries["score"].tolist() == recall.tolist()


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
def test_rows_of_a_key_meet_in_one_bucket(tmp_path, monkeypatch, bucket_rows):
    monkeypatch.setattr(pairing, "BUCKET_ROWS", bucket_rows)
    entries = random_entries(400, 3)
    spill = Spill(tmp_path, len(entries))
    for part in np.array_split(entries, 7):
        spill.add(part)
    found = {}
    for bucket in spill.paired(3):
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
    assert list(tmp_path.iterdir()) == []


def test_keys_that_repeat_are_counted_by_side():
    entries = random_entries(40, 2)
    again = np.concatenate([entries, entries[:3], entries[:1]])
    bucket = pair_entries(again, 2)
    assert bucket.repeated_keys.tolist() == [3, 0]
    assert bucket.repeated.tolist() == [7, 0]
