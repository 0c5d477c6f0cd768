"""Runs of splits: how they are cut, and that one is read as one stream."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import (
    MOST_RUNS,
    RowGroup,
    Split,
    SplitReader,
    parquet as reading,
    plan_file,
    read_split,
    reading_words,
    split_runs,
)
from bertscore_core.errors import InputError
from tests.support.tables import every_type, plan


def splits_of(*groups: int, target: int, name: str = "a.parquet") -> list[Split]:
    row_groups = [RowGroup(num_rows=rows, num_bytes=rows) for rows in groups]
    blank = Split(path=f"/{name}", input_name=name, file_rows=None, file_size=0, file_version="")
    return plan_file(blank, row_groups, target_rows=target, target_bytes=10**9)


def runs_of(splits: list[Split], workers: int | None) -> list[tuple[Split, ...]]:
    return [run.splits for run in split_runs(splits, workers)]


@pytest.mark.parametrize("workers", [1, 2, 7, 100, None])
@pytest.mark.parametrize("groups", [(1000,), (1000, 5, 5, 300), (10,) * 50, (40, 400) * 10, (0,)])
def test_runs_hold_each_split_once_in_order_and_never_two_row_groups(workers, groups):
    splits = splits_of(*groups, target=20)
    runs = runs_of(splits, workers)
    assert list(itertools.chain(*runs)) == splits
    for run in runs:
        assert len(run) == 1 or len({(one.first_row_group, one.row_group_stop) for one in run}) == 1
    most = MOST_RUNS if workers is None else 2 * workers
    for place in range(len(groups)):
        assert sum(run[0].first_row_group == place for run in runs) <= max(most, 1)


def test_one_large_row_group_is_shared_and_many_are_read_once():
    one = splits_of(1_000_000, target=20_000)
    assert [len(run) for run in runs_of(one, 2)] == [12, 13, 12, 13]
    assert len(runs_of(one, None)) == MOST_RUNS
    assert len(runs_of(one, 1000)) == 50
    many = splits_of(*[1_000_000] * 30, target=20_000)
    assert [len(run) for run in runs_of(many, 2)] == [50] * 30
    assert len(runs_of(many[:1] + many[49:51], 2)) == 3  # what is left of a resumed run
    small = splits_of(*[20_000] * 30, target=20_000)
    assert [len(run) for run in runs_of(small, 1)] == [1] * 30


def test_plan_says_how_often_rows_are_read():
    assert reading_words(splits_of(*[20] * 9, target=20), 1) == "once"
    assert reading_words([], 1) == "once"
    words = reading_words(splits_of(1_000_000, target=20_000), 2)
    assert words.startswith("about 2.5 times over: workers share row groups of up to 1,000,000")


def test_stream_yields_what_each_split_yields_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BATCH_ROWS", 7)
    path = str(tmp_path / "a.parquet")
    pq.write_table(every_type(), path, row_group_size=20)
    splits = plan(path, 6)
    for chosen in (splits, splits[::2], splits[1:4]):
        for columns in (None, ["struct", "candidate"]):
            reader = SplitReader(chosen, columns)
            for split in chosen:
                got, alone = reader.read(split).table, read_split(split, columns)
                assert got.schema.equals(alone.schema, check_metadata=True)
                assert [c.num_chunks for c in got.columns] == [c.num_chunks for c in alone.columns]
                assert repr(got.to_pylist()) == repr(alone.to_pylist())
            assert reader._open is None  # nothing is left open behind the last one


def test_split_that_cannot_be_read_costs_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BATCH_ROWS", 10)
    monkeypatch.setattr(reading, "MAX_DECODED_BYTES", 100_000)
    texts = ["long" * 1000 if 100 <= number < 200 else "short" for number in range(400)]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": texts}), path)  # each text once, in a dictionary
    splits = plan(path, 100)
    reader, found = SplitReader(splits), []
    for split in splits:
        try:
            found.append(reader.read(split).table.num_rows)
        except InputError as error:
            found.append(str(error)[:20])
    assert found == [100, found[1], 100, 100]
    assert str(found[1]).startswith("rows 100 to")
