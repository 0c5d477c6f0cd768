"""Worker pools, and Prism as a job server, in processes of their own, as on another machine."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import kill_session
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Server:
    """A program that serves a port of loopback, such as Beam's worker pool, running.

    Attributes:
        process: The program; it leads a session in which its workers are, too.
        address: Where jobs find it, HOST:PORT.
    """

    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        """Kill it and its workers."""
        kill_session(self.process.pid)
        self.process.wait()


@contextlib.contextmanager
def worker_pool() -> Iterator[str]:
    """Start Beam's worker pool as a separate process and yield its address.

    Each worker a job asks of it is a further process, which speaks the Fn API over loopback.
    """
    pool = start_pool()
    try:
        yield pool.address
    finally:
        pool.process.terminate()
        pool.process.wait(30)
        pool.kill()


def start_pool() -> Server:
    """Start a pool and wait until it listens."""
    module = "apache_beam.runners.worker.worker_pool_main"
    return start_server(sys.executable, "-m", module, "--service_port={port}")


def start_server(*words: str) -> Server:
    """Start a program, which is told a `{port}`, and wait until it listens there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [word.format(port=port) for word in words],
        env={**os.environ, "PATH": path},  # the pool calls `python`
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: listens(port), process=process)
    return Server(process, f"localhost:{port}")


def listens(port: int) -> bool:
    """Tell whether something listens at a port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


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
