"""Files are fetched completely, with pauses, and again after errors that may pass."""

import errno
import hashlib
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import pytest

from bertscore_beam.crawl.fetch import USER_AGENT, FetchedFile, FetchError, FetchPolicy, fetched
from bertscore_core.errors import ConfigError
from tests.support.faults import FaultRule, Faults
from tests.support.powers import small_files
from tests.support.s3 import s3_bucket
from tests.support.web import Web, web_server
from tests.support.wet import some_pages, wet_bytes

pytestmark = pytest.mark.process

DATA = wet_bytes(some_pages(300))
"""The content of a file to fetch."""

QUICK = FetchPolicy(attempts=4, timeout=0.3, pause=0.02)
"""How it is fetched where a test says nothing else."""


def fetch(path: str, folder: Path, policy: FetchPolicy = QUICK) -> tuple[FetchedFile, bytes]:
    """Fetch a file through a folder; return what is said of it, and its content."""
    with copies_in(folder), fetched(path, policy) as got:
        content = got.file.read_bytes()
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return got, content


def fail(
    path: str, folder: Path, policy: FetchPolicy = QUICK, kind: type[Exception] = FetchError
) -> Any:
    """Fetch a file that cannot be fetched; return the error."""
    folder.mkdir(exist_ok=True)
    with copies_in(folder), ExitStack() as stack, pytest.raises(kind) as caught:
        stack.enter_context(fetched(path, policy))
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return caught.value


def copies_in(folder: Path) -> AbstractContextManager[object]:
    """Let copies of fetched files be made in a folder."""
    return mock.patch.object(tempfile, "tempdir", str(folder))


@contextmanager
def one_file(*faults: str) -> Iterator[tuple[str, Web]]:
    """Serve one file with these answers first; yield its address and the server."""
    with web_server({"/a.warc.wet.gz": DATA}, {"/a.warc.wet.gz": faults}) as web:
        yield f"{web.url}/a.warc.wet.gz", web


def test_a_file_comes_over_http_as_it_is_in_one_request(tmp_path):
    with one_file() as (url, web):
        got, content = fetch(url, tmp_path)
        fetch(url, tmp_path, FetchPolicy(contact="mailto:me@a.example"))
    assert content == DATA
    assert got.num_bytes == len(DATA)
    assert got.sha256 == hashlib.sha256(DATA).hexdigest()
    assert got.retries == ()
    request, other = web.requests
    agent = other.headers["user-agent"]
    assert re.fullmatch(r"bertscore-beam/\S+ \(.* baselines; mailto:me@a\.example\)", agent)
    assert request.headers["user-agent"] == USER_AGENT
    assert request.headers["accept-encoding"] == "identity"
    assert "range" not in request.headers


PASSING = ("403 Forbidden", "408 Request Timeout", "429 Too Many Requests", "502 Bad Gateway")
SAYS_NOTHING = ("soon", "-5", "²", "Fri, 99 Foo 2021 00:00:00 GMT")


@pytest.mark.parametrize(
    ("fault", "said"),
    {
        **{"encoded": "", "no length": ""},  # a body is never unpacked, and may come in chunks
        **{"close early": "IncompleteRead", "no length cut": "IncompleteRead"},
        **{"reset": "Connection", "stall": "timed out", "drip": "a stalled transfer"},
        **{text[:3]: text for text in PASSING},
        **{f"429 Retry-After: {value}": "429 Too Many Requests" for value in SAYS_NOTHING},
        "page": "200 with a web page in place of the file",
    }.items(),
)
def test_what_passes_is_tried_again(tmp_path, fault, said):
    with one_file(fault) as (url, web):
        got, content = fetch(url, tmp_path)
    assert content == DATA
    assert got.num_bytes == len(DATA)
    assert len(web.requests) == 1 + len(got.retries) == 1 + bool(said)
    for line in got.retries:
        assert line.startswith("attempt 1: ")
        assert said in line
        assert "\n" not in line


