"""A run goes on when a worker process has died, as often as it may; and nothing outlives it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.alone import LOCK_FILE
from tests.support.dumps import read_output, write_dump
from tests.support.dying import CUDA, HELD, KILLED, LOADING, PLANNING, dying_environment
from tests.support.jobs import summary_of
from tests.support.processes import kill_session, wait_until_gone
from tests.support.waiting import wait_until

ROWS, SPLIT_ROWS = 60, 5
ILLEGAL = "its GPU failed: CUDA error: an illegal memory access was encountered"
OOM = "return code -9"
CONTINUES = "the same command continues from there"

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def words(tmp_path_factory, tiny_folder):
    """Return the command line, without the output."""
    dump = write_dump(tmp_path_factory.mktemp("restarts") / "dump", [ROWS], row_group_size=5)
    flags = ["--input", dump, "--model", tiny_folder("bert"), "--num-layers", 2, "--json"]
    return ["score", *map(str, flags), "--split-rows", str(SPLIT_ROWS), "--device", "cpu"]


@pytest.fixture(scope="module")
def undisturbed(words, tmp_path_factory):
    """Return the output of a run that nothing befell."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    assert cli.main([*words, "--output", str(output)]) == cli.DONE
    return output


@pytest.fixture
def dying(tmp_path):
    folder = tmp_path / "dying"
    folder.mkdir()
    return folder


@pytest.fixture
def command(words, tmp_path, dying):
    """Return a function that starts the command; whatever it started is killed in the end."""
    started = []

    def start(*more, **how) -> subprocess.Popen:
        output = tmp_path / "out"
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "bertscore_beam", *words, "--output", str(output), *more],
                env={**os.environ, **dying_environment(dying, output, **how)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        kill_session(process.pid)
        process.communicate()


def ended(process) -> tuple[int, dict, str]:
    """Wait for the end; return the status, the one document on standard output, and the words."""
    said, warned = process.communicate(timeout=300)
    return process.returncode, json.loads(said) if said else {}, warned


def wait_until_held(process, dying) -> int:
    """Wait until a process waits; return its number."""
    held = dying / "held"
    wait_until(lambda: held.exists() and held.read_text(), process=process)
    return int(held.read_text())


@pytest.mark.parametrize(("death", "cause"), [(KILLED, OOM), (CUDA, ILLEGAL)])
def test_run_goes_on_and_only_the_split_of_the_dead_is_done_again(
    command, tmp_path, dying, undisturbed, death, cause
):
    output = tmp_path / "out"
    status, document, said = ended(command("--workers", "2", deaths=[death], after=1))
    assert status == cli.DONE, said
    assert read_output(output).equals(read_output(undisturbed))
    summary = summary_of(output)
    assert document["summary"]["restarts"] == summary["restarts"] == 1
    assert summary["parts_of_earlier_runs"] == 0
    passes = (dying / "passes").read_text().split()
    assert 0 < len(passes) - summary_of(undisturbed)["batches"] <= 2 * SPLIT_ROWS  # one split more
    assert len(set(passes)) == 3
    assert document["warnings"][0] == "The run went on once after a worker process had died."
    assert f"a worker process died ({cause}) while working on shard-000" in said
    assert "(restart 1 of 1)" in said
    assert ("most often for lack of memory" in said) is (death == KILLED)
    assert CONTINUES not in said  # it goes on by itself
    assert not (output / LOCK_FILE).exists()


def test_run_that_may_not_go_on_names_split_and_cause(command, tmp_path):
    process = command(deaths=[CUDA, KILLED])
    status, document, said = ended(process)
    assert (status, document.get("status")) == (cli.BROKEN, cli.BROKEN), said
    error = document["error"]
    assert error.startswith(f"a worker process died ({OOM}) while working on shard-000")
    assert "--restarts allows 1." in error
    assert CONTINUES in error
    assert f"a worker process died ({ILLEGAL}) while working on shard-000" in said
    assert "It had happened once before in this run, while working on the same." in error
    assert not wait_until_gone(process.pid, 60)
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
)
@pytest.mark.parametrize("moment", [PLANNING, LOADING, ""], ids=["planning", "loading", "scoring"])
def test_nothing_outlives_the_launcher(command, dying, moment, number, status):
    process = command("--workers", "2", hold=moment, deaths=[] if moment else [HELD])
    wait_until_held(process, dying)
    process.send_signal(number)
    found, _, said = ended(process)
    if moment == PLANNING and number in (signal.SIGTERM, signal.SIGHUP):
        status = -number  # nothing has begun, and nobody catches it
    assert found == status
    assert not wait_until_gone(process.pid, 60)
    if moment != PLANNING and number != signal.SIGKILL:
        assert f"interrupted ({signal.Signals(number).name}). Finished parts are kept" in said
    assert "a worker process died" not in said
