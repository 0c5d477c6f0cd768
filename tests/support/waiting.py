"""Wait for something in a test."""

import subprocess
import time
from collections.abc import Callable


def wait_until(
    happened: Callable[[], object],
    seconds: float = 120,
    process: "subprocess.Popen[bytes] | subprocess.Popen[str] | None" = None,
) -> None:
    """Wait until something has happened.

    Args:
        happened: Returns whether it has.
        seconds: How long to wait at most.
        process: A process that makes it happen; the test fails when it ends before.

    Raises:
        AssertionError: It has not happened in time, or the process has ended.
    """
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"it has not happened in {seconds} s"
        assert process is None or process.poll() is None, _last_words(process)
        time.sleep(0.01)


def _last_words(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> str:
    said = "" if process.stderr is None else process.stderr.read()
    return f"the process has ended with status {process.returncode}: {said!r}"
