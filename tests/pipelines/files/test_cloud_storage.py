"""What Google Cloud Storage does differently, on the stand-in; test_files.py has the rest."""

import os

import fsspec
import pytest
from google.api_core.exceptions import PreconditionFailed
from google.cloud import storage

from bertscore_beam.files.listing import list_files
from bertscore_beam.files.read import in_parallel, open_source, read_bytes, read_if_there
from bertscore_beam.files.write import copy_atomically, write_atomically
from tests.support.cloud_storage import cloud_storage
from tests.support.faults import FaultRule

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # of gcsfs
]

CONTENT = os.urandom(1_000_000)
LARGE = CONTENT * 9


@pytest.fixture
def served():
    with cloud_storage("bucket") as served:
        yield served


def test_a_large_file_is_uploaded_in_pieces_and_read_in_ranges(served, tmp_path):
    store, _ = served
    (tmp_path / "large").write_bytes(LARGE)
    store.requests = []
    copy_atomically("gs://bucket/large", tmp_path / "large")
    assert [what for what, _ in store.requests].count("write") == 1
    assert store.read("gs://bucket/large") == read_bytes("gs://bucket/large") == LARGE
    system = fsspec.filesystem("gs")
    assert system.cat_file("bucket/large", start=5, end=70) == LARGE[5:70]
    assert system.cat_file("bucket/large", start=-7) == LARGE[-7:]
    with open_source("gs://bucket/large") as source:
        source.seek(8_000_000)
        assert source.read() == LARGE[8_000_000:]


def test_an_upload_that_is_given_up_leaves_nothing(served):
    system = fsspec.filesystem("gs")
    system.start_transaction()
    with system.open("gs://bucket/half", "wb") as sink:
        sink.write(LARGE)
    system.transaction.complete(commit=False)
    assert list_files("gs://bucket") == {}


def test_google_s_own_client_reads_and_writes_the_same_objects(served, monkeypatch):
    """Beam stages its files with it."""
    store, _ = served
    bucket = storage.Client.create_anonymous_client().get_bucket("bucket")
    blob = bucket.blob("a b/ü.bin", chunk_size=256 * 1024)
    with blob.open("wb", ignore_flush=True) as sink:
        sink.write(CONTENT)
    assert read_bytes("gs://bucket/a b/ü.bin") == CONTENT
    old = bucket.get_blob("a b/ü.bin").generation
    write_atomically("gs://bucket/a b/ü.bin", b"new")
    assert bucket.get_blob("a b/ü.bin").download_as_bytes() == b"new"
    assert bucket.get_blob("missing") is None
    assert [found.name for found in bucket.list_blobs(prefix="a")] == ["a b/ü.bin"]
    with pytest.raises(PreconditionFailed):  # another one has written it since
        bucket.blob("a b/ü.bin").upload_from_string("x", if_generation_match=old)
    bucket.blob("a b/ü.bin").delete()
    assert store.buckets == {"bucket": {}}


def test_a_listing_comes_in_pages_of_names_and_folders(served):
    store, _ = served
    store.page = 2
    names = ["a/1", "a/2", "a b/%ü&[*]", "c/d/e", "c/d/f", "c/g", "x"]
    for name in names:
        store.put("bucket", name, b"four")
    store.requests = []
    assert list_files("gs://bucket") == dict.fromkeys(sorted(names), 4)
    assert store.requests == [("list", "")] * 4
    system = fsspec.filesystem("gs")
    assert system.ls("bucket/c") == ["bucket/c/d", "bucket/c/g"]
    assert system.ls("bucket") == [f"bucket/{name}" for name in ("a", "a b", "c", "x")]


@pytest.mark.parametrize("kinds", [("500", "503", "429"), ("lost", "cut")])
def test_a_store_that_errs_now_and_then_loses_nothing(served, kinds):
    _, faults = served
    faults.set(FaultRule(rate=0.2, kinds=kinds))
    paths = [f"gs://bucket/{number}" for number in range(20)]
    for path in paths:
        write_atomically(path, path.encode())
    assert list(in_parallel(read_if_there, paths)) == [path.encode() for path in paths]
    assert list(list_files("gs://bucket")) == sorted(path[12:] for path in paths)
    assert faults.happened.total() >= 3
