"""The container contract without Docker.

An environment is filled by the commands of the Dockerfile's last stage. The command is run in it,
as docker/compose.yaml does; and a worker is started from it for a job of this environment, as a
runner does. That runner is Prism: without it, the test is skipped.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from bertscore_beam.cli import main as cli
from tests.support.containers import ROOT, Container, NoNetworkError, read_dockerfile, rehearse
from tests.support.dumps import write_dump
from tests.support.prism import find_prism
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
        yield rehearse(read_dockerfile()["cpu"], folder, arguments)
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


def score(dump: Path, output: Path, *more: str) -> list[str]:
    flags = ["--input", dump, "--output", output, "--idf", "corpus", "--split-rows", "5", *more]
    return ["score", *map(str, flags)]


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


def test_the_command_of_the_image_writes_the_same_parts(tmp_path, container, dump, expected):
    container.run("bertscore-beam", *score(dump, tmp_path / "out", "--workers", "2"))
    assert len(expected) == PARTS
    assert parts_of(tmp_path / "out") == expected


def test_a_worker_of_the_image_writes_the_same_parts(tmp_path, request, container, dump, expected):
    output, prism = tmp_path / "out", find_prism(request.config)
    pool = container.start_pool()
    beam = ["--runner=PrismRunner", f"--prism_location={prism}"]
    beam += ["--environment_type=EXTERNAL", f"--environment_config={pool.address}"]
    words = score(dump, output, "--device", "cpu", "--", *beam)
    job = subprocess.Popen([str(COMMAND), *words], stderr=subprocess.PIPE, start_new_session=True)
    seen: dict[int, str] = {}
    try:
        while job.poll() is None:
            seen |= libraries_at_work(pool)
            time.sleep(0.1)
        assert job.returncode == cli.DONE, job.communicate()[1]
    finally:
        kill_session(job.pid)
        pool.kill()
        job.communicate()
    (library,) = seen.values()
    assert Path(library).is_relative_to(container.packages)
    assert parts_of(output) == expected
