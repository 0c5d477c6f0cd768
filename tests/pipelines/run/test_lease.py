"""The lease of a folder: on a disk, in memory, in S3 and in Cloud Storage."""

import threading

import pytest

from bertscore_beam.files.paths import join
from bertscore_beam.files.read import read_bytes, read_if_there
from bertscore_beam.files.write import delete, write_atomically
from bertscore_beam.run import lease as leases
from bertscore_beam.run.lease import (
    LEASE_FILE,
    LEASE_SECONDS,
    RENEW_SECONDS,
    JobStillRunsError,
    end_lease,
    read_lease,
    take_lease,
)
from tests.support.cloud_storage import gcs_bucket
from tests.support.s3 import s3_bucket
from tests.support.waiting import wait_until


class Clock:
    """The clock of all machines, which a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(leases, "time", clock)
    return clock


def held(output):
    return getattr(read_lease(output), "job", None)


def test_a_job_has_the_lease_until_it_ends_it(output, clock):
    assert held(output) is None
    assert take_lease(output, "first")
    assert not take_lease(output, "second")
    end_lease(output, "second")
    assert held(output) == "first"
    end_lease(output, "first")
    assert read_if_there(join(output, LEASE_FILE)) is None
    assert take_lease(output, "second")
    end_lease(output)
    assert held(output) is None


def test_it_is_renewed_by_one_worker_of_many_and_is_nobodys_when_none_does(output, clock):
    took = clock.now
    assert take_lease(output, "first")
    before = read_bytes(join(output, LEASE_FILE))
    clock.now += RENEW_SECONDS / 2
    assert take_lease(output, "first")
    assert read_bytes(join(output, LEASE_FILE)) == before
    clock.now = took + RENEW_SECONDS + 1
    assert take_lease(output, "first")
    assert read_lease(output).until == clock.now + LEASE_SECONDS
    clock.now += LEASE_SECONDS
    assert held(output) == "first"
    clock.now += 1
    assert held(output) is None
    assert take_lease(output, "second")


@pytest.mark.process
@pytest.mark.parametrize("bucket", [s3_bucket, gcs_bucket])
def test_of_many_jobs_that_begin_at_once_one_has_it(bucket):
    with bucket() as url:
        for number in range(5):
            assert len(at_once(f"{url}/{number}")) == 1


def at_once(output):
    """Let four jobs begin at once; return those that have the lease."""
    got, ready = [], threading.Barrier(4)

    def take(job):
        ready.wait()
        if take_lease(output, job):
            got.append(job)

    threads = [threading.Thread(target=take, args=(f"job-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(output) in got
    return got


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"job": "1", "until": 1.0}', b"\xff"])
def test_a_damaged_one_may_be_anybodys(tmp_path, content):
    output = str(tmp_path)
    write_atomically(join(output, LEASE_FILE), content)
    with pytest.raises(JobStillRunsError, match=r"a damaged .*lease\.json; if no job is .*delete"):
        read_lease(output)
    assert not take_lease(output, "first")
    assert read_bytes(join(output, LEASE_FILE)) == content
    delete(join(output, LEASE_FILE))
    assert take_lease(output, "first")


@pytest.mark.parametrize("job", ["../../1", "", "1?x=y"])
def test_what_is_no_id_is_asked_for_nowhere(tmp_path, job):
    take_lease(str(tmp_path), job)
    with pytest.raises(JobStillRunsError, match="a damaged"):
        read_lease(str(tmp_path))


def test_a_clock_that_is_far_ahead_makes_no_lease_longer(tmp_path, clock):
    now = clock.now
    clock.now += 1e18
    take_lease(str(tmp_path), "first")
    clock.now = now
    assert read_lease(str(tmp_path)).until == now + LEASE_SECONDS


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.05)
    leases.keep_lease.cache_clear()


def renewed(output, job):
    """Wait until a worker has renewed the lease."""
    first = read_lease(output).until
    wait_until(lambda: read_lease(output).until > first)
    assert held(output) == job


@pytest.mark.parametrize("is_known", [True, False])
def test_a_worker_renews_the_lease_of_its_job_alone(tmp_path, quick, monkeypatch, is_known):
    """Of Dataflow it knows the id, and writes the lease where no command could."""
    output = str(tmp_path)
    monkeypatch.setenv("JOB_ID", "own") if is_known else monkeypatch.delenv("JOB_ID", False)
    for _ in range(2):
        leases.keep_lease(output)
    if is_known:
        wait_until(lambda: held(output) == "own")
    else:
        take_lease(output, "own")
    renewed(output, "own")
    end_lease(output, leases.job_of_worker())
    take_lease(output, "other")
    until = read_lease(output).until
    threading.Event().wait(0.5)
    assert read_lease(output) == leases.Lease("other", until)
    end_lease(output)
    threading.Event().wait(0.2)
    assert held(output) is None
