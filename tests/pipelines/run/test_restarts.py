"""With --restarts a run goes on in new workers when one has died; without, it ends and says why."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.run.lock import LOCK_FILE
from tests.support.dumps import read_output, write_dump
from tests.support.dying import CUDA, KILLED, dying_environment
from tests.support.processes import beam_workers, kill_session, wait_until_gone
from tests.support.waiting import wait_until

ROWS, SPLIT_ROWS = 60, 5
ILLEGAL = "its GPU failed: CUDA error: an illegal memory access was encountered"
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


@pytest.fixture
def command(words, tmp_path):
    """Return a function that starts the command; whatever it started is killed in the end."""
    started = []

    def start(*more, deaths=(), after=0) -> subprocess.Popen:
        output, folder = tmp_path / "out", tmp_path / "dying"
        folder.mkdir()
        dying = dying_environment(folder, output, list(deaths), after=after)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "bertscore_beam", *words, "--output", str(output), *more],
                env={**os.environ, **dying},
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


def test_run_goes_on_in_new_workers_from_what_is_finished(words, command, tmp_path, capsys):
    output, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    assert cli.main([*words, "--output", str(undisturbed)]) == cli.DONE
    capsys.readouterr()
    process = command("--workers", "2", "--restarts", "2", deaths=[KILLED], after=1)
    status, document, said = ended(process)
    assert status == cli.DONE, said
    assert read_output(output).equals(read_output(undisturbed))
    assert json.loads((output / SUMMARY_FILE).read_text())["restarts"] == 1
    summary = document["summary"]
    assert summary["restarts"] == 1
    assert summary["parts_of_earlier_runs"] >= 1  # what was finished before the death is kept
    assert document["warnings"][0] == "The run was restarted once, since a worker had died."
    assert "a worker died (return code -9). A return code of 137 or -9 means" in said
    assert "(restart 1 of 2)" in said
    assert CONTINUES not in said  # it goes on by itself
    assert not (output / LOCK_FILE).exists()


def test_worker_in_the_same_process_is_restarted_and_its_split_is_named_in_the_end(command):
    """The second death is one by memory, of the whole command."""
    process = command("--restarts", "1", deaths=[CUDA, KILLED])
    status, document, said = ended(process)
    assert status == cli.BROKEN
    assert f"a worker died ({ILLEGAL})" in said
    last = "workers died 2 times, and --restarts allowed for 1: a worker died (return code -9)"
    assert document["status"] == cli.BROKEN
    assert document["error"].startswith(last)
    assert "In the hands of workers when they died each time: shard-000" in document["error"]
    assert CONTINUES in document["error"]
    assert not wait_until_gone(process.pid, 60)


def test_failed_gpu_ends_a_run_at_once_that_may_not_be_restarted(command, tmp_path):
    status, _, said = ended(command("--workers", "2", deaths=[CUDA]))
    assert status == cli.BROKEN
    assert f"a worker process died ({ILLEGAL})" in said
    assert "It was at work on shard-000" in said
    assert f"{CONTINUES} (with --restarts N by itself)" in said
    log = Path(said.rpartition("The log of the workers is ")[2].strip().rstrip("."))
    assert "DeviceLostError: the GPU has failed" in log.read_text()
    log.unlink()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_nothing_outlives_a_supervisor(command, number, status):
    """A signal to end goes through to the command; if the supervisor is killed, it ends as well."""
    process = command("--workers", "2", "--restarts", "3")
    wait_until(lambda: beam_workers(process.pid), process=process)
    os.kill(process.pid, number)
    found, _, said = ended(process)
    assert found == status
    assert not wait_until_gone(process.pid, 60)
    assert ("interrupted (SIGTERM)" in said) is (number == signal.SIGTERM)
