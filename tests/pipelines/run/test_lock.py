"""One run at a time on an output folder: real processes, a real disk, a real object store."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists, read_bytes, read_if_there
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run import lock as locks
from bertscore_beam.run.lock import Holder, hold
from tests.support.waiting import wait_until

FAR = Holder(run="theirs", machine="far", process=7, place="boot/pid:[1]/1")
"""A run on another machine, of which nothing is known here."""

HOLDER = """
import sys, time
from bertscore_beam.run.lock import hold
with hold(sys.argv[1], say=print, lost=print):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Return the folder and the process of a run that holds its lock."""
    folder = str(tmp_path / "out")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield folder, process
        process.kill()


@pytest.fixture
def quick(monkeypatch):
    """Shorten the times that a test waits for, and none in which something has to happen."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.2)
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(locks, "_WATCH_SECONDS", 0.05)


def take(folder, said=None):
    return hold(folder, say=([] if said is None else said).append, lost=lambda error: None)


def put(folder, content):
    write_atomically(join(folder, locks.LOCK_FILE), content)


def beat_of(folder, run):
    return read_if_there(join(folder, locks.BEAT_FILE + run))


def test_second_run_is_refused_at_once_while_the_first_lives_here(output, quick):
    with take(output) as lock:
        lock.check()
        found = Holder.from_json(read_bytes(join(output, locks.LOCK_FILE)))
        assert (found.run, found.process) == (lock.run, os.getpid())
        started = time.monotonic()
        with pytest.raises(locks.FolderInUseError, match=rf"lock of process {os.getpid()} on"):
            take(output).__enter__()
        assert time.monotonic() - started < locks.STALE_SECONDS / 2
        lock.check()
    assert not exists(join(output, locks.LOCK_FILE))
    with pytest.raises(locks.FolderLostError, match="belongs to another run now"):
        lock.check()


def test_of_many_who_ask_at_once_one_gets_it(output):
    got, refused = [], []
    ready, done = threading.Barrier(8), threading.Event()

    def ask():
        ready.wait()
        try:
            with take(output) as lock:
                got.append(lock.run)
                done.wait(30)
        except locks.FolderInUseError:
            refused.append(1)
            if len(refused) == 7:
                done.set()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)


@pytest.mark.process
def test_lock_of_a_killed_process_is_taken_over_at_once(other, quick):
    folder, process = other
    with pytest.raises(locks.FolderInUseError, match=f"process {process.pid}"):
        take(folder).__enter__()
    process.send_signal(signal.SIGKILL)
    process.wait()
    said, started = [], time.monotonic()
    with take(folder, said) as lock:
        lock.check()
    assert time.monotonic() - started < locks.STALE_SECONDS / 2
    assert "was interrupted or has died" in said[0]


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to tell processes apart")
def test_process_number_used_again_is_another_process():
    holder = Holder.here()
    assert holder.lives()
    earlier = replace(holder, place=holder.place + "0")
    assert earlier.lives() is False
    elsewhere = replace(holder, place="other-boot/pid:[1]/1")
    assert elsewhere.lives() is None


def test_lock_from_elsewhere_whose_heart_beats_is_respected(tmp_path, quick):
    """Its clock does not enter: only that a heartbeat comes while we watch."""
    folder = str(tmp_path / "out")
    put(folder, FAR.to_json())
    path = join(folder, locks.BEAT_FILE + "theirs")
    with pytest.raises(locks.FolderInUseError, match="process 7 on far"):
        hold(folder, say=lambda _: write_atomically(path, b"a beat"), lost=print).__enter__()


def submit(folder):
    """Hold the lock as the command of a detached job does, to its end."""
    with hold(folder, say=print, lost=print, detached=True) as lock:
        pass
    return lock


