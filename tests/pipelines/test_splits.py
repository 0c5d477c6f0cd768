from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_core.errors import ConfigError
from pipelines.splits import (
    RowGroup,
    Split,
    common_folder,
    common_root,
    input_names,
    part_name,
    plan_file,
)

ROW_GROUPS = st.lists(
    st.builds(RowGroup, num_rows=st.integers(0, 300), num_bytes=st.integers(0, 5000)), max_size=12
)
# Names as hostile as file systems and object stores allow.
COMPONENTS = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]) | st.sampled_from("_.%\\:*["),
    min_size=1,
    max_size=6,
).filter(lambda name: name not in {".", ".."})
PATHS = st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join)


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
    ("paths", "root"),
    [
        ([], ""),
        (["/a/b/c.parquet"], "/a/b"),
        (["/a/b/c.parquet", "/a/b/d/e.parquet"], "/a/b"),
        (["/a/bc/x.parquet", "/a/bd/x.parquet"], "/a"),  # not the common letters
        (["/x.parquet", "/a/x.parquet"], "/"),
        (["s3://dumps/a/x.parquet", "s3://dumps/b/x.parquet"], "s3://dumps"),
        (["s3://one/x.parquet", "s3://two/x.parquet"], "s3://"),
        (["memory:///a/x.parquet", "memory://a/y.parquet"], "memory://a"),
        (["s3://a/x.parquet", "/a/x.parquet"], ""),
    ],
)
def test_common_root_is_the_deepest_shared_folder(paths: list[str], root: str) -> None:
    assert common_root(paths) == root


def test_common_folder_of_one_folder_is_itself() -> None:
    assert common_folder(["/a/b"]) == "/a/b"
    assert common_folder(["/a/b/", "/a/b/c"]) == "/a/b"
    assert common_folder(["/a/b", "/a/c"]) == "/a"
    assert common_folder(["s3://bucket/", "s3://bucket/in"]) == "s3://bucket"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/in/x.parquet", "x.parquet"),
        ("/in/sub dir/ü 日本.parquet", "sub dir/ü 日本.parquet"),  # kept as they are
        ("/in/date=2026-01-01/x[1]*.parquet", "date=2026-01-01/x[1]*.parquet"),
        ("/in/_hidden/.x.parquet", "%5Fhidden/%2Ex.parquet"),  # readers would skip the part
        ("/in/../x.parquet", "%2E./x.parquet"),  # must not climb
        ("/in/./x.parquet", "%2E/x.parquet"),
        ("/in//x.parquet", "%/x.parquet"),
        ("/in/a\\b.parquet", "a%5Cb.parquet"),
        ("/in/10:30::x.parquet", "10%3A30%3A%3Ax.parquet"),
        ("/in/50%.parquet", "50%25.parquet"),
        ("/in/a\nb\0.parquet", "a%0Ab%00.parquet"),
    ],
)
def test_input_name_is_safe_and_keeps_what_it_can(path: str, name: str) -> None:
    assert input_names([path], "/in") == {path: name}


def test_name_that_grows_too_long_is_cut_and_stays_unique() -> None:
    long = [f"/in/{'%' * 200}{end}.parquet" for end in "ab"] + [f"/in/{'_' + '日' * 84}.x"]
    names = list(input_names([*long, f"/in/{'n' * 255}"], "/in").values())
    assert names[3] == "n" * 255
    assert len(set(names)) == 4
    assert all(len(name.encode()) <= 255 for name in names)
    assert names[0].startswith("%25%25")
    assert names[2].startswith("%5F日")


def test_names_do_not_depend_on_other_files_when_the_root_is_given() -> None:
    alone = input_names(["/in/a/x.parquet"], "/in")
    together = input_names(["/in/a/x.parquet", "/in/b/x.parquet"], "/in")
    assert alone["/in/a/x.parquet"] == together["/in/a/x.parquet"] == "a/x.parquet"


def test_files_on_different_file_systems_do_not_collide() -> None:
    names = input_names(["/a/x.parquet", "s3://a/x.parquet", "memory://a/x.parquet"])
    assert list(names.values()) == ["local/a/x.parquet", "s3/a/x.parquet", "memory/a/x.parquet"]


def test_query_of_an_address_is_left_out_of_the_name() -> None:
    first, second = "https://h/x.parquet?sig=SECRET1", "https://h/x.parquet?sig=SECRET2"
    assert input_names([first]) == {first: "x.parquet"}
    names = input_names([first, second])
    assert len(set(names.values())) == 2
    assert all("SECRET" not in name for name in names.values())


@given(st.lists(PATHS, min_size=1, max_size=8, unique=True))
def test_names_are_unique_reversible_and_cannot_leave_the_output(below: list[str]) -> None:
    paths = [f"/in/{path}" for path in below]
    names = input_names(paths, "/in")
    assert list(names) == paths
    assert len(set(names.values())) == len(paths)
    for path, name in zip(below, names.values(), strict=True):
        assert unquote(name) == path
        for component in name.split("/"):
            assert component
            assert not component.startswith(("_", "."))
            assert not set(component) & set("\\:\0\n")


def test_the_user_of_a_url_is_in_no_name_and_names_stay_apart() -> None:
    paths = [
        "http://me:hunter2@a.example/x.parquet",
        "http://me:hun@ter2@b.example/x.parquet",
        "http://you:hunter2@b.example/x.parquet",
        "s3://hunter2@bucket/x.parquet",
    ]
    names = input_names(paths)
    assert "hunter2" not in str(list(names.values()))
    assert "ter2" not in str(list(names.values()))
    assert len(set(names.values())) == len(paths)
    assert names[paths[0]] == "http/a.example/x.parquet"
    changed = input_names([path.replace("hunter2", "new") for path in paths[:2]])
    assert list(changed.values()) == list(input_names(paths[:2]).values())
