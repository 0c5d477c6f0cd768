"""A worker that dies is named, whichever thread of Beam notices first."""

import os
import subprocess
import sys

import pytest

from bertscore_beam.run.exit_status import BROKEN, DEVICE_LOST, WORKER_DIED
from bertscore_beam.run.live import FOLDER_VARIABLE as LIVE
from bertscore_beam.run.supervised import FOLDER_VARIABLE as SUPERVISOR
from bertscore_beam.run.supervised import Death

pytestmark = pytest.mark.process

DEATH = """
import sys, threading
from bertscore_beam.run.watchdog import end_when_a_worker_dies

def listen():
    raise ConnectionError("the stream broke")

with end_when_a_worker_dies(sys.stderr, None):
    listening = threading.Thread(target=listen, name="beam_control_read")
    {order}
"""
ORDERS = {
    "the listening thread": "listening.start(); listening.join(); raise RuntimeError('closed')",
    "the runner": "threading.Timer(0.1, listening.start).start(); raise RuntimeError('closed')",
    "the runner alone": "raise RuntimeError('Channel closed prematurely.')",
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_worker_that_died_is_named_whoever_notices_first(order):
    code = DEATH.format(order=order)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == BROKEN
    assert "a worker process died (its connection broke)" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_errors_end_as_they_are():
    code = DEATH.format(order="raise RuntimeError('another one')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "RuntimeError: another one" in done.stderr
    assert "a worker process died" not in done.stderr


EXIT = """
import sys, threading
from bertscore_beam.run.watchdog import WorkerExitError, end_when_a_worker_dies

def wait():
    raise WorkerExitError(17, {code})

with end_when_a_worker_dies(sys.stderr, None):
    waiting = threading.Thread(target=wait, name="run_worker")
    waiting.start(); waiting.join()
"""
WORDS = '{"words": "its GPU failed: CUDA error: bad", "in_hand": ["part-3"]}'


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (DEVICE_LOST, "a worker process died (its GPU failed: CUDA error: bad)."),
        (-9, "(return code -9). A return code of 137 or -9 means that it was killed"),
        (1, "(return code 1)."),
    ],
)
def test_cause_is_told_by_the_return_code(tmp_path, code, words):
    if code == DEVICE_LOST:
        (tmp_path / "17.words").write_text(WORDS)
    else:
        (tmp_path / "17.json").write_text('{"in_hand": ["part-3"]}')
    status, said = exit_of_a_worker(code, **{LIVE: str(tmp_path)})
    assert status == BROKEN
    assert words in said
    assert "It was at work on part-3. Finished parts are kept" in said
    assert ("(with --restarts N by itself)" in said) is (code != 1)


@pytest.mark.parametrize("code", [DEVICE_LOST, -9, -11, 137])
def test_supervisor_is_told_and_nothing_is_printed(tmp_path, code):
    status, said = exit_of_a_worker(code, **{SUPERVISOR: str(tmp_path)})
    assert (status, said) == (WORKER_DIED, "")
    assert Death.read(tmp_path).cause == f"return code {code}"


def test_worker_that_ended_with_an_error_of_its_own_is_none_for_the_supervisor(tmp_path):
    status, said = exit_of_a_worker(1, **{SUPERVISOR: str(tmp_path)})
    assert status == BROKEN
    assert "a worker process died (return code 1)" in said
    assert Death.read(tmp_path) is None


def exit_of_a_worker(code: int, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", EXIT.format(code=code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr
