"""Prism, Beam's own portable runner, as a program that a test may start."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workers import start_server


def find_prism(config: pytest.Config) -> Path:
    """Return the program; the test is skipped without one."""
    found = config.getoption("prism_location") or shutil.which("prism")
    if found is None:
        pytest.skip("--prism_location is not given and no prism is on the PATH")
    return Path(found)


@contextlib.contextmanager
def job_server(prism: Path) -> Iterator[str]:
    """Start Prism as a job server of its own, which outlives the launchers; yield its address."""
    server = start_server(str(prism), "--job_port={port}", "--serve_http=false")
    try:
        yield server.address
    finally:
        server.kill()
