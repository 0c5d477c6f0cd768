"""The container contract without Docker.

An environment is filled by the commands of the Dockerfile's last stage, Beam's worker pool is
started in it, and a job of this environment has its pairs scored there, over loopback TCP.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from bertscore_beam.cli import main as cli
from tests.support.containers import (
    ROOT,
    Container,
    NoNetworkError,
    read_dockerfile,
    rehearse,
)
from tests.support.dumps import read_output, write_dump
from tests.support.processes import kill_session, session_members
from tests.support.workers import WorkerPool

NEEDED_BYTES = 4 * 1024**3
ROWS = 400
PARTS = 80
COMMAND = Path(sys.executable).parent / "bertscore-beam"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc"),
]


def skip(reason: str) -> NoReturn:
    """Skip, but fail where the rehearsal is required, as in continuous integration."""
    if os.environ.get("REHEARSAL") == "required":
        pytest.fail(f"the rehearsal is required: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def container(tmp_path_factory) -> Iterator[Container]:
    """Do what a build of target cpu does, with PIP_ARGS as `make` takes it."""
    folder = tmp_path_factory.mktemp("container")
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        skip(f"needs {NEEDED_BYTES / 1e9:.0f} GB of disk below {folder}: got {free / 1e9:.1f}")
    arguments = {"PIP_ARGS": os.environ.get("PIP_ARGS", ""), "MODELS": ""}
    try:
        yield rehearse(read_dockerfile().stages["cpu"], folder, arguments)
    except NoNetworkError as error:
        skip(f"pip reaches no index: {error}")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    sizes = [ROWS // 2, ROWS // 4, ROWS // 4]
    return write_dump(tmp_path_factory.mktemp("box") / "dump", sizes, row_group_size=5)


@pytest.fixture(scope="module")
def expected(dump):
    """Return the parts of a run in this process."""
    output = dump.parent / "in-memory"
    assert cli.main(score(dump, output)) == cli.DONE
    return parts_of(output)


@pytest.fixture(scope="module")
def pool(container) -> Iterator[WorkerPool]:
    running = container.start_pool()
    yield running
    running.kill()


def score(dump: Path, output: Path, *more: str) -> list[str]:
    flags = ["--input", dump, "--output", output, "--idf", "corpus", "--split-rows", "5", *more]
    return ["score", *map(str, flags)]


def in_pool(pool: WorkerPool, workers: int) -> list[str]:
    """Return the flags of a job whose workers are in a pool."""
    beam = ["--environment_type=EXTERNAL", f"--environment_config={pool.address}"]
    return ["--device", "cpu", "--workers", str(workers), "--", *beam]


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the command of this environment; whatever is left of it is killed."""
    process = subprocess.Popen(
        [str(COMMAND), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.communicate()


def parts_of(output: Path) -> dict[str, bytes]:
    """Return the bytes of every part by its path."""
    return {
        str(part.relative_to(output)): part.read_bytes()
        for part in output.glob("shard-*/part-*.parquet")
    }


def libraries_at_work(pool: WorkerPool) -> dict[int, str]:
    """Return, by process, where those of a pool that have loaded a model took torch from."""
    found = {}
    for process in session_members(pool.process.pid):
        try:
            maps = Path(f"/proc/{process}/maps").read_text()
        except OSError:
            continue
        loaded = {line.split()[-1] for line in maps.splitlines() if "libtorch_cpu" in line}
        if loaded:
            found[process] = loaded.pop()
    return found


def test_image_holds_the_versions_of_the_constraints(container):
    installed = container.run("python", "-m", "pip", "freeze").splitlines()
    versions = dict(line.split("==") for line in installed if "==" in line)
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    named = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    found = {name.lower().replace("_", "-"): version for name, version in versions.items()}
    assert {"apache-beam", "torch", "transformers", "openvino", "s3fs", "gcsfs"} <= found.keys()
    # A build without CUDA, or with another one, says so behind a plus.
    wrong = {n: v for n, v in found.items() if n in named and v.partition("+")[0] != named[n]}
    assert not wrong


def test_image_stands_on_its_own(container):
    """No part of this environment, nor of the sources, is seen from within."""
    assert "No broken requirements found." in container.said
    assert container.run("bertscore-beam", "--version").startswith("bertscore-beam ")
    where = "import bertscore_core as a, bertscore_beam as b; print(a.__file__, b.__file__)"
    for path in container.run("python", "-c", where).split():
        assert Path(path).is_relative_to(container.packages)
    assert container.environment["HF_HUB_OFFLINE"] == "1"
    assert "PYTHONPATH" not in container.environment


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_of_the_image_write_the_same_parts(
    tmp_path, container, dump, expected, pool, workers
):
    output = tmp_path / "out"
    seen: dict[int, str] = {}
    with started(score(dump, output, *in_pool(pool, workers))) as job:
        while job.poll() is None:
            seen |= libraries_at_work(pool)
            time.sleep(0.1)
        assert job.returncode == cli.DONE, job.stderr.read()
    assert len(seen) == workers
    assert all(Path(library).is_relative_to(container.packages) for library in seen.values())
    # Workers end with their job, and give back the memory that their model takes.
    deadline = time.monotonic() + 60
    while libraries_at_work(pool):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(expected) == PARTS
    assert parts_of(output) == expected


def test_pool_that_is_killed_and_started_again_does_not_spoil_the_output(
    tmp_path, container, dump, expected
):
    output = tmp_path / "out"
    pool = container.start_pool()
    words = score(dump, output, *in_pool(pool, 2))
    with started(words) as job:
        while not parts_of(output):
            assert job.poll() is None, job.stderr.read()
            time.sleep(0.01)
        pool.kill()
        said = job.communicate(timeout=60)[1]
    assert job.returncode == cli.BROKEN
    assert "a worker process died" in said
    assert "the same command continues from there" in said
    assert 0 < len(parts_of(output)) < PARTS
    assert not (output / "_SUCCESS").exists()
    pool = container.start_pool(int(pool.address.rpartition(":")[2]))
    try:
        with started(words) as job:
            said = job.communicate(timeout=120)[1]
    finally:
        pool.kill()
    assert job.returncode == cli.DONE, said
    assert parts_of(output) == expected
    assert read_output(output)["id"].to_pylist() == list(range(ROWS))
    assert (output / "_SUCCESS").exists()
