"""A file is changed only in the version that was read or listed, on each kind of file system."""

import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

from bertscore_beam.files.listing import Stored, each_stored
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists, read_bytes
from bertscore_beam.files.versions import (
    NOT_THERE,
    delete_version,
    read_version,
    rename_or_copy,
    replace_version,
    sync_folders,
)
from bertscore_beam.files.write import write_atomically
from tests.support.cloud_storage import cloud_storage
from tests.support.faults import FaultRule, Faults
from tests.support.s3 import s3_bucket

STORES = ("s3", "gs")


@pytest.fixture(scope="module")
def served() -> Iterator[dict[str, tuple[str, Faults]]]:
    faults: list[Faults] = []
    with s3_bucket(faults) as url, cloud_storage("bucket") as (_, of_google):
        yield {"s3": (url, faults[0]), "gs": ("gs://bucket", of_google)}


@pytest.fixture(
    params=["local", "memory", *(pytest.param(kind, marks=pytest.mark.process) for kind in STORES)]
)
def folder(request: pytest.FixtureRequest, tmp_path) -> Iterator[str]:
    name = uuid.uuid4().hex
    if request.param in STORES:
        yield f"{request.getfixturevalue('served')[request.param][0]}/{name}"
    elif request.param == "memory":
        yield f"memory://{name}"
        fsspec.filesystem("memory").store.clear()
    else:
        yield str(tmp_path / name)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.process) for kind in STORES])
def store(request, served) -> tuple[str, Faults]:
    url, faults = served[request.param]
    yield f"{url}/{uuid.uuid4().hex}", faults
    faults.set(FaultRule())


def listed(folder: str) -> dict[str, Stored]:
    return dict(each_stored(folder))


def test_a_file_is_replaced_in_the_version_that_was_read_and_in_no_other(folder):
    path = join(folder, "head 1.json")
    assert read_version(path) is None
    assert replace_version(path, b"one", NOT_THERE)
    assert not replace_version(path, b"another first", NOT_THERE)
    data, first = read_version(path)
    assert data == b"one"
    assert replace_version(path, b"two", first)
    assert not replace_version(path, b"late", first)
    data, second = read_version(path)
    assert data == b"two"
    assert second not in (first, NOT_THERE)


def test_of_many_writers_of_one_version_one_succeeds(store):
    path = join(store[0], "head.json")
    for number in range(5):
        found = read_version(path)
        version = NOT_THERE if found is None else found[1]
        with ThreadPoolExecutor(8) as pool:
            contents = [f"{number} {writer}".encode() for writer in range(8)]
            won = [*pool.map(lambda data, at=version: replace_version(path, data, at), contents)]
        assert sum(won) == 1
        assert read_version(path)[0] == contents[won.index(True)]


def test_a_file_is_deleted_in_the_version_that_was_listed_and_in_no_other(folder):
    path = join(folder, "a/part ü.parquet")
    write_atomically(path, b"old")
    write_atomically(join(folder, "other"), b"other")
    old = listed(folder)["a/part ü.parquet"]
    assert old.size == 3
    write_atomically(path, b"newer")
    assert listed(folder)["a/part ü.parquet"].version != old.version
    delete_version(path, old.version)
    assert read_bytes(path) == b"newer"
    delete_version(path, listed(folder)["a/part ü.parquet"].version)
    assert list(listed(folder)) == ["other"]
    delete_version(path, old.version)
    delete_version(join(folder, "never/there"), "1")


def test_a_file_gets_another_name_in_the_place_of_what_has_it(folder):
    path, target = join(folder, "_work/x y-1.pq"), join(folder, "x ü/part.parquet")
    write_atomically(path, b"content")
    staged = listed(folder)["_work/x y-1.pq"]
    for before in (None, b"older"):
        if before is not None:
            write_atomically(path, b"content")
            write_atomically(target, before)
            staged = listed(folder)["_work/x y-1.pq"]
        content = rename_or_copy(path, target)
        sync_folders([path, target])
        assert read_bytes(target) == b"content"
        found = listed(folder)["x ü/part.parquet"]
        assert (found.size, found.content, content) == (7, staged.content, staged.content)
    assert exists(path) == ("://" in folder)
    delete_version(path, staged.version)
    with pytest.raises(FileNotFoundError):
        rename_or_copy(path, target)
    assert read_bytes(target) == b"content"


@pytest.mark.parametrize(
    "kind", ["lost", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("cut", "503"))]
)
def test_an_answer_that_is_lost_changes_no_verdict(store, kind):
    """The client repeats the request, which is refused since it was carried out before."""
    folder, faults = store
    path, part = join(folder, "head.json"), join(folder, "part")
    assert replace_version(path, b"0", NOT_THERE)
    before = faults.happened.copy()
    for number in range(1, 3):
        faults.set(FaultRule())
        write_atomically(part, b"%d" % number)
        _, version = read_version(path)
        at = listed(folder)["part"].version
        faults.set(FaultRule(rate=0.3, kinds=(kind,)))
        assert replace_version(path, b"%d" % number, version)
        assert not replace_version(path, b"late", version)
        rename_or_copy(part, join(folder, "copy"))
        delete_version(part, at)
    faults.set(FaultRule())
    assert read_version(path)[0] == read_bytes(join(folder, "copy")) == b"2"
    assert sorted(listed(folder)) == ["copy", "head.json"]
    assert faults.happened[kind] > before[kind]


def test_what_cannot_be_written_or_deleted_is_an_error_and_no_refusal(store):
    folder, faults = store
    path = join(folder, "head.json")
    assert replace_version(path, b"0", NOT_THERE)
    _, version = read_version(path)
    for method in ("PUT", "POST", "DELETE"):
        faults.set(FaultRule(rate=1.0, kinds=("403",), method=method))
        if method != "DELETE" and (method == "PUT") == folder.startswith("s3"):
            with pytest.raises(OSError):  # noqa: PT011 - gcsfs has no PermissionError
                replace_version(path, b"1", version)
        if method == "DELETE":
            with pytest.raises(OSError):  # noqa: PT011
                delete_version(path, version)
        faults.set(FaultRule())
        assert read_version(path) == (b"0", version)


def test_changes_take_one_request_each(store):
    folder, faults = store
    path, part = join(folder, "head.json"), join(folder, "part")
    assert replace_version(path, b"0", NOT_THERE)
    write_atomically(part, b"content")
    at = listed(folder)["part"].version

    def requests(change) -> Counter[str]:
        faults.requests = []
        change()
        methods, faults.requests = Counter(method for method, _ in faults.requests), None
        return methods

    _, version = read_version(path)
    changes = [
        requests(lambda: read_version(path)),
        requests(lambda: replace_version(path, b"1", version)),
        requests(lambda: rename_or_copy(part, join(folder, "copy"))),
        requests(lambda: delete_version(part, at)),
        requests(lambda: listed(folder)),
    ]
    is_s3 = folder.startswith("s3")
    change = "PUT" if is_s3 else "POST"
    read = {"HEAD": 1, "GET": 1} if is_s3 else {"GET": 1}
    assert changes == [read, {change: 1}, {change: 1}, {"DELETE": 1}, {"GET": 1}]
