"""Stores are listed page by page, and whole."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.asyn import sync_wrapper

from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.files.find import Trouble, file_version, search
from bertscore_beam.files.listing import list_files
from tests.support.cloud_storage import CloudStorage, cloud_storage
from tests.support.s3 import s3_bucket

ROOT = Path(__file__).parents[3]
PATTERNS = ["", "/*", "/a", "/a/*.parquet", "/**/*.parquet", "/*/*", "/[ab]"]


@pytest.fixture
def store() -> Iterator[CloudStorage]:
    """A bucket with four files in one folder, and two in another."""
    with cloud_storage("bucket") as (store, _):
        store.page = 2
        for name in ("a/1", "a/2", "a/3", "a/4", "b/1", "b/2"):
            store.put("bucket", f"in/{name}.parquet", b"some")
        yield store


def names(pattern: str) -> list[str]:
    return [file.path.removeprefix("gs://bucket/in/") for file in expand_inputs([pattern])]


@pytest.mark.process
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_dump_is_found_whole(store, pattern):
    found = names(f"gs://bucket/in{pattern}")
    assert found[:4] == [f"a/{number}.parquet" for number in (1, 2, 3, 4)]
    assert found[4:] == ([] if pattern.startswith("/a") else ["b/1.parquet", "b/2.parquet"])


@pytest.mark.process
def test_an_output_folder_is_listed_whole(store):
    store.put("bucket", "in/a/", b"")  # what consoles make for a folder
    four = {f"{number}.parquet": 4 for number in (1, 2, 3, 4)}
    assert list_files("gs://bucket/in/a") == four
    two = {"b/1.parquet": 4, "b/2.parquet": 4}
    assert list_files("gs://bucket/in") == {f"a/{name}": 4 for name in four} | two
    assert len(list_files("gs://bucket")) == 6
    assert list_files("gs://bucket/missing") == {}


@pytest.mark.process
@pytest.mark.parametrize("pattern", ["/a/*.parquet", "/a"])  # one folder, and all below it
def test_a_bucket_that_goes_between_two_pages_is_not_an_empty_folder(store, monkeypatch, pattern):
    answer = CloudStorage._list

    def answer_first_page(self, request, bucket):
        if "pageToken" in request.args:
            self.buckets.clear()
        return answer(self, request, bucket)

    monkeypatch.setattr(CloudStorage, "_list", answer_first_page)
    (found,) = search(f"gs://bucket/in{pattern}", ()).found
    assert (found.path, found.trouble) == ("gs://bucket/in/a", Trouble.UNLISTED)


@pytest.mark.process
def test_an_object_and_a_folder_of_no_name_do_no_harm(store):
    for name in ("", "/x.parquet", "c.parquet"):
        store.put("bucket", f"in/{name}", b"some")
    assert names("gs://bucket/in/*.parquet") == ["c.parquet"]


@pytest.mark.process
def test_s3_is_listed_page_by_page(monkeypatch):
    with s3_bucket() as url:
        files = fsspec.filesystem("s3")
        names = ["a/1", "a/2", "a b+%ü&[*]", "c/d/e", "c/d/f", "ab"]
        for name in names:
            files.pipe_file(f"{url}/out/{name}", b"four")
        files.call_s3("put_object", Bucket=url.removeprefix("s3://"), Key="out/folder/")
        files.pipe_file(f"{url}/output", b"four")
        asked, call = [], type(files)._call_s3

        async def two_at_a_time(self, method, *args, **given):
            if method == "list_objects_v2":
                asked.append(given)
                given |= {"MaxKeys": 2}
            return await call(self, method, *args, **given)

        monkeypatch.setattr(type(files), "call_s3", sync_wrapper(two_at_a_time))
        assert list_files(f"{url}/out") == dict.fromkeys(sorted(names), 4)
        assert len(asked) == 4
        assert list_files(url) == dict.fromkeys([*(f"out/{n}" for n in sorted(names)), "output"], 4)
        assert list_files(f"{url}/a") == list_files(f"{url}-missing") == {}
        for pattern in ("out/c/d/*", "out/*/d/[ef]", "out/**/[ef]"):
            found = search(f"{url}/{pattern}", ()).found
            assert [file.path for file in found] == [f"{url}/out/c/d/{name}" for name in "ef"]
            assert [file.version for file in found] == [file_version(file.path) for file in found]


def test_stores_are_asked_for_listings_in_one_place():
    calls = tuple(f"fs.{name}(" for name in ("ls", "find", "glob", "walk", "du", "listdir", "rm"))
    files = (ROOT / "pipelines").rglob("*.py")
    found = {path.name for path in files if any(call in path.read_text() for call in calls)}
    assert found == {"listing.py"}
