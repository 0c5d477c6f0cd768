import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump import RowGroup, Split, plan_file, rows_for_workers

ROW_GROUPS = st.lists(
    st.builds(RowGroup, num_rows=st.integers(0, 300), num_bytes=st.integers(0, 5000)), max_size=12
)


def plan(row_groups: list[RowGroup], target_rows: int, target_bytes: int = 10**9) -> list[Split]:
    blank = Split(
        path="/in/a.parquet",
        input_name="a.parquet",
        file_rows=None,
        file_size=77,
        file_version="v1",
    )
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
def test_each_row_is_in_one_split_in_order_and_no_split_is_too_large(
    row_groups, target_rows, target_bytes
):
    splits = plan(row_groups, target_rows, target_bytes)
    total = sum(group.num_rows for group in row_groups)
    assert [row for split in splits for row in rows_read(split, row_groups)] == list(range(total))
    assert [split.row_offset for split in splits] == [
        rows_read(split, row_groups).start if total else 0 for split in splits
    ]
    assert all(0 < split.num_rows <= target_rows for split in splits) or total == 0
    assert {(split.path, split.file_rows, split.file_size) for split in splits} == {
        ("/in/a.parquet", total, 77)
    }
    assert {split.file_version for split in splits} == {"v1"}
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


@pytest.mark.parametrize("row_groups", [[], groups(0), groups(0, 0)])
def test_file_without_rows_is_represented_by_one_empty_split(row_groups):
    (split,) = plan(row_groups, target_rows=10)
    assert (split.num_rows, split.row_offset) == (0, 0)
    assert split.part_name == "a.parquet/part-000000000000.parquet"


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
