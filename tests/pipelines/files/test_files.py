"""Files of each kind of file system are written, read, listed, matched and deleted."""

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import TEMPORARY_PREFIX, absolute, join
from bertscore_beam.files.read import exists, open_source, read_bytes, source_size
from bertscore_beam.files.write import copy_atomically, create_exclusively, delete, write_atomically
from bertscore_core.errors import ConfigError, InputError
from tests.support.broken_store import broken_store
from tests.support.cloud_storage import gcs_bucket
from tests.support.powers import shut
from tests.support.s3 import over_http, s3_bucket

HOSTILE_NAMES = "plain|two words|ü 日本 🎉|a[1]b|star*|what?|10:30|100%|a#b"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_bucket() as url:
        yield url


@pytest.fixture(scope="module")
def bucket_of_google() -> Iterator[str]:
    with gcs_bucket() as url:
        yield url


BUCKETS = {"s3": "bucket", "gs": "bucket_of_google"}


@pytest.fixture(
    params=["local", "memory", *(pytest.param(kind, marks=pytest.mark.process) for kind in BUCKETS)]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty folder on each kind of file system."""
    name = uuid.uuid4().hex
    if request.param in BUCKETS:
        yield f"{request.getfixturevalue(BUCKETS[request.param])}/{name}"
    elif request.param == "memory":
        yield f"memory://{name}"
        fsspec.filesystem("memory").store.clear()
    else:
        yield str(tmp_path / name)


def fill(folder: str, *names: str) -> None:
    for name in names:
        write_atomically(join(folder, name), name.encode())


def names_of(folder: str, globs: list[str], exclude: str | None = None) -> list[str]:
    start = absolute(folder).rstrip("/") + "/"
    return [file.path.removeprefix(start) for file in expand_inputs(globs, exclude=exclude)]


@pytest.mark.parametrize("name", HOSTILE_NAMES.split("|"))
def test_written_file_is_read_listed_found_and_deleted_whatever_its_name(folder, name):
    fill(folder, "keep")
    path = join(folder, f"sub {name}/{name}.parquet")
    write_atomically(path, b"old content")
    write_atomically(path, memoryview(b"new"))
    assert read_bytes(path) == b"new"
    assert list_files(folder) == {"keep": 4, f"sub {name}/{name}.parquet": 3}
    with open_source(path) as source:
        assert source_size(source) == 3
        assert source.read() == b"new"
    fill(folder, f"sub {name}/star-other.parquet", f"sub {name}/a1b.parquet")
    (found,) = expand_inputs([path])
    assert (found.path, found.size) == (absolute(path), 3)
    assert found.root == absolute(join(folder, f"sub {name}"))
    delete(path)
    assert not exists(path)
    assert exists(join(folder, "keep"))


def test_of_a_dangling_link_nothing_is_there_and_an_impossible_name_is_no_answer(tmp_path):
    (tmp_path / "gone").symlink_to("nowhere")
    assert not exists(str(tmp_path / "gone"))
    (tmp_path / "there").symlink_to(tmp_path)
    assert exists(str(tmp_path / "there"))
    with pytest.raises(OSError, match="File name too long"):
        exists(str(tmp_path / ("n" * 300)))


@pytest.mark.process
def test_file_is_read_over_http(bucket):
    write_atomically(f"{bucket}/over http.parquet", b"content")
    address = over_http(f"{bucket}/over http.parquet") + "?a=1"
    (found,) = expand_inputs([address])
    assert (found.path, found.size) == (address, 7)
    with open_source(address) as source:
        assert (source_size(source), source.read()) == (7, b"content")


def test_folder_stands_for_the_parquet_files_below_it(folder):
    fill(folder, "in/b.parquet", "in/a/c.parquet", "in/readme.txt", "in2/d.parquet")
    fill(folder, "in/_tmp/e.parquet", "in/.f.parquet", "in/a/_g.parquet")
    found = expand_inputs([join(folder, "in")])
    assert names_of(folder, [join(folder, "in")]) == ["in/a/c.parquet", "in/b.parquet"]
    assert {file.root for file in found} == {absolute(join(folder, "in"))}


BOTH = ["t1/y.parquet", "t[1]/x.parquet"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", ["a.parquet"]),
        ("**/*.parquet", ["a.parquet", "s/b.parquet", "s/t/c.parquet", *BOTH]),
        ("t[1]", ["t[1]/x.parquet"]),  # a folder of that name is there
        ("s*", ["s/b.parquet", "s/t/c.parquet"]),  # a matched folder stands for its files
        ("*/_*.parquet", ["s/_d.parquet"]),  # spelled out, so wanted
        ("_m/*.parquet", ["_m/e.parquet"]),
        ("s/?.parquet", ["s/b.parquet"]),
        ("n*", ["notes.txt"]),  # will be rejected as no Parquet, not passed over in silence
    ],
)
def test_glob_matches_and_passes_over_hidden_names(folder, pattern, expected):
    fill(folder, "a.parquet", "s/b.parquet", "s/t/c.parquet", "s/_d.parquet", "_m/e.parquet")
    fill(folder, "notes.txt", "s/.hidden.parquet", *BOTH)
    assert names_of(folder, [join(folder, pattern)]) == expected


def test_file_matched_twice_is_an_input_once(folder):
    fill(folder, "b.parquet", "a.parquet")
    globs = [join(folder, "b.parquet"), join(folder, "*.parquet"), folder]
    assert names_of(folder, globs) == ["a.parquet", "b.parquet"]


def test_output_folder_below_the_input_is_not_read_again(folder):
    fill(folder, "in/a.parquet", "in/out/a.parquet/part-0.parquet", "in/outer/b.parquet")
    out = join(folder, "in/out")
    got = names_of(folder, [join(folder, "in")], exclude=out)
    assert got == ["in/a.parquet", "in/outer/b.parquet"]
    # A path that gives nothing but output is refused, though another one is good.
    with pytest.raises(InputError, match=r"all 1 files that match .* are in the output folder"):
        expand_inputs([join(folder, "in/outer"), out], exclude=out)


def test_version_is_the_same_from_listing_and_from_stat_and_changes_with_content(folder):
    fill(folder, "a.parquet")
    path = join(folder, "a.parquet")
    (by_stat,), (by_list,) = expand_inputs([path]), expand_inputs([folder])
    (by_glob,) = expand_inputs([join(folder, "*.parquet")])
    assert by_stat.version == by_list.version == by_glob.version != ""
    write_atomically(path, b"other content")
    if "://" not in path:
        os.utime(path, (1, 1))
    (changed,) = expand_inputs([path])
    assert changed.version != by_stat.version


@pytest.mark.parametrize("missing", ["none.parquet", "*.parquet", "nowhere/", "no[t]hing"])
def test_nothing_matched_is_an_error_that_names_the_pattern(folder, missing):
    fill(folder, "kept.txt")
    said = (
        "nothing matches .*quote it for"
        if set(missing) & set("[*")
        else "not exist; expected a file"
    )
    with pytest.raises(InputError, match=said):
        expand_inputs([join(folder, "kept.txt"), join(folder, missing)])


def test_relative_and_home_paths_become_absolute(tmp_path, monkeypatch):
    fill(str(tmp_path), "a.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = [str(tmp_path / "a.parquet")]
    for pattern in ("a.parquet", "*.parquet", "./", "~/a.parquet", f"file://{tmp_path}/*.parquet"):
        assert [file.path for file in expand_inputs([pattern])] == expected


def test_missing_and_unfinished_files_are_not_listed_and_deleting_nothing_is_fine(folder):
    fill(folder, "keep", f"{TEMPORARY_PREFIX}dead")  # what a killed writer left
    assert list_files(join(folder, "missing")) == {}
    assert list_files(folder) == {"keep": 4}
    delete(join(folder, "missing"))
    with pytest.raises(FileNotFoundError):
        read_bytes(join(folder, "missing"))
    assert list_files(folder, suffix="eep") == {"keep": 4}


def test_local_folder_that_cannot_be_listed_is_no_empty_one(tmp_path):
    fill(str(tmp_path), "a/x", "b/y")
    with shut(tmp_path / "b"), pytest.raises(OSError, match="b' cannot be listed: got 'Perm"):
        list_files(str(tmp_path))
    assert list_files(str(tmp_path / "a" / "x")) == {}


@pytest.mark.parametrize("folder", ["/out", "/out/b", "/out/b/c"])
@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
def test_remote_folder_that_cannot_be_listed_is_no_empty_one(folder, error):
    with broken_store(folder, error=error) as store:
        for name in ("a/x", "b/c/y"):
            store.pipe_file(f"/out/{name}", b"four")
        with pytest.raises(OSError, match=os.strerror(error)):
            list_files("memory://out")
        assert list_files("memory://missing") == {}
    assert list_files("memory://out") == {"a/x": 4, "b/c/y": 4}


@pytest.mark.process
def test_listing_sees_what_another_process_wrote(bucket):
    folder = f"{bucket}/{uuid.uuid4().hex}"
    fill(folder, "a")
    assert list(list_files(folder)) == ["a"]
    other = fsspec.filesystem("s3", skip_instance_cache=True)
    other.pipe_file(join(folder, "b").removeprefix("s3://"), b"b")
    assert list(list_files(folder)) == ["a", "b"]
    assert exists(join(folder, "b"))


def test_permissions_are_those_of_any_new_file(tmp_path):
    previous = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "sub" / "a"), b"x")
        create_exclusively(str(tmp_path / "sub" / "b"), b"x")
    finally:
        os.umask(previous)
    for name in ("a", "b"):
        assert stat.S_IMODE((tmp_path / "sub" / name).stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "sub").stat().st_mode) == 0o750


def test_failed_write_or_copy_keeps_the_old_content_and_leaves_nothing_behind(
    tmp_path, monkeypatch
):
    path = tmp_path / "a"
    write_atomically(str(path), b"old")

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(str(path), b"new")
    with pytest.raises(OSError, match="No space left"):
        copy_atomically(str(path), __file__)
    with pytest.raises(OSError, match="missing"):
        copy_atomically(str(path), tmp_path / "missing")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "", "s3://other/x"])
def test_name_that_leaves_its_folder_is_refused(name):
    with pytest.raises(ConfigError, match="would leave its folder"):
        join("/out", name)


@pytest.mark.parametrize("path", ["nosuch://x/y", "simplecache::s3://x/y"])
def test_unknown_scheme_is_an_error_that_names_it(path):
    with pytest.raises(ConfigError, match=r"got scheme '.*expected a local path or one of memory"):
        read_bytes(path)