@pytest.mark.parametrize(
    ("faults", "requests", "said"),
    [
        *(
            ([code], 1, f"got {code}.* after 1 attempt;")
            for code in ("401", "404", "410", "501", "304")
        ),
        (["until close"], 1, "without a Content-Length.* after 1 attempt;"),
        (["503 Retry-After: 7200"], 1, "Retry-After 7200 s"),
        (["close early"] * 9, QUICK.attempts, "after 4 attempts;"),
    ],
)
def test_a_file_is_given_up_at_once_or_after_the_attempts_of_the_policy(
    tmp_path, faults, requests, said
):
    with one_file(*faults) as (url, web):
        error = fail(url, tmp_path, replace(QUICK, timeout=10.0))  # a slow machine is no fault
    assert len(web.requests) == requests
    assert error.permanent == ("after 1 attempt;" in said)
    assert error.missing == (faults[0] in ("404", "410"))
    assert re.search(said, str(error))


@pytest.mark.parametrize("path", ["http://", "http://[::1/a.gz", "nothing.gz", "file/below.gz"])
def test_a_path_that_is_none_is_not_tried_again(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    error = fail(path, tmp_path / "copies")
    assert (error.permanent, error.missing) == (True, not path.startswith("http"))
    assert "after 1 attempt;" in str(error)


def test_pauses_double_and_requests_to_a_host_are_apart(tmp_path):
    policy = FetchPolicy(attempts=4, timeout=5, pause=0.05)
    with one_file("503", "503", "503") as (url, web):
        got, _ = fetch(url, tmp_path, policy)
        fetch(url, tmp_path, policy)
    assert [line.partition(":")[0] for line in got.retries] == [f"attempt {n}" for n in (1, 2, 3)]
    gaps = [later - earlier for earlier, later in pairwise(web.times())]
    least = [0.05, 0.1, 0.2, 0.05]
    # A busy machine may send a request late, and the next one comes in time.
    assert all(gap >= wanted / 2 for gap, wanted in zip(gaps, least, strict=True)), gaps


@pytest.mark.parametrize(("fault", "least"), [("403", 0.3), ("503 Retry-After: 1", 0.99)])
def test_a_403_and_a_server_that_says_how_long_are_waited_for_longer(tmp_path, fault, least):
    with one_file(fault) as (url, web):
        fetch(url, tmp_path, FetchPolicy(attempts=2, timeout=5, pause=0.06))
    first, second = web.times()
    assert least <= second - first < 4


def test_credentials_are_in_no_message(tmp_path):
    with one_file("404", "503", "503", "503", "503") as (url, _):
        secret = url.replace("http://", "http://me:hunter2@") + "?X-Amz-Signature=hunter3"
        errors = [fail(secret, tmp_path) for _ in range(2)]
    gone = fail("http://me:hunter2@127.0.0.1:9/a.gz?token=hunter3", tmp_path)
    for error in (*errors, gone):
        assert "hunter" not in f"{error} {error.__cause__}"
        assert "***" in str(error)


def test_a_full_disk_is_an_error_at_once_and_leaves_nothing(tmp_path):
    with small_files(len(DATA) // 2), one_file() as (url, web):
        assert fail(url, tmp_path, kind=OSError).errno == errno.EFBIG
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("attempts", 0), ("timeout", 0.0), ("timeout", math.inf), ("pause", -1.0)),
        *(("contact", text) for text in ("a\r\nX-Evil: 1", "bücher")),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(name, value):
    with pytest.raises(ConfigError, match="expected attempts of at least 1"):
        FetchPolicy(**{name: value})


def test_a_local_file_is_used_in_place(tmp_path):
    path = tmp_path / "a *.wet.gz"
    path.write_bytes(DATA)
    with fetched(str(path), QUICK) as got:
        assert got.file == path
    assert path.read_bytes() == DATA
    assert (got.num_bytes, got.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_a_file_comes_from_s3_through_the_faults_of_the_store(tmp_path):
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


def test_without_credentials_for_a_store_nothing_is_tried_again(tmp_path, monkeypatch):
    kind = fsspec.get_filesystem_class("s3")
    kind.clear_instance_cache()
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    error = fail("s3://bucket/a.wet.gz", tmp_path / "copies")
    kind.clear_instance_cache()
    assert error.permanent
    assert "credentials" in str(error)
    assert "after 1 attempt;" in str(error)


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="needs a file that lies")
def test_a_file_that_is_longer_than_its_store_says_is_not_taken(tmp_path):
    error = fail("/proc/version", tmp_path)
    assert not error.permanent
    assert "of 0 bytes after 4 attempts" in str(error)


def test_an_unknown_scheme_is_named(tmp_path):
    assert "no-such" in str(fail("no-such://a/b", tmp_path, kind=ConfigError))