def test_a_job_keeps_its_lock_as_long_as_a_worker_beats(output, quick):
    """Also when its command ran here and has ended, or goes on as a process of many jobs."""
    job = submit(output)
    assert beat_of(output, job.run) is None
    written = read_bytes(join(output, locks.LOCK_FILE))
    for _ in range(2):
        job.keep()
    wait_until(lambda: beat_of(output, job.run) is not None)
    with pytest.raises(
        locks.JobStillRunsError,
        match=r"^the detached job submitted by process .* is still running on this output: got a "
        r"heartbeat \d+ s after .* expected none for 30 s\. Wait .*, cancel it, or choose",
    ):
        take(output).__enter__()
    assert read_bytes(join(output, locks.LOCK_FILE)) == written
    job.release()
    wait_until(lambda: beat_of(output, job.run) is None)
    time.sleep(4 * locks.BEAT_SECONDS)  # the workers have found out
    assert beat_of(output, job.run) is None


@pytest.mark.parametrize(
    ("beat", "seconds", "waits_for"),
    [(b"a beat", 0.1, "that run still lives"), (None, 0.6, "its workers begin")],
)
def test_a_job_without_workers_is_stale(output, quick, monkeypatch, beat, seconds, waits_for):
    monkeypatch.setattr(locks, "STALE_SECONDS", 0.1)
    monkeypatch.setattr(locks, "START_SECONDS", 0.6)
    job, said, began = submit(output), [], time.monotonic()
    if beat is not None:
        write_atomically(job.beat_path, beat)
    with take(output, said) as lock:
        lock.check()
        assert time.monotonic() - began > seconds
        assert beat_of(output, job.run) is None
    assert said[0].startswith("The output is locked by the detached job submitted by process")
    assert said[0].endswith(f"watching for {seconds:.0f} s whether {waits_for}.")


def test_a_command_that_dies_before_it_submits_its_job_is_soon_stale(output, quick, monkeypatch):
    """Also in its first seconds."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 600.0)
    monkeypatch.setattr(locks, "STALE_SECONDS", 0.1)
    said = []
    with hold(output, say=print, lost=print, detached=True), take(output, said) as lock:
        lock.check()
    assert said[0].endswith("watching for 0 s whether that run still lives.")


def test_a_job_that_was_not_submitted_leaves_no_lock(output, quick):
    with (
        pytest.raises(ValueError, match="no"),
        hold(output, say=print, lost=print, detached=True) as lock,
    ):
        raise ValueError("no")
    assert not exists(join(output, locks.LOCK_FILE))
    assert beat_of(output, lock.run) is None


def test_workers_of_one_job_beat_once_for_all(tmp_path, quick, monkeypatch):
    """An object store takes one write a second of the same object."""
    folder, written = str(tmp_path / "out"), Mock(wraps=write_atomically)
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.25)
    job = submit(folder)
    monkeypatch.setattr(locks, "write_atomically", written)
    for _ in range(10):
        job.keep()
        time.sleep(0.02)
    time.sleep(1.0)
    job.release()
    assert 2 <= written.call_count <= 10
    assert {call.args[0] for call in written.call_args_list} == {job.beat_path}


_NO_NAME = b'{"run": "../x", "machine": "far", "process": 7, "place": ""}'


@pytest.mark.parametrize(
    "content", [FAR.to_json(), b"", b"{", b"[1]", b'{"run": 1}', b"\xff", _NO_NAME]
)
def test_lock_from_elsewhere_without_a_heartbeat_and_a_damaged_one_are_taken_over(
    tmp_path, quick, monkeypatch, content
):
    monkeypatch.setattr(locks, "STALE_SECONDS", 0.1)
    folder, said = str(tmp_path / "out"), []
    put(folder, content)
    with take(folder, said) as lock:
        lock.check()
    whose = "process 7 on far" if content == FAR.to_json() else "an unknown process"
    assert f"locked by {whose}; watching for 0 s" in said[0]


def test_a_run_beats_beside_its_lock_which_it_never_writes_again(tmp_path, quick):
    folder, seen = str(tmp_path / "out"), set()
    with take(folder) as lock:
        before = read_bytes(join(folder, locks.LOCK_FILE))
        wait_until(lambda: seen.add(beat_of(folder, lock.run)) or len(seen) > 3)
        assert read_bytes(join(folder, locks.LOCK_FILE)) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("way", ["taken over", "deleted"])
def test_run_that_lost_its_folder_is_told_and_leaves_the_lock_alone(tmp_path, quick, way):
    folder, lost = str(tmp_path / "out"), []
    with hold(folder, say=print, lost=lost.append) as lock:
        if way == "taken over":
            put(folder, FAR.to_json())
        else:
            os.unlink(join(folder, locks.LOCK_FILE))
        wait_until(lambda: lost)
        with pytest.raises(locks.FolderLostError):
            lock.check()
    assert isinstance(lost[0], locks.FolderLostError)
    assert exists(join(folder, locks.LOCK_FILE)) is (way == "taken over")


@pytest.fixture
def looks(monkeypatch):
    """Return a list that has an item for each look at a lock, but those of the beats' thread."""
    seen, look = [], locks.RunLock.look

    def seen_look(lock):
        if threading.current_thread() is threading.main_thread():
            seen.append(1)
        look(lock)

    monkeypatch.setattr(locks, "BEAT_SECONDS", 600.0)
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(locks.RunLock, "look", seen_look)
    return seen


