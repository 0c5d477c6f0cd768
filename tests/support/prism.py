"""Prism, Beam's own portable runner, as a program that a test may start."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import kill_session
from tests.support.waiting import wait_until
from tests.support.workers import free_port, listens


def find_prism(config: pytest.Config) -> Path:
    """Return the program; the test is skipped without one."""
    found = config.getoption("prism_location") or shutil.which("prism")
    if found is None:
        pytest.skip("--prism_location is not given and no prism is on the PATH")
    return Path(found)


@contextlib.contextmanager
def job_server(prism: Path) -> Iterator[str]:
    """Start Prism as a job server of its own, which outlives the launchers; yield its address."""
    port = free_port()
    process = subprocess.Popen(
        [str(prism), f"--job_port={port}", "--serve_http=false"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: listens(port), process=process)
        yield f"localhost:{port}"
    finally:
        kill_session(process.pid)
        process.wait()
