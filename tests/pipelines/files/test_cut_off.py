"""Listings that end before the folder does: none counts as whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.asyn import sync, sync_wrapper
from gcsfs.core import GCSFileSystem

from bertscore_beam.crawl.crawl_files import list_files_of
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.files.listing import GCSFS_STOPS_AT, CutOffError, list_files
from tests.support.cloud_storage import CloudStorage, cloud_storage, end_listings_at
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


def test_gcsfs_ends_a_listing_without_an_error_where_we_expect_it(monkeypatch):
    asked = []

    async def page(_: object, bucket: str, **given: Any) -> dict[str, Any]:
        asked.append(bucket)
        more = ["in/x/"] * given["maxResults"]
        return {"kind": "storage#objects", "prefixes": more, "nextPageToken": "more"}

    monkeypatch.setattr(GCSFileSystem, "_call_list_objects", page)
    files = GCSFileSystem(token="anon", skip_instance_cache=True)
    objects, folders = sync(files.loop, files._do_list_objects, "bucket/in")
    assert len(objects) + len(folders) == GCSFS_STOPS_AT
    assert len(asked) == GCSFS_STOPS_AT / 1000


@pytest.mark.process
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_part_of_a_dump_is_not_taken_for_the_whole_dump(store, monkeypatch, pattern):
    where = f"gs://bucket/in{pattern}"
    end_listings_at(4, monkeypatch)
    with pytest.raises(CutOffError, match=r"'gs://bucket/in(/a)?' may be cut off: got [34] names"):
        expand_inputs([where])
    with pytest.raises(CutOffError, match=r"expected fewer.*Name several folders or globs"):
        list_files_of([where], suffixes=(".parquet",))


@pytest.mark.process
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_listing_that_ends_by_itself_is_whole(store, monkeypatch, pattern):
    end_listings_at(8, monkeypatch)
    found = names(f"gs://bucket/in{pattern}")
    assert found[:4] == [f"a/{number}.parquet" for number in (1, 2, 3, 4)]
    assert found[4:] == ([] if pattern.startswith("/a") else ["b/1.parquet", "b/2.parquet"])


@pytest.mark.process
def test_an_output_folder_is_listed_whole_page_by_page(store, monkeypatch):
    end_listings_at(2, monkeypatch)
    store.put("bucket", "in/a/", b"")  # what consoles make for a folder
    four = {f"{number}.parquet": 4 for number in (1, 2, 3, 4)}
    assert list_files("gs://bucket/in/a") == four
    two = {"b/1.parquet": 4, "b/2.parquet": 4}
    assert list_files("gs://bucket/in") == {f"a/{name}": 4 for name in four} | two
    assert len(list_files("gs://bucket")) == 6
    assert list_files("gs://bucket/missing") == {}


@pytest.mark.process
def test_a_name_that_gcsfs_leaves_out_hides_no_cut(store, monkeypatch):
    """It lists the object `in/` and the folder `in//` as one."""
    for name in ("", "/x", "c", "d"):
        store.put("bucket", f"in/{name}", b"")
    end_listings_at(5, monkeypatch)
    assert len(fsspec.filesystem("gs").ls("bucket/in")) == 4
    with pytest.raises(CutOffError):
        expand_inputs(["gs://bucket/in/*"])


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


def test_stores_are_asked_for_listings_in_one_place():
    calls = tuple(f"fs.{name}(" for name in ("ls", "find", "glob", "walk", "du", "listdir", "rm"))
    files = (ROOT / "pipelines").rglob("*.py")
    found = {path.name for path in files if any(call in path.read_text() for call in calls)}
    assert found == {"listing.py"}