@pytest.mark.parametrize(("output", "in_nine"), [("memory://looks/out", 1), ("{disk}/out", 9)])
def test_on_a_store_one_look_is_good_for_some_writes_and_on_a_disk_for_one(
    output, in_nine, looks, tmp_path, monkeypatch
):
    output = output.format(disk=tmp_path)
    monkeypatch.setattr(locks, "LOOK_SECONDS", 600.0)
    with take(output) as lock:
        for _ in range(9):
            lock.check()
        assert len(looks) == in_nine
        monkeypatch.setattr(locks, "LOOK_SECONDS", 0.0)
        lock.check()
        assert len(looks) == in_nine + 1
        put(output, FAR.to_json())
        with pytest.raises(locks.FolderLostError):
            lock.check()


@pytest.mark.parametrize(
    ("now", "is_old"),
    [((104, 1004), False), ((106, 1004), True), ((104, 1006), True), ((104, 999), True)],
)
def test_a_look_is_old_when_any_clock_says_so(looks, monkeypatch, now, is_old):
    """A suspended machine wakes up with one of its clocks where it was."""
    monkeypatch.setattr(locks, "_clocks", lambda: (100, 1000))
    with take("memory://clocks/out") as lock:
        lock.check()
        monkeypatch.setattr(locks, "_clocks", lambda: now)
        lock.check()
        assert len(looks) == 1 + is_old


def test_a_run_that_fails_on_a_store_says_so_and_the_next_waits_for_its_workers(monkeypatch):
    folder, waited, workers_began = "memory://fails/out", [], threading.Event()
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    for _ in range(2):
        held = hold(folder, say=print, lost=print, workers_began=workers_began)
        with pytest.raises(ValueError, match="failed"), held as first:
            raise ValueError("failed")
        if not workers_began.is_set():
            assert not exists(join(folder, locks.LOCK_FILE))
            workers_began.set()
    assert Holder.from_json(read_bytes(join(folder, locks.LOCK_FILE))).is_draining
    with pytest.raises(locks.FolderLostError):
        first.look()
    monkeypatch.setattr(locks.time, "sleep", waited.append)
    with take(folder) as lock:
        lock.look()
    assert locks.LEASE_SECONDS in waited
    assert locks.LEASE_SECONDS > locks.LOOK_SECONDS
    assert not exists(join(folder, locks.LOCK_FILE))


def test_the_job_of_a_run_that_is_gone_ends_before_its_folder_is_taken(output, quick):
    """A detached one at once, though its workers beat; and if it cannot, nothing is touched."""
    job = submit(output)
    written = read_bytes(join(output, locks.LOCK_FILE))
    job.keep()

    def cannot():
        raise locks.JobStillRunsError("it still runs")

    with pytest.raises(locks.JobStillRunsError, match="it still runs"):
        hold(output, say=print, lost=print, end_job=cannot).__enter__()
    assert read_bytes(join(output, locks.LOCK_FILE)) == written
    with hold(output, say=print, lost=print, end_job=lambda: True) as lock:
        lock.look()
