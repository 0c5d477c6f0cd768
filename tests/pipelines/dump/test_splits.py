import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_beam.dump.splits import RowGroup, Split, part_name, plan_file, rows_for_workers
from bertscore_core.errors import ConfigError

ROW_GROUPS = st.lists(
    st.builds(RowGroup, num_rows=st.integers(0, 300), num_bytes=st.integers(0, 5000)), max_size=12
)


def plan(row_groups: list[RowGroup], target_rows: int, target_bytes: int = 10**9) -> list[Split]:
    return plan_file(
        "/in/a.parquet",
        "a.parquet",
        row_groups,
        target_rows=target_rows,
        target_bytes=target_bytes,
        file_size=77,
        file_version="v1",
    )


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
def test_plan_covers_each_row_once_and_in_order(
    row_groups: list[RowGroup], target_rows: int, target_bytes: int
) -> None:
    splits = plan(row_groups, target_rows, target_bytes)
    total = sum(group.num_rows for group in row_groups)
    assert [row for split in splits for row in rows_read(split, row_groups)] == list(range(total))
    assert [split.row_offset for split in splits] == [
        rows_read(split, row_groups).start if total else 0 for split in splits
    ]
    assert all(split.num_rows > 0 for split in splits) or total == 0
    assert {split.file_rows for split in splits} == {total}


@given(ROW_GROUPS, st.integers(1, 200), st.integers(1, 4000))
def test_part_names_are_unique_and_sorted_in_row_order(
    row_groups: list[RowGroup], target_rows: int, target_bytes: int
) -> None:
    names = [split.part_name for split in plan(row_groups, target_rows, target_bytes)]
    assert names == sorted(set(names))


@given(ROW_GROUPS, st.integers(1, 200), st.integers(1, 4000))
def test_no_split_is_above_the_row_target_and_plans_are_deterministic(
    row_groups: list[RowGroup], target_rows: int, target_bytes: int
) -> None:
    splits = plan(row_groups, target_rows, target_bytes)
    assert all(split.num_rows <= target_rows for split in splits)
    assert splits == plan(list(row_groups), target_rows, target_bytes)


def test_small_row_groups_are_put_together_up_to_the_target() -> None:
    splits = plan(groups(10, 10, 10, 10, 10), target_rows=20)
    assert [(s.first_row_group, s.row_group_stop, s.num_rows) for s in splits] == [
        (0, 2, 20),
        (2, 4, 20),
        (4, 5, 10),
    ]


def test_bytes_limit_a_split_as_rows_do() -> None:
    splits = plan(groups(10, 10, 10, row_bytes=100), target_rows=1000, target_bytes=2000)
    assert [split.num_rows for split in splits] == [20, 10]


def test_oversized_row_group_is_cut_evenly_by_rows() -> None:
    splits = plan(groups(5, 100, 5), target_rows=30)
    assert [(s.row_offset, s.num_rows, s.skip_rows) for s in splits] == [
        (0, 5, 0),
        (5, 25, 0),
        (30, 25, 25),
        (55, 25, 50),
        (80, 25, 75),
        (105, 5, 0),
    ]


def test_one_enormous_row_is_a_split_of_its_own() -> None:
    splits = plan([RowGroup(num_rows=1, num_bytes=10**9)], target_rows=10, target_bytes=100)
    assert [split.num_rows for split in splits] == [1]


@pytest.mark.parametrize("row_groups", [[], groups(0), groups(0, 0)])
def test_file_without_rows_is_represented_by_one_empty_split(row_groups: list[RowGroup]) -> None:
    (split,) = plan(row_groups, target_rows=10)
    assert (split.num_rows, split.row_offset) == (0, 0)
    assert split.part_name == "a.parquet/part-000000000000.parquet"


def test_identity_of_the_file_is_carried_along() -> None:
    (split,) = plan(groups(3), target_rows=10)
    assert (split.path, split.file_rows, split.file_size, split.file_version) == (
        "/in/a.parquet",
        3,
        77,
        "v1",
    )


@pytest.mark.parametrize(("rows", "size"), [(0, 1), (1, 0), (-5, 1)])
def test_target_below_one_is_refused(rows: int, size: int) -> None:
    with pytest.raises(ConfigError, match=rf"got {rows} rows and {size} bytes; expected at least"):
        plan(groups(1), rows, size)


def test_part_name_has_twelve_digits() -> None:
    assert part_name("x/a.parquet", 20_000) == "x/a.parquet/part-000000020000.parquet"


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


@given(st.integers(2_000, 400_000), st.integers(1, 20))
def test_no_worker_is_idle_while_another_has_many_rows_left(rows: int, workers: int) -> None:
    most = rows_for_workers(rows, workers)
    splits = plan(groups(rows), target_rows=most)
    assert len(splits) >= min(workers * 4, rows // 500)
