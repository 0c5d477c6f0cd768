"""Files that are fetched from places other than the web: local, in memory, in S3."""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import fsspec
import pytest

from bertscore_beam.crawl import FetchPolicy, fetched
from bertscore_core.errors import ConfigError
from tests.support.faults import FaultRule, Faults
from tests.support.fetching import DATA, QUICK, fail, fetch
from tests.support.s3 import s3_bucket, s3_environment

pytestmark = pytest.mark.process


def test_a_local_file_is_used_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a *.wet.gz"
    path.write_bytes(DATA)
    with fetched(str(path), QUICK) as got:
        assert got.file == path
    assert path.read_bytes() == DATA
    assert (got.num_bytes, got.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_a_file_comes_from_memory_and_is_copied(tmp_path: Path) -> None:
    path = f"memory://{uuid.uuid4().hex}/a.wet.gz"
    fsspec.filesystem("memory").pipe_file(path, DATA)
    got, content = fetch(path, tmp_path)
    assert content == DATA
    assert got.sha256 == hashlib.sha256(DATA).hexdigest()
    fsspec.filesystem("memory").store.clear()


def test_a_file_comes_from_s3_through_the_faults_of_the_store(tmp_path: Path) -> None:
    servers: list[Faults] = []
    with s3_bucket(servers) as bucket:
        fsspec.filesystem("s3").pipe_file(f"{bucket}/a.wet.gz", DATA)
        assert fetch(f"{bucket}/a.wet.gz", tmp_path)[1] == DATA
        servers[0].set(FaultRule(rate=1.0, kinds=("lost",), seconds=0.3))
        got, content = fetch(f"{bucket}/a.wet.gz", tmp_path, FetchPolicy(attempts=9, pause=0.1))
        assert content == DATA
        assert servers[0].happened["lost"] > 0
        assert got.num_bytes == len(DATA)
        error = fail(f"{bucket}/nothing.wet.gz", tmp_path)
        assert (error.permanent, error.missing) == (True, True)


@pytest.fixture
def s3_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let S3 be made from settings of this test alone; yield what changes them."""
    kind = fsspec.get_filesystem_class("s3")
    kind.clear_instance_cache()
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in s3_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    yield monkeypatch
    kind.clear_instance_cache()


def test_a_store_that_cannot_be_reached_is_tried_again(
    tmp_path: Path, s3_settings: pytest.MonkeyPatch
) -> None:
    s3_settings.setenv("AWS_ENDPOINT_URL", "no address")
    error = fail("s3://bucket/a.wet.gz", tmp_path)
    assert not error.permanent
    assert "after 4 attempts" in str(error)


def test_without_credentials_for_a_store_nothing_is_tried_again(
    tmp_path: Path, s3_settings: pytest.MonkeyPatch
) -> None:
    s3_settings.delenv("AWS_ACCESS_KEY_ID")
    s3_settings.delenv("AWS_SECRET_ACCESS_KEY")
    s3_settings.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3_settings.setenv("HOME", str(tmp_path))
    error = fail("s3://bucket/a.wet.gz", tmp_path / "copies")
    assert error.permanent
    assert "credentials" in str(error)
    assert "after 1 attempt;" in str(error)


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="needs a file that lies")
def test_a_file_that_is_longer_than_its_store_says_is_not_taken(tmp_path: Path) -> None:
    error = fail("/proc/version", tmp_path)
    assert not error.permanent
    assert "of 0 bytes after 4 attempts" in str(error)


@pytest.mark.parametrize("name", ["nothing.gz", "file/below.gz"])
def test_a_local_file_that_is_not_there_is_not_tried_again(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    error = fail(str(tmp_path / name), tmp_path / "copies")
    assert (error.permanent, error.missing) == (True, True)
    assert "after 1 attempt;" in str(error)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    error = fail(str(tmp_path), tmp_path / "copies")
    assert (error.permanent, error.missing) == (True, False)


def test_an_unknown_scheme_is_named() -> None:
    with ExitStack() as stack, pytest.raises(ConfigError, match="no-such"):
        stack.enter_context(fetched("no-such://a/b", QUICK))
