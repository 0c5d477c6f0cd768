from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.input_names import common_folder, input_names

# Names as hostile as file systems and object stores allow.
COMPONENTS = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]) | st.sampled_from("_.%\\:*["),
    min_size=1,
    max_size=6,
).filter(lambda name: name not in {".", ".."})


PATHS = st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("folders", "root"),
    [
        ([], ""),
        (["/a/b"], "/a/b"),
        (["/a/b/", "/a/b/c"], "/a/b"),
        (["/a/bc", "/a/bd"], "/a"),  # not the common letters
        (["/", "/a"], "/"),
        (["s3://dumps/a", "s3://dumps/"], "s3://dumps"),
        (["s3://one", "s3://two"], "s3://"),
        (["memory:///a", "memory://a/b"], "memory://a"),
        (["s3://a", "/a"], ""),
    ],
)
def test_common_folder_is_the_deepest_that_all_are_below(folders, root):
    assert common_folder(folders) == root


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
def test_input_name_is_safe_and_keeps_what_it_can(path, name):
    assert input_names([path], "/in") == {path: name}


def test_name_that_grows_too_long_is_cut_and_stays_unique():
    long = [f"/in/{'%' * 200}{end}.parquet" for end in "ab"] + [f"/in/{'_' + '日' * 84}.x"]
    names = list(input_names([*long, f"/in/{'n' * 255}"], "/in").values())
    assert names[3] == "n" * 255
    assert len(set(names)) == 4
    assert all(len(name.encode()) <= 255 for name in names)
    assert names[0].startswith("%25%25")
    assert names[2].startswith("%5F日")


def test_files_on_different_file_systems_do_not_collide():
    names = input_names(["/a/x.parquet", "s3://a/x.parquet", "memory://a/x.parquet"])
    assert list(names.values()) == ["local/a/x.parquet", "s3/a/x.parquet", "memory/a/x.parquet"]


@given(st.lists(PATHS, min_size=1, max_size=8, unique=True))
def test_names_are_unique_reversible_and_cannot_leave_the_output(below):
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


def test_users_and_queries_of_urls_are_in_no_name_and_names_stay_apart():
    paths = [
        "http://me:hunter2@a.example/x.parquet",
        "http://me:hun@ter2@b.example/x.parquet",
        "http://you:hunter2@b.example/x.parquet",
        "s3://hunter2@bucket/x.parquet",
        "https://h/x.parquet?sig=hunter2",
        "https://h/x.parquet?sig=hunter3",
    ]
    names = input_names(paths)
    shown = str(list(names.values()))
    assert "hunter" not in shown
    assert "ter2" not in shown
    assert len(set(names.values())) == len(paths)
    assert names[paths[0]] == "http/a.example/x.parquet"
    assert input_names(paths[-1:]) == {paths[-1]: "x.parquet"}
    changed = input_names([path.replace("hunter2", "new") for path in paths[:2]])
    assert list(changed.values()) == list(input_names(paths[:2]).values())
