"""Files of an object store are deleted together, or one by one where it cannot do that."""

from collections import Counter
from contextlib import contextmanager

import fsspec
import pytest

from bertscore_beam.files import write
from bertscore_beam.files.write import delete_many
from tests.support.faults import FaultRule, Faults
from tests.support.s3 import s3_bucket

NAMES = ("a.json", "b [0-9]*.json", "c ü.json", "sub/d.json")
STAYS = "b 1.json"


pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def store():
    faults: list[Faults] = []
    with s3_bucket(faults) as bucket:
        yield bucket, faults[0]


@contextmanager
def answering(store, status):
    """Let the store answer so to each request that deletes many."""
    store[1].set(FaultRule(rate=1.0, kinds=(status,), method="POST", query="delete"))
    try:
        yield
    finally:
        store[1].set(FaultRule())


@pytest.fixture
def paths(store, request):
    bucket, _ = store
    folder = f"{bucket}/{request.node.name}"
    for name in (*NAMES, STAYS):
        fsspec.filesystem("s3").pipe_file(f"{folder}/{name}", b"1")
    return [f"{folder}/{name}" for name in NAMES]


def names_left(paths):
    fs = fsspec.filesystem("s3")
    fs.invalidate_cache()
    return [found.rpartition("/")[2] for found in fs.find(paths[0].rpartition("/")[0])]


def requests_of(faults, paths):
    faults.requests = []
    delete_many(paths)
    methods, faults.requests = Counter(method for method, _ in faults.requests), None
    return methods


def test_a_thousand_names_are_a_request(store, paths, monkeypatch):
    monkeypatch.setattr(write, "_AT_ONCE", 3)
    assert requests_of(store[1], [*paths, f"{paths[0]}-never-there"]) == {"POST": 2}
    assert names_left(paths) == [STAYS]


def test_a_store_that_cannot_delete_many_is_asked_for_each(store, paths):
    with answering(store, "501"):
        methods = requests_of(store[1], paths)
    assert methods["POST"] >= 1
    assert methods["DELETE"] == len(NAMES)
    assert names_left(paths) == [STAYS]


def test_objects_that_the_store_could_not_delete_are_tried_alone(paths, monkeypatch):
    kind = fsspec.get_filesystem_class("s3")
    answer = {"Errors": [{"Key": "a.json", "Code": "InternalError"}]}
    monkeypatch.setattr(kind, "call_s3", lambda *_, **__: answer)
    delete_many(paths)
    assert names_left(paths) == [STAYS]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("403", PermissionError),
        pytest.param("503", OSError, marks=pytest.mark.long),  # clients ask again for a while
    ],
)
def test_files_that_may_not_be_deleted_now_are_an_error(store, paths, fault, error):
    with answering(store, fault), pytest.raises(error):
        delete_many(paths)
    assert len(names_left(paths)) == len(NAMES) + 1


def test_a_bucket_that_is_not_there_is_an_error(store):
    missing = "s3://never-made/a.json", "s3://never-made/b.json"
    with pytest.raises(FileNotFoundError):
        delete_many(missing)
