"""A worker that dies is named, whichever thread of Beam notices first."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

DEATH = """
import sys, threading
from pipelines.run.watchdog import end_when_a_worker_dies

def listen():
    raise ConnectionError("the stream broke")

with end_when_a_worker_dies(sys.stderr, None, 7):
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
    assert done.returncode == 7
    assert "a worker process died (its connection broke)" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_errors_end_as_they_are():
    code = DEATH.format(order="raise RuntimeError('another one')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "RuntimeError: another one" in done.stderr
    assert "a worker process died" not in done.stderr
