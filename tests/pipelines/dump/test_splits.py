"""Splits of files: how they are cut, kept in a file, put into runs, and read as one stream."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, strategies as st

from bertscore_beam.dump import parquet_rows
from bertscore_beam.dump.columns import ReferenceFile
from bertscore_beam.dump.partitions import Partition
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.plan_file import plan_from_bytes, plan_to_bytes
from bertscore_beam.dump.read_rows import SplitReader, read_split
from bertscore_beam.dump.splits import (
    MOST_CHUNKS,
    RowGroup,
    Split,
    plan_file,
    reading_note,
    rows_for_workers,
    split_chunks,
)
from bertscore_core.errors import InputError
from tests.support.tables import every_type, plan as plan_path

ROW_GROUPS = st.lists(
    st.builds(RowGroup, num_rows=st.integers(0, 300), num_bytes=st.integers(0, 5000)), max_size=12
)


def plan(row_groups: list[RowGroup], target_rows: int, target_bytes: int = 10**9) -> list[Split]:
    blank = Split(path="/in/a.parquet", input_name="a.parquet", file_size=77, file_version="v1")
    return plan_file(blank, row_groups, target_rows=target_rows, target_bytes=target_bytes)


def groups(*rows: int, row_bytes: int = 10) -> list[RowGroup]:
    return [RowGroup(num_rows=n, num_bytes=n * row_bytes) for n in rows]


def rows_read(split: Split, row_groups: list[RowGroup]) -> range:
    """Return the rows of the file that a reader gets, from the row groups and not the offset."""
    before = sum(group.num_rows for group in row_groups[: split.first_row_group])
    start = before + split.skip_rows
    held = sum(g.num_rows for g in row_groups[split.first_row_group : split.row_group_stop])
    assert split.skip_rows + split.num_rows <= held
    return range(start, start + split.num_rows)


@given(ROW_GROUPS, st.integers(1, 200), st.integers(1, 4000))
@example([], 10, 100)
@example(groups(0, 0), 10, 100)
def test_each_row_is_in_one_split_in_order_and_no_split_is_too_large(
    row_groups, target_rows, target_bytes
):
    splits = plan(row_groups, target_rows, target_bytes)
    total = sum(group.num_rows for group in row_groups)
    assert [row for split in splits for row in rows_read(split, row_groups)] == list(range(total))
    assert [split.row_offset for split in splits] == [
        rows_read(split, row_groups).start if total else 0 for split in splits
    ]
    rows = [split.num_rows for split in splits]
    assert all(0 < number <= target_rows for number in rows) if total else rows == [0]
    files = {(split.path, split.file_rows, split.file_size, split.file_version) for split in splits}
    assert files == {("/in/a.parquet", total, 77, "v1")}
    names = [split.part_name for split in splits]
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    ("row_groups", "rows", "size", "expected"),
    [
        (groups(10, 10, 10, 10, 10), 20, 10**9, [(0, 2, 20, 0), (2, 4, 20, 0), (4, 5, 10, 0)]),
        (groups(10, 10, 10, row_bytes=100), 1000, 2000, [(0, 2, 20, 0), (2, 3, 10, 0)]),
        (
            groups(5, 100, 5),
            30,
            10**9,
            [(0, 1, 5, 0), *((1, 2, 25, skip) for skip in (0, 25, 50, 75)), (2, 3, 5, 0)],
        ),
        ([RowGroup(num_rows=1, num_bytes=10**9)], 10, 100, [(0, 1, 1, 0)]),
    ],
    ids=["put together by rows", "by bytes", "cut evenly", "one enormous row"],
)
def test_row_groups_are_put_together_and_cut(row_groups, rows, size, expected):
    splits = plan(row_groups, rows, size)
    got = [(s.first_row_group, s.row_group_stop, s.num_rows, s.skip_rows) for s in splits]
    assert got == expected


@pytest.mark.parametrize(
    ("rows", "workers", "expected"),
    [
        (19_000, 4, 1_188),  # 16 splits
        (19_000, 1, 4_750),
        (728, 2, 500),
        (0, 3, 500),
        (10**9, 4, 20_000),
        (19_000, None, 20_000),
    ],
)
def test_every_worker_gets_several_splits(rows, workers, expected):
    assert rows_for_workers(rows, workers) == expected


# --- As a file ------------------------------------------------------------------------------------

_NUMBERS = st.integers(0, 2**62)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_NAMES = st.lists(_TEXTS, max_size=2).map(tuple)
_PARTITIONS = st.builds(Partition, _TEXTS, st.none() | _TEXTS, _TEXTS, st.booleans())
_FIELDS = {
    **dict.fromkeys(("path", "input_name", "file_version", "data"), _TEXTS),
    **dict.fromkeys(("file_size", "row_offset", "file_rows", "num_rows"), _NUMBERS),
    "partitions": st.lists(_PARTITIONS, max_size=2).map(tuple),
    "left_out": _NAMES,
    "references": st.none() | st.builds(ReferenceFile, names=_NAMES, lists=_NAMES),
}
SPLITS = st.lists(st.builds(Split, **_FIELDS, utc_times=st.booleans()), max_size=12)


@given(splits=SPLITS)
def test_splits_come_out_of_a_file_as_they_went_in(splits):
    made = Plan(splits=tuple(splits), rejected_files=(), split_rows=1, digest="")
    again = plan_from_bytes(plan_to_bytes(made), "plan").splits
    assert again == made.splits
    assert [*map(repr, again)] == [*map(repr, splits)]  # 1 and True are equal


# --- Runs -----------------------------------------------------------------------------------------


def splits_of(*rows: int, target: int) -> list[Split]:
    return plan(groups(*rows), target)


def chunks_of(splits: list[Split], number: int | None) -> list[tuple[Split, ...]]:
    return [chunk.splits for chunk in split_chunks(splits, number)]


@pytest.mark.parametrize("number", [2, 4, 14, 200, None])
@pytest.mark.parametrize("groups", [(1000,), (1000, 5, 5, 300), (10,) * 50, (40, 400) * 10, (0,)])
def test_runs_hold_each_split_once_in_order_and_never_two_row_groups(number, groups):
    splits = splits_of(*groups, target=20)
    runs = chunks_of(splits, number)
    assert list(itertools.chain(*runs)) == splits
    for run in runs:
        assert len(run) == 1 or len({(one.first_row_group, one.row_group_stop) for one in run}) == 1
    most = MOST_CHUNKS if number is None else number
    for place in range(len(groups)):
        assert sum(run[0].first_row_group == place for run in runs) <= max(most, 1)


def test_one_large_row_group_is_shared_and_many_are_read_once():
    one = splits_of(1_000_000, target=20_000)
    assert [len(run) for run in chunks_of(one, 4)] == [12, 13, 12, 13]
    assert len(chunks_of(one, None)) == MOST_CHUNKS
    assert len(chunks_of(one, 2000)) == 50
    many = splits_of(*[1_000_000] * 30, target=20_000)
    assert [len(run) for run in chunks_of(many, 4)] == [50] * 30
    assert len(chunks_of(many[:1] + many[49:51], 4)) == 3  # what is left of a resumed run
    small = splits_of(*[20_000] * 30, target=20_000)
    assert [len(run) for run in chunks_of(small, 2)] == [1] * 30


def test_plan_says_how_often_rows_are_read():
    assert reading_note(splits_of(*[20] * 9, target=20), 2) == "once"
    assert reading_note([], 2) == "once"
    words = reading_note(splits_of(1_000_000, target=20_000), 4)
    assert words.startswith("about 2.5 times over: workers share row groups of up to 1,000,000")


def test_stream_yields_what_each_split_yields_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 7)
    path = str(tmp_path / "a.parquet")
    pq.write_table(every_type(), path, row_group_size=20)
    splits = plan_path(path, 6)
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
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 10)
    monkeypatch.setattr(parquet_rows, "MAX_DECODED_BYTES", 100_000)
    texts = ["long" * 1000 if 100 <= number < 200 else "short" for number in range(400)]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": texts}), path)  # each text once, in a dictionary
    splits = plan_path(path, 100)
    reader, found = SplitReader(splits), []
    for split in splits:
        try:
            found.append(reader.read(split).table.num_rows)
        except InputError as error:
            found.append(str(error)[:20])
    assert found == [100, found[1], 100, 100]
    assert str(found[1]).startswith("rows 100 to")
